//! Accesses to global memory that use only a part of each sector.
//!
//! excess = sectors / sectors of a perfect layout; gain = modelled time / modelled time without the excess

use super::{Found, MIN_GAIN, Rule, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;
use crate::domain::proposal::finding::EvidenceSource;

pub(super) const RULE: Rule = Rule {
    name: "scattered-access",
    mechanism: "global memory moves whole sectors of 32 bytes, so unused bytes take up its bandwidth",
    kernel_change: |_| "assign adjacent elements to adjacent lanes, or transpose through shared memory",
    find,
};

/// Excess from which accesses count.
pub(super) const EXCESS: f64 = 2.0;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let excess = launch.global().excess()?;
    let gain = subject.gain_without_excess(Cause::ScatteredAccess, "l2", excess);
    if excess < EXCESS || gain < MIN_GAIN {
        return None;
    }
    let counted =
        format!("{} moves {excess:.1} times as many sectors of global memory as its data needs", launch.kernel);
    Some(Found {
        cause: format!("accesses to global memory move {excess:.1} times as many sectors as needed"),
        evidence: vec![supports(EvidenceSource::VirtualCounters, counted), without("scattered accesses", gain)],
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
