//! Time and cost by phase: what each kind of work took and what came of it.

use std::collections::BTreeSet;

use super::contract::{PhaseCost, Phases};
use super::gains;
use crate::domain::check::Check;
use crate::domain::comparison::{Comparison, Role};
use crate::domain::device::TimeSource;
use crate::domain::phase::Phase;
use crate::domain::record::excerpt::Totals;
use crate::domain::record::{Final, SessionRecord};
use crate::domain::timing::Timing;

/// Seconds of each phase.
#[derive(Default)]
struct Seconds {
    baselines: f64,
    remeasured: f64,
    screening: f64,
    acceptance: f64,
    sanitizer: f64,
    comparisons: f64,
    finals: f64,
    waiting: f64,
    commits: f64,
}

/// Returns what each phase took. None while the session runs.
pub(super) fn of(record: &SessionRecord) -> Option<Phases> {
    let wall_s = record.session.wall_s.filter(|wall_s| *wall_s > 0.0)?;
    let totals = &*record.totals();
    let seconds = seconds(record, totals);
    let Seconds { baselines, remeasured, screening, acceptance, sanitizer, comparisons, finals, waiting, commits } =
        seconds;
    let known = baselines + remeasured + screening + acceptance + sanitizer + comparisons + finals + waiting + commits;
    let usd = record.session.cost.gpu_usd;
    let row = |phase, name, seconds: f64, gained| {
        let share = seconds / wall_s;
        PhaseCost { phase, name, seconds, share, usd: usd * share, gained }
    };
    let screened = format!("{} variants, {} times", totals.screened, totals.screened_results);
    let rows = [
        row("baselines", "baselines", baselines, format!("{} times", record.baselines.len())),
        row("initial_design", "initial kernel and committed winners", remeasured, begun(totals)),
        row("screening", "screening (search)", screening, screened),
        row("acceptance", "acceptance checks", acceptance, caught(totals, is_of_acceptance)),
        row("sanitizer", "sanitizer (virtual GPU)", sanitizer, caught(totals, |check| check == Check::Sanitizer)),
        row("comparisons", "comparisons", comparisons, won(record, totals)),
        row("finals", "finals", finals, settled(record)),
        row("waiting", "waiting for the compiler", waiting, String::new()),
        row("commits", "commits", commits, committed(record)),
        row("other", "the rest: start, rendering, records, report", (wall_s - known).max(0.0), String::new()),
    ];
    Some(Phases {
        rows: rows.into_iter().filter(|row| row.seconds > 0.0).collect(),
        complete: totals.steps_known,
        timing_s: timing_s(record),
    })
}

/// Returns how long the GPU executed kernels in samples that count, in seconds. None if that is not known.
fn timing_s(record: &SessionRecord) -> Option<f64> {
    if record.session.time_source != TimeSource::Measured || record.excerpt.is_some() {
        return None;
    }
    let of = |timing: &Timing| timing.samples_ns.iter().sum::<f64>() * f64::from(timing.launches_per_sample);
    let compared = |comparison: &Comparison| comparison.participants.iter().map(|one| of(&one.timing)).sum::<f64>();
    let measurements = record.iterations.iter().flat_map(|one| &one.measurements);
    let screened = measurements.clone().filter_map(|found| found.screening.as_ref()).map(of).sum::<f64>();
    let confirmed = measurements.filter_map(|found| found.comparison.as_ref()).map(compared).sum::<f64>();
    let finals = record.finals.iter().map(|last| compared(&last.comparison)).sum::<f64>();
    let baselines = record.baselines.iter().map(|one| of(&one.timing)).sum::<f64>();
    Some((screened + confirmed + finals + baselines) / 1e9)
}

fn seconds(record: &SessionRecord, totals: &Totals) -> Seconds {
    let Totals { first_steps: first, other_steps: other, .. } = totals;
    let mut seconds = Seconds {
        remeasured: first.screening_s + first.comparison_s,
        screening: other.screening_s,
        comparisons: other.comparison_s,
        acceptance: first.acceptance_s + other.acceptance_s,
        sanitizer: first.sanitizer_s + other.sanitizer_s,
        waiting: first.waiting_s + other.waiting_s,
        ..Seconds::default()
    };
    for time in &record.phases {
        match time.phase {
            Phase::Baselines => seconds.baselines += time.wall_s,
            Phase::Commits => seconds.commits += time.wall_s,
            Phase::Final => {
                seconds.acceptance += time.steps.acceptance_s;
                seconds.sanitizer += time.steps.sanitizer_s;
                seconds.waiting += time.steps.waiting_s;
                let apart = time.steps.acceptance_s + time.steps.sanitizer_s + time.steps.waiting_s;
                seconds.finals += (time.wall_s - apart).max(0.0);
            }
        }
    }
    if record.phases.iter().all(|time| time.phase != Phase::Final) {
        seconds.finals = record.finals.iter().filter_map(|last| last.comparison.wall_s).sum();
    }
    seconds
}

