//! Rows and sizes that a workload does not name, on which kernels that select the largest elements go wrong.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Change, Dims, Dtype, Probe, Probed};
use crate::ops::draw::{limit, log_uniform_count, normal, places, power_of_two, sign};

/// Every probe.
pub static PROBES: [Probe; 8] = [
    Probe { name: "rows of equal numbers", change: Change::Numbers(equal) },
    Probe { name: "sorted rows", change: Change::Numbers(sorted) },
    Probe { name: "the largest numbers close together", change: Change::Numbers(together) },
    Probe { name: "many numbers equal to the last one selected", change: Change::Numbers(tied) },
    Probe { name: "numbers that differ in their last bits", change: Change::Numbers(near) },
    Probe { name: "no positive numbers", change: Change::Numbers(negative) },
    Probe { name: "infinite numbers", change: Change::Numbers(infinite) },
    Probe { name: "NaN", change: Change::Numbers(nan) },
];

/// Rows that are always compared.
const ROWS: usize = 32;

/// Changes each row, and names random ones of both outputs.
fn each(dims: &Dims, inputs: &mut [Vec<f32>], seed: u64, mut change: impl FnMut(&mut [f32], &mut SmallRng)) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    let [b, n] = ["B", "N"].map(|name| usize::try_from(dims[name]).expect("validated with the workload"));
    inputs[0].chunks_mut(n).for_each(|row| change(row, &mut rng));
    let rows = places(&mut rng, b, ROWS);
    Probed { rows: rows.iter().copied().chain(rows.iter().map(|row| b + row)).collect(), ..Probed::default() }
}

fn selected(dims: &Dims) -> usize {
    usize::try_from(dims["K"]).expect("validated with the workload")
}

/// Every number of a row is the same, or zero of either sign.
fn equal(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each(dims, inputs, seed, |row, rng| {
        let number = sign(rng) * power_of_two(rng, -3.0..3.0);
        let is_zero = rng.random_range(0..3) == 0;
        row.iter_mut().for_each(|x| *x = if is_zero { 0.0 * sign(rng) } else { number });
    })
}

/// Rows that rise, fall, or begin anew somewhere.
fn sorted(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each(dims, inputs, seed, |row, rng| {
        row.sort_unstable_by(f32::total_cmp);
        if rng.random() {
            row.reverse();
        }
        if rng.random() {
            row.rotate_left(rng.random_range(0..row.len()));
        }
    })
}

/// Where a kernel divides a row, one part has all of the largest numbers: they follow each other, at the end of a row or elsewhere, or lie at
/// equal distances.
fn together(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let k = selected(dims);
    each(dims, inputs, seed, |row, rng| {
        let count = if rng.random() { k } else { log_uniform_count(rng, k) };
        let stride = match rng.random_range(0..3) {
            0 => 1 << rng.random_range(0..12),
            _ => 1,
        };
        let stride = if count * stride <= row.len() { stride } else { 1 };
        let free = row.len() - (count - 1) * stride;
        let first = if rng.random() { free - 1 } else { rng.random_range(0..free) };
        for i in 0..count {
            row[first + i * stride] = 8.0 + normal(rng).abs();
        }
        limit(row, dtype);
    })
}

/// Many numbers are equal, and some of them are selected beside the few that are larger.
fn tied(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let k = selected(dims);
    each(dims, inputs, seed, |row, rng| {
        let larger = rng.random_range(0..k);
        let share = if rng.random() { 0.9 } else { power_of_two(rng, -8.0..0.0) };
        let tie = normal(rng);
        for x in row.iter_mut() {
            *x = if rng.random::<f32>() < share { tie } else { tie - 0.5 - normal(rng).abs() };
        }
        for place in places(rng, row.len(), larger) {
            row[place] = tie + 0.5 + normal(rng).abs();
        }
    })
}

/// Neighbours of one number: a kernel that keeps fewer bits takes others.
fn near(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each(dims, inputs, seed, |row, rng| {
        let number = sign(rng) * power_of_two(rng, -2.0..2.0).exp2().floor().max(1.0);
        let mut steps: Vec<usize> = (0..row.len()).collect();
        steps.shuffle(rng);
        let step = dtype.epsilon() as f32;
        row.iter_mut().zip(steps).for_each(|(x, i)| *x = number * (1.0 + i as f32 * step));
        limit(row, dtype);
    })
}

