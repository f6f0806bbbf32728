//! Inputs of attention that ordinary random inputs never resemble.
//!
//! Every head, and often every row, gets its own numbers and places. They are drawn from wide continuous distributions.
//! So a kernel cannot recognise a probe by a few keys or by a norm, and cannot be right on all of them by coincidence.
//! The contract that they test is docs/correctness.md.

mod alike;
mod extreme;
mod packed;
mod ragged;
mod scores;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

use super::Attention;
use super::cache::{self, Inputs};
use super::order::Ordered;
use super::shape::{Place, Shape};
use crate::domain::op::{Change, Dims, Dtype, Op, Probe, Probed};
use crate::ops::draw::{limit, places, power_of_two, sign};

/// Every probe.
pub const PROBES: [Probe; 11] = [
    Probe { name: "a mixture of scales, offsets and outliers", change: Change::Among(scores::mixture) },
    Probe { name: "an exception among ordinary inputs", change: Change::Among(scores::exception) },
    Probe { name: "needles", change: Change::Among(scores::needles) },
    Probe { name: "a tail of small weights", change: Change::Among(scores::tail) },
    Probe { name: "shifted scores", change: Change::Among(scores::shifted) },
    Probe { name: "tied keys and queries", change: Change::Among(alike::ties) },
    Probe { name: "heads that are almost equal", change: Change::Among(alike::heads) },
    Probe { name: "values at the limits of the dtype", change: Change::Among(extreme::limits) },
    Probe { name: "NaN and infinity", change: Change::Among(extreme::not_finite) },
    Probe {
        name: "lengths from none to all, with NaN behind them",
        change: Change::Together { is_of: ragged::has_lengths, fill: ragged::fill },
    },
    Probe {
        name: "sequences of no token, one and many, each of its own scale, some of NaN",
        change: Change::Together { is_of: packed::has_borders, fill: packed::fill },
    },
];

/// Output rows of each head that are always compared, if there are few heads.
const ROWS: usize = 8;

/// The most output rows that are always compared.
const MAX_ROWS: usize = 128;

/// The inputs of one head.
struct Head<'a> {
    q: &'a mut [f32],
    k: &'a mut [f32],
    v: &'a mut [f32],
}

impl Head<'_> {
    fn key(&mut self, shape: &Shape, j: usize) -> &mut [f32] {
        &mut self.k[j * shape.d..(j + 1) * shape.d]
    }

    fn value(&mut self, shape: &Shape, j: usize) -> &mut [f32] {
        &mut self.v[j * shape.d..(j + 1) * shape.d]
    }

    fn query(&mut self, shape: &Shape, i: usize) -> &mut [f32] {
        &mut self.q[i * shape.d..(i + 1) * shape.d]
    }
}

/// Changes inputs in the order of batch entries, heads and rows, whatever order the tensors have, and limits them to finite values of the
/// dtype unless they are to be infinite. The change gets the places of all heads.
fn change_in_order(
    dims: &Dims,
    limited: Option<Dtype>,
    inputs: &mut [Vec<f32>],
    change: impl FnOnce(&mut [Vec<f32>], &[Place]) -> Probed,
) -> Probed {
    if dims.contains_key("KV") {
        let mut separate = cache::separate(dims, inputs).into_owned();
        let mut apart = dims.clone();
        apart.shift_remove("KV");
        let probed = change_in_order(&apart, limited, &mut separate, change);
        cache::join(dims, separate, inputs);
        return probed;
    }
    let ordered = Ordered::of(dims, inputs);
    let mut probed = change(inputs, &ordered.places);
    if let Some(dtype) = limited {
        let tensors = Attention.inputs(dims, dtype);
        let free = inputs.iter_mut().zip(&tensors).filter(|(_, tensor)| tensor.is_free() && tensor.name != "sink");
        free.for_each(|(values, _)| limit(values, dtype));
    }
    ordered.restore(inputs);
    ordered.rename(&mut probed);
    if dims.contains_key("LSE") {
        add_logarithms(&mut probed, Inputs::of(dims, inputs).rows());
    }
    probed
}

/// Adds the rows of the second output to those of the first, which has so many.
fn add_logarithms(probed: &mut Probed, rows: usize) {
    probed.rows.extend_from_within(..);
    let of_logarithms = probed.rows.len() / 2;
    probed.rows[of_logarithms..].iter_mut().for_each(|row| *row += rows);
    let beyond: Vec<_> = probed.unspecified.iter().map(|of| of.start + rows..of.end + rows).collect();
    probed.unspecified.extend(beyond);
}

