//! The rules of the diagnosis. Each is a pure function from a subject to its findings, in a file of its own.

mod at_the_floor;
mod bank_conflicts;
mod barriers;
mod cache_misses;
mod idle_lanes;
mod idle_warps;
mod latency_bound;
mod launch_bound;
mod partial_wave;
mod redundant_loads;
mod scattered_access;
mod serialised_grid;
mod special_functions;
mod spills;
mod stalls;
mod tensor_cores_unused;
mod too_few_blocks;
mod uneven_blocks;

pub use too_few_blocks::leaves_idle;

use super::bound::Bound;
use super::subject::Subject;
use super::{ablated, modelled as model};
use crate::domain::device::TimeSource;
use crate::domain::finding::{Confidence, Evidence, EvidenceSource, Finding, Remedy};
use crate::domain::profile::Cause;

/// A rule: its name, how its cause makes a kernel slow, what a kernel without the cause would do, and the function that
/// looks for it.
struct Rule {
    name: &'static str,
    mechanism: &'static str,
    kernel_change: fn(&Subject<'_>) -> &'static str,
    find: fn(&Subject<'_>) -> Option<Found>,
}

/// The result of a rule.
struct Found {
    cause: String,
    evidence: Vec<Evidence>,
    confidence: Confidence,
    /// How many times as fast the variant could be without the cause. 1 if the rule cannot tell.
    gain: f64,
    remedies: Vec<Remedy>,
}

/// The least gain that is worth a finding.
const MIN_GAIN: f64 = 1.03;

/// The share of an estimate from which what limits it makes no difference.
const RESOLVED: f64 = 0.995;

const RULES: [Rule; 18] = [
    serialised_grid::RULE,
    too_few_blocks::RULE,
    partial_wave::RULE,
    uneven_blocks::RULE,
    idle_warps::RULE,
    idle_lanes::RULE,
    tensor_cores_unused::RULE,
    bank_conflicts::RULE,
    scattered_access::RULE,
    redundant_loads::RULE,
    cache_misses::RULE,
    spills::RULE,
    barriers::RULE,
    special_functions::RULE,
    stalls::RULE,
    latency_bound::RULE,
    launch_bound::RULE,
    at_the_floor::RULE,
];

/// Returns the causes of a variant's lost time on a case, the most important first.
pub fn findings(subject: &Subject<'_>) -> Vec<Finding> {
    findings_within(subject, None)
}

/// Returns the same. No gain exceeds the limit that other cases set.
pub fn findings_within(subject: &Subject<'_>, bound: Option<&Bound>) -> Vec<Finding> {
    let off = model::off(subject);
    let finding = |rule: &Rule| {
        let Found { cause, mut evidence, mut confidence, gain: estimate, remedies } = (rule.find)(subject)?;
        let mut gain = estimate.clamp(1.0, subject.headroom());
        let mut limit = "the floor allows no more";
        if let Some(ablated) = ablated::weigh(rule.name, subject, &mut gain) {
            limit = if ablated.supports { limit } else { "its instructions cost no more" };
            evidence.push(ablated);
        }
        // What its instructions cost was measured: next to nothing stays next to nothing.
        let off = off.clone().filter(|_| gain >= MIN_GAIN && follows_only_from_model(rule.name, subject));
        // That its instructions cost enough was measured, so a gain that they allow stays, with its confidence.
        let is_bounded = evidence.iter().any(|one| one.supports && one.source == EvidenceSource::Ablation);
        let model_is_off = off.is_some() && !is_bounded;
        if model_is_off {
            (gain, confidence) = (1.0, without_model(confidence, &evidence));
        }
        evidence.extend(off);
        if let Some(bound) = bound.filter(|bound| gain > bound.most(subject.time_ns)) {
            gain = bound.most(subject.time_ns);
            limit = "a case that asks for less is no faster than that";
            evidence.push(bound.evidence());
            confidence = confidence.min(Confidence::Medium);
        }
        Some(Finding {
            iteration: subject.iteration,
            family: subject.family.to_owned(),
            case: subject.case.name.clone(),
            rule: rule.name,
            cause,
            mechanism: rule.mechanism,
            kernel_change: (rule.kernel_change)(subject),
            without_split: (rule.name == too_few_blocks::RULE.name).then_some(too_few_blocks::WITHOUT_SPLIT),
            model_is_off,
            evidence,
            confidence,
            gain,
            derivation: derivation(rule, subject).filter(|_| gain > 1.0).map(|formula| {
                match gain < RESOLVED * estimate {
                    true => format!("{formula}; limited to {gain:.3}×, because {limit}"),
                    false => formula,
                }
            }),
            remedies,
        })
    };
    let mut findings: Vec<Finding> = RULES.iter().filter_map(finding).collect();
    findings.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    findings
}

/// Tells whether the gain of a rule follows only from the model.
fn follows_only_from_model(rule: &str, subject: &Subject<'_>) -> bool {
    match rule {
        "uneven-blocks" | "idle-warps" | "idle-lanes" | "bank-conflicts" | "scattered-access" | "redundant-loads"
        | "cache-misses" | "spills" | "barriers" | "special-functions" | "latency-bound" => true,
        "partial-wave" => subject.gain_without(Cause::PartialWave).is_some(),
        "tensor-cores-unused" => subject.gain_without(Cause::Products).is_some(),
        "too-few-blocks" => too_few_blocks::divides_by_model(subject),
        _ => false,
    }
}

/// Returns the confidence in a cause that is left where the model is off: counters of the GPU show it all the same.
fn without_model(confidence: Confidence, evidence: &[Evidence]) -> Confidence {
    let is_counted = evidence.iter().any(|one| one.supports && one.source == EvidenceSource::HardwareCounters);
    if is_counted { confidence } else { Confidence::Low }
}

/// Says how the estimate of a rule follows from figures, where its evidence does not.
fn derivation(rule: &Rule, subject: &Subject<'_>) -> Option<String> {
    match rule.name {
        name if name == too_few_blocks::RULE.name => Some(too_few_blocks::derivation(subject)),
        name if name == latency_bound::RULE.name => latency_bound::derivation(subject),
        _ => None,
    }
}

/// Returns the names of all rules.
pub fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// Makes evidence for a cause.
fn supports(source: EvidenceSource, text: String) -> Evidence {
    Evidence { source, supports: true, text }
}

/// Makes evidence against a cause.
fn contradicts(source: EvidenceSource, text: String) -> Evidence {
    Evidence { source, supports: false, text }
}

/// Returns the confidence in figures that a virtual GPU has counted and modelled. They explain modelled times directly,
/// and times of a real GPU only indirectly.
fn modelled(subject: &Subject<'_>) -> Confidence {
    match subject.device.time_source() {
        TimeSource::Modelled => Confidence::High,
        TimeSource::Measured | TimeSource::Recorded => Confidence::Medium,
    }
}

/// Makes the evidence of a modelled gain.
fn without(what: &str, gain: f64) -> Evidence {
    supports(
        EvidenceSource::VirtualCounters,
        format!("without {what}, the modelled time would be {gain:.2} times shorter"),
    )
}
