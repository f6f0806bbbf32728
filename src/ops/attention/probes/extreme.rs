//! Probes at and beyond the limits of the dtype.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::shape::Shape;
use super::scores::scale;
use super::{change_in_order, each_head, query_that_sees, rows_of, rows_of_heads};
use crate::domain::op::{Dims, Dtype, Probed};
use crate::ops::draw::{power_of_two, sign};

/// Some heads have values near the largest of the dtype, all of one sign, so that sums of them overflow before they are
/// divided. Some have subnormal values. Some have scores up to millions, of which one key takes all, and some have
/// scores of exactly zero.
pub fn limits(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each_head(dims, dtype, inputs, seed, |_, head, rng| {
        // In FP32 and BF16, no sum of a million such values may overflow.
        let largest = match dtype {
            Dtype::F16 => 65504.0,
            _ => 100.0_f32.exp2(),
        };
        match rng.random_range(0..5) {
            0 => {
                let sign = sign(rng);
                head.v.iter_mut().for_each(|v| *v = sign * largest * rng.random_range(0.4..1.0_f32));
            }
            1 => {
                // Sums of few such values are themselves subnormal, so their rounding is coarse but known.
                let smallest = match dtype {
                    Dtype::F16 => power_of_two(rng, -18.0..-14.0),
                    _ => power_of_two(rng, -110.0..-60.0),
                };
                scale(head.v, smallest);
            }
            2 => {
                scale(head.q, power_of_two(rng, 4.0..11.0));
                scale(head.k, power_of_two(rng, 4.0..11.0));
            }
            3 => scale(head.k, 0.0),
            _ => {
                // Products of tiny and huge numbers, which are ordinary scores.
                let (of_tiny, of_huge) = (power_of_two(rng, -20.0..-13.0), power_of_two(rng, 10.0..13.0));
                let (q, k) = if rng.random() { (of_tiny, of_huge) } else { (of_huge, of_tiny) };
                scale(head.q, q);
                scale(head.k, k);
            }
        }
    })
}

/// The most heads with a NaN or an infinity.
const MOST_HEADS: usize = 64;

/// Some heads of keys have one NaN or infinity among their queries, keys or values. Outputs that depend on it must not be
/// finite, and no other head may be affected. Half of them have it among their keys, and there may be many: a kernel that
/// computed every eighth exponential by a polynomial, without NaN, passed with eight heads (docs/measuring).
pub fn not_finite(dims: &Dims, _dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change_in_order(dims, None, inputs, |inputs, places| {
        let shape = Shape::of(dims);
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut probed = Probed { rows: rows_of_heads(places, seed), ..Probed::default() };
        let [q, k, v, ..] = inputs else { return probed };
        // At least one head stays clean, where there are several.
        let most = if shape.key_heads() > 1 { (shape.key_heads() / 2).clamp(1, MOST_HEADS) } else { 1 };
        for of_keys in rand::seq::index::sample(&mut rng, shape.key_heads(), most) {
            let group = &places[of_keys * shape.ratio..(of_keys + 1) * shape.ratio];
            let place = &group[if shape.ratio == 1 { 0 } else { rng.random_range(0..shape.ratio) }];
            let shape = place.shape;
            if shape.sq == 0 {
                continue;
            }
            // The first visible keys, so that every query depends on them.
            let (j, d) = (rng.random_range(shape.visible(0)), rng.random_range(0..shape.d));
            let i = query_that_sees(&shape, j, &mut rng);
            let of_key = (place.keys + j) * shape.d + d;
            match rng.random_range(0..6) {
                0..3 => k[of_key] = f32::NAN,
                3 => q[(place.queries + i) * shape.d + d] = f32::NAN,
                4 => v[of_key] = f32::NAN,
                _ => v[of_key] = sign(&mut rng) * f32::INFINITY,
            }
            probed.rows.push(place.queries + i);
            probed.rows.extend(rows_of(place, 2, &mut rng));
            // A key or value reaches every query head that shares it.
            probed.unspecified.push(group[0].queries..group[0].queries + group.len() * shape.sq);
        }
        probed
    })
}
