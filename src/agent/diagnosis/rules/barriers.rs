//! Warps that wait for each other at block barriers.
//!
//! gain = modelled time / modelled time if no warp waited at a barrier

use super::{Found, MIN_GAIN, Rule, modelled, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;

pub(super) const RULE: Rule = Rule {
    name: "barriers",
    mechanism: "at a barrier every warp waits for the slowest, and no warp loads or multiplies meanwhile",
    kernel_change: |_| "synchronise only the warps that exchange data, or give producers and consumers warps of their own",
    find,
};

fn find(subject: &Subject<'_>) -> Option<Found> {
    let gain = subject.gain_without(Cause::Barriers)?;
    if gain < MIN_GAIN {
        return None;
    }
    Some(Found {
        cause: "warps wait for each other at block barriers".to_owned(),
        evidence: vec![without("waiting at barriers", gain)],
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
