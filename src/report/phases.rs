//! Time and cost by phase: what each kind of work took and what came of it.

use std::collections::BTreeSet;

use super::contract::{PhaseCost, Phases};
use super::gains;
use crate::domain::check::Check;
use crate::domain::comparison::Role;
use crate::domain::evaluation::Outcome;
use crate::domain::origin::Purpose;
use crate::domain::phase::{Phase, StepTimes};
use crate::domain::record::{Final, IterationRecord, SessionRecord};

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
    let seconds = seconds(record);
    let Seconds { baselines, remeasured, screening, acceptance, sanitizer, comparisons, finals, waiting, commits } =
        seconds;
    let known = baselines + remeasured + screening + acceptance + sanitizer + comparisons + finals + waiting + commits;
    let usd = record.session.cost.gpu_usd;
    let row = |phase, name, seconds: f64, gained| {
        let share = seconds / wall_s;
        PhaseCost { phase, name, seconds, share, usd: usd * share, gained }
    };
    let rows = [
        row("baselines", "baselines", baselines, format!("{} times", record.baselines.len())),
        row("initial_design", "initial kernel and committed winners", remeasured, begun(record)),
        row("screening", "screening (search)", screening, screened(record)),
        row("acceptance", "acceptance checks", acceptance, caught(record, is_of_acceptance)),
        row("sanitizer", "sanitizer (virtual GPU)", sanitizer, caught(record, |check| check == Check::Sanitizer)),
        row("comparisons", "comparisons", comparisons, won(record)),
        row("finals", "finals", finals, settled(record)),
        row("waiting", "waiting for the compiler", waiting, String::new()),
        row("commits", "commits", commits, committed(record)),
        row("other", "the rest: start, rendering, records, report", (wall_s - known).max(0.0), String::new()),
    ];
    let complete = record.iterations.iter().all(|one| one.steps.is_some() || one.outcome.is_none());
    Some(Phases { rows: rows.into_iter().filter(|row| row.seconds > 0.0).collect(), complete })
}

fn seconds(record: &SessionRecord) -> Seconds {
    let mut seconds = Seconds::default();
    for iteration in record.iterations.iter().filter(|iteration| iteration.outcome.is_some()) {
        let steps = iteration.steps.unwrap_or_else(|| guessed(iteration));
        let is_first = matches!(iteration.purpose, Purpose::Initial | Purpose::Remeasurement);
        *(if is_first { &mut seconds.remeasured } else { &mut seconds.screening }) += steps.screening_s;
        *(if is_first { &mut seconds.remeasured } else { &mut seconds.comparisons }) += steps.comparison_s;
        seconds.acceptance += steps.acceptance_s;
        seconds.sanitizer += steps.sanitizer_s;
        seconds.waiting += steps.waiting_s;
    }
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

/// Returns the steps of an iteration that was recorded without them: its comparisons are known, and the rest of its
/// device time counts as screening.
fn guessed(iteration: &IterationRecord) -> StepTimes {
    let comparisons = iteration.measurements.iter().filter_map(|found| found.comparison.as_ref()?.wall_s);
    let comparison_s: f64 = comparisons.sum();
    let screening_s = (iteration.device_s.unwrap_or_default() - comparison_s).max(0.0);
    StepTimes { screening_s, comparison_s, ..StepTimes::default() }
}

fn begun(record: &SessionRecord) -> String {
    let again = record.iterations.iter().filter(|one| one.purpose == Purpose::Remeasurement).count();
    if again == 0 {
        "what speed-ups refer to".to_owned()
    } else {
        format!("{again} winners measured again, to be beaten")
    }
}

fn screened(record: &SessionRecord) -> String {
    let screened = || record.iterations.iter().filter(|one| one.purpose == Purpose::Screening && one.outcome.is_some());
    let cases: usize = screened().map(|one| one.measurements.len()).sum();
    format!("{} variants, {cases} times", screened().count())
}

fn caught(record: &SessionRecord, by: impl Fn(Check) -> bool) -> String {
    let caught = record.iterations.iter().filter(|one| one.outcome.as_ref().and_then(Outcome::check).is_some_and(&by));
    format!("{} candidates refused", caught.count())
}

/// Tells whether only the acceptance checks run a check.
fn is_of_acceptance(check: Check) -> bool {
    matches!(check, Check::Probe | Check::Hidden | Check::Memoization)
}

fn won(record: &SessionRecord) -> String {
    let held = record.iterations.iter().filter(|one| one.purpose != Purpose::Remeasurement);
    let held: usize = held.map(|one| one.measurements.iter().filter(|found| found.comparison.is_some()).count()).sum();
    let improvements = gains::of(record).all.len();
    // Modelled times need no comparison.
    if held == 0 {
        format!("{improvements} improvements")
    } else {
        format!("{improvements} improvements in {held} comparisons")
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
    use crate::domain::phase::PhaseTime;

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
