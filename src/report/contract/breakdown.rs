//! The time of a kernel without each kind of instruction.

use serde::Serialize;

use crate::domain::code::ablation::Removed;
use crate::domain::ids::IterationId;

/// What the time of a kernel on a case consists of, as ablations show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breakdown {
    /// The iteration that measured the kernel.
    pub iteration: IterationId,
    /// Its family.
    pub family: String,
    /// Its time when nothing is removed. Another compilation of the same PTX than the one in other tables.
    pub us: f64,
    /// Its time without each kind of instruction that it has.
    pub without: Vec<Without>,
}

/// The time of a kernel without one kind of instruction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Without {
    /// What was removed.
    pub removed: Removed,
    /// The time without it. Null if there is none.
    pub us: Option<f64>,
    /// How much less that is, as a share of the whole time; below 0 if it is more. For `work`, what is left: the launch.
    pub share: Option<f64>,
    /// How many instructions were removed.
    pub places: u32,
    /// How many of these decide branches, so that the kernel may have taken another path.
    pub diverting: u32,
    /// How many stay, because they decide addresses, loops or synchronisation.
    pub kept: u32,
    /// Why there is no time. Null if there is one.
    pub problem: Option<String>,
    /// The lines of the source from which these instructions come; of the waits, for `all_kinds_and_waits`. Those timed alone come
    /// first, the largest share first. Empty if they are not known.
    pub lines: Vec<Line>,
}

/// A line of a kernel's source from which removed instructions come.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its number in the rendered source, from 1.
    pub line: u32,
    /// Its text without a comment at its end, shortened to 80 characters.
    pub text: String,
    /// How many of the removed instructions come from it.
    pub places: u32,
    /// How much less the time is without these only, as a share of the whole time. Null if that was not timed.
    pub share: Option<f64>,
}

impl Breakdown {
    /// Returns the share of a kind of instruction in the time, or of the launch for [`Removed::Work`].
    pub fn share(&self, removed: Removed) -> Option<f64> {
        self.without.iter().find(|one| one.removed == removed)?.share
    }

    /// Returns the share of the waits for asynchronous work, once all kinds of instructions are removed. None if the kernel has
    /// none that can be removed, or if that was not measured.
    pub fn waits(&self) -> Option<f64> {
        Some((self.share(Removed::AllKindsAndWaits)? - self.share(Removed::AllKinds)?).max(0.0))
    }
}
