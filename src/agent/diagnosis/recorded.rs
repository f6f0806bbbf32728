//! Diagnoses the record of a session: its initial kernel and the best variant of each case.

use std::collections::HashSet;

use super::bound::Bound;
use super::rules::findings_within;
use super::subject::{Point, Subject};
use crate::domain::code::ablation::Ablation;
use crate::domain::code::profile::Profile;
use crate::domain::family::Family;
use crate::domain::history::tested::{Trial, screened_ns};
use crate::domain::ids::IterationId;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::proposal::finding::{EvidenceSource, Finding};
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::{CaseRecord, IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;
use crate::domain::workload::{Case, Workload};

/// The record of a session, with everything else that its diagnosis needs.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// The session.
    pub record: &'a SessionRecord,
    /// Its workload, with the shapes on which it ran.
    pub workload: &'a Workload,
    /// The families that could compute the workload on the device.
    pub families: &'a [&'a Family],
    /// The best variant of each case.
    pub best: &'a [Best<'a>],
}

/// The best variant of a case.
#[derive(Debug, Clone, Copy)]
pub struct Best<'a> {
    /// The case.
    pub case: &'a Case,
    /// The iteration that measured the variant.
    pub iteration: IterationId,
    /// The variant's time in nanoseconds: the one that the report gives, so that no gain exceeds the report's distance to
    /// the floor. A final may have timed the variant after its iteration.
    pub time_ns: f64,
}

/// Returns the findings about the initial kernel, on the case where it is farthest from the floor, and about the best
/// variant of each case. The most important finding about a variant comes first.
pub fn of_session(recorded: Recorded<'_>) -> Vec<Finding> {
    let initial = initial_kernel(recorded).into_iter();
    let best =
        recorded.best.iter().filter_map(|best| Some((iteration(recorded, best.iteration)?, best.case, best.time_ns)));
    initial.chain(best).flat_map(|(iteration, case, ns)| of_iteration(recorded, iteration, case, ns)).collect()
}

/// Returns the findings about a variant on a case, with its time on record. None if the session has no such time.
pub fn of_variant(recorded: Recorded<'_>, id: IterationId, case: &Case) -> Option<Vec<Finding>> {
    let iteration = iteration(recorded, id)?;
    let is_best = |best: &&Best<'_>| best.case.name == case.name && best.iteration == id;
    let best = recorded.best.iter().find(is_best).map(|best| best.time_ns);
    let time_ns = best.or_else(|| time_ns(iteration, &case.name))?;
    Some(of_iteration(recorded, iteration, case, time_ns))
}

fn iteration<'a>(recorded: Recorded<'a>, id: IterationId) -> Option<&'a IterationRecord> {
    recorded.record.iterations.iter().find(|iteration| iteration.id == id)
}

/// Returns the iteration that timed the initial kernel, with the case on which it has the most to gain and its time there
/// in nanoseconds.
fn initial_kernel(recorded: Recorded<'_>) -> Option<(&IterationRecord, &Case, f64)> {
    let device = &recorded.record.environment.device;
    let initial =
        recorded.record.iterations.iter().filter(|iteration| iteration.rationale.origin == Origin::InitialKernel);
    let timed = initial.flat_map(|iteration| {
        let times = recorded.workload.cases.iter().filter_map(|case| Some((case, time_ns(iteration, &case.name)?)));
        times.map(move |(case, ns)| (iteration, case, ns))
    });
    let headroom =
        |case: &Case, ns: f64| ns / crate::domain::measurement::floor::floor_ns(recorded.workload, case, device);
    timed.max_by(|a, b| headroom(a.1, a.2).total_cmp(&headroom(b.1, b.2)))
}

fn time_ns(iteration: &IterationRecord, case: &str) -> Option<f64> {
    let found = iteration.measurements.iter().find(|found| found.case == case)?;
    Some(found.best_timing()?.median_ns)
}

fn of_iteration(recorded: Recorded<'_>, iteration: &IterationRecord, case: &Case, time_ns: f64) -> Vec<Finding> {
    let Recorded { record, workload, families, .. } = recorded;
    let device = &record.environment.device;
    let Some(family) = families.iter().find(|family| family.name == iteration.family) else { return Vec::new() };
    let plan = family.plan(&iteration.params, case, workload.op, workload.dtype, device);
    let Ok(plan) = plan else { return Vec::new() };
    let subject = Subject {
        iteration: Some(iteration.id),
        family: &family.name,
        configuration: Some((family, &iteration.params)),
        workload,
        case,
        device,
        time_ns,
        plan: &plan,
        kernels: &iteration.kernels,
        profile: profile(recorded, iteration, case),
        counters: same(recorded, iteration, case).find_map(|found| found.counters.as_ref()),
        ablations: ablations(recorded, iteration, case),
        scaling: &scaling(recorded, iteration, case),
        trials: &trials(record, &case.name),
        families,
        fast: &fast(recorded, case),
    };
    let best = recorded.best.iter().map(|best| (best.case, best.time_ns));
    findings_within(&subject, Bound::of(workload, case, best).as_ref())
}

