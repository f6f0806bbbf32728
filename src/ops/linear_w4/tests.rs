//! The oracle of linear layers with weights of 4 bits against a second implementation, and its shapes.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;

fn dims(m: i64, n: i64, k: i64, group: i64) -> Dims {
    [("M", m), ("N", n), ("K", k), ("GROUP", group)].map(|(name, size)| (name.to_owned(), size)).into()
}

fn drawn(dims: &Dims) -> Vec<Vec<f32>> {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut draw = |tensor: TensorSpec| -> Vec<f32> {
        let packed = tensor.dtype == Dtype::U8;
        let mut number = || if packed { f32::from(rng.random::<u8>()) } else { rng.random_range(-2.0..2.0) };
        (0..tensor.elements()).map(|_| number()).collect()
    };
    LinearW4.inputs(dims, Dtype::F32).into_iter().map(&mut draw).collect()
}

#[test]
fn the_oracle_follows_the_definition() {
    let with_layout = |mut case: Dims| {
        case.insert("LAYOUT".to_owned(), 1);
        case
    };
    let gptq = [with_layout(dims(2, 16, 32, 16)), with_layout(dims(1, 24, 16, 8))];
    for case in [dims(1, 1, 2, 2), dims(3, 40, 24, 8), dims(2, 17, 64, 32)].into_iter().chain(gptq) {
        let is_gptq = case.contains_key("LAYOUT");
        let inputs = drawn(&case);
        let [m, n, k, group] = ["M", "N", "K", "GROUP"].map(|name| case[name] as usize);
        let rows: Vec<usize> = (0..m).rev().collect();
        let found = LinearW4.oracle(&case, &inputs, &rows).unwrap();
        for (place, row) in rows.iter().enumerate() {
            for column in 0..n {
                let mut sum = 0.0;
                for pair in 0..k / 2 {
                    let at = if is_gptq { pair / 4 * n * 4 + column * 4 + pair % 4 } else { pair * n + column };
                    let byte = inputs[1][at] as u32;
                    for (term, q) in [(2 * pair, byte % 16), (2 * pair + 1, byte / 16)] {
                        let at = term / group * n + column;
                        // Bits from 4 times the column on, in words of eight columns.
                        let word = |word: usize| {
                            let bytes = &inputs[3][word * 4..][..4];
                            bytes.iter().rev().fold(0, |word: u64, byte| word << 8 | *byte as u64)
                        };
                        let of_word = || (word(at / 8) >> (4 * (column % 8)) & 15) as f64 + 1.0;
                        let zero = if is_gptq { of_word() } else { f64::from(inputs[3][at]) };
                        let weight = (f64::from(q) - zero) * f64::from(inputs[2][at]);
                        sum += f64::from(inputs[0][row * k + term]) * weight;
                    }
                }
                let found = found[place * n + column];
                assert!((found - sum).abs() < 1e-9 * sum.abs().max(1.0), "{row}, {column} of {case:?}: {found}, {sum}");
            }
        }
    }
}

#[test]
fn every_shape_that_is_derived_has_whole_groups() {
    let case = dims(16, 512, 1024, 128);
    let hidden = LinearW4.hidden(&case, CheckLimits { flop: 1e12, bytes: 1e12 }, 3);
    let resized = [0.5, 1.7].map(|factor| LinearW4.resized(&case, Axis::Sequential, factor)).into_iter().flatten();
    let all: Vec<Dims> = hidden.into_iter().chain(LinearW4.scaled(&case)).chain(resized).collect();
    assert!(all.len() > 10, "{all:?}");
    for other in all {
        assert_eq!(LinearW4.check(&other), Ok(()), "{other:?}");
    }
    let mut gptq = case.clone();
    gptq.insert("LAYOUT".to_owned(), 1);
    for other in LinearW4.hidden(&gptq, CheckLimits { flop: 1e12, bytes: 1e12 }, 3) {
        assert_eq!(LinearW4.check(&other), Ok(()), "{other:?}");
    }
    let odd = LinearW4.check(&dims(1, 8, 192, 128)).unwrap_err();
    assert_eq!(odd, "K must be a multiple of GROUP (128), and GROUP must be even".into());
}

/// Torch rounds weights to BF16 before it multiplies.
#[test]
fn weights_may_be_rounded_to_the_dtype() {
    let case = dims(2, 64, 256, 128);
    let inputs = drawn(&case);
    let exact = LinearW4.oracle(&case, &inputs, &[0, 1]).unwrap();
    let allowed = LinearW4.intermediate_rounding(&case, Dtype::Bf16, &inputs, &[0, 1]);
    for (row, allowed) in exact.chunks_exact(64).zip(allowed) {
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!(allowed > 1e-3 * norm && allowed < 5e-3 * norm, "{allowed} of {norm}");
    }
}
