//! Inputs and sizes that a workload does not name, on which kernels of the delta rule go wrong.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Shape;
use crate::domain::op::{Change, Dims, Dtype, Probe, Probed};
use crate::ops::draw::{direction, log_uniform_count, normal, places, power_of_two, sign};

/// Every probe.
pub static PROBES: [Probe; 9] = [
    Probe { name: "gates of zero: nothing decays", change: Change::Among(kept) },
    Probe { name: "gates that forget everything", change: Change::Among(forgotten) },
    Probe { name: "a few gates that forget", change: Change::Among(cut) },
    Probe { name: "channels that decay at different rates", change: Change::Among(uneven) },
    Probe { name: "strengths of zero and one", change: Change::Among(switched) },
    Probe { name: "equal keys", change: Change::Among(equal) },
    Probe { name: "long keys", change: Change::Among(long) },
    Probe { name: "values and queries of other magnitudes", change: Change::Among(scaled) },
    Probe { name: "NaN and infinity", change: Change::Among(nan) },
];

/// Rows that are always compared.
const ROWS: usize = 32;

/// The inputs by name.
struct Inputs<'a> {
    q: &'a mut [f32],
    k: &'a mut [f32],
    v: &'a mut [f32],
    g: &'a mut [f32],
    beta: &'a mut [f32],
}

/// Changes the inputs, and names random rows of the output.
fn change(
    dims: &Dims,
    inputs: &mut [Vec<f32>],
    seed: u64,
    change: impl FnOnce(&Shape, &mut Inputs<'_>, &mut SmallRng),
) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    let shape = Shape::of(dims);
    let [q, k, v, g, beta] = inputs else { return Probed::default() };
    change(&shape, &mut Inputs { q, k, v, g, beta }, &mut rng);
    Probed { rows: places(&mut rng, shape.b * shape.t * shape.h, ROWS), ..Probed::default() }
}

fn kept(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dims, inputs, seed, |_, inputs, rng| {
        // Zeros of either sign.
        inputs.g.iter_mut().for_each(|gate| *gate = 0.0 * sign(rng));
    })
}

/// Most of what is stored is lost at every token, also beyond the range of FP32.
fn forgotten(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dims, inputs, seed, |shape, inputs, rng| {
        for gates in inputs.g.chunks_mut(shape.k) {
            let scale = power_of_two(rng, 0.0..9.0);
            gates.iter_mut().for_each(|gate| *gate = -scale * rng.random_range(0.5..1.0));
        }
    })
}

/// A few tokens forget some or all channels, and the others keep them: sums of gates are large, and differences of these sums are not.
fn cut(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dims, inputs, seed, |shape, inputs, rng| {
        for gates in inputs.g.chunks_mut(shape.k) {
            let share = if rng.random_range(0..8) == 0 { power_of_two(rng, -4.0..0.5) } else { 0.0 };
            let depth = power_of_two(rng, 2.0..8.0);
            for gate in gates {
                *gate = if rng.random::<f32>() < share { -depth } else { -0.01 * rng.random::<f32>() };
            }
        }
    })
}

/// Some channels keep what they have over thousands of tokens, and others lose it within one.
fn uneven(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dims, inputs, seed, |shape, inputs, rng| {
        let rates: Vec<f32> = (0..shape.h * shape.k).map(|_| power_of_two(rng, -12.0..4.0)).collect();
        let all = inputs.g.iter_mut().zip(rates.iter().cycle());
        all.for_each(|(gate, rate)| *gate = -rate * rng.random_range(0.5..1.0_f32));
    })
}

fn switched(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dims, inputs, seed, |_, inputs, rng| {
        inputs.beta.iter_mut().for_each(|beta| *beta = f32::from(u8::from(rng.random::<bool>())));
    })
}

