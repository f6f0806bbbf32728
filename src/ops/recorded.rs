//! The op of a recorded search space: its configurations have times, but no kernel that could be checked.

use crate::domain::op::{DimSpec, Dims, Dtype, Op, TensorRole, TensorSpec, Values};
use crate::error::Error;

/// An op without inputs and work, and with one output element. Its floor is the launch of a kernel.
pub struct Recorded;

/// The value of the output element.
const VALUE: f64 = 1.0;

impl Op for Recorded {
    fn name(&self) -> &'static str {
        "recorded"
    }

    fn dims(&self) -> &'static [DimSpec] {
        &[]
    }

    fn tensors(&self, _dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        vec![TensorSpec {
            name: "out".to_owned(),
            dtype,
            shape: vec![1],
            role: TensorRole::Output,
            values: Values::Normal,
        }]
    }

    fn scalars(&self, _dims: &Dims) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn flop(&self, _dims: &Dims) -> f64 {
        0.0
    }

    fn oracle(&self, _dims: &Dims, _inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        Ok(vec![VALUE; rows.len()])
    }
}
