//! Sizes near a case, for any op.

use std::iter;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::Declared;
use crate::domain::op::{CheckLimits, DimSpec, Dims, Dtype, Op};
use crate::ops::sizes::{self, PERIODS};

/// Scaled cases change a dimension by whole multiples of this. Tiles of kernels are powers of two up to 256, so the last
/// tile stays as full as it was. Smaller dimensions, such as a filter's, stay as they are.
const PERIOD: i64 = 256;

/// The largest size of a dimension in most hidden cases. It gives several tiles, checked in milliseconds.
const MAX_SIDE: i64 = 1024;

/// The most bytes of such a case, in float32.
const MAX_BYTES: f64 = 16.0 * (1 << 20) as f64;

/// The same for the independent dimension, whose indices are alike.
const MAX_INDEPENDENT: i64 = 40;

/// Indices of the independent dimension where the others are large.
const FEW: i64 = 3;

/// So many indices that 16 bits do not count them.
const MANY: std::ops::Range<i64> = 65_600..70_000;

/// Shapes that come before the long and narrow ones.
const MOST_TELLING: usize = 4;

/// Elements of the widest vector load in 8 bits. Kernels may have a path of their own for sizes that are multiples of it.
const VECTOR: i64 = 16;

/// A size with whole tiles of most kernels, where another one has not.
const WHOLE: i64 = 128;

/// The most bytes of a shape that is narrow and long, in float32.
const MANY_BYTES: f64 = 9e6;

/// Long sizes of another dimension, the longest first. With the first one, the blocks of a grid have more partial results than a
/// block has threads.
const LONG: [std::ops::Range<i64>; 4] = [1_050_000..1_100_000, MANY, 8_193..9_000, 4_097..5_000];

/// The most of the other dimensions there.
const NARROW: i64 = 16;

/// The elements of the largest tensor where a float does not count them.
const HUGE: std::ops::Range<i64> = 17_000_000..18_000_000;

/// The most bytes and floating-point operations there, in float32: three such tensors.
const HUGE_BYTES: f64 = 220e6;
const HUGE_FLOP: f64 = 2e9;

/// How a size is chosen.
#[derive(Clone, Copy)]
enum Size {
    Next,
    Before,
    Odd,
    One,
    /// A multiple of this and of no larger power of two.
    MultipleOf(i64),
}

/// All of them, the most telling first.
const SIZES: [Size; 7] =
    [Size::Next, Size::Odd, Size::MultipleOf(8), Size::MultipleOf(2), Size::MultipleOf(64), Size::Before, Size::One];

/// The powers of two up to the largest tile of most kernels. A size that is a multiple of one of them and of no larger one leaves as
/// much in the last tile.
const TILES: std::ops::RangeInclusive<u32> = 1..=8;

/// Sizes beyond what an array of 4,096 numbers holds, and within one of 8,192.
const BEYOND_ARRAYS: std::ops::RangeInclusive<i64> = 4_097..=8_192;

/// Sizes beyond what 1,024 threads hold in 16 registers each.
const BEYOND_REGISTERS: std::ops::RangeInclusive<i64> = 16_385..=32_768;

/// A multiple of most tiles: they are powers of two. A kernel may take no elements of the last tile if it is whole.
const WHOLE_TILES: i64 = 1024;

/// Returns smaller sizes on which kernels take the same paths, the smallest first.
pub(super) fn scaled(dims: &Dims) -> Vec<Dims> {
    let scaled = |periods: i64| -> Dims {
        dims.iter().map(|(name, size)| (name.clone(), *size.min(&(size % PERIOD + periods * PERIOD)))).collect()
    };
    sizes::scaled(dims, PERIODS, scaled)
}

/// Draws sizes that no workload names. They are larger than the case, one more or less than its sizes, odd, one, or multiples
/// of a small number and of no larger one: vector loads and whole tiles allow only some of them.
pub(super) fn hidden(op: &Declared, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let bytes = |dims: &Dims| op.bytes(dims, Dtype::F32);
    let many = op.independent.map(|dim| many(op, dims, dim, MANY_BYTES.max(least.bytes), &mut rng));
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (place, size) in SIZES.into_iter().enumerate() {
        // All dimensions at once, then each alone. The others stay, because kernels may be made for them.
        let together = changed(op, dims, size, |_| true, &mut rng);
        if place == 0 {
            first.push(together)
        } else {
            rest.push(together)
        }
        rest.extend(op.dims().iter().map(|dim| changed(op, dims, size, |name| name == dim.name, &mut rng)));
    }
    rest.shuffle(&mut rng);
    let CheckLimits { flop: most_flop, bytes: most_bytes } = least.of_hidden(op.flop(dims), bytes(dims));
    let is_within = |other: &Dims, most_bytes: f64| {
        op.check(other).is_ok() && op.flop(other) <= most_flop && bytes(other) <= most_bytes
    };
    let is_quick = |other: &Dims| is_within(other, most_bytes.min(least.bytes));
    first.extend(whole_tiles(op, dims, &mut rng).into_iter().find(is_quick));
    first.extend(larger(op, dims, |size| 2 * size + 1, &mut rng).into_iter().find(is_quick));
    // Vector loads allow this one, and nothing larger.
    first.extend(larger(op, dims, |size| of_vectors(2 * size + VECTOR), &mut rng).into_iter().find(is_quick));
    let is_narrow = |other: &Dims| is_within(other, MANY_BYTES.max(least.bytes));
    let long = long(op, dims, &mut rng).into_iter().find(is_narrow);
    let first = first.into_iter().chain(rest).filter(|other| is_within(other, most_bytes));
    let mut kept: Vec<Dims> = Vec::new();
    for other in first {
        if other != *dims && !kept.contains(&other) {
            kept.push(other);
        }
    }
    // After the most telling ones, because a virtual GPU takes seconds for so many blocks.
    let place = MOST_TELLING.min(kept.len());
    kept.splice(place..place, long.into_iter().chain(many.filter(is_narrow)));
    kept
}