fn begun(totals: &Totals) -> String {
    match totals.remeasured {
        0 => "what speed-ups refer to".to_owned(),
        again => format!("{again} winners measured again, to be beaten"),
    }
}

fn caught(totals: &Totals, by: impl Fn(Check) -> bool) -> String {
    let caught = Check::ALL.into_iter().filter(|check| by(*check)).filter_map(|check| totals.caught.get(check.name()));
    format!("{} candidates refused", caught.sum::<u64>())
}

/// Tells whether only the acceptance checks run a check.
fn is_of_acceptance(check: Check) -> bool {
    matches!(check, Check::Probe | Check::Hidden | Check::Memoization)
}

fn won(record: &SessionRecord, totals: &Totals) -> String {
    let left_out = record.excerpt.as_ref().map_or(0, |excerpt| excerpt.wins_left_out);
    let improvements = gains::of(record).all.len() as u64 + left_out;
    // Modelled times need no comparison.
    match totals.comparisons {
        0 => format!("{improvements} improvements"),
        held => format!("{improvements} improvements in {held} comparisons"),
    }
}

fn settled(record: &SessionRecord) -> String {
    // The incumbent is the challenger of a final. A near tie that replaces it has won a second comparison, in which the
    // earlier winner is the incumbent.
    let incumbent_lost =
        |last: &&Final| last.comparison.participants.iter().any(|participant| participant.role == Role::Incumbent);
    let changed = record.finals.iter().filter(incumbent_lost).count();
    format!("{} cases settled, {changed} with another winner", record.finals.len())
}

fn committed(record: &SessionRecord) -> String {
    let winners = record.iterations.iter().flat_map(|one| &one.measurements);
    let winners: Vec<&str> =
        winners.filter(|found| !found.is_earlier).filter_map(|found| found.commit.as_deref()).collect();
    let commits: BTreeSet<&str> = winners.iter().copied().collect();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!("{} winner{} in {} commit{}", winners.len(), plural(winners.len()), commits.len(), plural(commits.len()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;
    use crate::domain::origin::Purpose;
    use crate::domain::phase::{PhaseTime, StepTimes};

    #[test]
    fn every_second_is_in_one_phase() {
        let mut record = record();
        record.session.wall_s = Some(20.0);
        record.session.cost.gpu_usd = 0.2;
        record.iterations[0].purpose = Purpose::Initial;
        let steps =
            StepTimes { waiting_s: 0.25, screening_s: 1.0, acceptance_s: 0.5, sanitizer_s: 0.25, comparison_s: 1.0 };
        record.iterations.iter_mut().take(4).for_each(|one| one.steps = Some(steps));
        let steps = StepTimes { acceptance_s: 0.5, comparison_s: 1.0, ..StepTimes::default() };
        record.phases = vec![
            PhaseTime { phase: Phase::Baselines, case: None, wall_s: 2.0, steps: StepTimes::default() },
            PhaseTime { phase: Phase::Final, case: Some("b1h1s128".into()), wall_s: 2.0, steps },
        ];
        let phases = of(&record).unwrap();
        assert!(phases.complete);
        assert!((phases.rows.iter().map(|row| row.seconds).sum::<f64>() - 20.0).abs() < 1e-9);
        let told = phases.rows.iter().map(|row| {
            format!("{}: {} s, {:.0}%, ${:.3} | {}", row.name, row.seconds, row.share * 100.0, row.usd, row.gained)
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @"
        baselines: 2 s, 10%, $0.020 | 1 times
        initial kernel and committed winners: 2 s, 10%, $0.020 | what speed-ups refer to
        screening (search): 3 s, 15%, $0.030 | 3 variants, 2 times
        acceptance checks: 2.5 s, 12%, $0.025 | 0 candidates refused
        sanitizer (virtual GPU): 1 s, 5%, $0.010 | 0 candidates refused
        comparisons: 3 s, 15%, $0.030 | 2 improvements
        finals: 1.5 s, 8%, $0.015 | 0 cases settled, 0 with another winner
        waiting for the compiler: 1 s, 5%, $0.010 | 
        the rest: start, rendering, records, report: 4 s, 20%, $0.040 |
        ");
    }

    #[test]
    fn a_session_from_before_steps_were_kept_says_so() {
        let phases = of(&record()).unwrap();
        assert!(!phases.complete);
        assert_eq!(phases.rows.iter().map(|row| row.phase).collect::<Vec<_>>(), ["screening", "other"]);
    }
}
