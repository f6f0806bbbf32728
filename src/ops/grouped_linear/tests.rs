//! The oracle of layers of experts against a second implementation, and its shapes.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::domain::op::Probed;
use crate::ops::product::Product;

fn dims(sizes: [i64; 4], optional: &[(&str, i64)]) -> Dims {
    let sizes = ["M", "N", "K", "EXPERTS"].into_iter().zip(sizes);
    sizes.chain(optional.iter().copied()).map(|(name, size)| (name.to_owned(), size)).collect()
}

fn drawn(dims: &Dims, offsets: &[i64]) -> Vec<Vec<f32>> {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut draw = |tensor: TensorSpec| -> Vec<f32> {
        if tensor.name == "offsets" {
            let mut kept = vec![0.0; offsets.len()];
            offsets.iter().zip(kept.chunks_mut(1)).for_each(|(offset, kept)| Dtype::I32.keep(*offset, kept));
            return kept;
        }
        (0..tensor.elements()).map(|_| rng.random_range(-2.0..2.0)).collect()
    };
    GroupedLinear.inputs(dims, Dtype::F32).into_iter().map(&mut draw).collect()
}

#[test]
fn the_oracle_follows_the_definition() {
    let cases = [
        (dims([5, 3, 4, 1], &[]), vec![0, 5]),
        (dims([6, 70, 5, 3], &[("LAYOUT", 1)]), vec![0, 4, 4, 6]),
        (dims([6, 3, 9, 3], &[("ACTIVATION", 3), ("GATED", 1)]), vec![0, 0, 2, 6]),
        (dims([3, 2, 7, 4], &[("LAYOUT", 1), ("ACTIVATION", 3), ("GATED", 1)]), vec![0, 1, 3, 3, 3]),
    ];
    for (case, offsets) in cases {
        let inputs = drawn(&case, &offsets);
        let [m, n, k, experts] = ["M", "N", "K", "EXPERTS"].map(|name| case[name] as usize);
        let rows: Vec<usize> = (0..m).rev().collect();
        let found = GroupedLinear.oracle(&case, &inputs, &rows).unwrap();
        for expert in 0..experts {
            for row in offsets[expert] as usize..offsets[expert + 1] as usize {
                for column in 0..n {
                    let product = |w: &[f32]| -> f64 {
                        let of_row = |t: usize| match case.get("LAYOUT") {
                            Some(_) => w[expert * k * n + t * n + column],
                            None => w[expert * n * k + column * k + t],
                        };
                        (0..k).map(|t| f64::from(inputs[0][row * k + t]) * f64::from(of_row(t))).sum()
                    };
                    let first = product(&inputs[2]);
                    let gate = if case.contains_key("ACTIVATION") { first / (1.0 + (-first).exp()) } else { first };
                    let expected = gate * inputs.get(3).map_or(1.0, |w| product(w));
                    let found = found[(m - 1 - row) * n + column];
                    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{row}, {column} of {case:?}");
                }
            }
        }
    }
}

#[test]
fn every_shape_that_is_derived_is_valid() {
    let case = dims([4096, 1024, 2048, 64], &[("GATED", 1), ("ACTIVATION", 3), ("SHORTEST", 20)]);
    let hidden = GroupedLinear.hidden(&case, CheckLimits { flop: 1e12, bytes: 1e12 }, 3);
    let all: Vec<Dims> = hidden.into_iter().chain(GroupedLinear.scaled(&case)).collect();
    assert!(all.len() > 10, "{all:?}");
    for other in all {
        assert_eq!(GroupedLinear.check(&other), Ok(()), "{other:?}");
    }
    let crowded = GroupedLinear.check(&dims([10, 8, 8, 4], &[("SHORTEST", 3)])).unwrap_err();
    assert_eq!(crowded, "4 experts with SHORTEST = 3 rows have more than M = 10".into());
}

#[test]
fn probes_keep_the_weights_of_experts_in_their_places() {
    for layout in [None, Some(("LAYOUT", 1))] {
        let optional: Vec<_> = layout.into_iter().chain([("GATED", 1)]).collect();
        let case = dims([4, 3, 5, 2], &optional);
        let mut inputs = drawn(&case, &[0, 1, 4]);
        inputs.remove(1);
        let before = inputs.clone();
        GroupedLinear::change(&case, &mut inputs, |it| {
            assert_eq!((it.m, it.n, it.k), (4, 12, 5));
            // Term 2 of column 2 of the second expert's second product.
            it.b[2 * it.n + 6 + 3 + 2] = 100.0;
            Probed::default()
        });
        let place = if layout.is_some() { (5 + 2) * 3 + 2 } else { (3 + 2) * 5 + 2 };
        let changed: Vec<usize> = (0..30).filter(|at| inputs[2][*at] != before[2][*at]).collect();
        assert_eq!((changed, &inputs[1]), (vec![place], &before[1]));
    }
}

#[test]
fn the_weights_of_an_expert_without_rows_are_not_needed() {
    // 0, 1 and 2 rows.
    let case = dims([3, 8, 16, 3], &[]);
    let bytes = 4.0 * (3.0 * 16.0 + 4.0 + 2.0 * 8.0 * 16.0 + 3.0 * 8.0);
    assert_eq!(GroupedLinear.bytes(&case, Dtype::F32), bytes);
}
