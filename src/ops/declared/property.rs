//! Properties that an op has by its nature: oracles for its oracle.
//!
//! A wrong oracle makes every right kernel wrong. So before anything is spent, the oracle is called on changed inputs
//! whose outputs follow from those of the unchanged ones. Kernels are compared with the oracle on inputs of these kinds
//! already, so that they have the properties, too.

use serde::Deserialize;

use super::Declared;
use super::tensor::TensorRule;
use crate::domain::op::{Dims, Dtype, Op, TensorSpec};
use crate::domain::text::names::did_you_mean;
use crate::error::{Error, error};

/// Rows of each output that are compared.
const ROWS: usize = 64;

/// What is added to an input. Sums are rounded to FP32, which costs 6e-8.
const SHIFT: f32 = 0.5;

/// What an input is multiplied by. Products with a power of two are exact.
const FACTOR: f32 = 2.0;

/// The largest relative error (L2): a sum of a million FP32 inputs, which were rounded after the shift, stays far below.
const TOLERANCE: f64 = 1e-4;

/// A property, as `op.toml` has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Property {
    /// Another order of the indices of a dimension gives the same order of the outputs' indices.
    Permutation {
        /// The dimension.
        dim: String,
    },
    /// A number that is added to an input adds a multiple of it to every output.
    Shift {
        /// The input.
        tensor: String,
        /// The multiple.
        adds: f64,
    },
    /// A factor of an input multiplies every output by a power of it.
    Scale {
        /// The input.
        tensor: String,
        /// The power.
        power: i32,
    },
}

impl Property {
    /// Refuses a property that the tensors cannot have.
    pub fn check(&self, dims: &[&str], tensors: &[TensorRule]) -> Result<(), Error> {
        let named = |problem: String| Err(error!("{self}: {problem}"));
        match self {
            Self::Permutation { dim } => {
                if !dims.contains(&dim.as_str()) {
                    let hint = did_you_mean(dim, dims.iter().copied());
                    return named(format!("there is no dimension `{dim}`{hint}"));
                }
                let mut extents =
                    tensors.iter().flat_map(|tensor| tensor.shape.iter().map(move |it| (tensor.name, it)));
                match extents.find(|(_, extent)| extent.text() != dim && extent.names().contains(dim)) {
                    Some((tensor, extent)) => {
                        named(format!("tensor `{tensor}` has it in the extent `{}`", extent.text()))
                    }
                    None => Ok(()),
                }
            }
            Self::Shift { tensor, .. } | Self::Scale { tensor, .. } => {
                let inputs = || tensors.iter().filter(|rule| rule.role.is_read());
                match inputs().find(|rule| rule.name == tensor) {
                    None => {
                        let hint = did_you_mean(tensor, inputs().map(|rule| rule.name));
                        named(format!("there is no input `{tensor}`{hint}"))
                    }
                    Some(rule) if rule.dtype.is_some_and(Dtype::is_integer) => {
                        named(format!("`{tensor}` holds whole numbers"))
                    }
                    Some(_) => Ok(()),
                }
            }
        }
    }
}

impl std::fmt::Display for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Permutation { dim } => write!(f, "property permutation of `{dim}`"),
            Self::Shift { tensor, adds } => write!(f, "property shift of `{tensor}` that adds {adds}"),
            Self::Scale { tensor, power } => write!(f, "property scale of `{tensor}` with power {power}"),
        }
    }
}

impl Declared {
    /// Calls the oracle on changed inputs, and refuses an oracle that lacks a property of the op. The error is one sentence.
    pub fn check_properties(&self, dims: &Dims, dtype: Dtype, inputs: &[Vec<f32>]) -> Result<(), Error> {
        let (given, outputs) = (self.inputs(dims, dtype), self.outputs(dims, dtype));
        let (given, outputs): (Vec<_>, Vec<_>) = (given.iter().collect(), outputs.iter().collect());
        let rows: Vec<usize> = first_rows(&outputs);
        let oracle = |inputs: &[Vec<f32>]| Ok::<_, String>(numbers(&outputs, self.oracle(dims, inputs, &rows)?));
        for property in &self.properties {
            let mut changed = inputs.to_vec();
            let (found, expected) = match property {
                Property::Permutation { dim } => {
                    let size = dims[dim.as_str()] as usize;
                    let order = |rule: &&TensorRule| Order::of(rule, dim, size);
                    let read = self.tensors.iter().filter(|rule| rule.role.is_read());
                    for ((values, rule), tensor) in changed.iter_mut().zip(read).zip(&given) {
                        *values = order(&rule).reordered(values, tensor);
                    }
                    let written = self.tensors.iter().filter(|rule| rule.role.is_written());
                    let orders: Vec<Order> = written.map(|rule| order(&rule)).collect();
                    let expected = self.in_order(dims, inputs, (&outputs, &orders), &rows)?;
                    (oracle(&changed)?, numbers(&outputs, expected))
                }
                Property::Shift { tensor, adds } => {
                    let before = oracle(inputs)?;
                    change(&mut changed, &given, tensor, |value| value + SHIFT);
                    let added = adds * f64::from(SHIFT);
                    (oracle(&changed)?, before.iter().map(|value| value + added).collect())
                }
                Property::Scale { tensor, power } => {
                    let before = oracle(inputs)?;
                    change(&mut changed, &given, tensor, |value| value * FACTOR);
                    let factor = f64::from(FACTOR).powi(*power);
                    (oracle(&changed)?, before.iter().map(|value| value * factor).collect())
                }
            };
            let error = relative_error(&found, &expected);
            if error > TOLERANCE || error.is_nan() {
                let op = &self.name;
                return Err(error!("the oracle of op `{op}` lacks the {property}: its relative error is {error:.1e}"));
            }
        }
        Ok(())
    }

