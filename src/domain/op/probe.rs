//! Inputs unlike ordinary random ones.

use std::ops::Range;

use super::dims::Dims;
use super::tensor::TensorSpec;
use crate::domain::dtype::Dtype;

/// Inputs unlike ordinary random ones, made from random ones.
///
/// Its numbers and places are drawn from continuous distributions, and heads or rows get their own. So a kernel cannot
/// tell a probe from ordinary inputs by a sample of them.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Name, for display.
    pub name: &'static str,
    /// How it changes the inputs. The same seed makes the same change.
    pub change: Change,
}

/// Changes the values of all inputs, given constants of the kernel and a seed.
pub type FillAround = fn(&[TensorSpec], &mut [Vec<f32>], &[f32], u64);

/// What a probe changes of the random values of inputs.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// The inputs that may hold any number, in the order of [`Op::tensors`](super::Op::tensors). The result is rounded to the dtype afterwards.
    Numbers(fn(&Dims, Dtype, &mut [Vec<f32>], u64) -> Probed),
    /// The same of an op that has other inputs, too. It gets them all, and leaves the others as they are.
    Among(fn(&Dims, Dtype, &mut [Vec<f32>], u64) -> Probed),
    /// Each input of a kind, by itself.
    Contents {
        /// Whether an input is of the kind.
        is_of: fn(&TensorSpec) -> bool,
        /// Draws its values. Those that it has are random ones.
        fill: fn(&TensorSpec, &mut [f32], u64),
    },
    /// Several inputs by each other's values.
    Together {
        /// Whether there is anything to change.
        is_of: fn(&[TensorSpec]) -> bool,
        /// Changes the values of all inputs, which keep to what they mean.
        fill: fn(&[TensorSpec], &mut [Vec<f32>], u64),
    },
    /// All inputs, with numbers as large as an op can bear.
    Magnitudes {
        /// Whether there is anything to change.
        is_of: fn(&[TensorSpec]) -> bool,
        /// Returns magnitudes as powers of two, the largest first. The last one is used even if the op does not say that it bears
        /// it.
        magnitudes: fn(&[TensorSpec]) -> Vec<f32>,
        /// Changes the values of all inputs, which keep to what they mean.
        fill: fn(&[TensorSpec], &mut [Vec<f32>], f32, u64),
    },
    /// Several inputs, with numbers that a kernel may compare with others: those that are equal, and constants of the kernel.
    Special {
        /// Whether there is anything to change.
        is_of: fn(&[TensorSpec]) -> bool,
        /// Changes the values of all inputs, which keep to what they mean.
        fill: FillAround,
    },
}

impl Change {
    /// Returns whether it changes any of an op's inputs.
    pub fn is_of(&self, inputs: &[TensorSpec]) -> bool {
        match self {
            Self::Numbers(_) | Self::Among(_) => inputs.iter().any(TensorSpec::is_free),
            Self::Contents { is_of, .. } => inputs.iter().any(is_of),
            Self::Together { is_of, .. } | Self::Magnitudes { is_of, .. } | Self::Special { is_of, .. } => {
                is_of(inputs)
            }
        }
    }
}

/// What a probe says about its output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probed {
    /// Output rows that the probe targets. They are always compared with the oracle.
    pub rows: Vec<usize>,
    /// Output rows with NaN or infinity among their inputs. Where the oracle is finite, nothing is specified there.
    pub unspecified: Vec<Range<usize>>,
    /// Whether only finite answers of the oracle specify anything: some inputs are outside of what the op is made for, and the
    /// oracle itself may fail on them.
    pub is_beyond_domain: bool,
    /// Whether whole numbers in the output are unspecified, too: the op may convert NaN to one.
    pub frees_integers: bool,
    /// Whether they are specified only where the oracle gives the same with the largest finite numbers in place of infinite ones: it
    /// compares them, and does not compute with them.
    pub frees_computed_integers: bool,
    /// Whether the inputs lie exactly where the result may jump, so that a deviation is no matter of rounding the inputs.
    pub is_at_jumps: bool,
    /// Whether the inputs are so near to zero that a kernel may lose them beside a one: `exp(x) - 1` is no fault.
    pub is_beside_one: bool,
}
