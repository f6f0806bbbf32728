//! Inputs of matrix products that ordinary random inputs never resemble.
//!
//! None of them overflows FP16: the largest sums of 2^20 random products are 5,000.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Shape;
use crate::domain::op::{Dims, Probe};

/// Every probe.
pub const PROBES: [Probe; 6] = [
    Probe { name: "a selection", apply: selection },
    Probe { name: "equal products", apply: equal_products },
    Probe { name: "a huge product", apply: huge_product },
    Probe { name: "inputs / 64", apply: |_, inputs, _| scale(inputs, [1.0 / 64.0; 2]) },
    Probe { name: "a * 64, b / 64", apply: |_, inputs, _| scale(inputs, [64.0, 1.0 / 64.0]) },
    Probe { name: "a / 64, b * 64", apply: |_, inputs, _| scale(inputs, [1.0 / 64.0, 64.0]) },
];

/// The scale of each factor of a huge product, which then outweighs the sum of 1,000 others.
const HUGE: f32 = 8.0;

/// The value of each equal product. A sum of 2^20 of them still fits FP16. A sum kept in FP16 stops growing after
/// 2,048.
const EQUAL: f32 = 1.0 / 64.0;

/// Every row of `a` is zero except for a one at a random place, which selects a row of `b`. A kernel that drops this
/// row, or takes another, returns a completely different output.
fn selection(dims: &Dims, inputs: &mut [Vec<f32>], seed: u64) {
    let shape = Shape::of(dims);
    let mut rng = SmallRng::seed_from_u64(seed);
    let [a, _] = inputs else { return };
    for row in a.chunks_exact_mut(shape.k) {
        row.fill(0.0);
        row[rng.random_range(0..shape.k)] = 1.0;
    }
}

/// All products are equal, so each output is their sum. Nothing averages out, and sums with few bits stop growing.
fn equal_products(_dims: &Dims, inputs: &mut [Vec<f32>], _seed: u64) {
    if let [a, b] = inputs {
        a.fill(1.0);
        b.fill(EQUAL);
    }
}

/// One random column of `a` and the matching row of `b` are huge.
fn huge_product(dims: &Dims, inputs: &mut [Vec<f32>], seed: u64) {
    let shape = Shape::of(dims);
    let at = SmallRng::seed_from_u64(seed).random_range(0..shape.k);
    if let [a, b] = inputs {
        a.iter_mut().skip(at).step_by(shape.k).for_each(|x| *x *= HUGE);
        b[at * shape.n..(at + 1) * shape.n].iter_mut().for_each(|x| *x *= HUGE);
    }
}

fn scale(inputs: &mut [Vec<f32>], factors: [f32; 2]) {
    for (tensor, factor) in inputs.iter_mut().zip(factors) {
        tensor.iter_mut().for_each(|x| *x *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Gemm;
    use super::*;
    use crate::domain::op::{Dtype, Op};
    use rand_distr::{Distribution, StandardNormal};

    fn dims() -> Dims {
        [("M", 20), ("N", 30), ("K", 40)].map(|(name, size)| (name.to_owned(), size)).into()
    }

    /// Returns the inputs of a probe and the expected output, row by row.
    fn probed(name: &str) -> (Vec<Vec<f32>>, Vec<f64>) {
        let mut rng = SmallRng::seed_from_u64(3);
        let tensors = Gemm.tensors(&dims(), Dtype::F32);
        let mut inputs: Vec<Vec<f32>> = tensors[..2]
            .iter()
            .map(|tensor| (0..tensor.elements()).map(|_| StandardNormal.sample(&mut rng)).collect())
            .collect();
        let probe = PROBES.iter().find(|probe| probe.name == name).unwrap();
        (probe.apply)(&dims(), &mut inputs, 5);
        let out = Gemm.oracle(&dims(), &inputs, &(0..20).collect::<Vec<_>>());
        (inputs, out)
    }

    #[test]
    fn a_selection_returns_rows_of_b_from_all_over_the_place() {
        let (inputs, out) = probed("a selection");
        let mut met = std::collections::BTreeSet::new();
        for row in out.chunks_exact(30) {
            let found =
                inputs[1].chunks_exact(30).position(|of_b| of_b.iter().zip(row).all(|(b, c)| f64::from(*b) == *c));
            met.insert(found.expect("it is a row of b"));
        }
        assert!(met.len() > 8, "{met:?}");
    }

    #[test]
    fn equal_products_give_their_number_and_a_huge_one_outweighs_the_rest() {
        assert!(probed("equal products").1.iter().all(|&c| c == 40.0 / 64.0));
        let (inputs, out) = probed("a huge product");
        let columns: Vec<f32> = (0..40).map(|k| inputs[0].iter().skip(k).step_by(40).map(|x| x.abs()).sum()).collect();
        let huge = (0..40).max_by(|&i, &j| columns[i].total_cmp(&columns[j])).unwrap();
        let own = |i: usize, j: usize| f64::from(inputs[0][i * 40 + huge]) * f64::from(inputs[1][huge * 30 + j]);
        let (all, rest) = (0..600)
            .fold((0.0, 0.0), |(all, rest), at| (all + out[at].abs(), rest + (out[at] - own(at / 30, at % 30)).abs()));
        assert!(rest < all / 3.0, "{rest} of {all}");
    }

    #[test]
    fn the_same_seed_makes_the_same_probe_and_none_leaves_the_inputs_alone() {
        let untouched = {
            let (mut inputs, _) = probed("a * 64, b / 64");
            scale(&mut inputs, [1.0 / 64.0, 64.0]);
            inputs
        };
        for probe in PROBES {
            let inputs = probed(probe.name).0;
            assert_eq!(inputs, probed(probe.name).0, "{}", probe.name);
            assert_ne!(inputs, untouched, "{}", probe.name);
        }
    }
}
