//! Causes of lost time that a virtual GPU can suppose away, and the times without them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A cause of lost time. The time *without* it is modelled for the same instructions of the same blocks under one
/// supposition. docs/model.md lists what the suppositions cannot show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Supposes that every access to shared memory takes its ideal number of wavefronts.
    BankConflicts,
    /// Supposes that every access to global memory takes its ideal number of sectors, in as few lines.
    ScatteredAccess,
    /// Supposes that every load from global memory hits L1, and that no sector of these loads comes from L2.
    CacheMisses,
    /// Supposes that loads from global memory take no time. So do `cp.async` and bulk copies. What is left are the
    /// products without their loads.
    GlobalLoads,
    /// Supposes that loads and stores of shared memory take no time.
    SharedAccess,
    /// Supposes that floating-point additions and multiplications take no time, those of tensor cores included. What is
    /// left are the loads without their products.
    Products,
    /// Supposes that special functions take no time: `ex2`, `lg2`, `rcp`, `rsqrt`, `sqrt`, `sin`, `cos`, `tanh`.
    Exponentials,
    /// Supposes that a warp never waits for another at a block barrier.
    Barriers,
    /// Supposes that no register is spilled and that accesses to local memory take no time.
    Spills,
    /// Supposes that a block's work is spread evenly over its warps, so that none waits for a busier one.
    IdleWarps,
    /// Supposes that the longest block takes as long as the average one.
    UnevenBlocks,
    /// Supposes that the last wave of blocks is full: the blocks are spread evenly over the multiprocessors.
    PartialWave,
    /// Supposes that a launch has no overhead.
    Launch,
}

impl Cause {
    /// All causes, in the order of their declaration.
    pub const ALL: [Self; 13] = [
        Self::BankConflicts,
        Self::ScatteredAccess,
        Self::CacheMisses,
        Self::GlobalLoads,
        Self::SharedAccess,
        Self::Products,
        Self::Exponentials,
        Self::Barriers,
        Self::Spills,
        Self::IdleWarps,
        Self::UnevenBlocks,
        Self::PartialWave,
        Self::Launch,
    ];

    /// Returns its name in records, such as `bank_conflicts`.
    pub fn name(self) -> &'static str {
        match self {
            Self::BankConflicts => "bank_conflicts",
            Self::ScatteredAccess => "scattered_access",
            Self::CacheMisses => "cache_misses",
            Self::GlobalLoads => "global_loads",
            Self::SharedAccess => "shared_access",
            Self::Products => "products",
            Self::Exponentials => "exponentials",
            Self::Barriers => "barriers",
            Self::Spills => "spills",
            Self::IdleWarps => "idle_warps",
            Self::UnevenBlocks => "uneven_blocks",
            Self::PartialWave => "partial_wave",
            Self::Launch => "launch",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The modelled time of a launch without one cause of lost time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Without {
    /// What is supposed away.
    pub cause: Cause,
    /// The modelled time without it, in nanoseconds.
    pub ns: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_has_the_same_name_in_json() {
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
        }
    }
}
