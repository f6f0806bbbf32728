//! Ablations: the time of a kernel without one kind of instruction.
//!
//! The output of such a kernel is wrong, so it can win nothing. How much faster it is shows how much of the kernel's time
//! that kind of instruction costs.

use serde::{Deserialize, Serialize};

use crate::domain::ids::{CaseName, IterationId};

/// What an ablated kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removed {
    /// Nothing: the control, compiled in the same way.
    Nothing,
    /// All work: each block ends at once. What is left is the launch and its blocks.
    Work,
    /// Products on tensor cores. Their operands are still loaded.
    TensorProducts,
    /// Exponentials, logarithms, reciprocals, roots and trigonometric functions.
    SpecialFunctions,
    /// Additions, multiplications, minima and maxima of floating-point numbers outside tensor cores.
    Arithmetic,
    /// Loads from global memory, asynchronous copies included.
    GlobalLoads,
    /// Stores to global memory.
    GlobalStores,
    /// Loads from shared memory into registers.
    SharedLoads,
    /// Shuffles between the lanes of a warp.
    Shuffles,
    /// Block barriers.
    Barriers,
    /// All kinds above but work. What is left are conversions, addresses, loops and synchronisation.
    AllKinds,
    /// The same, and the synchronisation of asynchronous copies and of tensor cores, which then have nothing to do. What is left
    /// are conversions, addresses and loops.
    AllKindsAndWaits,
}

impl Removed {
    /// All of them. The control comes first.
    pub const ALL: [Self; 12] = [
        Self::Nothing,
        Self::Work,
        Self::GlobalLoads,
        Self::SharedLoads,
        Self::TensorProducts,
        Self::SpecialFunctions,
        Self::Arithmetic,
        Self::Barriers,
        Self::Shuffles,
        Self::GlobalStores,
        Self::AllKinds,
        Self::AllKindsAndWaits,
    ];

    /// Kinds of instructions.
    pub const KINDS: [Self; 8] = [
        Self::GlobalLoads,
        Self::SharedLoads,
        Self::TensorProducts,
        Self::SpecialFunctions,
        Self::Arithmetic,
        Self::Barriers,
        Self::Shuffles,
        Self::GlobalStores,
    ];

    /// Returns the name in the store and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Work => "work",
            Self::TensorProducts => "tensor_products",
            Self::SpecialFunctions => "special_functions",
            Self::Arithmetic => "arithmetic",
            Self::GlobalLoads => "global_loads",
            Self::GlobalStores => "global_stores",
            Self::SharedLoads => "shared_loads",
            Self::Shuffles => "shuffles",
            Self::Barriers => "barriers",
            Self::AllKinds => "all_kinds",
            Self::AllKindsAndWaits => "all_kinds_and_waits",
        }
    }

    /// Returns what has a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|removed| removed.name() == name)
    }

    /// Returns the words that reports use.
    pub fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Work => "all work",
            Self::TensorProducts => "products on tensor cores",
            Self::SpecialFunctions => "exponentials and other special functions",
            Self::Arithmetic => "other floating-point arithmetic",
            Self::GlobalLoads => "loads from global memory",
            Self::GlobalStores => "stores to global memory",
            Self::SharedLoads => "loads from shared memory",
            Self::Shuffles => "shuffles between lanes",
            Self::Barriers => "block barriers",
            Self::AllKinds => "all of these",
            Self::AllKindsAndWaits => "all of these and waits for asynchronous work",
        }
    }
}

/// The time of a kernel without one kind of instruction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// What it lacks.
    pub removed: Removed,
    /// How many instructions of this kind its code had, and lacks.
    pub places: u32,
    /// How many of the missing ones decide branches, so that the kernel may have taken another path.
    pub diverting: u32,
    /// How many it keeps, because they decide addresses, loops or synchronisation.
    pub kept: u32,
    /// Its median time in nanoseconds, or why there is none.
    pub time_ns: Result<f64, String>,
    /// The lines of the source from which the missing instructions come: those timed alone first, the most time saved first, then
    /// the others, the most places first. For [`Removed::AllKindsAndWaits`], the lines of the waits. Empty if they are not known.
    #[serde(default)]
    pub lines: Vec<SourceLine>,
}

/// A line of a kernel's source from which instructions of one kind come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceLine {
    /// Its number in the rendered source, from 1.
    pub line: u32,
    /// Its text without a comment at its end, shortened to 80 characters.
    pub text: String,
    /// How many of the missing instructions come from it.
    pub places: u32,
    /// The kernel's median time in nanoseconds without these instructions only. None if that was not timed.
    pub time_ns: Option<f64>,
}

impl Ablation {
    /// Makes the control of a kernel with a time in nanoseconds, or with the reason why it is not ablated.
    pub fn of_control(time_ns: Result<f64, String>) -> Self {
        Self { removed: Removed::Nothing, places: 0, diverting: 0, kept: 0, time_ns, lines: Vec::new() }
    }
}

/// The ablations of a variant on a case. They were timed one right after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Ablated {
    /// The iteration that measured the variant.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
    /// The ablations, the control first. If the control has no time, there are no others.
    pub ablations: Vec<Ablation>,
    /// The wall time that they took, in seconds.
    pub wall_s: f64,
}

/// Returns the time of the control in nanoseconds.
pub fn control_ns(ablations: &[Ablation]) -> Option<f64> {
    time_ns(ablations, Removed::Nothing)
}

/// Returns the time of the kernel without one kind of instruction, in nanoseconds.
pub fn time_ns(ablations: &[Ablation], removed: Removed) -> Option<f64> {
    ablations.iter().find(|ablation| ablation.removed == removed)?.time_ns.as_ref().ok().copied()
}
