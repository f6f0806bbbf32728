//! What the ops have in common that multiply two matrices: sizes to check and time them with, and inputs.
//!
//! The dimensions are `M`, the rows of the first matrix and of the output, `N`, the columns of the output, and `K`, the terms
//! of a sum.

mod probes;
mod shapes;

use rand::SeedableRng;
use rand::rngs::SmallRng;

pub use self::probes::{Matrices, probes};
use super::sizes::{self, PERIODS};
use crate::domain::op::{Axis, CheckLimits, Dims, Dtype, FarShape, Op, Probed, multiplied};

/// An op that multiplies two matrices.
pub trait Product {
    /// Has the two matrices of a case changed.
    fn change(dims: &Dims, inputs: &mut [Vec<f32>], change: impl FnOnce(&mut Matrices<'_>) -> Probed) -> Probed;
}

/// Scaled cases change rows and columns by whole multiples of this. Tiles of kernels are powers of two up to 256, so
/// the last tile stays as full as it was.
const PERIOD: i64 = 256;

/// The same for `K`. It is larger, so that a kernel's ring of tiles wraps around and a split sum has several parts.
const SUM_PERIOD: i64 = 512;

/// The fewest columns of the output of a far shape. With fewer, it would need too many rows.
const FAR_COLUMNS: i64 = 2048;

/// See [`Op::scaled`]. Every dimension keeps its remainder by the tile sizes.
pub fn scaled(dims: &Dims) -> Vec<Dims> {
    let scaled = |periods: i64| {
        let mut scaled = dims.clone();
        for (name, period) in [("M", PERIOD), ("N", PERIOD), ("K", SUM_PERIOD)] {
            scaled[name] = dims[name].min(dims[name] % period + periods * period);
        }
        scaled
    };
    sizes::scaled(dims, PERIODS, scaled)
}

/// See [`Op::resized`]. Tiles of the output are independent: the longer side has more of them. Each sums over `K` step by step.
pub fn resized(dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
    let (longer, shorter) = if dims["N"] > dims["M"] { ("N", "M") } else { ("M", "N") };
    match axis {
        Axis::Independent => multiplied(dims, longer, factor).or_else(|| multiplied(dims, shorter, factor)),
        Axis::Sequential => multiplied(dims, "K", factor),
    }
}

/// See [`Op::hidden`].
pub fn hidden(op: &dyn Op, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
    sizes::within_limits(op, dims, least, shapes::hidden(dims, &mut SmallRng::seed_from_u64(seed)))
}

/// See [`Op::far`]. Many rows of the first matrix and of the output, which do not depend on each other.
pub fn far(op: &dyn Op, dims: &Dims, dtype: Dtype) -> Option<FarShape> {
    let mut far = dims.clone();
    far["N"] = dims["N"].clamp(FAR_COLUMNS, 2 * FAR_COLUMNS);
    far["K"] = dims["K"].min(SUM_PERIOD + dims["K"] % SUM_PERIOD);
    // Tiles of rows and columns may come in any order.
    Some(FarShape { is_in_order: false, ..FarShape::along(op, &far, "M", dtype)? })
}
