//! A probe for workloads in TF32: numbers that TF32 holds and FP16 does not.
//!
//! FP16 has as many bits after the point as TF32, so no tolerance can tell their products apart. Only the range can.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Change, Dims, Dtype, Probe, Probed};

/// Every input is scaled by a factor of its own. Most of its numbers are below 2^-25 and round to zero in FP16, and no
/// other keeps more than two bits. The product of two such numbers is far above the smallest normal one in FP32.
pub const BELOW_F16: Probe = Probe { name: "numbers below the range of FP16", change: Change::Numbers(apply) };

fn apply(_: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    for values in inputs {
        let factor = rng.random_range(-30.0..-26.0_f32).exp2();
        values.iter_mut().for_each(|x| *x *= factor);
    }
    Probed::default()
}
