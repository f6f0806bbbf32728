//! Values that do not fit registers and go to local memory: spills, and arrays that are indexed by variables.
//!
//! gain = modelled time / modelled time without spills and local memory

use super::{Found, Rule, contradicts, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;
use crate::domain::proposal::finding::EvidenceSource;

pub(super) const RULE: Rule = Rule {
    name: "spills",
    mechanism: "a spilled value costs a store and a load through L1 instead of a register",
    kernel_change: |_| "keep fewer values alive: smaller tiles, or parts of the accumulators in shared memory",
    find,
};

fn find(subject: &Subject<'_>) -> Option<Found> {
    let resources = subject.resources();
    let spilled = resources.map_or(0, |kernel| kernel.spill_store_bytes + kernel.spill_load_bytes);
    let local = subject.longest().map_or(0, |launch| launch.local.moved);
    if spilled == 0 && local == 0 {
        return None;
    }
    let mut evidence = Vec::new();
    if let Some(kernel) = resources.filter(|_| spilled > 0) {
        evidence.push(supports(
            EvidenceSource::Compiler,
            format!(
                "{} uses {} registers a thread, and spills {} bytes of stores and {} of loads",
                kernel.name, kernel.registers, kernel.spill_store_bytes, kernel.spill_load_bytes
            ),
        ));
    }
    if let Some(launch) = subject.longest().filter(|launch| launch.local.moved > 0) {
        let each = launch.local.moved as f64 / launch.warp_instructions as f64;
        let text = format!("{} moves {each:.2} sectors of local memory per instruction", launch.kernel);
        evidence.push(supports(EvidenceSource::VirtualCounters, text));
    }
    let gain = subject.gain_without(Cause::Spills);
    evidence.push(match gain {
        Some(gain) if gain >= super::MIN_GAIN => without("local memory", gain),
        Some(_) => {
            contradicts(EvidenceSource::VirtualCounters, "without it, the modelled time would be the same".to_owned())
        }
        None => contradicts(EvidenceSource::Compiler, "how often they are executed is not known".to_owned()),
    });
    Some(Found {
        cause: match spilled {
            0 => "values live in local memory: arrays that are indexed by variables or too large for registers"
                .to_owned(),
            _ => format!("registers run out: {spilled} bytes of a thread's values are spilled to local memory"),
        },
        evidence,
        confidence: modelled(subject),
        gain: gain.unwrap_or(1.0),
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