    /// Returns the outputs of unchanged inputs in another order: what the oracle must give for inputs in that order.
    fn in_order(
        &self,
        dims: &Dims,
        inputs: &[Vec<f32>],
        (outputs, orders): (&[&TensorSpec], &[Order]),
        rows: &[usize],
    ) -> Result<Vec<f64>, Error> {
        // The row and the column of each wanted element before the change.
        let mut from: Vec<(usize, usize)> = Vec::new();
        let mut first = 0;
        for (output, order) in outputs.iter().zip(orders) {
            let (count, length) = (output.rows(), output.row_len());
            for row in rows.iter().filter(|row| (first..first + count).contains(row)) {
                let elements = (0..length).map(|column| order.source((row - first) * length + column, &output.shape));
                from.extend(elements.map(|at| (first + at / length, at % length)));
            }
            first += count;
        }
        let mut needed: Vec<usize> = from.iter().map(|(row, _)| *row).collect();
        needed.sort_unstable();
        needed.dedup();
        let values = self.oracle(dims, inputs, &needed)?;
        let length_of = |row: usize| {
            let mut end = 0;
            let holds = |output: &&&TensorSpec| {
                end += output.rows();
                row < end
            };
            outputs.iter().find(holds).map_or(1, |output| output.row_len())
        };
        let mut begins = Vec::with_capacity(needed.len());
        let mut begin = 0;
        for row in &needed {
            begins.push(begin);
            begin += length_of(*row);
        }
        let value = |(row, column): &(usize, usize)| {
            let place = needed.binary_search(row).expect("every row was computed");
            values[begins[place] + column]
        };
        Ok(from.iter().map(value).collect())
    }
}

/// Returns the first rows of each output, numbered through all of them.
fn first_rows(outputs: &[&TensorSpec]) -> Vec<usize> {
    let mut first = 0;
    let mut rows = Vec::new();
    for output in outputs {
        rows.extend(first..first + output.rows().min(ROWS));
        first += output.rows();
    }
    rows
}

/// Returns the numbers of the first rows of each output.
fn numbers(outputs: &[&TensorSpec], values: Vec<f64>) -> Vec<f64> {
    let dtypes =
        outputs.iter().flat_map(|output| std::iter::repeat_n(output.dtype, output.rows().min(ROWS) * output.row_len()));
    values.into_iter().zip(dtypes).map(|(value, dtype)| dtype.number(value)).collect()
}

fn change(inputs: &mut [Vec<f32>], tensors: &[&TensorSpec], name: &str, to: impl Fn(f32) -> f32) {
    for (values, _) in inputs.iter_mut().zip(tensors).filter(|(_, tensor)| tensor.name == name) {
        values.iter_mut().for_each(|value| *value = to(*value));
    }
}

fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let difference = norm(&mut found.iter().zip(expected).map(|(found, expected)| found - expected));
    difference / norm(&mut expected.iter().copied()).max(f64::MIN_POSITIVE)
}

/// Another order of the indices of a dimension in a tensor: backwards from an index in the middle.
struct Order {
    /// Whether each axis is that dimension.
    axes: Vec<bool>,
    size: usize,
}

impl Order {
    fn of(rule: &TensorRule, dim: &str, size: usize) -> Self {
        Self { axes: rule.shape.iter().map(|extent| extent.text() == dim).collect(), size }
    }

    /// Returns which element comes to a place.
    fn source(&self, place: usize, shape: &[usize]) -> usize {
        let (mut rest, mut stride, mut source) = (place, 1, 0);
        for (extent, is_moved) in shape.iter().zip(&self.axes).rev() {
            let index = rest % extent;
            let index = if *is_moved { (self.size / 3 + self.size - index) % self.size } else { index };
            source += index * stride;
            rest /= extent;
            stride *= extent;
        }
        source
    }

    fn reordered(&self, values: &[f32], tensor: &TensorSpec) -> Vec<f32> {
        let slots = tensor.dtype.slots();
        let source = |place: usize| self.source(place / slots, &tensor.shape) * slots + place % slots;
        (0..values.len()).map(|place| values[source(place)]).collect()
    }
}
