//! The time of a kernel without each kind of instruction.

use serde::Serialize;

use crate::domain::ablation::Removed;
use crate::domain::ids::{CaseName, IterationId};

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

/// How much longer another kernel takes than a winner, in parts that add up. Each part is a difference of times that
/// ablations measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AblatedLead {
    /// The case.
    pub case: CaseName,
    /// The winner's family.
    pub family: String,
    /// The iteration of the other kernel.
    pub over: IterationId,
    /// Its family.
    pub over_family: String,
    /// Whether it is the initial kernel of the case.
    pub over_first: bool,
    /// Whether it is the committed winner that the session began with on the case.
    pub over_committed: bool,
    /// Its time over the winner's, both with all instructions.
    pub factor: f64,
    /// How much longer it takes.
    pub lead_us: f64,
    /// How much longer its launch takes, without any work; below 0 if it is shorter.
    pub launch_us: f64,
    /// How much longer all kinds of instructions take together that can be removed.
    pub kinds_us: f64,
    /// How much longer waits for asynchronous work take, once all kinds are removed. Null if that is not known, or if neither
    /// kernel has any that can be removed: the rest has what there is.
    pub waits_us: Option<f64>,
    /// How much longer the rest takes: conversions, addresses, loops, and the synchronisation that stays.
    pub other_us: f64,
    /// The kind on which it spends most longer. Null if it spends longer on none.
    pub largest: Option<Longer>,
}

/// A lead of a winner that is large enough to be divided into its parts, but was not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Undivided {
    /// The case.
    pub case: CaseName,
    /// The family of the other kernel.
    pub over_family: String,
    /// Whether that is the committed winner that the session began with. Otherwise, it is the next best family's.
    pub over_committed: bool,
    /// Its time over the winner's.
    pub factor: f64,
    /// The same of the times beside the ablations of both. Null if one of them was not ablated.
    pub ablated_factor: Option<f64>,
}

/// How much longer a kernel takes for a kind of instruction. Kinds hide each other, so these times do not add up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Longer {
    /// The kind of instruction.
    pub removed: Removed,
    /// How much longer, in microseconds.
    pub us: f64,
}
