//! A chain of dependent instructions that no other work hides.
//!
//! gain = modelled latency / modelled time of the busiest unit, where latency is the sequential time of the blocks if
//! each waited only for its own instructions

use super::{Found, MIN_GAIN, Rule, supports};
use crate::agent::diagnosis::subject::Subject;
use crate::agent::diagnosis::{alike, remedy};
use crate::domain::proposal::finding::{Confidence, EvidenceSource};

pub(super) const RULE: Rule = Rule {
    name: "latency-bound",
    mechanism: "each instruction waits for the one before it, and too few warps are resident to use the units meanwhile",
    kernel_change: |_| "work on several independent rows or tiles in each warp, and load ahead of use",
    find,
};

/// Parts of a modelled time that are units of the device. The others are latency and launch.
const UNITS: [&str; 8] = ["issue", "fma", "alu", "mufu", "tensor", "shared", "l2", "hbm"];

/// The latency over the busiest unit's time, from which a kernel counts as bound by latency.
const DOMINANT: f64 = 1.5;

/// Returns the unit with the largest share of the modelled time, and that share.
fn busiest(subject: &Subject<'_>) -> Option<(&'static str, f64)> {
    let shares = UNITS.into_iter().map(|unit| (unit, subject.part(unit).unwrap_or_default()));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn find(subject: &Subject<'_>) -> Option<Found> {
    let latency = subject.part("latency")?;
    let (unit, busiest) = busiest(subject)?;
    let gain = subject.gain_of_share(latency - busiest);
    if latency < DOMINANT * busiest || gain < MIN_GAIN {
        return None;
    }
    let mut evidence = vec![supports(
        EvidenceSource::VirtualCounters,
        format!(
            "the longest chain of instructions takes {:.0}% of the modelled time, and the busiest unit ({unit}) {:.0}%",
            100.0 * latency,
            100.0 * busiest
        ),
    )];
    let resident = subject.occupancy().zip(subject.launch()).map(|(occupancy, launch)| {
        let per_sm = launch.ctas().div_ceil(u64::from(subject.device.sms)).min(u64::from(occupancy.blocks.max(1)));
        let warps = per_sm * u64::from(occupancy.warps / occupancy.blocks.max(1));
        (warps, occupancy)
    });
    evidence.extend(resident.map(|(warps, occupancy)| {
        let most = occupancy.most_warps;
        let limit = match warps < u64::from(occupancy.warps) {
            true => "the grid has no more".to_owned(),
            false => format!("{} allow no more", occupancy.limiter.name()),
        };
        supports(EvidenceSource::Launch, format!("{warps} of {most} warps are resident on a multiprocessor: {limit}"))
    }));
    evidence.extend(alike::one_block(subject).map(|(source, text)| supports(source, text)));
    Some(Found {
        cause: "the units wait for chains of dependent instructions".to_owned(),
        evidence,
        // It is a symptom, too: conflicts, spills and misses lengthen the same chain, and are found by rules of their
        // own.
        confidence: Confidence::Low,
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
