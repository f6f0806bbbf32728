//! The comparisons behind a report's figures.

use super::contract;
use super::standing::{DecidingComparison, winners};
use crate::domain::measurement::comparison::{Participant, Role};
use crate::domain::measurement::verdict::Verdict;
use crate::domain::record::IterationRecord;
use crate::domain::statistics::timing::Timing;
use crate::domain::statistics::{Ratio, median};

/// Returns the contract's form of the comparison that gave a case's figures.
pub(super) fn to_contract(deciding: &DecidingComparison<'_>) -> contract::Comparison {
    let DecidingComparison { is_final, comparison, best } = *deciding;
    let baseline = deciding.baseline();
    let has_control = comparison.against(Role::Control).is_some();
    let near_ties = comparison
        .participants
        .iter()
        .filter(|other| is_final && is_near_tie(other) && other.iteration != best.iteration);
    contract::Comparison {
        kind: if is_final { "final" } else { "confirmation" },
        samples: best.timing.samples_ns.len() as u64,
        rounds: best.groups_ns.len() as u64,
        discarded_rounds: comparison.discarded_rounds as u64,
        noise: has_control.then(|| comparison.noise()),
        machine: best.machine.clone(),
        baseline_machine: baseline.and_then(|baseline| baseline.machine.clone()),
        energy_j: best.energy_j,
        baseline_energy_j: baseline.and_then(|baseline| baseline.energy_j),
        graph_node_ns: best.graph_node_ns,
        baseline_graph_node_ns: baseline.and_then(|baseline| baseline.graph_node_ns),
        others: comparison.others.clone(),
        near_ties: near_ties.map(|other| near_tie(deciding, other)).collect(),
    }
}

/// Returns whether a participant of a final is a variant in its own right, neither the A/A control nor a baseline.
fn is_near_tie(participant: &Participant) -> bool {
    matches!(participant.role, Role::Challenger | Role::Incumbent | Role::NearTie)
}

fn near_tie(deciding: &DecidingComparison<'_>, other: &Participant) -> contract::NearTie {
    contract::NearTie {
        iteration: other.iteration,
        name: other.name.clone(),
        us: other.timing.median_ns / 1000.0,
        ratio: deciding.over_best(other).map(paired),
    }
}

/// Returns the contract's form of a ratio of two times from one run.
pub(super) fn paired(Ratio { estimate, interval }: Ratio) -> contract::Ratio {
    contract::Ratio { estimate, lo: Some(interval.lo), hi: Some(interval.hi), paired: true }
}

/// Returns the contract's form of a ratio of two times from different runs. It has an interval if both times have one.
pub(super) fn unpaired(ratio: Ratio, times: [&Timing; 2]) -> contract::Ratio {
    let shown = times.iter().all(|timing| timing.shown_interval_ns().is_some());
    let (lo, hi) = (shown.then_some(ratio.interval.lo), shown.then_some(ratio.interval.hi));
    contract::Ratio { estimate: ratio.estimate, lo, hi, paired: false }
}

/// Returns how much the times of winners changed from screening to their comparison.
pub(super) fn winners_curse(iterations: &[IterationRecord]) -> Option<contract::WinnersCurse> {
    let all: Vec<f64> = winners(iterations)
        .filter(|(_, _, verdict, _)| *verdict == Verdict::Improved)
        .filter_map(|(_, measurement, ..)| measurement.comparison.as_ref()?.winners_curse)
        .collect();
    let worst = all.iter().copied().max_by(f64::total_cmp)?;
    Some(contract::WinnersCurse { winners: all.len() as u64, median: median(&all)?, worst })
}
