//! The oracle of linear layers against a second implementation, and its tensors.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::ops::draw::normal;

fn dims(sizes: [i64; 3], optional: &[(&str, i64)]) -> Dims {
    let sizes = ["M", "N", "K"].into_iter().zip(sizes);
    sizes.chain(optional.iter().copied()).map(|(name, size)| (name.to_owned(), size)).collect()
}

fn drawn(dims: &Dims) -> Vec<Vec<f32>> {
    let mut rng = SmallRng::seed_from_u64(7);
    let draw = |tensor: TensorSpec| (0..tensor.elements()).map(|_| rng.random_range(-2.0..2.0)).collect();
    Linear.inputs(dims, Dtype::F32).into_iter().map(draw).collect()
}

/// Follows the definition element by element, and shares no code with the oracle.
fn defined(dims: &Dims, inputs: &[Vec<f32>]) -> Vec<f64> {
    let [m, n, k] = ["M", "N", "K"].map(|name| dims[name] as usize);
    let of = |name: &str| {
        let tensors = Linear.inputs(dims, Dtype::F32);
        tensors.iter().position(|tensor| tensor.name == name).map(|place| &inputs[place])
    };
    let number = |name: &str, at: usize, otherwise: f64| {
        of(name).map_or(otherwise, |numbers| f64::from(numbers[if numbers.len() == 1 { 0 } else { at }]))
    };
    let product = |i: usize, row: usize| {
        let sum: f64 = (0..k).map(|t| f64::from(inputs[0][i * k + t]) * f64::from(inputs[1][row * k + t])).sum();
        sum * number("x_scale", i, 1.0) * number("w_scale", row, 1.0) + number("bias", row, 0.0)
    };
    let activated = |x: f64| match dims.get("ACTIVATION") {
        // The integral of the normal density, by Simpson's rule.
        Some(1) => {
            let (steps, density) = (4000, |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt());
            let width = x / f64::from(steps);
            let weight = |i: i32| if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
            let area: f64 = (0..=steps).map(|i| weight(i) * density(width * f64::from(i))).sum();
            x * (0.5 + area * width / 3.0)
        }
        Some(2) => 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh()),
        Some(3) => x * (0.5 + 0.5 * (x / 2.0).tanh()),
        _ => x,
    };
    let value = |i: usize, j: usize| {
        let gate = activated(product(i, j));
        let gated = if dims.contains_key("GATED") { gate * product(i, n + j) } else { gate };
        gated + number("residual", i * n + j, 0.0)
    };
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| value(i, j)).collect()
}

#[test]
fn the_oracle_follows_the_definition_with_everything_after_the_product() {
    let cases = [
        dims([1, 1, 1], &[]),
        dims([40, 70, 300], &[("BIAS", 1)]),
        dims([3, 5, 7], &[("XSCALE", 2), ("WSCALE", 2), ("ACTIVATION", 1)]),
        dims([3, 66, 9], &[("XSCALE", 1), ("WSCALE", 1), ("BIAS", 1), ("ACTIVATION", 2), ("RESIDUAL", 1)]),
        dims([5, 9, 4], &[("WSCALE", 2), ("BIAS", 1), ("ACTIVATION", 3), ("GATED", 1), ("RESIDUAL", 1)]),
        dims([5, 9, 4], &[("GATED", 1)]),
    ];
    for case in cases {
        let inputs = drawn(&case);
        let rows: Vec<usize> = (0..case["M"] as usize).collect();
        let oracle = Linear.oracle(&case, &inputs, &rows).unwrap();
        for (at, (found, expected)) in oracle.iter().zip(defined(&case, &inputs)).enumerate() {
            assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{at} of {case:?}: {found}, {expected}");
        }
        let n = case["N"] as usize;
        let last = rows.len() - 1;
        assert_eq!(Linear.oracle(&case, &inputs, &[last]).unwrap(), oracle[last * n..]);
    }
}

#[test]
fn tensors_of_8_bits_have_a_wide_output() {
    let case = dims([4, 6, 8], &[("XSCALE", 2), ("WSCALE", 2), ("BIAS", 1), ("GATED", 1)]);
    let of = |dtype: Dtype| -> Vec<String> {
        let told = |tensor: TensorSpec| format!("{} {} {:?}", tensor.name, tensor.dtype.name(), tensor.shape);
        Linear.tensors(&case, dtype).into_iter().map(told).collect()
    };
    let expected = [
        "x e4m3 [4, 8]",
        "w e4m3 [2, 6, 8]",
        "x_scale f32 [4]",
        "w_scale f32 [2, 6]",
        "bias bf16 [2, 6]",
        "y bf16 [4, 6]",
    ];
    assert_eq!(of(Dtype::E4m3), expected);
    assert_eq!(of(Dtype::F16)[5], "y f16 [4, 6]");
}

fn random(tensor: &TensorSpec, rng: &mut SmallRng) -> Vec<f32> {
    let number = |rng: &mut SmallRng| match tensor.values {
        Values::Uniform(from, to) => rng.random_range(from..to),
        Values::Scaled(deviation) => deviation * normal(rng),
        _ => normal(rng),
    };
    (0..tensor.elements()).map(|_| number(rng)).collect()
}

/// Sums are about one, so that an activation is not the same on all of them.
#[test]
fn sums_lie_on_both_sides_of_an_activation() {
    let case = dims([8, 64, 4096], &[("ACTIVATION", 3)]);
    for dtype in [Dtype::Bf16, Dtype::E4m3] {
        let case =
            if dtype == Dtype::E4m3 { dims([8, 64, 4096], &[("ACTIVATION", 3), ("WSCALE", 2)]) } else { case.clone() };
        let inputs: Vec<Vec<f32>> =
            Linear.inputs(&case, dtype).iter().map(|tensor| random(tensor, &mut SmallRng::seed_from_u64(3))).collect();
        let values = Linear.oracle(&case, &inputs, &[0, 5]).unwrap();
        let curved = values.iter().filter(|value| **value < 0.0 && **value > -0.3).count();
        assert!(curved > values.len() / 4, "{curved} of {}", values.len());
    }
}

#[test]
fn probes_keep_the_weights_of_a_gated_layer_in_their_places() {
    let case = dims([4, 3, 5], &[("GATED", 1)]);
    let mut inputs = drawn(&case);
    let before = inputs[1].clone();
    Linear::change(&case, &mut inputs, |it| {
        assert_eq!((it.m, it.n, it.k), (4, 6, 5));
        // Column 4 of the second matrix is the second row of the second product.
        it.b[2 * it.n + 4] = 100.0;
        Probed::default()
    });
    let changed: Vec<usize> = (0..30).filter(|at| inputs[1][*at] != before[*at]).collect();
    assert_eq!(changed, [4 * 5 + 2]);
}
