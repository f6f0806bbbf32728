//! What a report says of the contests behind its figures.

use super::contract;
use super::standing::{Held, winners};
use crate::domain::contest::{Entrant, Role};
use crate::domain::record::IterationRecord;
use crate::domain::statistics::{Ratio, median};
use crate::domain::timing::Timing;
use crate::domain::verdict::Verdict;

/// Tells what there is to know of the contest that gave a case's figures.
pub(super) fn told(held: &Held<'_>) -> contract::Contest {
    let Held { is_final, contest, best } = *held;
    let baseline = held.baseline();
    let has_control = contest.against(Role::Twin).is_some();
    let rivals =
        contest.entrants.iter().filter(|other| is_final && is_rival(other) && other.iteration != best.iteration);
    contract::Contest {
        kind: if is_final { "final" } else { "confirmation" },
        samples: best.timing.samples_ns.len() as u64,
        rounds: best.blocks_ns.len() as u64,
        discarded_rounds: contest.discarded_rounds as u64,
        noise: has_control.then(|| contest.noise()),
        machine: best.machine.clone(),
        baseline_machine: baseline.and_then(|baseline| baseline.machine.clone()),
        energy_j: best.energy_j,
        baseline_energy_j: baseline.and_then(|baseline| baseline.energy_j),
        others: contest.others.clone(),
        rivals: rivals.map(|other| rival(held, other)).collect(),
    }
}

/// Tells whether an entrant of a final is a variant of its own.
fn is_rival(entrant: &Entrant) -> bool {
    matches!(entrant.role, Role::Challenger | Role::Incumbent | Role::Rival)
}

fn rival(held: &Held<'_>, other: &Entrant) -> contract::Rival {
    contract::Rival {
        iteration: other.iteration,
        name: other.name.clone(),
        us: other.timing.median_ns / 1000.0,
        ratio: held.over_best(other).map(paired),
    }
}

/// Takes over a ratio of two that were timed in one run.
pub(super) fn paired(Ratio { estimate, interval }: Ratio) -> contract::Ratio {
    contract::Ratio { estimate, lo: Some(interval.lo), hi: Some(interval.hi), paired: true }
}

/// Takes over a ratio of two times that were not, which has an interval where both have one.
pub(super) fn unpaired(ratio: Ratio, times: [&Timing; 2]) -> contract::Ratio {
    let shown = times.iter().all(|timing| timing.shown_interval_ns().is_some());
    let (lo, hi) = (shown.then_some(ratio.interval.lo), shown.then_some(ratio.interval.hi));
    contract::Ratio { estimate: ratio.estimate, lo, hi, paired: false }
}

/// Sums up by how much the times of winners changed from screening to their contest.
pub(super) fn shrinkage(iterations: &[IterationRecord]) -> Option<contract::Shrinkage> {
    let all: Vec<f64> = winners(iterations)
        .filter(|(_, _, verdict, _)| *verdict == Verdict::Improved)
        .filter_map(|(_, measurement, ..)| measurement.contest.as_ref()?.shrinkage)
        .collect();
    let worst = all.iter().copied().max_by(f64::total_cmp)?;
    Some(contract::Shrinkage { winners: all.len() as u64, median: median(&all)?, worst })
}