/// Changes every head of keys and values with one of the query heads that share them, each with its own random generator, and
/// limits the result to finite values of the dtype.
fn each_head(
    dims: &Dims,
    dtype: Dtype,
    inputs: &mut [Vec<f32>],
    seed: u64,
    change: impl Fn(&Shape, Head<'_>, &mut SmallRng) + Sync,
) -> Probed {
    let shape = Shape::of(dims);
    if let Some(sinks) = inputs.last_mut().filter(|_| dims.contains_key("SINK")) {
        change_sinks(sinks, seed);
    }
    change_in_order(dims, Some(dtype), inputs, |inputs, places| {
        let [q, k, v, ..] = inputs else { return Probed::default() };
        let shapes: Vec<Shape> = places.iter().step_by(shape.ratio).map(|place| place.shape).collect();
        let queries = split(q, shapes.iter().map(|of| of.ratio * of.sq * of.d));
        let [keys, values] = [k, v].map(|rows| split(rows, shapes.iter().map(|of| of.sk * of.d)));
        let heads = queries.into_par_iter().zip(keys).zip(values).zip(&shapes).enumerate();
        heads.filter(|(_, (_, shape))| shape.sq > 0).for_each(|(head, (((q, k), v), shape))| {
            let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(head as u64 + 1));
            let (of_head, of_keys) = (shape.sq * shape.d, shape.length * shape.d);
            let one = if shape.ratio == 1 { 0 } else { rng.random_range(0..shape.ratio) };
            let q = &mut q[one * of_head..][..of_head];
            change(shape, Head { q, k: &mut k[..of_keys], v: &mut v[..of_keys] }, &mut rng);
        });
        Probed { rows: rows_of_heads(places, seed), ..Probed::default() }
    })
}

/// Divides values into parts of these sizes.
fn split(mut values: &mut [f32], sizes: impl Iterator<Item = usize>) -> Vec<&mut [f32]> {
    let next = |size: usize| {
        let (part, rest) = std::mem::take(&mut values).split_at_mut(size);
        values = rest;
        part
    };
    sizes.map(next).collect()
}

/// Gives some heads a sink that takes nothing, next to nothing, or almost all of the weight.
fn change_sinks(sinks: &mut [f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for sink in sinks {
        match rng.random_range(0..4) {
            0 => *sink = f32::NEG_INFINITY,
            1 => *sink = sign(&mut rng) * power_of_two(&mut rng, 2.0..7.0),
            _ => {}
        }
    }
}

/// Draws output rows of as many heads as possible.
fn rows_of_heads(heads: &[Place], seed: u64) -> Vec<usize> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let each = (MAX_ROWS / heads.len()).clamp(1, ROWS);
    let chosen = places(&mut rng, heads.len(), MAX_ROWS / 2);
    chosen.into_iter().flat_map(|head| rows_of(&heads[head], each, &mut rng)).collect()
}

/// Draws output rows of one head.
fn rows_of(head: &Place, wanted: usize, rng: &mut SmallRng) -> Vec<usize> {
    let drawn = if head.shape.sq == 0 { Vec::new() } else { places(rng, head.shape.sq, wanted) };
    drawn.into_iter().map(|i| head.queries + i).collect()
}

/// Draws a query that sees a key, which some query sees.
fn query_that_sees(shape: &Shape, j: usize, rng: &mut SmallRng) -> usize {
    rng.random_range(shape.queries_of(j))
}

#[cfg(test)]
mod tests {
    use super::super::Attention;
    use super::*;
    use crate::domain::op::Op;
    use rand_distr::{Distribution, StandardNormal};

    fn dims() -> Dims {
        [("B", 1), ("H", 2), ("Sq", 20), ("Sk", 30), ("D", 32), ("CAUSAL", 1)]
            .map(|(n, size)| (n.to_owned(), size))
            .into()
    }

    /// Returns the inputs of a probe, its result, and the expected output.
    fn probed(name: &str, seed: u64) -> (Vec<Vec<f32>>, Probed, Vec<f64>) {
        probed_on(&dims(), name, seed)
    }

    fn probed_on(dims: &Dims, name: &str, seed: u64) -> (Vec<Vec<f32>>, Probed, Vec<f64>) {
        let mut rng = SmallRng::seed_from_u64(3);
        let tensors = Attention.inputs(dims, Dtype::F32);
        let mut inputs = super::super::tests::drawn(dims, &mut rng);
        for (values, _) in inputs.iter_mut().zip(&tensors).filter(|(_, tensor)| tensor.is_free()) {
            values.iter_mut().for_each(|value| *value = StandardNormal.sample(&mut rng));
        }
        let probe = PROBES.iter().find(|probe| probe.name == name).unwrap();
        let probed = match probe.change {
            Change::Among(change) => change(dims, Dtype::F16, &mut inputs, seed),
            Change::Together { fill, .. } => {
                fill(&tensors, &mut inputs, seed);
                Probed { rows: vec![0], ..Probed::default() }
            }
            _ => unreachable!("{name}"),
        };
        let out = Attention.oracle(dims, &inputs, &(0..40).collect::<Vec<_>>()).unwrap();
        (inputs, probed, out)
    }

