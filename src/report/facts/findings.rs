//! The diagnosis of the initial kernel and of the best variants, with what is left to do about each cause.

use super::ReportInput;
use super::contract::{Diagnosed, Diagnosis, DiagnosisOf, Next};
use crate::domain::claims::prediction::Prediction;
use crate::domain::history::tested::screened_ns;
use crate::domain::ids::IterationId;
use crate::domain::proposal::finding::{Finding, Remedy};
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::IterationRecord;

/// The most findings of one variant on a case. The rest has little weight.
const MAX: usize = 4;

/// The least expected gain that is worth an experiment: one that a comparison can resolve.
pub(super) const MIN_GAIN: f64 = 1.005;

/// Groups findings by variant and case, in the order of the diagnosis.
pub(super) fn diagnoses(findings: &[Finding], input: &ReportInput<'_>) -> Vec<Diagnosis> {
    let mut diagnoses: Vec<Diagnosis> = Vec::new();
    for found in findings {
        let Some(iteration) = found.iteration else { continue };
        let same = |one: &&mut Diagnosis| one.iteration == iteration && one.case == found.case;
        match diagnoses.iter_mut().find(same) {
            // An initial kernel that is also the best variant was diagnosed as both.
            Some(diagnosis) if diagnosis.findings.iter().any(|one| one.finding.rule == found.rule) => {}
            Some(diagnosis) if diagnosis.findings.len() == MAX => {}
            Some(diagnosis) => diagnosis.findings.push(diagnosed(found, input)),
            None => diagnoses.push(Diagnosis {
                of: of(iteration, &input.record.iterations),
                iteration,
                case: found.case.clone(),
                family: found.family.clone(),
                findings: vec![diagnosed(found, input)],
            }),
        }
    }
    diagnoses
}

fn of(id: IterationId, iterations: &[IterationRecord]) -> DiagnosisOf {
    let is_initial = |one: &IterationRecord| one.id == id && one.rationale.origin == Origin::InitialKernel;
    match iterations.iter().any(is_initial) {
        true => DiagnosisOf::InitialKernel,
        false => DiagnosisOf::BestVariant,
    }
}

fn diagnosed(found: &Finding, input: &ReportInput<'_>) -> Diagnosed {
    let next = match next(found, input) {
        Left::Try(remedy, predicted) => Next::Try {
            remedy: remedy.clone(),
            expected: predicted.map(|Prediction { lo, hi, median, .. }| median.unwrap_or((lo * hi).sqrt())),
        },
        Left::Write(remedy) => Next::Write { remedy: remedy.clone() },
        Left::Tried { iteration, speedup } => Next::Tried { iteration, speedup },
        Left::Nothing => Next::Nothing,
    };
    Diagnosed { finding: found.clone(), next }
}

/// What is left to do about a cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Left<'a> {
    /// A configuration that the session did not try on the case, and its predicted speed-up.
    Try(&'a Remedy, Option<Prediction>),
    /// Something that no configuration does.
    Write(&'a Remedy),
    /// Every configuration that should remove the cause was tried. This is the one that came out best.
    Tried { iteration: IterationId, speedup: Option<f64> },
    /// The diagnosis knows no change against the cause.
    Nothing,
}

/// Returns what is left to do about a cause.
pub(super) fn next<'a>(finding: &'a Finding, input: &ReportInput<'_>) -> Left<'a> {
    let iterations = &input.record.iterations;
    let mut tried: Option<(IterationId, Option<f64>)> = None;
    let explained = iterations.iter().find(|one| Some(one.id) == finding.iteration);
    let before_ns = explained.and_then(|explained| screened_ns(explained, &finding.case));
    for remedy in finding.remedies.iter().filter(|remedy| remedy.params.is_some()) {
        let Some(trial) = iterations.iter().find(|one| is_trial(one, remedy, &finding.case)) else {
            return Left::Try(remedy, (input.predict)(finding, remedy));
        };
        let speedup = before_ns.zip(screened_ns(trial, &finding.case)).map(|(before, after)| before / after);
        if tried.is_none_or(|(_, best)| speedup > best) {
            tried = Some((trial.id, speedup));
        }
    }
    match (tried, finding.remedies.first()) {
        (Some((iteration, speedup)), _) => Left::Tried { iteration, speedup },
        (None, Some(remedy)) => Left::Write(remedy),
        (None, None) => Left::Nothing,
    }
}

/// Tells whether an iteration tried the configuration of a remedy on a case, with whatever outcome.
fn is_trial(one: &IterationRecord, remedy: &Remedy, case: &str) -> bool {
    let on_case = one.cases.iter().any(|own| own.name == *case) || one.measurements.iter().any(|own| own.case == *case);
    let ended = one.outcome.is_some() && one.rationale.purpose != Purpose::Experiment;
    ended && on_case && one.family == remedy.family && Some(&one.params) == remedy.params.as_ref()
}
