//! The rules of the diagnosis. Each is a pure function from a subject to its findings, in a file of its own.

mod at_the_floor;
mod bank_conflicts;
mod barriers;
mod cache_misses;
mod excess_instructions;
mod idle_lanes;
mod idle_warps;
mod index_arithmetic;
mod latency_bound;
mod launch_bound;
mod narrow_loads;
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
use super::{ablated, experiments, modelled as model};
use crate::domain::code::profile::{Cause, Profile};
use crate::domain::device::TimeSource;
use crate::domain::proposal::finding::{CauseTest, Confidence, Evidence, EvidenceSource, Finding, Remedy};

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

const RULES: [Rule; 21] = [
    serialised_grid::RULE,
    too_few_blocks::RULE,
    partial_wave::RULE,
    uneven_blocks::RULE,
    idle_warps::RULE,
    idle_lanes::RULE,
    tensor_cores_unused::RULE,
    bank_conflicts::RULE,
    scattered_access::RULE,
    narrow_loads::RULE,
    redundant_loads::RULE,
    index_arithmetic::RULE,
    excess_instructions::RULE,
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
        evidence.extend(ablated::weigh(rule.name, subject, &mut gain));
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
            model_is_off,
            evidence,
            confidence,
            gain,
            tested: CauseTest::none(gain, true),
            remedies,
        })
    };
    let mut findings: Vec<Finding> = RULES.iter().filter_map(finding).collect();
    findings.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    experiments::believe(subject, &mut findings, amount);
    findings
}

/// Tells whether the gain of a rule follows only from the model.
fn follows_only_from_model(rule: &str, subject: &Subject<'_>) -> bool {
    match rule {
        "uneven-blocks"
        | "idle-warps"
        | "idle-lanes"
        | "bank-conflicts"
        | "scattered-access"
        | "redundant-loads"
        | "narrow-loads"
        | "index-arithmetic"
        | "excess-instructions"
        | "cache-misses"
        | "spills"
        | "barriers"
        | "special-functions"
        | "latency-bound" => true,
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

/// Returns how much of the cause of a rule a profile has (0: nothing), and from how much on the rule finds it. None for causes of
/// which counts alone say nothing.
fn amount(rule: &str, profile: &Profile) -> Option<(f64, f64)> {
    let launch = profile.longest()?;
    let lacking = |bytes: f64| narrow_loads::WIDEST / bytes - 1.0;
    match rule {
        "bank-conflicts" => Some((launch.shared.excess().unwrap_or(1.0) - 1.0, bank_conflicts::EXCESS - 1.0)),
        "scattered-access" => Some((launch.global().excess()? - 1.0, scattered_access::EXCESS - 1.0)),
        "idle-lanes" => Some((32.0 - launch.active_lanes, 32.0 - idle_lanes::MIN_LANES)),
        "redundant-loads" => Some((launch.redundancy()? - 1.0, redundant_loads::REDUNDANCY - 1.0)),
        "spills" => Some((launch.local.moved as f64, 1.0)),
        "narrow-loads" => Some((lacking(launch.bytes_per_load()?), lacking(narrow_loads::NARROW))),
        "index-arithmetic" => Some((launch.index_share()?, index_arithmetic::MUCH)),
        _ => None,
    }
}

/// Returns the names of all rules.
pub fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// Returns the share of the modelled time for which instructions are issued, or for which warps wait for them one after the other.
fn issuing(subject: &Subject<'_>) -> f64 {
    let parts = ["issue", "alu", "mufu", "latency"].into_iter().filter_map(|part| subject.part(part));
    parts.fold(0.0, f64::max)
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
