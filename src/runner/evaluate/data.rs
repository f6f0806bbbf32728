//! What a problem is given and what must come out.

use crate::domain::op::Role;
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
}

impl Data {
    /// Draws the inputs of a seed and computes what must come out, the slow part: at most `oracle_flop` in float64.
    pub fn new(problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Self {
        let (values, inputs) = draw(problem, seed);
        let Problem { op, dims, dtype } = *problem;
        Self { inputs, expectation: Expectation::new(op, dims, dtype, &values, oracle_flop, seed) }
    }
}

/// Draws the inputs of a seed, as values and as bytes.
pub fn draw(problem: &Problem<'_>, seed: u64) -> (Vec<Vec<f32>>, Inputs) {
    let tensors = problem.tensors().into_iter().filter(|tensor| tensor.role == Role::Input);
    let drawn = tensors.map(|tensor| {
        let values = inputs::normal(&tensor, seed);
        let bytes = inputs::encode(&values, tensor.dtype);
        (values, (tensor.name, bytes))
    });
    drawn.unzip()
}
