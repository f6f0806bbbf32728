//! Time and cost by phase: what each kind of work took.

use super::contract::{PhaseCost, Phases};
use crate::domain::budget::phase::Phase;
use crate::domain::device::TimeSource;
use crate::domain::measurement::comparison::Comparison;
use crate::domain::record::SessionRecord;
use crate::domain::record::excerpt::Totals;
use crate::domain::statistics::timing::Timing;

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
    let row = |(phase, seconds): (&'static str, f64)| {
        let share = seconds / wall_s;
        PhaseCost { phase, seconds, share, usd: usd * share }
    };
    let rows = [
        ("baselines", baselines),
        ("initial_design", remeasured),
        ("screening", screening),
        ("acceptance", acceptance),
        ("sanitizer", sanitizer),
        ("comparisons", comparisons),
        ("finals", finals),
        ("waiting", waiting),
        ("commits", commits),
        ("other", (wall_s - known).max(0.0)),
    ];
    Some(Phases {
        rows: rows.into_iter().filter(|(_, seconds)| *seconds > 0.0).map(row).collect(),
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
            Phase::Comparison => seconds.comparisons += time.wall_s,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::budget::phase::{PhaseTime, StepTimes};
    use crate::domain::proposal::origin::Purpose;
    use crate::report::tests::record;

    #[test]
    fn every_second_is_in_one_phase() {
        let mut record = record();
        record.session.wall_s = Some(20.0);
        record.session.cost.gpu_usd = 0.2;
        record.iterations[0].rationale.purpose = Purpose::Initial;
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
        let told: Vec<_> = phases.rows.iter().map(|row| (row.phase, row.seconds)).collect();
        assert_eq!(
            told,
            [
                ("baselines", 2.0),
                ("initial_design", 2.0),
                ("screening", 3.0),
                ("acceptance", 2.5),
                ("sanitizer", 1.0),
                ("comparisons", 3.0),
                ("finals", 1.5),
                ("waiting", 1.0),
                ("other", 4.0),
            ]
        );
        let first = &phases.rows[0];
        assert!((first.share - 0.1).abs() < 1e-9 && (first.usd - 0.02).abs() < 1e-9);
    }

    #[test]
    fn a_session_from_before_steps_were_kept_says_so() {
        let phases = of(&record()).unwrap();
        assert!(!phases.complete);
        assert_eq!(phases.rows.iter().map(|row| row.phase).collect::<Vec<_>>(), ["screening", "other"]);
    }
}
