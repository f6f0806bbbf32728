//! The baselines of a report: in the comparison with the best variant, and as timed before.

use super::comparisons::{paired, unpaired};
use super::contract;
use super::standing::{Alone, Standing};
use crate::domain::code::launched::LaunchedKernel;
use crate::domain::measurement::conditions::Conditions;
use crate::domain::record::{Baseline, BaselineKind, SessionRecord};
use crate::domain::statistics::timing::Timing;

/// Returns the baseline of a case, with its time over the best variant's. Both come from the comparison that gave the
/// figures, else from the timing before the first comparison.
pub(super) fn of_case(
    case: &str,
    record: &SessionRecord,
    standing: Option<&Standing<'_>>,
    conditions: Option<&Conditions>,
) -> (Option<contract::Baseline>, Option<contract::Ratio>) {
    let deciding = standing.and_then(|standing| standing.deciding);
    if let Some((deciding, participant)) = deciding.and_then(|deciding| Some((deciding, deciding.baseline()?))) {
        let ratio = deciding.over_best(participant).map(paired);
        // An iteration's participant is a variant, and the only one that stands in is the initial kernel.
        let initial =
            participant.iteration.and_then(|id| record.iterations.iter().find(|iteration| iteration.id == id));
        let name = initial.map_or_else(
            || participant.name.clone(),
            |initial| {
                Baseline::initial_kernel_name(
                    record.session.time_source,
                    &initial.family,
                    Some(&initial.rationale.origin),
                )
            },
        );
        let kind = if initial.is_some() { BaselineKind::InitialKernel } else { BaselineKind::Program };
        let timed = record.baselines.iter().find(|baseline| baseline.case == case && baseline.name == name);
        let kernels = timed.map(|baseline| &*baseline.kernels).unwrap_or_default();
        return (Some(to_contract(&name, kind, &participant.timing, kernels)), ratio);
    }
    // The store lists the fastest baseline of a case first.
    let Some(baseline) = record.baselines.iter().find(|baseline| baseline.case == case) else { return (None, None) };
    let alone = Alone { timing: &baseline.timing, regime: baseline.regime };
    let ratio = standing.zip(conditions).and_then(|(standing, conditions)| {
        Some(unpaired(standing.compared(&alone, conditions)?, [standing.timing, &baseline.timing]))
    });
    (Some(to_contract(&baseline.name, baseline.kind, &baseline.timing, &baseline.kernels)), ratio)
}

/// Returns all baselines that were timed before the first comparison.
pub(super) fn timed(record: &SessionRecord) -> Vec<contract::TimedBaseline> {
    let row = |baseline: &Baseline| contract::TimedBaseline {
        case: baseline.case.clone(),
        name: baseline.name.clone(),
        regime: baseline.regime,
        us: baseline.timing.median_ns / 1000.0,
        ci_us: baseline.timing.shown_ci_us(),
        eager_us: baseline.eager_ns.map(|ns| ns / 1000.0),
        relative_l2: baseline.relative_l2,
        kernels: baseline.kernels.clone(),
    };
    record.baselines.iter().map(row).collect()
}

fn to_contract(name: &str, kind: BaselineKind, timing: &Timing, kernels: &[LaunchedKernel]) -> contract::Baseline {
    contract::Baseline {
        name: name.to_owned(),
        us: timing.median_ns / 1000.0,
        ci_us: timing.shown_ci_us(),
        is_initial_kernel: kind == BaselineKind::InitialKernel,
        kernels: kernels.to_vec(),
    }
}
