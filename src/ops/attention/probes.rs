//! Inputs of attention that ordinary random inputs never resemble.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

use super::Shape;
use crate::domain::op::{Dims, Probe};

/// Every probe.
pub const PROBES: [Probe; 6] = [
    Probe { name: "a needle", apply: needle },
    Probe { name: "equal keys", apply: equal_keys },
    Probe { name: "equal rows", apply: equal_rows },
    Probe { name: "a huge row", apply: huge_row },
    Probe { name: "inputs / 64", apply: |_, inputs, _| scale(inputs, 1.0 / 64.0) },
    Probe { name: "inputs * 64", apply: |_, inputs, _| scale(inputs, 64.0) },
];

/// The score of a needle. Beside it, the weights of the other keys vanish in FP32. The score is far inside the range of
/// FP16.
const NEEDLE_SCORE: f32 = 40.0;

/// The scale of a huge row. Its scores exceed all others by this factor.
const HUGE: f32 = 32.0;

/// Elements that a core takes at a time. With fewer elements, handing them out takes longer than the work.
const SHARE: usize = 1 << 14;

/// Every query points at a random key that it sees. A kernel that drops this key, or reaches it with a wrong maximum,
/// returns another row of values.
fn needle(dims: &Dims, inputs: &mut [Vec<f32>], seed: u64) {
    let shape = Shape::of(dims);
    let mut rng = SmallRng::seed_from_u64(seed);
    let [q, k, _] = inputs else { return };
    let length = (shape.d as f32).sqrt();
    // All keys get the same length. Then no key has a larger product with another key than with itself.
    k.par_chunks_exact_mut(shape.d).with_min_len((SHARE / shape.d).max(1)).for_each(|key| {
        let norm = key.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        key.iter_mut().for_each(|x| *x *= length / norm);
    });
    for (row, query) in q.chunks_exact_mut(shape.d).enumerate() {
        let (head, i) = (row / shape.sq, row % shape.sq);
        let at = head * shape.sk + rng.random_range(0..shape.visible(i));
        let key = &k[at * shape.d..(at + 1) * shape.d];
        query.iter_mut().zip(key).for_each(|(q, k)| *q = k * NEEDLE_SCORE / length);
    }
}

/// All keys of a head are equal, so the output is the mean of the values that a query sees. A key that is missing, or
/// that should be hidden, shows in every query.
fn equal_keys(dims: &Dims, inputs: &mut [Vec<f32>], _seed: u64) {
    let shape = Shape::of(dims);
    if let [_, k, _] = inputs {
        k.chunks_exact_mut(shape.sk * shape.d).for_each(|head| repeat_first(head, shape.d));
    }
}

/// All rows of a tensor are equal, so the output is the row of values: its weights must sum to one.
fn equal_rows(dims: &Dims, inputs: &mut [Vec<f32>], _seed: u64) {
    let shape = Shape::of(dims);
    inputs.iter_mut().for_each(|tensor| repeat_first(tensor, shape.d));
}

/// In every head, one random key and its values are huge. This tests a maximum that grows late, and a huge key that
/// must stay hidden.
fn huge_row(dims: &Dims, inputs: &mut [Vec<f32>], seed: u64) {
    let shape = Shape::of(dims);
    let mut rng = SmallRng::seed_from_u64(seed);
    let [_, k, v] = inputs else { return };
    for head in 0..shape.heads {
        let at = (head * shape.sk + rng.random_range(0..shape.sk)) * shape.d;
        for tensor in [&mut *k, &mut *v] {
            tensor[at..at + shape.d].iter_mut().for_each(|x| *x *= HUGE);
        }
    }
}

fn scale(inputs: &mut [Vec<f32>], factor: f32) {
    inputs.iter_mut().for_each(|tensor| tensor.par_iter_mut().with_min_len(SHARE).for_each(|x| *x *= factor));
}

fn repeat_first(rows: &mut [f32], row_len: usize) {
    let (first, rest) = rows.split_at_mut(row_len);
    let share = (SHARE / row_len).max(1);
    rest.par_chunks_exact_mut(row_len).with_min_len(share).for_each(|row| row.copy_from_slice(first));
}

#[cfg(test)]
mod tests {
    use super::super::Attention;
    use super::*;
    use crate::domain::op::{Dtype, Op};
    use rand_distr::{Distribution, StandardNormal};

    fn dims() -> Dims {
        [("B", 1), ("H", 2), ("Sq", 20), ("Sk", 30), ("D", 32), ("CAUSAL", 1)]
            .map(|(n, size)| (n.to_owned(), size))
            .into()
    }

    /// Returns the inputs of a probe and the expected output, row by row.
    fn probed(name: &str) -> (Vec<Vec<f32>>, Vec<f64>) {
        let mut rng = SmallRng::seed_from_u64(3);
        let tensors = Attention.tensors(&dims(), Dtype::F32);
        let mut inputs: Vec<Vec<f32>> = tensors[..3]
            .iter()
            .map(|tensor| (0..tensor.elements()).map(|_| StandardNormal.sample(&mut rng)).collect())
            .collect();
        let probe = PROBES.iter().find(|probe| probe.name == name).unwrap();
        (probe.apply)(&dims(), &mut inputs, 5);
        let out = Attention.oracle(&dims(), &inputs, &(0..40).collect::<Vec<_>>());
        (inputs, out)
    }

    fn near(a: &[f64], b: &[f32], tolerance: f64) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - f64::from(*b)).abs() <= tolerance)
    }

    #[test]
    fn a_query_that_points_at_a_needle_gets_its_values_and_nothing_else() {
        let (inputs, out) = probed("a needle");
        let mut met = std::collections::BTreeSet::new();
        for (row, out) in out.chunks_exact(32).enumerate() {
            let (head, visible) = (row / 20, row % 20 + 11);
            let values = inputs[2][head * 30 * 32..(head * 30 + visible) * 32].chunks_exact(32);
            let found = values.enumerate().find(|(_, values)| near(out, values, 1e-4));
            met.insert(found.unwrap_or_else(|| panic!("row {row} is no row of values")).0);
        }
        assert!(met.len() > 12, "all over the place: {met:?}");
    }

    #[test]
    fn equal_keys_give_the_mean_of_what_is_visible_and_equal_rows_the_row() {
        let (inputs, out) = probed("equal keys");
        let first: Vec<f32> = (0..32).map(|d| (0..11).map(|j| inputs[2][j * 32 + d]).sum::<f32>() / 11.0).collect();
        assert!(near(&out[..32], &first, 1e-6), "the first query sees eleven");
        let (inputs, out) = probed("equal rows");
        assert!(out.chunks_exact(32).all(|row| near(row, &inputs[2][..32], 1e-9)));
    }

    #[test]
    fn the_same_seed_makes_the_same_probe_and_none_leaves_the_inputs_alone() {
        let untouched = probed("inputs * 64").0;
        for probe in PROBES {
            let inputs = probed(probe.name).0;
            assert_eq!(inputs, probed(probe.name).0, "{}", probe.name);
            assert!(probe.name == "inputs * 64" || inputs != untouched, "{}", probe.name);
        }
    }
}
