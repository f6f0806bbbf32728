//! The winner of a case against another kernel, with all that was measured about the difference.

use serde::Serialize;

use super::Ratio;
use crate::domain::code::ablation::Removed;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::proposal::origin::Change;

/// The winner of a case against another kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lead {
    /// The other kernel.
    pub over: Over,
    /// The case.
    pub case: CaseName,
    /// The other kernel's time over the winner's: above 1, the winner is faster. Null if the two may not be compared.
    pub ratio: Option<Ratio>,
    /// What is known of the difference.
    pub evidence: LeadEvidence,
}

/// A kernel that a winner is compared with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Over {
    /// What it is.
    pub kind: OverKind,
    /// Its family, or the name of the baseline.
    pub name: String,
    /// The iteration that measured it. Null for a baseline.
    pub iteration: Option<IterationId>,
    /// Its time.
    pub us: f64,
    /// Correct configurations of its family that the session timed on the case. Null for a baseline.
    pub configurations: Option<u64>,
}

/// What a winner is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OverKind {
    /// The first correct variant, where the session began with it.
    FirstVariant,
    /// The committed winner that the session began with.
    CommittedWinner,
    /// The fastest variant of another family.
    Family,
    /// The fastest baseline.
    Baseline,
}

/// What is known of the difference between two kernels.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LeadEvidence {
    /// The parameters that the winner changes. Empty if the families differ.
    pub changes: Vec<Change>,
    /// Blocks of the largest launch of the other kernel and of the winner.
    pub blocks: Option<[u64; 2]>,
    /// The rule of the first cause of lost time in the other kernel that no experiment refutes. Null without a diagnosis.
    pub cause: Option<&'static str>,
    /// Whether no rule finds that cause in the winner. Null without a cause.
    pub is_gone: Option<bool>,
    /// The difference in parts that add up, measured by ablation.
    pub ablation: Option<Parts>,
    /// Where the cycles of both go, by hardware counters. Null where the counters do not show the lead.
    pub cycles: Option<Cycles>,
    /// What a virtual GPU counted for both. Null where that explains less than half of the lead.
    pub counts: Option<Counts>,
}

/// How much longer another kernel takes than the winner, in parts that add up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parts {
    /// How much longer it takes, both with all instructions.
    pub lead_us: f64,
    /// How much longer its launch takes, without any work; below 0 if it is shorter.
    pub launch_us: f64,
    /// How much longer all kinds of instructions take together that can be removed.
    pub kinds_us: f64,
    /// How much longer waits for asynchronous work take, once all kinds are removed. Null if that is not known, or if
    /// neither kernel has any.
    pub waits_us: Option<f64>,
    /// How much longer the rest takes.
    pub other_us: f64,
    /// The kind on which it spends most longer. It is no part of the sum. Null if it spends longer on none.
    pub largest: Option<Longer>,
}

/// How much longer another kernel takes for a kind of instruction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Longer {
    /// The kind of instruction.
    pub removed: Removed,
    /// How much longer, in microseconds.
    pub us: f64,
}

/// Where the cycles of two kernels go, by hardware counters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cycles {
    /// The name of the other kernel, or of its longest one.
    pub kernel: String,
    /// Cycles of all launches, of the other kernel and of the winner.
    pub cycles: [f64; 2],
    /// What those cycles went to, the part first in which the two differ most. The parts add up to the cycles.
    pub parts: Vec<CyclePart>,
    /// Instructions that the warps of both executed. Null where they were not counted.
    pub instructions: Option<[f64; 2]>,
    /// Bytes between the SMs and L2. Null where they were not counted.
    pub l2_bytes: Option<[f64; 2]>,
    /// Whether waits for products of warpgroups are part of `pipes`. Otherwise they are part of `barriers`.
    pub products_apart: bool,
}

/// What a part of the cycles of two kernels went to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CyclePart {
    /// `issue`, `barriers`, `data`, `shared_memory`, `pipes`, `instructions`, `launch` or `other`.
    pub part: &'static str,
    /// Cycles of the other kernel.
    pub other: f64,
    /// Cycles of the winner.
    pub winner: f64,
}

impl CyclePart {
    /// Returns by how many cycles the other kernel spends more on it.
    pub fn more(&self) -> f64 {
        self.other - self.winner
    }
}

/// What a virtual GPU counted for two kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counts {
    /// The ratio of the two times that the model derives from the counts.
    pub modelled_ratio: f64,
    /// The counts, for the whole grid.
    pub counts: Vec<Count>,
}

/// One count of two kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Count {
    /// `warp_instructions`, `shared_wavefronts`, `global_load_bytes`, `chain_ns` (the modelled time of the longest chain
    /// of dependent instructions), `tensor_share` (of the floating-point operations), `blocks` or `launches`.
    pub name: &'static str,
    /// Of the other kernel.
    pub other: f64,
    /// Of the winner.
    pub winner: f64,
}

impl Count {
    /// Returns how many times smaller the count is for the winner. None if there was nothing, or if nothing is left.
    pub fn factor(&self) -> Option<f64> {
        (self.other > 0.0 && self.winner > 0.0).then(|| self.other / self.winner)
    }
}
