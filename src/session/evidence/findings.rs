//! Applies the rules of the diagnosis to a variant, with what the session knows of it. Pure.

use crate::agent::diagnosis::{self, Point, Subject};
use crate::domain::code::artifact::KernelResources;
use crate::domain::code::profile::Profile;
use crate::domain::family::Family;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::history::CaseTime;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::proposal::finding::{EvidenceSource, Finding};
use crate::domain::variant::VariantHash;
use crate::domain::workload::Case;
use crate::session::state::SessionState;

/// What is known of a variant on a case beside its time.
#[derive(Clone, Copy)]
pub(in crate::session) struct Evidence<'a> {
    /// How it is launched.
    pub plan: &'a LaunchPlan,
    /// The resources of its kernels; empty if they are not known.
    pub kernels: &'a [KernelResources],
    /// What a virtual GPU counted.
    pub profile: Option<&'a Profile>,
}

/// Returns the findings about a variant on a case. None if it was disqualified meanwhile, or if its family is gone.
pub(in crate::session) fn of_variant(
    state: &SessionState,
    iteration: IterationId,
    case: &Case,
    Evidence { plan, kernels, profile }: Evidence<'_>,
) -> Vec<Finding> {
    let (setup, history) = (state.setup(), state.history());
    let Some(finished) = history.iteration(iteration) else { return Vec::new() };
    let (Some(time_ns), Ok(family)) = (finished.time_ns(&case.name), setup.family(&finished.family)) else {
        return Vec::new();
    };
    let searched = |family: &&Family| setup.is_searched(&family.name) && family.fits(&setup.workload, &setup.device);
    let families: Vec<&Family> = setup.families.iter().filter(searched).collect();
    let fast: Vec<String> = history.leaders(&case.name, usize::MAX).iter().map(|(one, _)| one.family.clone()).collect();
    diagnosis::findings(&Subject {
        iteration: Some(iteration),
        family: &family.name,
        configuration: Some((family, &finished.params)),
        workload: &setup.workload,
        case,
        device: &setup.device,
        time_ns,
        plan,
        kernels,
        profile,
        counters: history.counters_of(&finished.hash, &case.name),
        ablations: history.ablations_of(&finished.hash, &case.name),
        scaling: &scaling(state, &finished.hash, &case.name),
        trials: &history.trials(&case.name),
        families: &families,
        fast: &fast,
    })
}

/// Returns the times of the same variant on the other cases.
fn scaling(state: &SessionState, hash: &VariantHash, case: &CaseName) -> Vec<Point> {
    let times = state.history().times_of(hash).map(|(_, time)| time);
    let others = times.filter(|time| time.case != *case);
    let point = |time: &CaseTime| {
        let case = state.setup().workload.case(&time.case).ok()?;
        let (name, dims) = (case.name.to_string(), case.dims.clone());
        Some(Point { case: name, dims, time_ns: time.median_ns, ctas: time.ctas, source: EvidenceSource::Times })
    };
    let mut points: Vec<Point> = others.filter_map(point).collect();
    points.sort_by(|a, b| a.case.cmp(&b.case));
    points.dedup_by(|a, b| a.case == b.case);
    points
}
