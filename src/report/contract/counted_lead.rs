//! What hardware counters tell of a winner and of a slower or faster kernel of its case, as the contract gives it.

use serde::Serialize;

use crate::domain::ids::CaseName;

/// A winner and another kernel of its case, whose hardware counters were both read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedLead {
    /// The case.
    pub case: CaseName,
    /// The winner's family.
    pub winner: String,
    /// What the other kernel is: the fastest `baseline`, the `committed_winner` that the session began with, or a variant of
    /// another `family`.
    pub over: &'static str,
    /// The name of the baseline, or the family of the variant.
    pub other: String,
    /// The name of its kernel, or of the one that takes longest.
    pub kernel: String,
    /// The other kernel's time over the winner's, as the tables of cases and families have it.
    pub ratio: f64,
    /// By how much the other kernel takes longer, in microseconds. Below 0 if it is faster.
    pub more_us: f64,
    /// The same by the cycles of both while they were profiled. Waits for instructions and the time outside of the busiest SM's work
    /// are left out, because the profiler adds to both.
    pub profiled_more_us: f64,
    /// Cycles of all launches, of the other kernel and of the winner.
    pub cycles: [f64; 2],
    /// What those cycles went to, the part first in which the two differ most. The parts add up to the cycles.
    pub parts: Vec<CyclePart>,
    /// Instructions that the warps of both executed. Null where they were not counted.
    pub instructions: Option<[f64; 2]>,
    /// Bytes between the SMs and L2. Null where they were not counted.
    pub l2_bytes: Option<[f64; 2]>,
    /// SMs that have blocks of the largest launch of both. Null where the blocks of one are not known, as those of variants.
    pub busy_sms: Option<[u64; 2]>,
    /// Blocks of the largest launch of both. Null where those of one are not known, as those of variants.
    pub blocks: Option<[u64; 2]>,
    /// The same for each combination of the dimensions along which entries are independent of each other. Null where there is one
    /// combination, or where they do not divide the blocks of both.
    pub blocks_each: Option<BlocksEach>,
    /// How many of these blocks an SM has at a time: as many as its resources allow, and no more than there are for each SM. Null
    /// where that is not known.
    pub resident_blocks: Option<[u64; 2]>,
    /// Whether waits for products of warpgroups are part of `pipes`. Otherwise they are part of `barriers`, where `ncu` counts them.
    pub products_apart: bool,
    /// Whether the counters show the lead: the two differences have the same sign and are within a factor of 2.
    pub shown: bool,
}

/// How two kernels divide a problem that is independent of others, such as a head of attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlocksEach {
    /// The dimensions: `B and H`.
    pub dims: String,
    /// Blocks of the other kernel and of the winner.
    pub blocks: [u64; 2],
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
