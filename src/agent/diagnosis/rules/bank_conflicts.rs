//! Lanes of a warp that access the same bank of shared memory at different addresses.
//!
//! excess = wavefronts / wavefronts of a perfect layout; gain = modelled time / modelled time without the excess

use super::{Found, LEAST_GAIN, Rule, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::finding::Source;
use crate::domain::profile::Cause;

pub(super) const RULE: Rule = Rule {
    name: "bank-conflicts",
    mechanism: "shared memory serves one address of a bank at a time, so a warp's access takes several wavefronts",
    find,
};

/// Excess from which conflicts count. The best kernels do not avoid the rest, such as half-empty last tiles.
const EXCESS: f64 = 1.5;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest()?;
    let excess = launch.shared.excess()?;
    let gain = subject.gain_without_excess(Cause::BankConflicts, "shared", excess);
    if excess < EXCESS || gain < LEAST_GAIN {
        return None;
    }
    let counted =
        format!("`{}` takes {excess:.1} times as many wavefronts of shared memory as its data needs", launch.kernel);
    let evidence = vec![supports(Source::VirtualCounters, counted), without("bank conflicts", gain)];
    Some(Found {
        cause: format!("accesses to shared memory take {excess:.1} times as many wavefronts as needed"),
        evidence,
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
