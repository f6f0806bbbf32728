//! Inputs of what follows the sums of a linear layer that ordinary random inputs never resemble.

use std::sync::LazyLock;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Linear;
use crate::domain::op::{Change, Dims, Dtype, Op, Probe, Probed};
use crate::ops::draw::{places, power_of_two};
use crate::ops::product;

/// Every probe: those of all products, and two of the epilogue.
pub static PROBES: LazyLock<Vec<Probe>> = LazyLock::new(|| {
    let own = [
        Probe { name: "scales of different sizes", change: Change::Among(scales) },
        Probe { name: "biases and residuals of different sizes", change: Change::Among(added) },
    ];
    product::probes::<Linear>().into_iter().chain(own).collect()
});

/// Output rows that are always compared.
const ROWS: usize = 16;

/// Changes each number of these inputs, and names random rows.
fn each(
    (dims, dtype, inputs): (&Dims, Dtype, &mut [Vec<f32>]),
    names: [&str; 2],
    seed: u64,
    change: impl Fn(&mut f32, &mut SmallRng),
) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    for (tensor, values) in Linear.inputs(dims, dtype).iter().zip(inputs) {
        if names.contains(&&*tensor.name) {
            values.iter_mut().for_each(|value| change(value, &mut rng));
        }
    }
    let rows = usize::try_from(dims["M"]).expect("validated with the workload");
    Probed { rows: places(&mut rng, rows, ROWS), ..Probed::default() }
}

/// Each scale has a size of its own, some are negative, and some are zero.
fn scales(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each((dims, dtype, inputs), ["x_scale", "w_scale"], seed, |value, rng| {
        *value *= match rng.random_range(0..8) {
            0 => 0.0,
            1 => -1.0,
            _ => power_of_two(rng, -8.0..2.0),
        };
    })
}

/// Some of what is added outweighs the sums, and some does not.
fn added(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each((dims, dtype, inputs), ["bias", "residual"], seed, |value, rng| *value *= power_of_two(rng, -4.0..4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a probe makes of ones.
    fn of_ones(probe: &str, tensor: &str, seed: u64) -> Vec<f32> {
        let sizes = ["M", "N", "K", "XSCALE", "WSCALE", "BIAS"].into_iter().zip([6, 80, 8, 2, 2, 1]);
        let dims: Dims = sizes.map(|(name, size)| (name.to_owned(), size)).collect();
        let tensors = Linear.inputs(&dims, Dtype::Bf16);
        let probe = PROBES.iter().find(|it| it.name == probe).unwrap();
        let Change::Among(change) = probe.change else { unreachable!("{probe:?}") };
        let mut inputs: Vec<Vec<f32>> = tensors.iter().map(|it| vec![1.0; it.elements()]).collect();
        change(&dims, Dtype::Bf16, &mut inputs, seed);
        inputs.swap_remove(tensors.iter().position(|it| it.name == tensor).unwrap())
    }

    /// A kernel that takes scales for positive, or biases for small, was called right.
    #[test]
    fn scales_have_both_signs_and_biases_outgrow_sums() {
        for seed in 0..20 {
            let scales = of_ones("scales of different sizes", "w_scale", seed);
            for is in [|x: f32| x < -0.5, |x: f32| x > 2.0, |x: f32| x == 0.0] {
                assert!(scales.iter().any(|x| is(*x)), "seed {seed}: {scales:?}");
            }
            let biases = of_ones("biases and residuals of different sizes", "bias", seed);
            assert!(biases.iter().any(|x| *x > 8.0), "seed {seed}: {biases:?}");
        }
    }
}