    #[test]
    fn the_same_seed_makes_the_same_probe_and_another_seed_another_one() {
        for probe in PROBES.iter().filter(|probe| probe.change.is_of(&Attention.inputs(&dims(), Dtype::F16))) {
            let (inputs, told, _) = probed(probe.name, 5);
            let again = probed(probe.name, 5);
            // NaN is not equal to itself.
            let bits = |inputs: &[Vec<f32>]| inputs.concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!((bits(&inputs), &told), (bits(&again.0), &again.1), "{}", probe.name);
            assert_ne!(bits(&inputs), bits(&probed(probe.name, 6).0), "{}", probe.name);
            assert!(!told.rows.is_empty() && told.rows.iter().all(|row| *row < 40), "{}: {told:?}", probe.name);
        }
    }

    /// Of these probes, only the one with NaN gives NaN, and only in the rows that it names.
    #[test]
    fn the_expected_output_is_finite_but_for_the_rows_that_a_probe_names() {
        let with = |names: &[(&str, i64)]| -> Dims {
            dims().into_iter().chain(names.iter().map(|(name, value)| ((*name).to_owned(), *value))).collect()
        };
        let all = [
            dims(),
            with(&[("Hkv", 1)]),
            with(&[("WINDOW", 5), ("SOFTCAP", 30), ("SINK", 1)]),
            with(&[("B", 2), ("H", 1), ("LENGTHS", 1), ("SHORTEST", 21), ("SINK", 1)]),
            with(&[("B", 2), ("H", 1), ("LENGTHS", 1), ("SHORTEST", 25), ("PAGE", 10), ("PAGES", 8)]),
            with(&[
                ("B", 2),
                ("H", 1),
                ("LENGTHS", 1),
                ("SHORTEST", 25),
                ("PAGE", 10),
                ("PAGES", 8),
                ("KV", 1),
                ("LSE", 1),
            ]),
            with(&[("B", 5), ("Sk", 20), ("VARLEN", 1), ("SHORTEST", 1)]),
            with(&[("B", 3), ("Sk", 20), ("Hkv", 1), ("VARLEN", 1), ("WINDOW", 3), ("SINK", 1)]),
        ];
        // Where packed sequences are NaN, the oracle tells.
        let probes = || PROBES.iter().filter(|probe| !probe.name.starts_with("sequences"));
        for (dims, probe) in all.iter().flat_map(|dims| probes().map(move |probe| (dims, probe))) {
            for seed in 0..20 {
                let (_, told, out) = probed_on(dims, probe.name, seed);
                let bad = (0..40).filter(|row| out[row * 32..(row + 1) * 32].iter().any(|o| !o.is_finite()));
                let bad: Vec<usize> = bad.collect();
                let named = |row: &usize| told.unspecified.iter().any(|rows| rows.contains(row));
                assert!(bad.iter().all(named), "{}: rows {bad:?}, named {:?}", probe.name, told.unspecified);
                assert_eq!(bad.is_empty(), probe.name != "NaN and infinity", "{} with seed {seed}", probe.name);
            }
        }
    }

    #[test]
    fn a_query_that_points_at_a_key_gets_its_values() {
        let (inputs, _, out) = probed("needles", 5);
        let mut met = std::collections::BTreeSet::new();
        for (row, out) in out.chunks_exact(32).enumerate() {
            let (head, visible) = (row / 20, row % 20 + 11);
            let values = inputs[2][head * 30 * 32..(head * 30 + visible) * 32].chunks_exact(32);
            let distance =
                |values: &[f32]| out.iter().zip(values).map(|(o, v)| (o - f64::from(*v)).powi(2)).sum::<f64>();
            met.extend(values.enumerate().find(|(_, values)| distance(values) < 1.0).map(|(j, _)| j));
        }
        assert!(met.len() > 12, "all over the place: {met:?}");
    }

    /// A kernel that starts its maximum at 0, and one that has none, both fail on some rows of shifted scores.
    #[test]
    fn shifted_scores_overflow_and_underflow_an_exponential_without_a_maximum() {
        let (mut over, mut under) = (0, 0);
        for seed in 0..20 {
            let (inputs, ..) = probed("shifted scores", seed);
            let score = |i: usize, j: usize| {
                let products = inputs[0][i * 32..(i + 1) * 32].iter().zip(&inputs[1][j * 32..(j + 1) * 32]);
                products.map(|(q, k)| q * k).sum::<f32>() / 32.0_f32.sqrt()
            };
            over += usize::from((0..20).any(|i| (0..11).any(|j| score(i, j) > 89.0)));
            under += usize::from((0..20).any(|i| (0..i + 11).all(|j| score(i, j) < -104.0)));
        }
        assert!(over >= 10 && under >= 5, "{over} and {under} of 20");
    }

    /// A kernel that skips keys 11.5 below the maximum loses most of the output in some rows.
    #[test]
    fn a_tail_outweighs_the_largest_weight() {
        let (_, _, out) = probed("a tail of small weights", 4);
        let rows = out.chunks_exact(32);
        let length = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!(rows.filter(|row| length(row) > 1e-6).count() > 20);
    }
}