/// A kernel that begins with zero, or with a number that is not small enough, returns it.
fn negative(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let k = selected(dims);
    each(dims, inputs, seed, |row, rng| {
        // Most numbers of some rows are the lowest, or zeros of either sign.
        let (kind, kept) = (rng.random_range(0..3), log_uniform_count(rng, 2 * k) as f32 / row.len() as f32);
        let scale = power_of_two(rng, 0.0..8.0);
        for x in row.iter_mut() {
            let is_kept = kind == 0 || rng.random::<f32>() < kept;
            *x = match (is_kept, kind) {
                (true, _) => -scale * (1.0 + x.abs()),
                (false, 1) => -dtype.largest() as f32,
                (false, _) => 0.0 * sign(rng),
            };
        }
        limit(row, dtype);
    })
}

/// Rows with fewer numbers than are selected besides minus infinity, with none, and with plus infinity.
fn infinite(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let k = selected(dims);
    each(dims, inputs, seed, |row, rng| {
        if !dtype.has_infinity() {
            return;
        }
        let finite = match rng.random_range(0..3) {
            0 => 0,
            1 => rng.random_range(0..=k),
            _ => row.len(),
        };
        let kept = finite as f32 / row.len() as f32;
        row.iter_mut().for_each(|x| *x = if rng.random::<f32>() < kept { *x } else { f32::NEG_INFINITY });
        if rng.random() {
            let count = log_uniform_count(rng, k);
            places(rng, row.len(), count).into_iter().for_each(|place| row[place] = f32::INFINITY);
        }
    })
}

/// Some rows have NaN, which is greater than infinity.
fn nan(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let k = selected(dims);
    each(dims, inputs, seed, |row, rng| {
        if rng.random() {
            return;
        }
        if dtype.has_infinity() && rng.random() {
            let at = rng.random_range(0..row.len());
            row[at] = f32::INFINITY;
        }
        let count = log_uniform_count(rng, k);
        places(rng, row.len(), count).into_iter().for_each(|place| row[place] = f32::NAN.copysign(sign(rng)));
    })
}

/// Draws sizes that no workload names, the most telling first: rows as long as what is selected, or a little longer, of odd lengths and of
/// whole vectors, longer ones than the case's, many rows, and other numbers of selected elements.
pub fn hidden(dims: &Dims, seed: u64) -> Vec<Dims> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let [b, n, k] = ["B", "N", "K"].map(|name| dims[name]);
    let mut length = |factor: i64, most: i64| {
        let least = (k + factor - 1) / factor;
        let drawn = power_of_two(&mut rng, 0.0..((most / factor).max(2) as f32).log2()) as i64;
        drawn.max(least) * factor
    };
    let most = n.clamp(4 * k, 1 << 15);
    let drawn = [length(4, most) | 4, length(1, most) | 1, length(8, most), length(2, most) | 2, length(16, most)];
    let longer = [n + 1, n + 8, n + 4 * length(1, n / 4)];
    let mut small = || rng.random_range(1..=b.clamp(2, 9));
    let mut all = vec![
        (small(), drawn[0], k),
        (1, k, k),
        ((b + 1) / 2, longer[2] / 4 * 4, k),
        (small(), drawn[1], k),
        (small(), k + 1, k),
        (1, (k + 4) / 4 * 4, k),
        (small(), drawn[2], k),
        ((b + 1) / 2, longer[1], k),
        (small(), drawn[3], k),
        (1, longer[0], k),
        (small(), drawn[4], k),
        // More rows than 16 bits count.
        (66_000, (k + 15) / 8 * 8, k),
        (small(), drawn[0], 1),
    ];
    let fewer = rng.random_range(1..=k);
    all.extend([(2, drawn[1], fewer), (2, drawn[2], (k + 1).min(128))]);
    let with = |(b, n, k): (i64, i64, i64)| {
        let mut other = dims.clone();
        for (name, size) in [("B", b), ("N", n.max(k)), ("K", k)] {
            other[name] = size;
        }
        other
    };
    all.into_iter().map(with).collect()
}