/// Returns small shapes: for each power of two up to the largest tile, all dimensions but the independent one are multiples of it and
/// of no larger one, in one shape they are 1, then each of them is longer than many an array, and ends within a tile where the
/// others have whole ones. Among shapes drawn at random, a kernel that loses half a tile passed five times of six (2026-11-30, on a
/// virtual H200).
pub(super) fn remainders(op: &Declared, dims: &Dims, seed: u64) -> Vec<Dims> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let is_dependent = |name: &str| op.independent != Some(name);
    let sizes = TILES.map(|exponent| Size::MultipleOf(1 << exponent)).chain([Size::One]);
    let shape = |size| {
        let mut other = changed(op, dims, size, is_dependent, &mut rng);
        if let Some(independent) = op.independent.and_then(|dim| other.get_mut(dim)) {
            *independent = FEW.min(*independent);
        }
        other
    };
    let mut all: Vec<Dims> = sizes.map(shape).collect();
    let dependent: Vec<&DimSpec> = op.dims().iter().filter(|dim| is_dependent(dim.name)).collect();
    for dim in &dependent {
        let with = |most: i64, size: i64| {
            let mut other = small(op, dims);
            for one in op.dims() {
                let most = if is_dependent(one.name) { most } else { FEW };
                other[one.name] = other[one.name].min(most).max(one.range.0);
            }
            other[dim.name] = size.clamp(dim.range.0, dim.range.1);
            other
        };
        let [arrays, registers] = [BEYOND_ARRAYS, BEYOND_REGISTERS].map(|beyond| rng.random_range(beyond));
        all.extend([arrays, of_vectors(arrays), of_vectors(registers)].map(|size| with(NARROW, size)));
        // A fast path for whole tiles must take the rest of another dimension, too.
        if dependent.len() > 1 {
            all.extend([8, VECTOR].map(|factor| with(WHOLE, (rng.random_range(0..4) * 2 + 1) * factor)));
        }
    }
    all.into_iter().filter(|other| other != dims && op.bytes(other, Dtype::F32) <= MAX_BYTES).collect()
}

/// Returns narrow sizes with one dimension so long that the largest tensor has more elements than 24 bits count.
pub(super) fn huge(op: &Declared, dims: &Dims, seed: u64) -> Option<Dims> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut narrow = small(op, dims);
    for dim in op.dims() {
        narrow[dim.name] = narrow[dim.name].min(NARROW).max(dim.range.0);
    }
    let mut all: Vec<_> = op.dims().iter().collect();
    all.shuffle(&mut rng);
    let with = |dim: &DimSpec, size: i64| {
        let mut other = narrow.clone();
        other[dim.name] = size;
        other
    };
    let elements = rng.random_range(HUGE);
    all.into_iter().find_map(|dim| {
        let (one, two) = (op.tensors(&with(dim, 1), Dtype::F32), op.tensors(&with(dim, 2), Dtype::F32));
        let more = one.iter().zip(&two).map(|(one, two)| two.elements() - one.elements()).max()?;
        let size = elements / (more as i64).max(1);
        let other = with(dim, size);
        let is_fine = more > 0
            && (dim.range.0..=dim.range.1).contains(&size)
            && op.check(&other).is_ok()
            && op.bytes(&other, Dtype::F32) <= HUGE_BYTES
            && op.flop(&other) <= HUGE_FLOP;
        is_fine.then_some(other)
    })
}

/// Returns the case with sizes that are checked quickly.
pub(super) fn small(op: &Declared, dims: &Dims) -> Dims {
    let most = |name: &str| if op.independent == Some(name) { MAX_INDEPENDENT } else { MAX_SIDE };
    let least = |name: &str| op.dims().iter().find(|dim| dim.name == name).map_or(1, |dim| dim.range.0);
    let clamped = |name: &str| dims[name].min(most(name)).max(least(name));
    let mut small: Dims = op.dims().iter().map(|dim| (dim.name.to_owned(), clamped(dim.name))).collect();
    // The largest side is halved, until all tensors are small. A side of 16 still has several tiles.
    while op.bytes(&small, Dtype::F32) > MAX_BYTES {
        let sides = small.iter_mut().filter(|(name, side)| **side / 2 >= least(name).max(16));
        let Some((_, side)) = sides.max_by_key(|(_, side)| **side) else { break };
        *side /= 2;
    }
    small
}

