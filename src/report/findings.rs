//! The diagnosis of the initial kernel and of the best variants, for the contract.

use std::cmp::Ordering;

use super::contract::{Case, Diagnosis, DiagnosisOf, Finding};
use super::next_change::{self, Next};
use super::{ReportInput, divided};
use crate::domain::finding::Evidence;
use crate::domain::ids::IterationId;
use crate::domain::origin::Origin;
use crate::domain::record::IterationRecord;
use crate::domain::tested::CauseStatus;
use crate::domain::{finding, tested};

/// The most findings of one variant on a case. The rest has little weight.
const MAX: usize = 4;

/// Groups findings by variant and case, and orders them by what experiments have shown.
pub(super) fn diagnoses(findings: &[finding::Finding], cases: &[Case], input: &ReportInput<'_>) -> Vec<Diagnosis> {
    let mut diagnoses: Vec<Diagnosis> = Vec::new();
    for found in findings {
        let Some(iteration) = found.iteration else { continue };
        let same = |one: &&mut Diagnosis| one.iteration == iteration && one.case == found.case;
        match diagnoses.iter_mut().find(same) {
            // An initial kernel that is also the best variant was diagnosed as both.
            Some(diagnosis)
                if diagnosis.findings.iter().any(|one| one.rule == found.rule && one.cause == found.cause) => {}
            Some(diagnosis) => diagnosis.findings.push(Finding::of(found, cases, input)),
            None => diagnoses.push(Diagnosis {
                of: of(iteration, &input.record.iterations),
                iteration,
                case: found.case.clone(),
                family: found.family.clone(),
                findings: vec![Finding::of(found, cases, input)],
            }),
        }
    }
    for Diagnosis { findings, .. } in &mut diagnoses {
        let mut tests: Vec<_> = findings.iter_mut().map(|found| (found.rule, &mut found.tested)).collect();
        tested::tell_apart(&mut tests);
        let doubtful = doubtful(findings);
        findings.sort_by(|one, other| by_experiment(one, other, &doubtful));
        findings.truncate(MAX);
    }
    diagnoses
}

/// Orders causes by what experiments have shown: those of which an experiment gained about what was expected come first, then
/// those of which it may have removed more than the cause, each by the speed-up. The others are as the diagnosis has them.
fn by_experiment(one: &Finding, other: &Finding, doubtful: &[&str]) -> Ordering {
    let shown = |found: &Finding| match found.tested.status {
        CauseStatus::Confirmed | CauseStatus::Supported => found.tested.speedup.unwrap_or(1.0),
        _ => 0.0,
    };
    let ranks = rank(one, doubtful).cmp(&rank(other, doubtful));
    ranks.then_with(|| shown(other).total_cmp(&shown(one)))
}

/// Ranks causes by what experiments have shown. A doubtful one that no experiment has shown anything about comes after the
/// others.
fn rank(found: &Finding, doubtful: &[&str]) -> u8 {
    match found.tested.status {
        CauseStatus::Confirmed => 0,
        CauseStatus::Supported => 1,
        CauseStatus::Inconclusive => 2,
        CauseStatus::NotTested | CauseStatus::NoExperiment if doubtful.contains(&found.rule) => 4,
        CauseStatus::NotTested | CauseStatus::NoExperiment => 3,
        CauseStatus::NotConfirmed => 5,
    }
}

/// Returns the rules of the causes against which a figure speaks that speaks for another cause, which could be removed.
fn doubtful(findings: &[Finding]) -> Vec<&'static str> {
    let speaks_for = |other: &Finding, against: &Evidence| {
        let is_same = |one: &Evidence| one.source == against.source && against.text.starts_with(&one.text);
        other.gain > 1.0 && other.evidence.iter().any(|one| one.supports && is_same(one))
    };
    let is_doubtful = |found: &&Finding| {
        let mut against = found.evidence.iter().filter(|one| !one.supports);
        against.any(|one| findings.iter().any(|other| other.rule != found.rule && speaks_for(other, one)))
    };
    findings.iter().filter(is_doubtful).map(|found| found.rule).collect()
}

fn of(id: IterationId, iterations: &[IterationRecord]) -> DiagnosisOf {
    let is_initial = |one: &IterationRecord| one.id == id && one.origin == Origin::InitialKernel;
    match iterations.iter().any(is_initial) {
        true => DiagnosisOf::InitialKernel,
        false => DiagnosisOf::BestVariant,
    }
}

impl Finding {
    fn of(found: &finding::Finding, cases: &[Case], input: &ReportInput<'_>) -> Self {
        let next = next_change::of(found, input);
        let divided_by = divided::of(found, cases, input.record);
        Self {
            rule: found.rule,
            cause: found.cause.clone(),
            mechanism: found.mechanism,
            kernel_change: next_change::kernel_change(found, input).to_owned(),
            evidence: found.evidence.clone(),
            confidence: found.confidence,
            gain: found.gain,
            derivation: found.derivation.clone(),
            remedies: found.remedies.clone(),
            tested: tested::judge(found, &input.record.iterations),
            failed: next.failed(),
            next: match divided_by {
                Some(_) if next == Next::Nothing => divided::NEXT.to_owned(),
                _ => next.text(found, input),
            },
            divided_by,
            model_is_off: found.model_is_off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::full::full;
    use super::*;
    use crate::domain::finding::EvidenceSource;

    /// Grids of several sizes take the same time. That speaks for chains of instructions and against too few blocks.
    #[test]
    fn a_cause_against_which_the_evidence_for_another_one_speaks_comes_after_it() {
        let template = full().diagnoses[0].findings[0].clone();
        let figure = |supports, text: &str| Evidence { source: EvidenceSource::Times, supports, text: text.to_owned() };
        let of = |rule, evidence| Finding { rule, evidence: vec![evidence], ..template.clone() };
        let mut findings = vec![
            of("too-few-blocks", figure(false, "grids of 8 and 64 blocks take as long, so more blocks help little")),
            of("latency-bound", figure(true, "grids of 8 and 64 blocks take as long")),
            of("spills", figure(false, "another case is faster")),
        ];
        assert_eq!(doubtful(&findings), ["too-few-blocks"]);
        findings[1].gain = 1.0;
        assert_eq!(doubtful(&findings), [""; 0], "nothing is known to remove the other one");
        let mut ranked = |status| {
            findings[0].tested.status = status;
            findings.iter().map(|found| rank(found, &["too-few-blocks"])).collect::<Vec<_>>()
        };
        assert_eq!(ranked(CauseStatus::NotTested), [4, 3, 3]);
        assert_eq!(ranked(CauseStatus::Inconclusive), [2, 3, 3]);
        assert!(ranked(CauseStatus::Confirmed) < ranked(CauseStatus::Supported));
    }
}
