//! Arithmetic of 64-bit integers and divisions, which mostly compute indices.
//!
//! gain = 1 / (1 - share of issue or latency in the time * share of such arithmetic in the instructions)

use super::{Found, MIN_GAIN, Rule, issuing, modelled, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::proposal::finding::EvidenceSource;

pub(super) const RULE: Rule = Rule {
    name: "index-arithmetic",
    mechanism: "a 64-bit integer operation is at least two instructions of the machine, and a 64-bit division some 70",
    kernel_change: |_| "compute indices in 32 bits, and take divisions out of the inner loop or into the grid",
    find,
};

/// The share of the machine instructions from which such arithmetic counts.
pub(super) const MUCH: f64 = 0.3;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let share = launch.index_share()?;
    let gain = subject.gain_of_share(issuing(subject) * share);
    if share < MUCH || gain < MIN_GAIN {
        return None;
    }
    let counted = format!(
        "{} of the {} machine instructions that warps of {} issue",
        launch.index_slots, launch.issue_slots, launch.kernel
    );
    Some(Found {
        cause: format!("{:.0}% of the instructions are 64-bit integer arithmetic and divisions", 100.0 * share),
        evidence: vec![supports(EvidenceSource::VirtualCounters, counted)],
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
