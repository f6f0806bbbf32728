//! How the best time of each case developed over time and cost.

use std::collections::HashMap;

use super::contract::{Case, Progress, ProgressStep};
use crate::domain::measurement::verdict::Verdict;
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::SessionRecord;
use crate::domain::record::excerpt::Used;

/// Returns the progress of every case that has a correct variant. One pass over the iterations, whatever their number.
pub(super) fn of(record: &SessionRecord, cases: &[Case]) -> Vec<Progress> {
    let mut steps: HashMap<&str, Vec<ProgressStep>> = HashMap::new();
    let mut last_s = 0.0;
    for (iteration, Used { wall_s: at_s, usd: cost_usd }) in record.with_used() {
        last_s = at_s;
        // An experiment has another amount of work than the case.
        for found in iteration.measurements.iter().filter(|_| iteration.rationale.purpose != Purpose::Experiment) {
            let Some(timing) = found.best_timing().filter(|_| found.verdict != Some(Verdict::Rejected)) else {
                continue;
            };
            let us = timing.median_ns / 1e3;
            let Some(kind @ (Verdict::Start | Verdict::Improved)) = found.verdict else { continue };
            let steps = steps.entry(&found.case).or_default();
            if steps.last().is_none_or(|last| us < last.us) {
                let (iteration, family) = (iteration.id, iteration.family.clone());
                steps.push(ProgressStep { kind: kind.name(), at_s, cost_usd, us, iteration, family });
            }
        }
    }
    let end_s = record.session.wall_s.unwrap_or(last_s).max(last_s);
    let totals = record.totals();
    let known = cases.iter().filter_map(|case| Some((case, steps.remove(case.case.as_str())?)));
    let with_final = known.map(|(case, mut steps)| {
        steps.extend(by_final(case, end_s, record.session.cost.total_usd()));
        let tried_in_all = totals.timed.get(&case.case).copied().unwrap_or_default();
        Progress { case: case.case.clone(), steps, tried_in_all }
    });
    with_final.collect()
}

/// Returns the time that a final gave.
fn by_final(case: &Case, at_s: f64, cost_usd: f64) -> Option<ProgressStep> {
    let is_final = case.comparison.as_ref().is_some_and(|comparison| comparison.kind == "final");
    let (us, iteration, variant) = (case.best_us?, case.iteration?, case.variant.as_ref()?);
    is_final.then(|| ProgressStep { kind: "final", at_s, cost_usd, us, iteration, family: variant.family.clone() })
}

#[cfg(test)]
mod tests {
    use crate::domain::budget::cost::Spent;
    use crate::domain::proposal::origin::Purpose;
    use crate::report::tests::{record, report};

    #[test]
    fn each_improvement_is_a_step_with_its_time_and_cost() {
        let mut record = record();
        for iteration in &mut record.iterations {
            iteration.cost = Spent { gpu_usd: 0.5, ..Spent::default() };
        }
        let report = report(&record);
        let told: Vec<_> = report.progress.iter().map(|one| (one.case.as_str(), one.tried_in_all)).collect();
        assert_eq!(told, [("b1h1s128", 3), ("b8h8s512", 1)], "a case without a correct variant has no progress");
        let steps: Vec<_> =
            report.progress[0].steps.iter().map(|step| (step.kind, step.at_s, step.cost_usd, step.us)).collect();
        assert_eq!(steps, [("start", 3.0, 0.5, 80.0), ("improved", 6.0, 1.0, 64.0), ("improved", 9.0, 1.5, 50.0)]);
    }

    #[test]
    fn an_experiment_and_a_slower_improvement_are_no_steps() {
        let mut record = record();
        record.iterations[1].rationale.purpose = Purpose::Experiment;
        let times = |report: &crate::report::Report| -> Vec<f64> {
            report.progress[0].steps.iter().map(|step| step.us).collect()
        };
        assert_eq!(times(&report(&record)), [80.0, 50.0]);
        record.iterations.swap(1, 2);
        record.iterations[2].rationale.purpose = Purpose::Screening;
        assert_eq!(times(&report(&record)), [80.0, 50.0], "64 us came after 50 us");
    }
}
