//! Data that is loaded from global memory many times, because blocks or rows do not share it.
//!
//! redundancy = bytes loaded / distinct bytes touched; gain = 1 / (1 - cost of the loads * (1 - 1 / redundancy))

use super::{Found, MIN_GAIN, Rule, contradicts, modelled, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::finding::EvidenceSource;
use crate::domain::profile::Cause;

pub(super) const RULE: Rule = Rule {
    name: "redundant-loads",
    mechanism: "every block loads data that other blocks have loaded already, so the caches deliver it again and again",
    kernel_change: "let one block compute more outputs from what it loads, or share loads in a cluster of blocks",
    find,
};

/// Redundancy from which loads count. A tiled kernel loads its keys once for each tile of queries.
pub(super) const REDUNDANCY: f64 = 4.0;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let redundancy = launch.redundancy()?;
    let loads = 1.0 - 1.0 / subject.gain_without(Cause::GlobalLoads)?;
    let gain = subject.gain_of_share(loads * (1.0 - 1.0 / redundancy));
    if redundancy < REDUNDANCY || gain < MIN_GAIN {
        return None;
    }
    let (touched, l2) = (launch.footprint_bytes as f64, subject.device.l2_bytes as f64);
    let mut evidence = vec![
        supports(
            EvidenceSource::VirtualCounters,
            format!(
                "`{}` loads {} of {} distinct bytes, each {redundancy:.0} times",
                launch.kernel,
                bytes(launch.global_load_bytes as f64),
                bytes(touched)
            ),
        ),
        super::without("any load from global memory", subject.gain_without(Cause::GlobalLoads)?),
    ];
    let l2_text = format!("the data takes {} of the {} of L2", bytes(touched), bytes(l2));
    evidence.push(match touched > l2 {
        true => supports(EvidenceSource::Launch, format!("{l2_text}, so repeated loads come from memory")),
        false => contradicts(EvidenceSource::Launch, format!("{l2_text}, so repeated loads come from L2")),
    });
    Some(Found {
        cause: format!("each byte is loaded from global memory {redundancy:.0} times"),
        evidence,
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}

/// Writes a number of bytes with three digits.
pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} kB", bytes / 1e3),
    }
}
