//! Exponentials and other special functions, which have a pipe of their own with a sixteenth of the FMA rate.
//!
//! gain = modelled time / modelled time if special functions took no time

use super::{Found, MIN_GAIN, Rule, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;
use crate::domain::proposal::finding::EvidenceSource;

pub(super) const RULE: Rule = Rule {
    name: "special-functions",
    mechanism: "a multiprocessor computes 16 exponentials a clock, so those of a softmax keep up the products",
    kernel_change: |_| "compute a share of the exponentials by polynomials on the FMA pipes",
    find,
};

fn find(subject: &Subject<'_>) -> Option<Found> {
    let gain = subject.gain_without(Cause::Exponentials)?;
    if gain < MIN_GAIN {
        return None;
    }
    let share = 100.0 * subject.part("mufu").unwrap_or_default();
    let busy = format!("their pipe is busy for {share:.0}% of the modelled time");
    Some(Found {
        cause: format!("exponentials account for {:.0}% of the modelled time", 100.0 * (1.0 - 1.0 / gain)),
        evidence: vec![supports(EvidenceSource::VirtualCounters, busy), without("special functions", gain)],
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
