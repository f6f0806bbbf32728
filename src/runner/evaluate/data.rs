//! What a problem is given and what must come out.

use crate::domain::op::{Role, TensorSpec};
use crate::runner::device::Problem;
use crate::runner::inputs;
use crate::runner::validate::Expectation;

/// The bytes of every input, by the tensor's name.
pub type Inputs = Vec<(String, Vec<u8>)>;

/// Inputs with what must come out of them.
pub struct Data {
    /// What to upload.
    pub inputs: Inputs,
    /// What to expect.
    pub expectation: Expectation,
    /// Where they come from, and where is looked.
    pub seed: u64,
}

impl Data {
    /// Draws the inputs of a seed and computes what must come out, the slow part: at most `oracle_flop` in float64.
    pub fn new(problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Self {
        Self::of(problem, &draw(problem, seed), oracle_flop, seed)
    }

    /// Computes what must come out of given values.
    pub fn of(problem: &Problem<'_>, values: &[Vec<f32>], oracle_flop: f64, seed: u64) -> Self {
        let Problem { op, dims, dtype } = *problem;
        let expectation = Expectation::new(op, dims, dtype, values, oracle_flop, seed);
        Self { inputs: encode(problem, values), expectation, seed }
    }
}

/// Draws the values of every input of a seed.
pub fn draw(problem: &Problem<'_>, seed: u64) -> Vec<Vec<f32>> {
    input_tensors(problem).map(|tensor| inputs::normal(&tensor, seed)).collect()
}

/// Encodes the values of every input, in the order of the tensors.
pub fn encode(problem: &Problem<'_>, values: &[Vec<f32>]) -> Inputs {
    let tensors = input_tensors(problem).zip(values);
    tensors.map(|(tensor, values)| (tensor.name, inputs::encode(values, tensor.dtype))).collect()
}

/// Returns the input tensors.
pub fn input_tensors(problem: &Problem<'_>) -> impl Iterator<Item = TensorSpec> {
    problem.tensors().into_iter().filter(|tensor| tensor.role == Role::Input)
}
