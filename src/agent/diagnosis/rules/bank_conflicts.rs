//! Lanes of a warp that access the same bank of shared memory at different addresses.
//!
//! excess = wavefronts / wavefronts of a perfect layout; gain = modelled time / modelled time without the excess

use super::{Found, MIN_GAIN, Rule, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;
use crate::domain::proposal::finding::{Confidence, Evidence, EvidenceSource};

pub(super) const RULE: Rule = Rule {
    name: "bank-conflicts",
    mechanism: "shared memory serves one address of a bank at a time, so a warp's access takes several wavefronts",
    kernel_change: |_| "pad or swizzle its rows in shared memory, so that a warp's addresses fall into different banks",
    find,
};

/// Excess from which conflicts count. Even the best kernels have less than this, such as from half-empty last tiles.
pub(super) const EXCESS: f64 = 1.5;

/// The share of wavefronts that the hardware has to count as conflicts to confirm the finding.
const MIN_SHARE: f64 = 0.1;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let excess = launch.shared.excess()?;
    let gain = subject.gain_without_excess(Cause::BankConflicts, "shared", excess);
    if excess < EXCESS || gain < MIN_GAIN {
        return None;
    }
    let counted =
        format!("{} takes {excess:.1} times as many wavefronts of shared memory as its data needs", launch.kernel);
    let mut evidence = vec![supports(EvidenceSource::VirtualCounters, counted), without("bank conflicts", gain)];
    let hardware = subject.counted().and_then(|counted| Some((counted.shared_conflicts?, counted.shared_wavefronts?)));
    let measured = hardware.filter(|(_, all)| *all > 0.0).map(|(conflicts, all)| conflicts / all);
    evidence.extend(measured.map(|share| {
        let text = format!("the GPU counts {:.0}% of the wavefronts as conflicts", 100.0 * share);
        Evidence { source: EvidenceSource::HardwareCounters, supports: share >= MIN_SHARE, text }
    }));
    Some(Found {
        cause: format!("accesses to shared memory take {excess:.1} times as many wavefronts as needed"),
        evidence,
        confidence: match measured {
            Some(share) if share >= MIN_SHARE => Confidence::High,
            Some(_) => Confidence::Low,
            None => modelled(subject),
        },
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
