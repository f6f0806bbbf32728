//! The inputs of a problem and its expected output.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Dims, Dtype, TensorSpec};
use crate::error::Result;
use crate::runner::device::Problem;
use crate::runner::inputs;
use crate::runner::validate::{Expectation, Part};

/// The bytes of every input, with the tensor's name.
pub type Inputs = Vec<(String, Vec<u8>)>;

/// Inputs with their expected output.
pub struct Data {
    /// The inputs to upload.
    pub inputs: Inputs,
    /// The expected output.
    pub expectation: Expectation,
    /// The seed that determines the inputs.
    pub seed: u64,
    /// What the inputs were turned from. None if they were drawn.
    pub turned: Option<Turned>,
}

/// How inputs were made from others.
pub struct Turned {
    /// The seed of the others.
    pub of: u64,
    /// How many bytes at the beginning of each input came to its end. None for one that was drawn anew.
    pub turns: Vec<Option<usize>>,
}

/// Everything that determines the data: equal keys give equal data.
#[derive(Debug, Clone, PartialEq)]
pub struct DataKey {
    op: String,
    dims: Dims,
    dtype: Dtype,
    oracle_flop: f64,
    seed: u64,
}

impl DataKey {
    /// Returns the key of a problem's data.
    pub fn of(problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Self {
        let Problem { op, dims, dtype, .. } = *problem;
        Self { op: op.identity(), dims: dims.clone(), dtype, oracle_flop, seed }
    }
}

impl Data {
    /// Draws the inputs of a seed and computes the expected output. The latter is slow, at most `oracle_flop` in
    /// float64. The error is that of an oracle outside of optloop.
    pub fn new(problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Result<Self> {
        Self::compared_on(Part::All, problem, oracle_flop, seed)
    }

    /// Does the same for a part of the rows.
    pub fn compared_on(part: Part, problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Result<Self> {
        let (Problem { op, dims, dtype, .. }, values) = (*problem, draw(problem, seed));
        let expectation = Expectation::of_part(part, (op, dims, dtype), &values, oracle_flop, seed)?;
        Ok(Self { inputs: encode(problem, &values), expectation, seed, turned: None })
    }

    /// Returns the size of the inputs in bytes.
    pub fn bytes(&self) -> usize {
        self.inputs.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Rotates every input by an amount drawn from the seed. This takes a fraction of the time of drawing new inputs, which
    /// only inputs need that are one whole. One from a file stays as it is. Only a few rows have an expected output.
    pub fn turned(&self, problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Result<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let turn = |(tensor, (name, bytes)): (TensorSpec, &(String, Vec<u8>))| {
            if tensor.values.are_one_whole() {
                return ((name.clone(), inputs::encode(&inputs::draw(&tensor, seed), tensor.dtype)), None);
            }
            let turn = rng.random_range(0..tensor.elements()) * tensor.dtype.bytes();
            let (start, end) = bytes.split_at(turn);
            ((name.clone(), [end, start].concat()), Some(turn))
        };
        let (inputs, turns): (Inputs, _) = input_tensors(problem).zip(&self.inputs).map(turn).unzip();
        let turned = Some(Turned { of: self.seed, turns });
        let tensors = input_tensors(problem).zip(&inputs);
        let values: Vec<Vec<f32>> = tensors.map(|(tensor, (_, bytes))| inputs::decode(bytes, tensor.dtype)).collect();
        let Problem { op, dims, dtype, .. } = *problem;
        let expectation = Expectation::of_part(Part::Few, (op, dims, dtype), &values, oracle_flop, seed)?;
        Ok(Self { inputs, expectation, seed, turned })
    }
}

/// Draws the values of every input from a seed.
pub fn draw(problem: &Problem<'_>, seed: u64) -> Vec<Vec<f32>> {
    input_tensors(problem).map(|tensor| inputs::draw(&tensor, seed)).collect()
}

/// Encodes the values of every input, in the order of the tensors.
pub fn encode(problem: &Problem<'_>, values: &[Vec<f32>]) -> Inputs {
    let tensors = input_tensors(problem).zip(values);
    tensors.map(|(tensor, values)| (tensor.name, inputs::encode(values, tensor.dtype))).collect()
}

/// Encodes the values of every input into bytes of the same problem.
pub fn encode_into(problem: &Problem<'_>, values: &[Vec<f32>], encoded: &mut Inputs) {
    let tensors = input_tensors(problem).zip(values).zip(encoded);
    tensors.for_each(|((tensor, values), (_, bytes))| inputs::encode_into(bytes, values, tensor.dtype));
}

/// Returns the tensors that have values before a launch.
pub fn input_tensors(problem: &Problem<'_>) -> impl Iterator<Item = TensorSpec> {
    problem.inputs().into_iter()
}