/// Tokens share a few keys of length one, so that each replaces what an earlier one has written.
fn equal(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dims, inputs, seed, |shape, inputs, rng| {
        let keys: Vec<Vec<f32>> = (0..log_uniform_count(rng, 4)).map(|_| direction(rng, shape.k)).collect();
        for (k, q) in inputs.k.chunks_mut(shape.k).zip(inputs.q.chunks_mut(shape.k)) {
            k.copy_from_slice(&keys[rng.random_range(0..keys.len())]);
            q.copy_from_slice(&keys[rng.random_range(0..keys.len())]);
        }
        inputs.beta.iter_mut().for_each(|beta| *beta = 1.0 - rng.random::<f32>().powi(4));
    })
}

/// Keys of a length up to 1.3: a token overshoots, and states stay bounded as long as `beta` times the square is below 2.
fn long(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dims, inputs, seed, |shape, inputs, rng| {
        for k in inputs.k.chunks_mut(shape.k) {
            let norm = k.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            let length = rng.random_range(0.9..1.3_f32);
            k.iter_mut().for_each(|x| *x *= length / norm);
        }
        inputs.g.iter_mut().for_each(|gate| *gate = -gate.abs());
    })
}

fn scaled(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dims, inputs, seed, |shape, inputs, rng| {
        // A head has one magnitude: a row of small values among large ones is lost in them.
        let magnitude = |rng: &mut SmallRng| power_of_two(rng, -12.0..12.0) * sign(rng);
        let of_heads: Vec<f32> = (0..shape.h).map(|_| magnitude(rng)).collect();
        for (place, v) in inputs.v.chunks_mut(shape.v).enumerate() {
            v.iter_mut().for_each(|v| *v *= of_heads[place % shape.h]);
        }
        for q in inputs.q.chunks_mut(shape.k) {
            let factor = magnitude(rng);
            q.iter_mut().for_each(|q| *q = factor * normal(rng));
        }
    })
}

/// One head of some sequences has numbers that are not finite. Nothing is specified for it, and the others are as before.
fn nan(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let (mut unspecified, mut compared) = (Vec::new(), Vec::new());
    let mut probed = change(dims, inputs, seed, |shape, inputs, rng| {
        for batch in 0..shape.b {
            let head = rng.random_range(0..shape.h);
            let place = shape.place(batch, rng.random_range(0..shape.t), head);
            let bad = if rng.random() { f32::NAN } else { f32::INFINITY * sign(rng) };
            match rng.random_range(0..3) {
                0 => inputs.q[place * shape.k + rng.random_range(0..shape.k)] = bad,
                1 => inputs.k[place * shape.k + rng.random_range(0..shape.k)] = bad,
                _ => inputs.v[place * shape.v + rng.random_range(0..shape.v)] = bad,
            }
            unspecified.extend((0..shape.t).map(|token| shape.place(batch, token, head)).map(|row| row..row + 1));
            let other = (head + 1) % shape.h;
            compared.push(shape.place(batch, shape.t - 1, other));
        }
    });
    probed.rows.extend(compared);
    probed.unspecified = unspecified;
    probed
}

/// Draws sizes that no workload names, the most telling first: lengths around multiples of chunks, one token, other numbers of heads
/// and sequences. K and V remain, because families are compiled for them.
pub fn hidden(dims: &Dims, seed: u64) -> Vec<Dims> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let [b, t, h] = ["B", "T", "H"].map(|name| dims[name]);
    let mut small = |most: i64| rng.random_range(1..=most.clamp(2, 5));
    let mut all = vec![
        (small(b), 65, small(h)),
        (1, 1, small(h)),
        (small(b), 127, small(h)),
        (1, t.min(500) + 1, small(h)),
        (small(b), 31, 3),
        (3, 16, small(h)),
        (small(b), 200, 1),
        (1, 64, small(h)),
        (7, 2, 5),
        // More heads in all than 16 bits count.
        (1 << 13, 1, 9),
    ];
    let mut drawn = || rng.random_range(1..=t.clamp(2, 400));
    all.extend([(1, drawn(), 2), (2, drawn(), 1), (1, drawn(), 3)]);
    let with = |(b, t, h): (i64, i64, i64)| {
        let mut other = dims.clone();
        for (name, size) in [("B", b), ("T", t), ("H", h)] {
            other[name] = size;
        }
        other
    };
    all.into_iter().map(with).collect()
}
