//! The diagnosis of the initial kernel and of the best variants, for the contract.

use std::cmp::Ordering;

use super::contract::{Diagnosis, DiagnosisOf, Finding};
use super::{ReportInput, next_change};
use crate::domain::ids::IterationId;
use crate::domain::origin::Origin;
use crate::domain::record::IterationRecord;
use crate::domain::tested::CauseStatus;
use crate::domain::{finding, tested};

/// The most findings of one variant on a case. The rest has little weight.
const MAX: usize = 4;

/// Groups findings by variant and case. Causes that an experiment has confirmed or supported come first,
/// refuted ones last.
pub(super) fn diagnoses(findings: &[finding::Finding], input: &ReportInput<'_>) -> Vec<Diagnosis> {
    let mut diagnoses: Vec<Diagnosis> = Vec::new();
    for found in findings {
        let Some(iteration) = found.iteration else { continue };
        let same = |one: &&mut Diagnosis| one.iteration == iteration && one.case == found.case;
        match diagnoses.iter_mut().find(same) {
            Some(diagnosis) if diagnosis.findings.len() >= MAX => {}
            // An initial kernel that is also the best variant was diagnosed as both.
            Some(diagnosis)
                if diagnosis.findings.iter().any(|one| one.rule == found.rule && one.cause == found.cause) => {}
            Some(diagnosis) => diagnosis.findings.push(Finding::of(found, input)),
            None => diagnoses.push(Diagnosis {
                of: of(iteration, &input.record.iterations),
                iteration,
                case: found.case.clone(),
                family: found.family.clone(),
                findings: vec![Finding::of(found, input)],
            }),
        }
    }
    for Diagnosis { findings, .. } in &mut diagnoses {
        let mut tests: Vec<_> = findings.iter_mut().map(|found| (found.rule, &mut found.tested)).collect();
        tested::tell_apart(&mut tests);
        findings.sort_by(by_experiment);
    }
    diagnoses
}

/// Orders causes by what experiments have shown: those that survived by the speed-up of their experiment, the others as
/// the diagnosis has them.
fn by_experiment(one: &Finding, other: &Finding) -> Ordering {
    let shown = |found: &Finding| match found.tested.status {
        CauseStatus::Confirmed | CauseStatus::Supported => found.tested.speedup.unwrap_or(1.0),
        _ => 0.0,
    };
    let ranks = rank(one.tested.status).cmp(&rank(other.tested.status));
    ranks.then_with(|| shown(other).total_cmp(&shown(one)))
}

/// Ranks causes by what experiments have shown.
fn rank(status: CauseStatus) -> u8 {
    match status {
        CauseStatus::Confirmed | CauseStatus::Supported => 0,
        CauseStatus::Inconclusive | CauseStatus::NotTested | CauseStatus::NoExperiment => 1,
        CauseStatus::NotConfirmed => 2,
    }
}

fn of(id: IterationId, iterations: &[IterationRecord]) -> DiagnosisOf {
    let is_initial = |one: &IterationRecord| one.id == id && one.origin == Origin::InitialKernel;
    match iterations.iter().any(is_initial) {
        true => DiagnosisOf::InitialKernel,
        false => DiagnosisOf::BestVariant,
    }
}

impl Finding {
    fn of(found: &finding::Finding, input: &ReportInput<'_>) -> Self {
        let next = next_change::of(found, input);
        Self {
            rule: found.rule,
            cause: found.cause.clone(),
            mechanism: found.mechanism,
            kernel_change: next_change::kernel_change(found, input).to_owned(),
            evidence: found.evidence.clone(),
            confidence: found.confidence,
            gain: found.gain,
            remedies: found.remedies.clone(),
            tested: tested::judge(found, &input.record.iterations),
            failed: next.failed(),
            next: next.text(found, input),
        }
    }
}
