//! How far rounding the inputs moves the oracle's answer.

use super::Expectation;
use super::deviation::RowError;
use crate::domain::compute::Compute;
use crate::domain::op::{Dims, Dtype, Op, Values};
use crate::domain::workload::Tolerance;
use crate::error::Result;
use crate::runner::inputs::{mix, move_into};

/// Number of random directions in which the inputs are moved to see how far an output row moves. In some directions a
/// row may happen not to move.
const DIRECTIONS: usize = 4;

/// How much further than in those directions a row may move. One number can decide a row, such as the gap between two
/// scores. In one row of 500, the largest of four random moves is then below a quarter of a typical one. In one row of
/// 10,000, the errors of an honest kernel are four times a typical one.
const ALLOWED_MOVES: f64 = 8.0;

/// The error of an FP32 sum of random terms that are added one after the other, for the square root of their number: twice the usual
/// estimate, because a row may be the worst of many. (Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 4.)
const RANDOM_SUM_ROUNDING: f64 = 2.0 / (1_u64 << 24) as f64;

/// The most that the sums of a probe may lose if no manifest says how many terms they have. More would hide mistakes.
const MOST_SUM_ROUNDING: f64 = 1e-3;

/// A part of such a move. It shows how far an output moves without its jumps.
const SMALL_MOVE: f32 = 1.0 / 16.0;

/// The part of the final sum that an FP32 addition may lose. It loses up to 2^-24 of the running sum, rounded to
/// nearest. On average the running sum is half of the final one.
const SUM_ROUNDING: f64 = 1.0 / (1_u64 << 26) as f64;

impl Expectation {
    /// Allows each row a little more than the change that rounding the inputs makes in the oracle's answer.
    ///
    /// Where scores are large, the output depends on the last bits of the inputs. A kernel with no larger errors than
    /// these can be far from the oracle and still be right: its *backward error* is small. Only rows of the output that
    /// are beyond the tolerance get an allowance, because the oracle is slow. The compute mode says how far an honest
    /// kernel rounds the factors of products.
    pub fn allow_for_rounding(
        &mut self,
        (op, compute): (&dyn Op, Compute),
        dims: &Dims,
        inputs: &[Vec<f32>],
        seed: u64,
        (output, tolerance): (&[u8], &Tolerance),
    ) -> Result<()> {
        // What an index selects is not rounded, and neither is what is copied.
        let is_computed = |at: &usize| self.selections.at(*at).is_none() && !self.output_of(*at).is_copied;
        let places: Vec<usize> = self.beyond(output, tolerance).into_iter().filter(is_computed).collect();
        let rows: Vec<usize> = places.iter().map(|at| self.rows[*at].row).collect();
        let oracle: Vec<&[f64]> = places.iter().map(|at| self.oracle_of(*at)).collect();
        let mut allowances = vec![0.0_f64; rows.len()];
        let of_inputs: Vec<Option<f32>> = op
            .inputs(dims, self.dtype)
            .iter()
            .map(|tensor| {
                let is_number = matches!(tensor.values, Values::Normal | Values::Scaled(_) | Values::Uniform(..));
                is_number.then(|| rounding(tensor.dtype, compute))
            })
            .collect();
        let is_truncated = compute == Compute::Tf32;
        // An index that is a little larger is another index. The others are filled for each direction, in the same memory.
        let fixed_or_empty = |(values, rounding): (&Vec<f32>, &Option<f32>)| match rounding {
            None => values.clone(),
            Some(_) => vec![0.0; values.len()],
        };
        let mut moved: Vec<Vec<f32>> = inputs.iter().zip(&of_inputs).map(fixed_or_empty).collect();
        for direction in 0..DIRECTIONS + usize::from(is_truncated) {
            let mut by = |part: f32| {
                for (tensor, ((moved, values), rounding)) in moved.iter_mut().zip(inputs).zip(&of_inputs).enumerate() {
                    let seed = mix(seed, &["move", &direction.to_string(), &tensor.to_string()]);
                    move_tensor(moved, values, rounding.map(|rounding| part * rounding), direction, seed);
                }
                op.oracle(dims, &moved, &rows)
            };
            let far = by(1.0)?;
            // A jump is as far in either.
            let near = if self.is_at_jumps { Some(by(SMALL_MOVE)?) } else { None };
            let mut at = 0;
            for (allowance, oracle) in allowances.iter_mut().zip(&oracle) {
                let row = at..at + oracle.len();
                at = row.end;
                let moves: Vec<f64> = match &near {
                    Some(near) => {
                        far[row.clone()].iter().zip(&near[row]).map(|(far, near)| steady(far - near)).collect()
                    }
                    None => far[row].iter().zip(*oracle).map(|(far, exact)| far - exact).collect(),
                };
                let squares = moves.iter().map(|moved| moved.powi(2));
                let distance = squares.filter(|square| square.is_finite()).sum::<f64>().sqrt();
                *allowance = allowance.max(ALLOWED_MOVES * distance);
            }
        }
        // Where all terms of a sum are alike, or one is far larger than the others, every addition may round in the same direction.
        let longest = op.longest_sum(dims, self.dtype);
        let of_longest = if self.own_scale {
            (longest * SUM_ROUNDING).min(MOST_SUM_ROUNDING)
        } else {
            RANDOM_SUM_ROUNDING * longest.sqrt()
        };
        let terms = op.flop(dims) / 2.0 / self.outputs.elements() as f64;
        let of_sum = of_longest.max(terms * SUM_ROUNDING);
        let intermediate = op.intermediate_rounding(dims, self.dtype, inputs, &rows);
        let mut all = self.allowances.clone();
        all.resize(self.rows.len(), 0.0);
        for (((at, allowance), intermediate), oracle) in places.iter().zip(allowances).zip(intermediate).zip(oracle) {
            let length = oracle.iter().filter(|r| r.is_finite()).map(|r| r * r).sum::<f64>().sqrt();
            let least = least_rounding(self.output_of(*at).dtype) * (oracle.len() as f64).sqrt();
            all[*at] = allowance + intermediate + least + of_sum * length;
        }
        self.allowances = all;
        Ok(())
    }

