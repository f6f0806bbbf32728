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
}

/// A lead of a winner over another kernel, when both lack one kind of instruction.
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
    /// Its time over the winner's, both with all instructions.
    pub factor: f64,
    /// How much longer it takes.
    pub lead_us: f64,
    /// The kind of instruction on which it spends as much longer; `work` for the launch, `all_kinds` for several that hide
    /// each other. Null for other instructions, which cannot be removed. Where nothing explains the lead, the kind with the
    /// largest share.
    pub removed: Option<Removed>,
    /// How much of the lead that is.
    pub share: Option<f64>,
    /// Whether it is most of the lead: two thirds to four thirds.
    pub explained: bool,
}
