//! The checks that distinguish a correct kernel from one that only looks correct.

use serde::{Deserialize, Serialize};

/// The check that caught a variant with a wrong output, or one that broke a rule of the evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Every element of the output is written over the poison that the buffer held before.
    Written,
    /// Every element of the output is finite.
    Finite,
    /// The output is near the float64 oracle, over all and in its worst row.
    Accuracy,
    /// A launch leaves the inputs unchanged.
    Inputs,
    /// A launch leaves the memory around every buffer unchanged.
    GuardRegions,
    /// The same inputs give the same bytes.
    Repeatable,
    /// The outputs of timed executions are correct.
    Timed,
    /// After timing, other contents in the same memory give their own correct output.
    HeldOutInputs,
    /// New contents take no longer than the timed ones.
    Memoization,
    /// The output is correct on inputs unlike ordinary random ones: needles, other scales, equal rows.
    Probe,
    /// The output is correct on shapes that are not in the workload.
    Hidden,
    /// On a virtual GPU, the kernel has no race, reads nothing uninitialised, and is correct in every order of blocks.
    Sanitizer,
    /// The machine code computes what the PTX says: a wrong result on the GPU is wrong on the virtual GPU, too.
    MachineCode,
    /// No time is below the floor.
    Floor,
}

impl Check {
    /// Every check: those of every variant, those of a winner, the two on a virtual GPU, and the floor.
    pub const ALL: [Self; 14] = [
        Self::Written,
        Self::Finite,
        Self::Accuracy,
        Self::Inputs,
        Self::GuardRegions,
        Self::Repeatable,
        Self::Timed,
        Self::HeldOutInputs,
        Self::Probe,
        Self::Hidden,
        Self::Memoization,
        Self::Sanitizer,
        Self::MachineCode,
        Self::Floor,
    ];

    /// Returns the name that the store, reports and the JSON contract use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Finite => "finite",
            Self::Accuracy => "accuracy",
            Self::Inputs => "inputs",
            Self::GuardRegions => "guard_regions",
            Self::Repeatable => "repeatable",
            Self::Timed => "timed",
            Self::HeldOutInputs => "held_out_inputs",
            Self::Memoization => "memoization",
            Self::Probe => "probe",
            Self::Hidden => "hidden",
            Self::Sanitizer => "sanitizer",
            Self::MachineCode => "machine_code",
            Self::Floor => "floor",
        }
    }
}
