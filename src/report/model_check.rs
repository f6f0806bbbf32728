//! How well the model of the virtual GPU derived the leads that a session measured, and what its estimates are worth then.

use super::ReportInput;
use super::advantage;
use super::contract::{Advantage, ModelCheck};
use crate::domain::device::TimeSource;
use crate::domain::finding::{Confidence, EvidenceSource, Finding};
use crate::domain::record::IterationRecord;
use crate::domain::tested::{CauseStatus, judge};

/// Fewest measured leads by which the model is judged: two may agree or differ by chance.
const MIN_LEADS: u64 = 3;

/// The share of these leads that the model has to derive. A model that is more often wrong than right about what makes one
/// kernel faster than another says little about what would make one faster.
const MIN_SHARE: f64 = 0.5;

/// Compares the model with the leads of a session. None where times are not measured, or with too few leads.
pub(super) fn of(advantages: &[Advantage], rivals: &[Advantage], source: TimeSource) -> Option<ModelCheck> {
    let leads = advantage::leads(advantages, rivals);
    let explained = leads.iter().filter(|one| one.explained).count() as u64;
    let leads = leads.len() as u64;
    (source == TimeSource::Measured && leads >= MIN_LEADS).then_some(ModelCheck { leads, explained, lowered: 0 })
}

/// Returns findings with the confidence that the check leaves them, the most important of each variant first, and counts
/// those that lost some. Where the model did not derive the measured leads, a gain that only it estimates is an indirect
/// sign.
pub(super) fn apply(
    check: Option<ModelCheck>,
    findings: &[Finding],
    input: &ReportInput<'_>,
) -> (Option<ModelCheck>, Vec<Finding>) {
    let mut findings = findings.to_vec();
    let Some(mut check) = check.filter(|check| (check.explained as f64) < MIN_SHARE * check.leads as f64) else {
        return (check, findings);
    };
    for found in findings.iter_mut().filter(|found| found.confidence > Confidence::Low) {
        if rests_on_the_model(found, &input.record.iterations) {
            found.confidence = Confidence::Low;
            check.lowered += 1;
        }
    }
    for of_variant in findings.chunk_by_mut(|a, b| (a.iteration, &a.case) == (b.iteration, &b.case)) {
        of_variant.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    }
    (Some(check), findings)
}

/// Tells whether nothing but the model supports a gain: no counters of the GPU, and no experiment.
fn rests_on_the_model(found: &Finding, iterations: &[IterationRecord]) -> bool {
    let is_modelled = found.evidence.iter().any(|one| one.source == EvidenceSource::VirtualCounters);
    let is_measured = |source| matches!(source, EvidenceSource::HardwareCounters | EvidenceSource::Experiment);
    let is_supported = found.evidence.iter().any(|one| one.supports && is_measured(one.source));
    let has_survived = || matches!(judge(found, iterations).status, CauseStatus::Confirmed | CauseStatus::Supported);
    is_modelled && !is_supported && !has_survived()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{advantage, input, record};
    use super::*;
    use crate::domain::finding::Evidence;
    use crate::domain::ids::IterationId;

    fn lead(case: &str, explained: bool) -> Advantage {
        Advantage { case: case.into(), ..advantage("rival", 1.2, explained) }
    }

    fn found(rule: &'static str, gain: f64, sources: &[EvidenceSource]) -> Finding {
        let evidence = |source: &EvidenceSource| Evidence { source: *source, supports: true, text: String::new() };
        Finding {
            iteration: Some(IterationId(3)),
            family: "tiled".to_owned(),
            case: "b1h1s128".into(),
            rule,
            cause: rule.to_owned(),
            mechanism: "",
            kernel_change: "",
            without_split: None,
            model_is_off: false,
            derivation: None,
            evidence: sources.iter().map(evidence).collect(),
            confidence: Confidence::Medium,
            gain,
            remedies: Vec::new(),
        }
    }

    fn checked(explained: [bool; 3]) -> Option<ModelCheck> {
        let cases = ["b1h1s128", "b8h8s512", "b16h8s512"];
        let leads: Vec<Advantage> =
            cases.iter().zip(explained).map(|(case, explained)| lead(case, explained)).collect();
        of(&leads[..1], &leads[1..], TimeSource::Measured)
    }

    #[test]
    fn a_model_is_judged_by_three_measured_leads_or_more() {
        assert_eq!(checked([true, false, true]), Some(ModelCheck { leads: 3, explained: 2, lowered: 0 }));
        let leads = [lead("b1h1s128", true), lead("b8h8s512", false)];
        assert_eq!(of(&leads, &[], TimeSource::Measured), None);
        let modelled = [lead("b1h1s128", true), lead("b8h8s512", true), lead("b16h8s512", true)];
        assert_eq!(of(&modelled, &[], TimeSource::Modelled), None, "it would be compared with itself");
    }

    /// The first two causes have a direct figure. The model derived one of three leads, then two.
    #[test]
    fn a_gain_that_only_a_refuted_model_estimates_has_low_confidence() {
        use EvidenceSource::{Experiment, HardwareCounters, Launch, VirtualCounters};
        let findings = [
            found("cache-misses", 1.5, &[VirtualCounters]),
            found("stalls", 1.4, &[VirtualCounters, HardwareCounters]),
            found("latency-bound", 1.3, &[VirtualCounters, Experiment]),
            found("too-few-blocks", 1.2, &[Launch]),
        ];
        let record = record();
        let told = |explained| {
            let (check, findings) = apply(checked(explained), &findings, &input(&record));
            let told = findings.iter().map(|one| format!("{} {}", one.rule, one.confidence.name()));
            (check.unwrap().lowered, told.collect::<Vec<_>>().join(", "))
        };
        let lowered = "stalls medium, latency-bound medium, too-few-blocks medium, cache-misses low";
        assert_eq!(told([true, false, false]), (1, lowered.to_owned()));
        let kept = "cache-misses medium, stalls medium, latency-bound medium, too-few-blocks medium";
        assert_eq!(told([true, true, false]), (0, kept.to_owned()));
        assert_eq!(apply(None, &findings, &input(&record)), (None, findings.to_vec()), "nothing is known of the model");
    }
}
