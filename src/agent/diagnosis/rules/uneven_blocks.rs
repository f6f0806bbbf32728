//! Blocks of very different length, such as those of a causal mask.
//!
//! gain = modelled time / modelled time if the longest block took as long as the average one

use super::{Found, MIN_GAIN, Rule, modelled, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;

pub(super) const RULE: Rule = Rule {
    name: "uneven-blocks",
    mechanism: "the last multiprocessor still works on a long block when the others have nothing left",
    kernel_change: |_| "split the longest pieces of work, or give each block a long and a short one",
    find,
};

fn find(subject: &Subject<'_>) -> Option<Found> {
    let gain = subject.gain_without(Cause::UnevenBlocks)?;
    // Blocks that take their work from a counter are modelled wrongly: those of the sample do the work of all.
    let takes_work = subject.longest().is_some_and(|launch| launch.atomics > 0);
    if takes_work || gain < MIN_GAIN {
        return None;
    }
    Some(Found {
        cause: format!(
            "some blocks have more work than others, which costs {:.0}% of the modelled time",
            100.0 * (1.0 - 1.0 / gain)
        ),
        evidence: vec![without("the difference between the blocks", gain)],
        confidence: modelled(subject),
        gain,
        remedies: remedy::by_manifest(subject, RULE.name),
    })
}
