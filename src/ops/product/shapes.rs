//! Sizes on which a source is checked, and which no workload names.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::domain::op::Dims;

/// The most rows and columns of a hidden case, and the most terms of its sums, unless a case is large on purpose. They
/// give several tiles of each, checked in milliseconds.
const MAX_SIDE: i64 = 1024;
const MAX_TERMS: i64 = 4096;

/// Many tiles in one direction, so that an index that is rounded, or counted in 16 bits, goes wrong.
fn many_tiles(rng: &mut SmallRng) -> (i64, i64, i64) {
    let long = rng.random_range(7.0..13.0_f64).exp2() as i64 * 8;
    let (short, k) = (rng.random_range(1..100), rng.random_range(1..8) * 8);
    if rng.random() { (short, long, k) } else { (long, (short + 7) / 8 * 8, k) }
}

/// Draws sizes, the most telling first. They end a tile one element sooner or later, are odd, are multiples of a small
/// number and of no larger one, have whole tiles with a part of a tile of terms, have a single row or column, or more elements
/// than 16 bits count. Kernels that load 16 bytes at a time allow only multiples of 8.
pub fn hidden(dims: &Dims, rng: &mut SmallRng) -> Vec<Dims> {
    let (m, n, k) = (dims["M"].min(MAX_SIDE), dims["N"].min(MAX_SIDE), dims["K"].min(MAX_TERMS));
    let mut odd = |most: i64| rng.random_range(0..most.clamp(16, 400) / 2) * 2 + 1;
    let [odd_m, odd_n, odd_k] = [m, n, k].map(&mut odd);
    let large = [16, 32, 64][rng.random_range(0..3)];
    let [tiles, more_tiles] = [many_tiles(rng), many_tiles(rng)];
    let mut multiple =
        |factor: i64, most: i64| (rng.random_range(0..(most.max(128) / factor).max(2) / 2) * 2 + 1) * factor;
    // A fast path for whole tiles must take the last terms of a sum, too.
    let mut whole_tiles = |factor: i64| {
        let terms = multiple(factor, 128);
        if terms % (4 * factor) == factor { (256, 128, terms) } else { (128, 256, terms) }
    };
    let [whole, more_whole] = [whole_tiles(8), whole_tiles(16)];
    let first = [(m + 1, n + 1, k + 1), whole, (multiple(2, m), multiple(2, n), multiple(2, k)), more_whole, tiles];
    let mut drawn = [
        (m + 1, multiple(8, n), multiple(8, k)),
        (odd_m, odd_n, odd_k),
        (odd_m, multiple(large, n), multiple(large, k)),
        (1, multiple(8, n), multiple(8, k)),
        (multiple(4, m), multiple(4, n), multiple(4, k)),
        (multiple(16, m), multiple(16, n), multiple(16, k)),
        (odd_m, multiple(64, n), multiple(64, k)),
        more_tiles,
        (odd_m, 1, odd_k),
    ];
    drawn.shuffle(rng);
    let fallback = [(m - 1, n - 1, k - 1), (m, n, k / 2), (m, n / 2, k)];
    let all = first.into_iter().chain(drawn).chain(fallback);
    let with = |(m, n, k): (i64, i64, i64)| {
        let mut other = dims.clone();
        for (name, size) in [("M", m), ("N", n), ("K", k)] {
            other[name] = size.max(1);
        }
        other
    };
    all.map(with).collect()
}
