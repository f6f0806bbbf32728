//! The oracle of delta attention against its definition as a sum of outer products, its shapes and its probes.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::domain::op::Change;

fn dims(sizes: [i64; 5]) -> Dims {
    ["B", "T", "H", "K", "V"].into_iter().zip(sizes).map(|(name, size)| (name.to_owned(), size)).collect()
}

fn drawn(dims: &Dims, seed: u64) -> Vec<Vec<f32>> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let draw = |tensor: TensorSpec| {
        let (from, to) = match tensor.values {
            Values::Uniform(from, to) => (from, to),
            Values::Scaled(size) => (-1.7 * size, 1.7 * size),
            _ => (-2.0, 2.0),
        };
        (0..tensor.elements()).map(|_| rng.random_range(from..=to)).collect()
    };
    DeltaAttention.inputs(dims, Dtype::F32).into_iter().map(draw).collect()
}

/// Without a state: each token has written a row to all later ones, `beta (v - what was recalled)`, and the product of two tokens
/// decays by all gates between them.
fn by_pairs(dims: &Dims, inputs: &[Vec<f32>]) -> Vec<f64> {
    let shape = Shape::of(dims);
    let mut out = vec![0.0; shape.b * shape.t * shape.h * shape.v];
    let number = |tensor: usize, place: usize, width: usize, at: usize| f64::from(inputs[tensor][place * width + at]);
    for (batch, head) in (0..shape.b).flat_map(|batch| (0..shape.h).map(move |head| (batch, head))) {
        let place = |token: usize| shape.place(batch, token, head);
        let product = |tensor: usize, i: usize, j: usize| -> f64 {
            let channel = |c: usize| {
                let decay: f64 = (j + 1..=i).map(|t| number(3, place(t), shape.k, c)).sum::<f64>().exp();
                number(tensor, place(i), shape.k, c) * number(1, place(j), shape.k, c) * decay
            };
            (0..shape.k).map(channel).sum()
        };
        let mut written: Vec<Vec<f64>> = Vec::new();
        for i in 0..shape.t {
            let products: Vec<f64> = (0..i).map(|j| product(1, i, j)).collect();
            let of_column = |v: usize| {
                let recalled: f64 = products.iter().zip(&written).map(|(product, row)| product * row[v]).sum();
                number(4, place(i), 1, 0) * (number(2, place(i), shape.v, v) - recalled)
            };
            written.push((0..shape.v).map(of_column).collect());
            for (j, row) in written.iter().enumerate() {
                let weight = product(0, i, j) / (shape.k as f64).sqrt();
                let to = &mut out[place(i) * shape.v..][..shape.v];
                to.iter_mut().zip(row).for_each(|(to, value)| *to += weight * value);
            }
        }
    }
    out
}

#[test]
fn the_oracle_is_the_sum_over_pairs_of_tokens() {
    for (seed, sizes) in [[1, 1, 1, 1, 1], [2, 7, 3, 5, 4], [1, 20, 2, 3, 9]].into_iter().enumerate() {
        let case = dims(sizes);
        let inputs = drawn(&case, seed as u64);
        let (expected, v) = (by_pairs(&case, &inputs), case["V"] as usize);
        // In any order, and with a row that is wanted twice.
        let rows: Vec<usize> = (0..expected.len() / v).rev().chain([0]).collect();
        let found = DeltaAttention.oracle(&case, &inputs, &rows).unwrap();
        for (row, found) in rows.iter().zip(found.chunks(v)) {
            for (found, expected) in found.iter().zip(&expected[row * v..]) {
                assert!((found - expected).abs() < 1e-12, "{sizes:?}, row {row}: {found} is not {expected}");
            }
        }
    }
}

#[test]
fn a_key_that_is_written_again_recalls_the_last_values() {
    let case = dims([1, 3, 1, 2, 1]);
    let key = [0.6, 0.8];
    let inputs = vec![key.repeat(3), key.repeat(3), vec![5.0, -2.0, 7.0], vec![0.0; 6], vec![1.0; 3]];
    let found = DeltaAttention.oracle(&case, &inputs, &[0, 1, 2]).unwrap();
    let expected = [5.0, -2.0, 7.0].map(|value: f64| value / 2.0_f64.sqrt());
    assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{found:?}");
}

#[test]
fn every_shape_that_is_derived_is_valid_and_keeps_the_channels() {
    for case in [dims([2, 1024, 8, 128, 128]), dims([1, 1, 1, 64, 32]), dims([1, 4096, 8, 128, 128])] {
        for seed in 0..5 {
            let hidden = DeltaAttention.hidden(&case, CheckLimits { flop: 3e8, bytes: 1e9 }, seed);
            assert!(
                hidden.len() > 8 && hidden.iter().any(|it| it["T"] == 1) && hidden.iter().any(|it| it["T"] % 64 == 1)
            );
            for other in hidden.iter().chain(&DeltaAttention.scaled(&case)) {
                assert_eq!(DeltaAttention.check(other), Ok(()), "{other:?}");
                assert!(other["K"] == case["K"] && other["V"] == case["V"]);
            }
        }
    }
    let far = DeltaAttention.far(&dims([2, 1024, 8, 128, 128]), Dtype::Bf16).unwrap();
    assert_eq!((far.dim, far.dims["T"], far.dims["H"]), ("B", FAR_TOKENS, 1));
    assert_eq!(crate::domain::op::independent_dims(&DeltaAttention, Dtype::Bf16), ["B"]);
    let too_large = DeltaAttention.check(&dims([1 << 10, 1 << 10, 1 << 5, 128, 64])).unwrap_err();
    assert_eq!(too_large, "a tensor has more than 2^31 elements; reduce B, T or H".into());
}

#[test]
fn every_probe_stays_finite_where_its_output_is_specified() {
    for probe in DeltaAttention.probes() {
        let Change::Among(change) = probe.change else { panic!("{}", probe.name) };
        for (seed, case) in
            [dims([2, 150, 2, 16, 8]), dims([1, 1, 1, 1, 1]), dims([2, 70, 1, 32, 4])].into_iter().enumerate()
        {
            let mut inputs = drawn(&case, 3);
            let before = inputs.clone();
            let probed = change(&case, Dtype::Bf16, &mut inputs, seed as u64);
            assert!(inputs != before, "{}", probe.name);
            let rows: Vec<usize> = (0..(case["B"] * case["T"] * case["H"]) as usize).collect();
            let out = DeltaAttention.oracle(&case, &inputs, &rows).unwrap();
            for (row, out) in rows.iter().zip(out.chunks(case["V"] as usize)) {
                let is_free = probed.unspecified.iter().any(|free| free.contains(row));
                assert!(is_free || out.iter().all(|value| value.abs() < 1e6), "{}: {out:?}", probe.name);
            }
        }
    }
}
