//! Warps that wait for instructions and constants to be fetched. Code that runs once cannot repay the misses.
//!
//! gain = 1 / (1 - share of both states among all samples)
//!
//! The states are `no_instructions` and `imc_miss` of Nsight Compute (Kernel Profiling Guide, "Warp Scheduler States"): the next
//! instruction is not in the instruction cache, and a constant, such as a parameter of the kernel, is not in the cache of
//! immediate constants.

use super::{Found, Rule, supports};
use crate::agent::diagnosis::subject::Subject;
use crate::domain::finding::{Confidence, EvidenceSource};

pub(super) const RULE: Rule = Rule {
    name: "instruction-fetch",
    mechanism: "an instruction or a constant that no cache near the scheduler holds takes hundreds of cycles to arrive",
    kernel_change: "have less code that runs once: unroll less, and read each parameter once, before its work begins",
    find,
};

/// The share of both states from which they are a cause.
const SHARE: f64 = 0.1;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let counted = subject.counted()?;
    let [instructions, constants] = ["no_instructions", "imc_miss"].map(|state| counted.share_in(state));
    let share = instructions + constants;
    if share < SHARE {
        return None;
    }
    let sampled = format!(
        "{:.0}% of the samples of warps of `{}` wait for an instruction, and {:.0}% for a constant",
        100.0 * instructions,
        counted.kernel,
        100.0 * constants
    );
    Some(Found {
        cause: format!("warps wait for instructions and constants for {:.0}% of their time", 100.0 * share),
        evidence: vec![supports(EvidenceSource::HardwareCounters, sampled)],
        confidence: Confidence::Medium,
        gain: subject.gain_of_share(share),
        remedies: Vec::new(),
    })
}
