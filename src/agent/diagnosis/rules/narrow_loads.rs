//! Loads from global memory of a few bytes a lane.
//!
//! gain = 1 / (1 - share of issue or latency in the time * share of loads and index arithmetic in the instructions
//! * (1 - bytes / 16))
//!
//! A wider load takes the place of several loads, and their indices are computed once.

use super::{Found, MIN_GAIN, Rule, issuing, modelled, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::proposal::finding::EvidenceSource;

pub(super) const RULE: Rule = Rule {
    name: "narrow-loads",
    mechanism: "each load costs its instruction and its index arithmetic, whether it brings 2 bytes a lane or 16",
    kernel_change: |_| "load 16 bytes with each instruction, so that a thread works on several adjacent elements",
    find,
};

/// Bytes a lane and instruction up to which loads count as narrow.
pub(super) const NARROW: f64 = 4.0;

/// Bytes of the widest load.
pub(super) const WIDEST: f64 = 16.0;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let bytes = launch.bytes_per_load()?;
    let loads = launch.global_load_requests as f64 / launch.issue_slots.max(1) as f64;
    let share = (loads + launch.index_share()?).min(1.0);
    let gain = subject.gain_of_share(issuing(subject) * share * (1.0 - bytes / WIDEST));
    if bytes > NARROW || gain < MIN_GAIN {
        return None;
    }
    let counted = format!(
        "{:.0}% of the machine instructions of {} are such loads and the arithmetic of their indices",
        100.0 * share,
        launch.kernel
    );
    Some(Found {
        cause: format!("a lane loads {bytes:.1} bytes of global memory with each instruction"),
        evidence: vec![supports(EvidenceSource::VirtualCounters, counted)],
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
