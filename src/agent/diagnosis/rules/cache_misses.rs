//! Loads that miss L1 and wait for L2 or memory.
//!
//! gain = modelled time / modelled time if every load hit L1

use super::redundant_loads::{REDUNDANCY, bytes, is_l2_busy};
use super::{Found, MIN_GAIN, Rule, contradicts, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;
use crate::domain::device::regime::Regime;
use crate::domain::proposal::finding::{Confidence, EvidenceSource};

pub(super) const RULE: Rule = Rule {
    name: "cache-misses",
    mechanism: "a load that misses L1 takes several times as long, and a warp that needs its value waits",
    kernel_change,
    find,
};

/// Says how loads wait less. What is in L2 already can only be asked for earlier.
fn kernel_change(subject: &Subject<'_>) -> &'static str {
    if is_in_l2(subject) {
        "start its loads earlier, or keep more of them in flight"
    } else {
        "load the next tile while it computes the current one, and keep what blocks share in L2"
    }
}

/// Tells whether all that the longest launch touches is known to be in L2.
fn is_in_l2(subject: &Subject<'_>) -> bool {
    let touched = subject.longest().map(|launch| launch.footprint_bytes).filter(|touched| *touched > 0);
    subject.case.regime == Regime::Warm && touched.is_some_and(|touched| touched <= subject.device.l2_bytes)
}

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
    // While L2 has little to do, its latency is what loads wait for.
    evidence.extend(repeated.filter(|_| is_l2_busy(subject) != Some(false)).map(|redundancy| {
        let text =
            format!("each byte is loaded {redundancy:.0} times, so fewer loads would help more than nearer ones");
        contradicts(EvidenceSource::VirtualCounters, text)
    }));
    Some(Found {
        cause: format!("loads from global memory wait for {}", if is_in_l2(subject) { "L2" } else { "L2 or memory" }),
        evidence,
        confidence: if repeated.is_some() { Confidence::Low } else { modelled(subject) },
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