    /// Returns the places of the rows that are beyond the tolerance of the whole output. If no other row is, the output
    /// as a whole is not.
    fn beyond(&self, output: &[u8], tolerance: &Tolerance) -> Vec<usize> {
        let most = tolerance.relative_l2.powi(2);
        let is_within = |it: RowError| it.squared_error <= most * it.squared_scale;
        let errors = self.row_errors(output).into_iter().enumerate();
        errors.filter_map(|(at, error)| (!is_within(error)).then_some(at)).collect()
    }
}

/// Returns how far an output moves that differs by this between a whole move and a small one.
fn steady(difference: f64) -> f64 {
    difference / (1.0 - f64::from(SMALL_MOVE))
}

/// Moves a tensor in a direction. The last one truncates to TF32.
fn move_tensor(moved: &mut [f32], values: &[f32], rounding: Option<f32>, direction: usize, seed: u64) {
    match rounding {
        None => {}
        Some(_) if direction == DIRECTIONS => {
            moved.iter_mut().zip(values).for_each(|(moved, x)| *moved = truncated_to_tf32(*x));
        }
        Some(rounding) => move_into(moved, values, rounding, seed),
    }
}

/// Returns what a tensor core makes of an FP32 factor that was not rounded to TF32 before: it ignores the 13 low bits.
/// All factors become smaller, so the error of a sum does not average out.
fn truncated_to_tf32(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & !0x1fff)
}

/// The arithmetic error of an honest kernel, as a relative error of its inputs.
fn rounding(dtype: Dtype, compute: Compute) -> f32 {
    match dtype {
        // The 10 bits after the point of a factor that is rounded. Sums in FP32 lose far less.
        Dtype::F32 if compute == Compute::Tf32 => 1.0 / 2048.0,
        // One rounding, as in a kernel that scales its queries before it multiplies them. Hopper's tensor cores keep
        // some 14 bits of a sum of FP8 products.
        Dtype::F16 | Dtype::E4m3 | Dtype::E5m2 => 1.0 / 2048.0,
        Dtype::Bf16 => 1.0 / 256.0,
        // A sequential sum of 8192 products loses as much as 45 roundings of each, of 2^-24. TF32 loses as much as
        // 8192.
        Dtype::F32 => 64.0 / (1 << 24) as f32,
        Dtype::F64 => 64.0 / (1_u64 << 53) as f32,
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::Bool => 0.0,
    }
}

/// What is lost of a number that is added to one in FP32 and comes out again, as in `exp(x) - 1`, with two bits for what fast functions lose.
pub(super) const BESIDE_ONE: f64 = 1.0 / (1 << 22) as f64;

/// Returns what a row may be off by for the rounding of its numbers near zero, in a check without a probe. An 8-bit float has so
/// few exponents that ordinary numbers come near its smallest.
pub(super) fn least_of_row(dtype: Dtype, length: usize) -> f64 {
    if dtype.is_float8() { least_rounding(dtype) * (length as f64).sqrt() } else { 0.0 }
}

/// The largest error of a number near zero: half of the smallest subnormal in FP16, and the smallest normal number in
/// FP32 and BF16, whose subnormals may be treated as zero.
fn least_rounding(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 2.0_f64.powi(-25),
        // BF16 has the exponents of FP32.
        Dtype::Bf16 | Dtype::F32 => f64::from(f32::MIN_POSITIVE),
        Dtype::F64 => f64::MIN_POSITIVE,
        Dtype::E4m3 => 2.0_f64.powi(-10),
        Dtype::E5m2 => 2.0_f64.powi(-17),
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::Bool => 0.0,
    }
}
