//! An iteration as JSON.

use serde::Serialize;
use serde_json::Value;

use super::Diagnosed;
use crate::cli::terminal::measured::Found;
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::proposal::finding::Finding;
use crate::domain::record::CaseRecord;
use crate::domain::statistics::sampling::MIN_SAMPLES;
use crate::evaluated::Evaluated;
use crate::store::IterationDetail;

/// An iteration for programs: what is on record, and the figures that follow from it.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    #[serde(flatten)]
    detail: &'a IterationDetail,
    /// The time to report on each case.
    times: Vec<Time<'a>>,
    /// The comparisons with their ratios and noise, in the form of `bench --json`.
    comparisons: Vec<Found>,
    /// Why it is slow on each case, as its report and `diagnose` have it.
    diagnoses: Vec<CaseDiagnosis<'a>>,
    /// The same in the form that `bench` and `check` have, with the parts of its time and the counters.
    evaluation: Evaluated,
}

/// Why an iteration is slow on a case.
#[derive(Serialize)]
struct CaseDiagnosis<'a> {
    case: &'a CaseName,
    findings: &'a [Finding],
}

/// The time to report on a case.
#[derive(Serialize)]
struct Time<'a> {
    case: &'a CaseName,
    time_source: TimeSource,
    median_us: f64,
    /// Null for fewer than three samples.
    ci_us: Option<[f64; 2]>,
    samples: usize,
    confirmed: bool,
    verdict: Option<&'static str>,
    /// The incumbent's time over this one.
    speedup: Option<f64>,
    /// Its interval, if one run timed both in turns. Null if it is the quotient of two runs.
    speedup_ci: Option<[f64; 2]>,
    /// The distance from 1 below which the speed-up shows no difference. Null without an A/A control.
    noise: Option<f64>,
}

impl<'a> Shown<'a> {
    pub(super) fn of(detail: &'a IterationDetail, diagnosed: &'a [Diagnosed], evaluation: Evaluated) -> Self {
        let found = &detail.iteration.measurements;
        let comparisons = found.iter().filter_map(|found| found.comparison.as_ref());
        Self {
            detail,
            times: found.iter().filter_map(|found| Time::of(found, detail)).collect(),
            comparisons: comparisons.map(|comparison| Found::of(comparison, 1)).collect(),
            diagnoses: diagnosed.iter().map(|(case, findings)| CaseDiagnosis { case, findings }).collect(),
            evaluation,
        }
    }
}

impl<'a> Time<'a> {
    fn of(found: &'a CaseRecord, detail: &IterationDetail) -> Option<Self> {
        let timing = found.best_timing()?;
        let against = |role| found.comparison.as_ref()?.against(role).map(|(_, ratio)| ratio);
        Some(Self {
            case: &found.case,
            time_source: detail.session.time_source,
            median_us: timing.median_ns / 1e3,
            ci_us: timing.shown_ci_us(),
            samples: timing.samples_ns.len(),
            confirmed: found.confirmation.is_some(),
            verdict: found
                .verdict
                .map(|verdict| verdict.key(detail.iteration.rationale.origin.is_committed_winner_of(&found.case))),
            speedup: found.speedup,
            speedup_ci: against(Role::Incumbent).map(|ratio| [ratio.interval.lo, ratio.interval.hi]),
            noise: against(Role::Control).and(found.comparison.as_ref()).map(Comparison::noise),
        })
    }
}

/// Sets the interval to null for every time that has too few samples.
pub(super) fn hide_intervals(json: &mut Value) {
    match json {
        Value::Object(object) => {
            let samples = object.get("samples_ns").and_then(Value::as_array).map(Vec::len);
            if let (Some(0..MIN_SAMPLES), Some(interval)) = (samples, object.get_mut("interval_ns")) {
                *interval = Value::Null;
            }
            object.values_mut().for_each(hide_intervals);
        }
        Value::Array(array) => array.iter_mut().for_each(hide_intervals),
        _ => {}
    }
}
