//! Probes with equal or almost equal rows or heads.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::shape::Shape;
use super::scores::scale;
use super::{change_in_order, each_head, query_that_sees};
use crate::domain::op::{Dims, Dtype, Probed};
use crate::ops::draw::{log_uniform_count, power_of_two, sign};

/// The keys of a head are copies of a few rows, in random order, and so are its queries. In some heads all keys are
/// equal: the output is then the mean of the visible values, so that a missing or unmasked key shows in every query. In
/// others, one key differs from the rest, or some rows differ from their neighbours in a single element.
pub fn ties(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each_head(dims, dtype, inputs, seed, |shape, mut head, rng| {
        let kinds = if rng.random() { 1 } else { log_uniform_count(rng, shape.length) };
        duplicate_rows(head.k, shape.d, kinds, rng);
        if rng.random() {
            let queries = log_uniform_count(rng, shape.sq);
            duplicate_rows(head.q, shape.d, queries, rng);
        }
        if rng.random_bool(0.3) {
            let j = rng.random_range(0..shape.length);
            scale(head.key(shape, j), sign(rng) * power_of_two(rng, -1.0..3.0));
        }
        if rng.random() {
            for rows in [&mut *head.q, &mut *head.k, &mut *head.v] {
                change_elements(rows, shape.d, rng);
            }
        }
        if rng.random_bool(0.2) {
            let values = log_uniform_count(rng, shape.length);
            duplicate_rows(head.v, shape.d, values, rng);
        }
    })
}

/// All heads are copies of the first, except for a single key, value or query at a random place of each. Packed sequences have copies of
/// their own first head.
pub fn heads(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change_in_order(dims, Some(dtype), inputs, |inputs, places| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let [q, k, v, ..] = inputs else { return Probed::default() };
        let ratio = places[0].shape.ratio;
        for (head, place) in places.iter().enumerate() {
            let Shape { is_packed, heads_of_entry, sq, sk, d, .. } = place.shape;
            let first = &places[if is_packed { head / heads_of_entry * heads_of_entry } else { 0 }];
            q.copy_within(first.queries * d..(first.queries + sq) * d, place.queries * d);
            if head % ratio == 0 {
                for rows in [&mut *k, &mut *v] {
                    rows.copy_within(first.keys * d..(first.keys + sk) * d, place.keys * d);
                }
            }
        }
        let mut rows: Vec<usize> =
            places.first().filter(|place| place.shape.sq > 0).map(|place| place.shape.sq - 1).into_iter().collect();
        for place in places.iter().filter(|place| place.shape.sq > 0) {
            let shape = place.shape;
            let j = rng.random_range(shape.seen());
            let i = query_that_sees(&shape, j, &mut rng);
            let (of_query, of_key) = ((place.queries + i) * shape.d, (place.keys + j) * shape.d);
            // Large enough to change the output of a query that sees it by more than any tolerance.
            let factor = sign(&mut rng) * (shape.length as f32).sqrt().max(8.0) * power_of_two(&mut rng, 0.0..2.0);
            match rng.random_range(0..3) {
                0 => scale(&mut q[of_query..of_query + shape.d], -2.0),
                1 => {
                    // The query points at the key, so that the key counts.
                    let (query, key) = (&q[of_query..of_query + shape.d], &mut k[of_key..of_key + shape.d]);
                    let squares = query.iter().map(|x| x * x).sum::<f32>().max(1e-3);
                    let score = rng.random_range(8.0..32.0_f32) * (shape.d as f32).sqrt();
                    key.iter_mut().zip(query).for_each(|(k, q)| *k = q * score / squares);
                }
                _ => scale(&mut v[of_key..of_key + shape.d], factor),
            }
            if rows.len() < super::MAX_ROWS {
                rows.push(place.queries + i);
            }
        }
        Probed { rows, ..Probed::default() }
    })
}

/// Changes one element of some rows by a large amount.
fn change_elements(rows: &mut [f32], row_len: usize, rng: &mut SmallRng) {
    let share = power_of_two(rng, -5.0..-1.0);
    for row in rows.chunks_exact_mut(row_len) {
        if rng.random::<f32>() < share {
            row[rng.random_range(0..row_len)] += sign(rng) * (row_len as f32).sqrt() * power_of_two(rng, 0.0..2.0);
        }
    }
}

/// Replaces rows by copies of `kinds` of them, drawn for each row.
fn duplicate_rows(rows: &mut [f32], row_len: usize, kinds: usize, rng: &mut SmallRng) {
    let originals = rows[..kinds * row_len].to_vec();
    for row in rows.chunks_exact_mut(row_len) {
        let kind = rng.random_range(0..kinds);
        row.copy_from_slice(&originals[kind * row_len..(kind + 1) * row_len]);
    }
}
