//! Warps in which few lanes are active, because their branches diverge or because there is no work for them.
//!
//! gain = 1 / (1 - share of the issue slots in the time * (1 - active lanes / 32))

use super::{Found, MIN_GAIN, Rule, contradicts, modelled, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::proposal::finding::EvidenceSource;

pub(super) const RULE: Rule = Rule {
    name: "idle-lanes",
    mechanism: "an instruction costs a warp the same time whether 4 of its lanes are active or 32",
    kernel_change: |_| "assign elements to lanes so that all 32 are active in the inner loop",
    find,
};

/// Active lanes below which a warp counts as poorly filled.
pub(super) const MIN_LANES: f64 = 16.0;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let issue = subject.part("issue").unwrap_or(1.0);
    let gain = subject.gain_of_share(issue * (1.0 - launch.active_lanes / 32.0));
    if launch.active_lanes >= MIN_LANES || gain < MIN_GAIN {
        return None;
    }
    let divergent = 100.0 * launch.divergence();
    let mut evidence = vec![supports(
        EvidenceSource::VirtualCounters,
        format!("{} has {:.1} of 32 lanes active", launch.kernel, launch.active_lanes),
    )];
    let branches = format!("{divergent:.0}% of its branches diverge");
    evidence.push(match divergent >= 10.0 {
        true => supports(EvidenceSource::VirtualCounters, branches),
        false => contradicts(
            EvidenceSource::VirtualCounters,
            format!("{branches}, so it rather lacks work than it diverges"),
        ),
    });
    Some(Found {
        cause: format!("{:.1} of 32 lanes of a warp are active", launch.active_lanes),
        evidence,
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
