//! Loads that miss L1 and wait for L2 or memory.
//!
//! gain = modelled time / modelled time if every load hit L1

use super::redundant_loads::{REDUNDANCY, bytes};
use super::{Found, MIN_GAIN, Rule, contradicts, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::finding::{Confidence, EvidenceSource};
use crate::domain::profile::Cause;

pub(super) const RULE: Rule = Rule {
    name: "cache-misses",
    mechanism: "a load that misses L1 takes several times as long, and a warp that needs its value waits",
    kernel_change: "load the next tile while it computes the current one, and keep what blocks share in L2",
    find,
};

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let gain = subject.gain_without(Cause::CacheMisses)?;
    if gain < MIN_GAIN {
        return None;
    }
    let sectors = launch.sectors_l2.max(1) as f64 / launch.global_loads.moved.max(1) as f64;
    let working_set = format!(
        "{:.0}% of the loaded sectors miss L1, and the working set is {} with an L2 of {}",
        100.0 * sectors.min(1.0),
        bytes(launch.footprint_bytes as f64),
        bytes(subject.device.l2_bytes as f64)
    );
    let mut evidence = vec![supports(EvidenceSource::VirtualCounters, working_set), without("misses of L1", gain)];
    let repeated = launch.redundancy().filter(|redundancy| *redundancy >= REDUNDANCY);
    evidence.extend(repeated.map(|redundancy| {
        let text =
            format!("each byte is loaded {redundancy:.0} times, so fewer loads would help more than nearer ones");
        contradicts(EvidenceSource::VirtualCounters, text)
    }));
    Some(Found {
        cause: "loads from global memory wait for L2 or memory".to_owned(),
        evidence,
        confidence: if repeated.is_some() { Confidence::Low } else { modelled(subject) },
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
