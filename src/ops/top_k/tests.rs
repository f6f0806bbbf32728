//! The oracle of top-k against a second implementation, its shapes and its probes.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;

fn dims(b: i64, n: i64, k: i64) -> Dims {
    [("B", b), ("N", n), ("K", k)].map(|(name, size)| (name.to_owned(), size)).into()
}

/// Takes the greatest element left, again and again.
fn one_after_the_other(row: &[f32], k: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..row.len()).collect();
    let mut chosen = Vec::new();
    for _ in 0..k {
        let is_greater = |a: f32, b: f32| (a.is_nan() && !b.is_nan()) || a > b;
        let best = left.iter().copied().reduce(|best, at| if is_greater(row[at], row[best]) { at } else { best });
        let best = best.unwrap();
        left.retain(|at| *at != best);
        chosen.push(best);
    }
    chosen
}

#[test]
fn the_oracle_follows_the_definition() {
    let mut rng = SmallRng::seed_from_u64(5);
    let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0];
    for (b, n, k) in [(1, 1, 1), (3, 7, 7), (2, 50, 1), (4, 33, 9)] {
        let mut draw = || if rng.random() { special[rng.random_range(0..7)] } else { rng.random_range(-2.0..2.0) };
        let x: Vec<f32> = (0..b * n).map(|_| draw()).collect();
        let case = dims(b as i64, n as i64, k as i64);
        let rows: Vec<usize> = (0..2 * b).rev().collect();
        let found = TopK.oracle(&case, std::slice::from_ref(&x), &rows).unwrap();
        for (row, found) in rows.iter().zip(found.chunks(k)) {
            let of_row = &x[row % b * n..][..n];
            let expected = one_after_the_other(of_row, k);
            let indices: Vec<usize> = found.iter().map(|bits| bits.to_bits() as usize).collect();
            let values: Vec<f64> = expected.iter().map(|at| f64::from(of_row[*at])).collect();
            let is_same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
            if *row < b {
                assert!(found.iter().zip(&values).all(is_same), "{found:?}, {values:?}");
            } else {
                assert_eq!(indices, expected);
            }
        }
    }
}

#[test]
fn every_shape_that_is_derived_is_valid_and_selects_as_many() {
    for case in [dims(1, 131_072, 64), dims(64, 8192, 8), dims(16, 12_000, 16), dims(128, 4096, 1), dims(2, 128, 128)] {
        for seed in 0..5 {
            let hidden = TopK.hidden(&case, CheckLimits { flop: 1e8, bytes: 1e9 }, seed);
            let all: Vec<Dims> = hidden.into_iter().chain(TopK.scaled(&case)).collect();
            for other in &all {
                assert_eq!(TopK.check(other), Ok(()), "{other:?}");
            }
            let same: Vec<&Dims> = all.iter().filter(|other| other["K"] == case["K"]).collect();
            assert!(same.len() > 8, "most families are compiled for one K: {all:?}");
            assert!(same.iter().any(|it| it["N"] % 4 > 0) && same.iter().filter(|it| it["N"] % 4 == 0).count() > 2);
            assert!(same.iter().any(|it| it["N"] > case["N"]) && same.iter().any(|it| it["B"] > 65_535));
        }
    }
    assert_eq!(
        TopK.check(&dims(1, 5, 6)).unwrap_err(),
        "K = 6 elements cannot be selected from rows of N = 5; reduce K".into()
    );
}

#[test]
fn every_probe_changes_rows_of_every_length() {
    for probe in TopK.probes() {
        let crate::domain::op::Change::Numbers(change) = probe.change else { panic!("{}", probe.name) };
        for case in [dims(9, 200, 16), dims(9, 1, 1), dims(9, 128, 128)] {
            for seed in 0..10 {
                let mut inputs: Vec<Vec<f32>> =
                    vec![(0..case["B"] * case["N"]).map(|i| (i % 17) as f32 * 0.1 - 0.5).collect()];
                let before: Vec<f32> = inputs[0].clone();
                let probed = change(&case, Dtype::F32, &mut inputs, seed);
                assert!(probed.rows.iter().any(|row| *row >= 9) && probed.rows.iter().all(|row| *row < 18));
                assert!(inputs[0] != before || case["N"] == 1, "{}", probe.name);
            }
        }
    }
}