/// Returns what is on record of a variant on a case, whichever iteration measured it.
fn same<'a>(
    recorded: Recorded<'a>,
    iteration: &'a IterationRecord,
    case: &'a Case,
) -> impl Iterator<Item = &'a CaseRecord> {
    let same = recorded.record.iterations.iter().filter(|other| other.hash == iteration.hash);
    same.flat_map(|other| &other.measurements).filter(|found| found.case == case.name)
}

/// Returns what a virtual GPU counted for a variant: an explanation, which has the times without each cause, else a profile.
fn profile<'a>(recorded: Recorded<'a>, iteration: &'a IterationRecord, case: &'a Case) -> Option<&'a Profile> {
    let explained = same(recorded, iteration, case).find_map(|found| found.explanation.as_ref());
    explained.or_else(|| same(recorded, iteration, case).find_map(|found| found.profile.as_ref()))
}

/// Returns the ablations of a variant on a case.
fn ablations<'a>(recorded: Recorded<'a>, iteration: &'a IterationRecord, case: &'a Case) -> &'a [Ablation] {
    let mut found = same(recorded, iteration, case);
    found.find(|found| !found.ablations.is_empty()).map_or(&[], |found| &found.ablations)
}

/// Returns the correct variants that a session has timed on a case, each once, by their screening runs.
pub(super) fn trials<'a>(record: &'a SessionRecord, case: &str) -> Vec<Trial<'a>> {
    let mut seen: HashSet<&VariantHash> = HashSet::new();
    let is_right = |one: &&IterationRecord| {
        let is_timed = one.rationale.purpose != Purpose::Experiment && one.outcome == Some(Outcome::Measured);
        let rejected = |found: &CaseRecord| found.case == *case && found.verdict == Some(Verdict::Rejected);
        is_timed && !one.measurements.iter().any(rejected)
    };
    let trial = |one: &'a IterationRecord| {
        let found = one.measurements.iter().find(|found| found.case == *case)?;
        Some(Trial {
            iteration: one.id,
            family: &one.family,
            params: &one.params,
            ns: screened_ns(one, case)?,
            ctas: found.ctas,
            profile: found.explanation.as_ref().or(found.profile.as_ref()),
            remedy: match &one.rationale.origin {
                Origin::Remedy { rule, .. } => Some(rule.as_str()).zip(one.rationale.parent),
                _ => None,
            },
        })
    };
    let right = record.iterations.iter().filter(is_right).filter_map(|one| Some((&one.hash, trial(one)?)));
    right.filter(|(hash, _)| seen.insert(hash)).map(|(_, trial)| trial).collect()
}

/// Returns the families that the session has timed on a case, the fastest first.
fn fast(recorded: Recorded<'_>, case: &Case) -> Vec<String> {
    let iterations = recorded.record.iterations.iter();
    let mut timed: Vec<_> = iterations.filter_map(|one| Some((time_ns(one, &case.name)?, &one.family))).collect();
    timed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut families: Vec<String> = Vec::new();
    for (_, family) in timed {
        if !families.contains(family) {
            families.push(family.clone());
        }
    }
    families
}

/// Returns the times of the same variant on other shapes: those of the experiments about it, then those on other cases.
fn scaling(recorded: Recorded<'_>, iteration: &IterationRecord, case: &Case) -> Vec<Point> {
    let same = recorded.record.iterations.iter().filter(|other| other.hash == iteration.hash);
    let mut points = experiments(recorded, iteration, case);
    for found in same.flat_map(|other| &other.measurements).filter(|found| found.case != case.name) {
        let timed = recorded.workload.cases.iter().find(|case| case.name == found.case);
        let (Some(case), Some(timing), Some(ctas)) = (timed, found.best_timing(), found.ctas) else { continue };
        if points.iter().all(|point| *point.case != *case.name) {
            points.push(Point {
                case: case.name.to_string(),
                dims: case.dims.clone(),
                time_ns: timing.median_ns,
                ctas,
                source: EvidenceSource::Times,
            });
        }
    }
    points
}

/// Returns the results of the experiments about a variant on a case.
fn experiments(recorded: Recorded<'_>, iteration: &IterationRecord, case: &Case) -> Vec<Point> {
    let point = |other: &IterationRecord| {
        let Origin::ScaledCase(scaling) = &other.rationale.origin else { return None };
        let (scaled, found) = (other.cases.first()?, other.measurements.first()?);
        // Another iteration may have measured the same variant.
        let explained = recorded.record.iterations.iter().find(|one| one.id == scaling.of)?;
        let about = explained.hash == iteration.hash && scaling.case == case.name;
        about.then_some(Point {
            case: scaled.name.to_string(),
            dims: scaled.dims.clone(),
            time_ns: found.best_timing()?.median_ns,
            ctas: found.ctas?,
            source: EvidenceSource::Experiment,
        })
    };
    recorded.record.iterations.iter().filter_map(point).collect()
}
