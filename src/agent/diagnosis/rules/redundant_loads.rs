//! Data that is loaded from global memory many times, because blocks or rows do not share it.
//!
//! redundancy = bytes loaded / distinct bytes touched; gain = 1 / (1 - cost of the loads * (1 - 1 / redundancy))

use super::{Found, MIN_GAIN, Rule, contradicts, leaves_idle, modelled, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;
use crate::domain::proposal::finding::{Evidence, EvidenceSource};

pub(super) const RULE: Rule = Rule {
    name: "redundant-loads",
    mechanism: "every block loads data that other blocks have loaded already, so the caches deliver it again and again",
    kernel_change,
    find,
};

/// The share of L2's bandwidth below which the bytes that it delivers are not what the kernel waits for.
const BUSY: f64 = 0.5;

/// The first architecture whose blocks can share loads in a cluster.
const CLUSTERS: u32 = 90;

/// Redundancy from which loads count. A tiled kernel loads its keys once for each tile of queries.
pub(super) const REDUNDANCY: f64 = 4.0;

/// Says how blocks share loads. Where larger blocks would leave multiprocessors idle, only a cluster is left.
fn kernel_change(subject: &Subject<'_>) -> &'static str {
    let device = subject.device;
    if leaves_idle(subject.plan.ctas() / 2, device.sms) && device.sm >= CLUSTERS {
        "share loads in a cluster of blocks (with half as many blocks, each of twice the outputs, multiprocessors would be idle)"
    } else {
        "let one block compute more outputs from what it loads, or share loads in a cluster of blocks"
    }
}

/// Tells whether loads that L2 delivers take so much of its bandwidth that fewer bytes would help. None if that was not
/// counted.
pub(super) fn is_l2_busy(subject: &Subject<'_>) -> Option<bool> {
    let rate = subject.l2_bytes_per_s().filter(|rate| *rate > 0.0)?;
    Some(rate >= BUSY * subject.device.peaks.l2_bytes_per_s)
}

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let redundancy = launch.redundancy()?;
    let loads = 1.0 - 1.0 / subject.gain_without(Cause::GlobalLoads)?;
    let gain = subject.gain_of_share(loads * (1.0 - 1.0 / redundancy));
    if redundancy < REDUNDANCY || gain < MIN_GAIN {
        return None;
    }
    let touched = launch.footprint_bytes as f64;
    let mut evidence = vec![
        supports(
            EvidenceSource::VirtualCounters,
            format!(
                "{} loads {} of {} distinct bytes, each {redundancy:.0} times",
                launch.kernel,
                bytes(launch.global_load_bytes as f64),
                bytes(touched)
            ),
        ),
        super::without("any load from global memory", subject.gain_without(Cause::GlobalLoads)?),
    ];
    evidence.push(delivered_by(subject, touched));
    Some(Found {
        cause: format!("each byte is loaded from global memory {redundancy:.0} times"),
        evidence,
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}

/// Says whether memory or L2 delivers what is loaded again, and whether L2 has enough to do with that.
fn delivered_by(subject: &Subject<'_>, touched: f64) -> Evidence {
    let (l2, most) = (subject.device.l2_bytes as f64, subject.device.peaks.l2_bytes_per_s);
    let from = format!("the data takes {} of the {} of L2, so repeated loads come from", bytes(touched), bytes(l2));
    if touched > l2 {
        return supports(EvidenceSource::Launch, format!("{from} memory"));
    }
    let rate = subject.l2_bytes_per_s().unwrap_or_default();
    let rates = format!("{from} L2, which delivers {} of {} a second", bytes(rate), bytes(most));
    match is_l2_busy(subject) {
        None => contradicts(EvidenceSource::Launch, format!("{from} L2")),
        Some(true) => supports(EvidenceSource::VirtualCounters, rates),
        Some(false) => {
            let text = format!("{rates}: that a load waits counts for more than how many bytes are loaded");
            contradicts(EvidenceSource::VirtualCounters, text)
        }
    }
}

/// Writes a number of bytes with three digits.
pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e12 => format!("{:.1} TB", bytes / 1e12),
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} kB", bytes / 1e3),
    }
}
