//! More instructions for each element of the output than the op needs: its arithmetic, and loads and stores of 16 bytes.
//!
//! gain = 1 / (1 - share of issue in the time * (1 - needed / issued))
//!
//! Products on tensor cores have no such count, so kernels with them have no finding.

use super::{Found, MIN_GAIN, Rule, modelled, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::proposal::finding::{Confidence, EvidenceSource};

pub(super) const RULE: Rule = Rule {
    name: "excess-instructions",
    mechanism: "a scheduler issues one instruction a clock, so what computes nothing keeps up what does",
    kernel_change: |_| "work on several elements in each thread, and take out of the loop what they have in common",
    find,
};

/// Instructions over those that the op needs, from which they count.
const EXCESS: f64 = 4.0;

/// Bytes of the widest load or store.
const WIDEST: f64 = 16.0;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launch = subject.longest().filter(|launch| launch.issue_slots > 0 && launch.flop_tensor == 0)?;
    let (dims, dtype) = (&subject.case.dims, subject.workload.dtype);
    let grid = launch.blocks as f64 / launch.executed_blocks.max(1) as f64;
    let elements = subject.outputs(dims).max(1.0);
    let issued = 32.0 * launch.issue_slots as f64 * grid / elements;
    // A fused multiply-add is two operations.
    let needed = (subject.flop(dims) / 2.0 + subject.workload.op.bytes(dims, dtype) / WIDEST) / elements;
    let gain = subject.gain_of_share(subject.part("issue")? * (1.0 - needed / issued));
    if issued < EXCESS * needed || gain < MIN_GAIN {
        return None;
    }
    let text = format!("the op needs {needed:.1} for its arithmetic, and for loads and stores of 16 bytes");
    Some(Found {
        cause: format!("{} executes {issued:.0} instructions for each element of the output", launch.kernel),
        evidence: vec![supports(EvidenceSource::VirtualCounters, text)],
        // It says that there are too many, and not which.
        confidence: modelled(subject).min(Confidence::Medium),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
