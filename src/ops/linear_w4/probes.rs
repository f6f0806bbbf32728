//! Inputs of linear layers with weights of 4 bits that ordinary random inputs never resemble.

use std::sync::LazyLock;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::LinearW4;
use crate::domain::op::{Change, Dims, Dtype, Op, Probe, Probed, TensorSpec};
use crate::ops::draw::{places, power_of_two};
use crate::ops::product::{self, Matrices, Product};

/// Every probe: those of all products, for x, and those of what dequantises the weights.
pub static PROBES: LazyLock<Vec<Probe>> = LazyLock::new(|| {
    let own = [
        Probe { name: "scales of different sizes", change: Change::Among(scales) },
        Probe { name: "zero points outside of the range", change: Change::Among(zeros) },
        Probe { name: "weights that are alike", change: Change::Contents { is_of: is_packed, fill: alike } },
    ];
    product::probes::<LinearW4>().into_iter().chain(own).collect()
});

/// Output rows that are always compared.
const ROWS: usize = 16;

impl Product for LinearW4 {
    /// Only x has any numbers. A column of ones stands for the weights.
    fn change(dims: &Dims, inputs: &mut [Vec<f32>], change: impl FnOnce(&mut Matrices<'_>) -> Probed) -> Probed {
        let [x, ..] = inputs else { return Probed::default() };
        let k = usize::try_from(dims["K"]).expect("validated with the workload");
        let (m, mut b) = (x.len() / k, vec![1.0; k]);
        change(&mut Matrices { a: x, b: &mut b, k, n: 1, m })
    }
}

/// Changes each number of an input, and names random rows.
fn each(
    (dims, dtype, inputs): (&Dims, Dtype, &mut [Vec<f32>]),
    name: &str,
    seed: u64,
    change: impl Fn(&mut f32, &mut SmallRng),
) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    for (tensor, values) in LinearW4.inputs(dims, dtype).iter().zip(inputs) {
        if tensor.name == name && !is_packed(tensor) {
            values.iter_mut().for_each(|value| change(value, &mut rng));
        }
    }
    let rows = usize::try_from(dims["M"]).expect("validated with the workload");
    Probed { rows: places(&mut rng, rows, ROWS), ..Probed::default() }
}

/// Each scale has a size of its own, some are negative, and some are zero.
fn scales(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each((dims, dtype, inputs), "scales", seed, |value, rng| {
        *value *= match rng.random_range(0..8) {
            0 => 0.0,
            1 => -1.0,
            _ => power_of_two(rng, -4.0..3.0),
        };
    })
}

/// Some zero points are negative or zero, some are above all weights, and some are tiny.
fn zeros(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each((dims, dtype, inputs), "zeros", seed, |value, rng| {
        *value = match rng.random_range(0..8) {
            0 => 0.0,
            1 => -*value,
            2 => *value + 16.0,
            3 => power_of_two(rng, -12.0..0.0),
            _ => value.round(),
        };
    })
}

fn is_packed(tensor: &TensorSpec) -> bool {
    tensor.dtype == Dtype::U8
}

/// All bytes are one, or all but a few, so that a kernel that swaps the halves of a byte or drops one gives another output.
fn alike(_tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let byte: u8 = [0x00, 0xff, 0x0f, 0xf0, rng.random()][rng.random_range(0..5)];
    values.fill(f32::from(byte));
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..values.len());
        values[at] = f32::from(rng.random::<u8>());
    }
}
