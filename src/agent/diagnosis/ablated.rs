//! What ablations say about a cause: a kernel without any instruction of a kind shows the most that fewer or faster ones
//! could gain.

use super::subject::Subject;
use crate::domain::code::ablation::{self, Removed};
use crate::domain::proposal::finding::{Evidence, EvidenceSource};

/// By how much a gain may exceed what its instructions cost. What stands in their place costs a little, too.
const TOLERANCE: f64 = 1.05;

/// The least gain: what a comparison resolves. A gain of 1 would mean that it is not known.
const RESOLVED: f64 = 1.005;

/// Returns the kind of instruction that a rule's cause makes slow. None if there is no such kind.
fn kind(rule: &str, subject: &Subject<'_>) -> Option<Removed> {
    Some(match rule {
        "stalls" => return waited_for(subject),
        "cache-misses" | "redundant-loads" | "scattered-access" => Removed::GlobalLoads,
        "bank-conflicts" => Removed::SharedLoads,
        "special-functions" => Removed::SpecialFunctions,
        "barriers" => Removed::Barriers,
        _ => return None,
    })
}

/// Limits the gain of a rule's cause to what its instructions cost, and returns the evidence. That they cost as much does not
/// show that the cause does, so the confidence stays.
pub(super) fn weigh(rule: &str, subject: &Subject<'_>, gain: &mut f64) -> Option<Evidence> {
    let removed = kind(rule, subject)?;
    let control_ns = ablation::control_ns(subject.ablations)?;
    let without_ns = ablation::time_ns(subject.ablations, removed)?;
    let most = control_ns / without_ns;
    let (what, without_us, us) = (removed.text(), without_ns / 1e3, control_ns / 1e3);
    let text = format!("without its {what}, it takes {without_us:.3} instead of {us:.3} us");
    let supports = *gain <= TOLERANCE * most;
    if !supports {
        *gain = most.max(RESOLVED);
    }
    Some(Evidence { source: EvidenceSource::Ablation, supports, text })
}

/// Returns the kind of instruction for which warps wait most, according to the hardware's samples of their states.
fn waited_for(subject: &Subject<'_>) -> Option<Removed> {
    match subject.counted()?.first_stall()?.0 {
        "long_scoreboard" | "lg_throttle" => Some(Removed::GlobalLoads),
        "barrier" => Some(Removed::Barriers),
        _ => None,
    }
}
