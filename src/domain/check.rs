//! The checks that tell a right kernel from one that looks right.

use serde::{Deserialize, Serialize};

/// What caught a variant that is wrong, or that broke a rule of the evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Every element of the output is written: it holds a poison before.
    Written,
    /// Every element of the output is finite.
    Finite,
    /// The output is near the float64 oracle, over all and in its worst row.
    Accuracy,
    /// The inputs hold after a launch what they held before.
    Inputs,
    /// The memory around every buffer holds after a launch what it held before.
    GuardRegions,
    /// The same inputs give the same bytes.
    Repeatable,
    /// The outputs of timed executions are right.
    Timed,
    /// After timing, other contents in the same memory give their own output.
    HeldOutInputs,
    /// Contents that were never seen take no longer than those that were timed.
    Memoization,
    /// Inputs that ordinary random ones never look like: needles, other scales, equal rows.
    Probe,
    /// Shapes that are not in the workload.
    Hidden,
    /// Nothing that does the work is faster than the floor.
    Floor,
}

impl Check {
    /// Every check: those that every variant meets, those of a winner, and the floor.
    pub const ALL: [Self; 12] = [
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
            Self::Floor => "floor",
        }
    }
}