/// Returns a multiple of whole vectors near a size, and of no larger power of two.
fn of_vectors(size: i64) -> i64 {
    (size / (2 * VECTOR) * 2 + 1) * VECTOR
}

fn changed(op: &Declared, dims: &Dims, size: Size, is_meant: impl Fn(&str) -> bool, rng: &mut SmallRng) -> Dims {
    let mut other = small(op, dims);
    for dim in op.dims().iter().filter(|dim| is_meant(dim.name)) {
        let side = other[dim.name];
        let some = side.clamp(16, MAX_SIDE);
        let drawn = match size {
            Size::Next => side + 1,
            Size::Before => side - 1,
            Size::One => 1,
            Size::Odd => rng.random_range(0..some / 2) * 2 + 1,
            Size::MultipleOf(factor) => (rng.random_range(0..(some / factor).max(2) / 2) * 2 + 1) * factor,
        };
        other[dim.name] = drawn.clamp(dim.range.0, dim.range.1);
    }
    other
}

/// Returns shapes with over twice the case's size in every dimension but the independent one, or in one of them. A kernel may
/// hold a row in an array of fixed length, or take as many threads.
fn larger(op: &Declared, dims: &Dims, size: impl Fn(i64) -> i64, rng: &mut SmallRng) -> Vec<Dims> {
    let mut small = small(op, dims);
    // The others may be large.
    if let Some(independent) = op.independent.and_then(|dim| small.get_mut(dim)) {
        *independent = FEW.min(*independent);
    }
    let with = |meant: &[&DimSpec]| {
        let mut other = small.clone();
        other.extend(
            meant.iter().map(|dim| (dim.name.to_owned(), size(dims[dim.name]).clamp(dim.range.0, dim.range.1))),
        );
        other
    };
    let mut dependent: Vec<_> = op.dims().iter().filter(|dim| op.independent != Some(dim.name)).collect();
    dependent.shuffle(rng);
    iter::once(with(&dependent)).chain(dependent.iter().map(|dim| with(&[*dim]))).collect()
}

/// Returns shapes with whole tiles in every dimension but the independent one, or in one of them.
fn whole_tiles(op: &Declared, dims: &Dims, rng: &mut SmallRng) -> Vec<Dims> {
    let mut dependent: Vec<_> = op.dims().iter().filter(|dim| op.independent != Some(dim.name)).collect();
    dependent.shuffle(rng);
    let with = |meant: &[&DimSpec]| {
        let mut other = small(op, dims);
        other.extend(meant.iter().map(|dim| (dim.name.to_owned(), WHOLE_TILES.clamp(dim.range.0, dim.range.1))));
        other
    };
    iter::once(with(&dependent)).chain(dependent.iter().map(|dim| with(&[*dim]))).collect()
}

/// Returns shapes in which one dimension, but not the independent one, is long, the longest first. Arrays of fixed length often
/// have 1,024 to 8,192 elements, and an index may have 16 bits.
fn long(op: &Declared, dims: &Dims, rng: &mut SmallRng) -> Vec<Dims> {
    let mut dependent: Vec<_> = op.dims().iter().filter(|dim| op.independent != Some(dim.name)).collect();
    dependent.shuffle(rng);
    let sizes = LONG.map(|range| rng.random_range(range));
    let with = |meant: &DimSpec, size: i64| {
        let mut other = small(op, dims);
        for dim in op.dims() {
            let few = if op.independent == Some(dim.name) { FEW } else { NARROW };
            let size = if dim.name == meant.name { size } else { other[dim.name].min(few) };
            other[dim.name] = size.clamp(dim.range.0, dim.range.1);
        }
        other
    };
    sizes
        .into_iter()
        .flat_map(|size| dependent.iter().map(move |dim| (*dim, size)))
        .map(|(dim, size)| with(dim, size))
        .collect()
}

/// Returns many indices of the independent dimension, with little work for each.
fn many(op: &Declared, dims: &Dims, independent: &str, most_bytes: f64, rng: &mut SmallRng) -> Dims {
    let mut other = small(op, dims);
    for dim in op.dims() {
        let size = if dim.name == independent { rng.random_range(MANY) } else { other[dim.name].min(8) };
        other[dim.name] = size.clamp(dim.range.0, dim.range.1);
    }
    let can_shrink = |(name, side): &(&String, &mut i64)| {
        *name != independent && op.dims().iter().any(|dim| dim.name == *name && **side > dim.range.0.max(1))
    };
    while op.bytes(&other, Dtype::F32) > most_bytes {
        let Some((_, side)) = other.iter_mut().filter(can_shrink).max_by_key(|(_, side)| **side) else { break };
        *side -= 1;
    }
    other
}
