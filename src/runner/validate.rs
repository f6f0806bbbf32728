//! Compares an output with the float64 oracle.

use std::ops::Range;

use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

use super::inputs::{mix, moved};
use super::outputs::{Output, Outputs, Refusal, is_poison, unwritten_elements};
use super::threads;
use crate::domain::check::Check;
use crate::domain::compute::Compute;
use crate::domain::correctness::Correctness;
use crate::domain::op::{Dims, Dtype, Op, Probed, Values};
use crate::domain::workload::Tolerance;

/// Number of random directions in which the inputs are moved to see how far an output row moves. In some directions a
/// row may happen not to move.
const DIRECTIONS: usize = 4;

/// How much further than in those directions a row may move. One number can decide a row, such as the gap between two
/// scores. In one row of 500, the largest of four random moves is then below a quarter of a typical one. In one row of
/// 10,000, the errors of an honest kernel are four times a typical one.
const ALLOWED_MOVES: f64 = 8.0;

/// The part of the final sum that an FP32 addition may lose. It loses up to 2^-24 of the running sum, rounded to
/// nearest. On average the running sum is half of the final one.
const SUM_ROUNDING: f64 = 1.0 / (1_u64 << 26) as f64;

/// The fewest rows to compare with the oracle.
const MIN_ROWS: usize = 64;

/// The most parts of an output to read, if it is not read as a whole. Each part takes about 20 us.
const MOST_PARTS: usize = 1024;

/// The least bytes of an output for each byte that is compared, if it is not read as a whole.
const LEAST_BYTES_FOR_ONE: usize = 4;

/// How near to the largest value of its dtype, relative to it, a result may be either finite or infinite.
const NEAR_LARGEST: f64 = 0.01;

/// The expected output for given inputs: the oracle's answer for all rows, or for a random sample if all rows would be
/// too much work.
pub struct Expectation {
    outputs: Outputs,
    rows: Vec<ComparedRow>,
    oracle: Vec<f64>,
    /// Deviation from the oracle that each row may have beyond any tolerance; empty for none.
    allowances: Vec<f64>,
    /// Output rows with NaN or infinity among their inputs.
    unspecified: Vec<Range<usize>>,
    /// Whether the oracle's answer has values that are infinite or nearly so in the output's dtype.
    has_large: bool,
    /// Whether each row is measured against its own scale, because the scales of rows differ on purpose.
    own_scale: bool,
    dtype: Dtype,
}

/// An output row that is compared with the oracle.
struct ComparedRow {
    row: usize,
    /// The output that it belongs to.
    output: usize,
    /// Its values in the oracle's answer.
    oracle: Range<usize>,
}

/// The deviation of one output row.
struct RowError {
    row: usize,
    output: usize,
    squared_error: f64,
    squared_scale: f64,
}

impl Expectation {
    /// Computes the oracle's answer for as many rows as `oracle_flop` floating-point operations allow. At least 64 rows
    /// are computed, including the first and the last.
    ///
    /// The error is that of an oracle outside of optloop.
    pub fn new(
        op: &dyn Op,
        dims: &Dims,
        dtype: Dtype,
        inputs: &[Vec<f32>],
        oracle_flop: f64,
        seed: u64,
    ) -> Result<Self, String> {
        Self::of(op, dims, dtype, inputs, oracle_flop, seed, &Probed::default())
    }

    /// Does the same for the inputs of a probe. Each row is measured against its own scale.
    pub fn of_probe(
        op: &dyn Op,
        dims: &Dims,
        dtype: Dtype,
        inputs: &[Vec<f32>],
        oracle_flop: f64,
        seed: u64,
        probed: &Probed,
    ) -> Result<Self, String> {
        Ok(Self { own_scale: true, ..Self::of(op, dims, dtype, inputs, oracle_flop, seed, probed)? })
    }

    fn of(
        op: &dyn Op,
        dims: &Dims,
        dtype: Dtype,
        inputs: &[Vec<f32>],
        oracle_flop: f64,
        seed: u64,
        probed: &Probed,
    ) -> Result<Self, String> {
        let outputs = Outputs::of(op, dims, dtype);
        let mut rows = probed.rows.clone();
        for output in outputs.iter() {
            let count = output.rows.len();
            let affordable = (count as f64 * oracle_flop / op.oracle_flop(dims)) as usize;
            // The same seed, because outputs with as many rows often share the work for each.
            let chosen = choose_rows(count, affordable.max(MIN_ROWS), &mut SmallRng::seed_from_u64(seed));
            rows.extend(chosen.into_iter().map(|row| output.rows.start + row));
        }
        rows.sort_unstable();
        rows.dedup();
        let oracle = op.oracle(dims, inputs, &rows)?;
        let mut end = 0;
        let compared = |row| {
            let (output, Output { row_len, .. }) = outputs.of_row(row);
            end += row_len;
            ComparedRow { row, output, oracle: end - row_len..end }
        };
        let rows = rows.into_iter().map(compared).collect();
        let unspecified = probed.unspecified.clone();
        let expectation = Self {
            outputs,
            rows,
            oracle,
            allowances: Vec::new(),
            unspecified,
            has_large: false,
            own_scale: false,
            dtype,
        };
        let is_large =
            |at: usize| expectation.oracle_of(at).iter().any(|r| is_large(*r, expectation.output_of(at).dtype));
        let has_large = (0..expectation.rows.len()).any(is_large);
        Ok(Self { has_large, ..expectation })
    }

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
    ) -> Result<(), String> {
        let places = self.beyond(output, tolerance);
        let rows: Vec<usize> = places.iter().map(|at| self.rows[*at].row).collect();
        let oracle: Vec<&[f64]> = places.iter().map(|at| self.oracle_of(*at)).collect();
        let mut allowances = vec![0.0_f64; rows.len()];
        let of_inputs: Vec<Option<f32>> = op
            .inputs(dims, self.dtype)
            .iter()
            .map(|tensor| {
                let is_number = matches!(tensor.values, Values::Normal | Values::Uniform(..));
                is_number.then(|| rounding(tensor.dtype, compute))
            })
            .collect();
        let is_truncated = compute == Compute::Tf32;
        for direction in 0..DIRECTIONS + usize::from(is_truncated) {
            let moved: Vec<Vec<f32>> = inputs
                .iter()
                .enumerate()
                .zip(&of_inputs)
                .map(|((tensor, values), rounding)| match rounding {
                    // An index that is a little larger is another index.
                    None => values.clone(),
                    // The last direction.
                    Some(_) if direction == DIRECTIONS => values.iter().map(|x| truncated_to_tf32(*x)).collect(),
                    Some(rounding) => {
                        moved(values, *rounding, mix(seed, &["move", &direction.to_string(), &tensor.to_string()]))
                    }
                })
                .collect();
            let other = op.oracle(dims, &moved, &rows)?;
            let mut other = &other[..];
            for (allowance, oracle) in allowances.iter_mut().zip(&oracle) {
                let (row, rest) = other.split_at(oracle.len());
                other = rest;
                let squares = row.iter().zip(*oracle).map(|(o, r)| (o - r).powi(2));
                let distance = squares.filter(|square| square.is_finite()).sum::<f64>().sqrt();
                *allowance = allowance.max(ALLOWED_MOVES * distance);
            }
        }
        // Where all terms of a sum are alike, every addition may round in the same direction.
        let terms = op.flop(dims) / 2.0 / self.outputs.elements() as f64;
        let intermediate = op.intermediate_rounding(dims, self.dtype, inputs, &rows);
        let mut all = vec![0.0; self.rows.len()];
        for (((at, allowance), intermediate), oracle) in places.iter().zip(allowances).zip(intermediate).zip(oracle) {
            let length = oracle.iter().filter(|r| r.is_finite()).map(|r| r * r).sum::<f64>().sqrt();
            let least = least_rounding(self.output_of(*at).dtype) * (oracle.len() as f64).sqrt();
            all[*at] = allowance + intermediate + least + terms * SUM_ROUNDING * length;
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

    /// Returns the oracle's values of the compared row at a place in the list.
    fn oracle_of(&self, at: usize) -> &[f64] {
        &self.oracle[self.rows[at].oracle.clone()]
    }

    /// Returns the output of the compared row at a place in the list.
    fn output_of(&self, at: usize) -> &Output {
        self.outputs.of_row(self.rows[at].row).1
    }

    /// Checks the bytes of all outputs, one after the other.
    pub fn check(&self, bytes: &[u8], tolerance: &Tolerance) -> Result<Correctness, Refusal> {
        if self.unspecified.is_empty() && !self.has_large {
            self.outputs.scan(bytes)?;
        } else {
            self.scan_around(bytes)?;
        }
        self.judge(&self.row_errors(bytes), bytes, tolerance)
    }

    /// Returns the bytes that are compared with the oracle, if these are a small part of outputs whose elements must all be
    /// finite.
    pub fn compared_parts(&self) -> Option<Vec<Range<usize>>> {
        if !self.unspecified.is_empty() || self.has_large {
            return None;
        }
        let mut parts: Vec<Range<usize>> = Vec::new();
        for (at, ComparedRow { row, .. }) in self.rows.iter().enumerate() {
            let output = self.output_of(at);
            let bytes = output.range_of(*row);
            // Each output is read from a buffer of its own, so no part reaches from one into the next.
            let begins = bytes.start == output.bytes.start;
            match parts.last_mut() {
                Some(last) if last.end == bytes.start && !begins => last.end = bytes.end,
                _ => parts.push(bytes),
            }
        }
        let compared: usize = parts.iter().map(ExactSizeIterator::len).sum();
        let is_small = parts.len() <= MOST_PARTS && compared * LEAST_BYTES_FOR_ONE <= self.outputs.bytes();
        is_small.then_some(parts)
    }

    /// Checks the bytes of all outputs, of which only those that are compared matter. The others were found to be finite.
    pub fn check_parts(&self, bytes: &[u8], tolerance: &Tolerance) -> Result<Correctness, Refusal> {
        self.judge(&self.row_errors(bytes), bytes, tolerance)
    }

    /// Checks an output whose elements need not all be finite. Compared elements must be finite where the oracle is,
    /// and infinite or NaN where it is not. Elements of other rows must be written.
    fn scan_around(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let specified = |row: usize| !self.unspecified.iter().any(|rows| rows.contains(&row));
        for output in self.outputs.iter().filter(|output| !output.dtype.is_integer()) {
            let rows = output.rows.clone().into_par_iter().filter(|row| specified(*row));
            let elements = |row| output.bytes_of(row, bytes).chunks_exact(output.dtype.bytes());
            let unwritten = rows.map(|row| elements(row).filter(|it| is_poison(it)).count()).sum::<usize>();
            if unwritten > 0 {
                return Err(unwritten_elements(unwritten, output.rows.len() * output.row_len));
            }
        }
        let (mut hidden, mut leaked) = (0, 0);
        for (at, ComparedRow { row, .. }) in self.rows.iter().enumerate() {
            let output = self.output_of(at);
            for (out, r) in output.values_of(*row, bytes).iter().zip(self.oracle_of(at)) {
                hidden += usize::from(out.is_finite() && is_infinite(*r, output.dtype));
                leaked += usize::from(!out.is_finite() && !is_large(*r, output.dtype) && specified(*row));
            }
        }
        let message = match (hidden, leaked) {
            (0, 0) => return Ok(()),
            (0, leaked) => format!("{leaked} elements are NaN or infinite, but depend on finite inputs only"),
            (hidden, _) => format!("{hidden} elements are finite, but the exact result is NaN or infinite"),
        };
        Err(Refusal { check: Check::Finite, message })
    }

    /// Returns the deviation of each compared row.
    fn row_errors(&self, bytes: &[u8]) -> Vec<RowError> {
        threads::map(self.rows.len(), self.oracle.len(), |at| self.row_error(at, bytes))
    }

    /// Returns the deviation of the compared row at a place in the list, over the elements with a finite exact result.
    fn row_error(&self, at: usize, bytes: &[u8]) -> RowError {
        let ComparedRow { row, output, .. } = self.rows[at];
        let none = RowError { row, output, squared_error: 0.0, squared_scale: 0.0 };
        if self.unspecified.iter().any(|rows| rows.contains(&row)) {
            return none;
        }
        let output = self.output_of(at);
        let values = output.values_of(row, bytes);
        let is_compared = |r: f64| !self.has_large || !is_large(r, output.dtype);
        let finite = values.iter().zip(self.oracle_of(at)).filter(|(_, r)| is_compared(**r));
        let sums = finite.fold((0.0, 0.0), |(error, scale), (o, r)| (error + (o - r).powi(2), scale + r * r));
        let allowance = self.allowances.get(at).copied().unwrap_or(0.0);
        RowError { squared_error: (sums.0.sqrt() - allowance).max(0.0).powi(2), squared_scale: sums.1, ..none }
    }

    /// Judges each output by itself: one with large values would hide the errors of another.
    fn judge(&self, rows: &[RowError], bytes: &[u8], tolerance: &Tolerance) -> Result<Correctness, Refusal> {
        let all = rows;
        let none =
            Correctness { relative_l2: 0.0, worst_row: 0.0, rows_checked: rows.len(), rows: self.outputs.rows() };
        let mut found = none;
        let mut worst = 0;
        for rows in rows.chunk_by(|a, b| a.output == b.output) {
            let error_sum: f64 = rows.iter().map(|it| it.squared_error).sum();
            let scale_sum: f64 = rows.iter().map(|it| it.squared_scale).sum();
            // A row that happens to cancel to almost zero is measured against a tenth of the output's scale instead. Among
            // rows of one number, there always are some.
            let has_scale = rows.first().is_some_and(|it| self.outputs.of_row(it.row).1.row_len > 1);
            let least_scale = if self.own_scale && has_scale { 0.0 } else { 0.01 * scale_sum / rows.len() as f64 };
            let of_row = |it: &RowError| (it.row, relative(it.squared_error, it.squared_scale.max(least_scale)));
            found.relative_l2 = larger(found.relative_l2, relative(error_sum, scale_sum));
            if let Some((row, error)) = rows.iter().map(of_row).max_by(|a, b| a.1.total_cmp(&b.1))
                && (error.is_nan() || error > found.worst_row)
            {
                (worst, found.worst_row) = (row, error);
            }
        }
        // Written so that a NaN fails.
        let within = found.relative_l2 <= tolerance.relative_l2 && found.worst_row <= tolerance.worst_row;
        if within {
            return Ok(found);
        }
        let message = format!(
            "relative error {:.2e} over the output (tolerance {:.0e}), {:.2e} in its worst row {worst} (tolerance {:.0e}){}",
            found.relative_l2,
            tolerance.relative_l2,
            found.worst_row,
            tolerance.worst_row,
            self.first_wrong(all, worst, bytes, tolerance).unwrap_or_default()
        );
        Err(Refusal { check: Check::Accuracy, message })
    }

    /// Describes the first wrong element of the first wrong row, or of the worst row if no row is wrong by itself.
    fn first_wrong(&self, rows: &[RowError], worst: usize, bytes: &[u8], tolerance: &Tolerance) -> Option<String> {
        // Written so that a NaN is wrong.
        let is_right = |it: &RowError| relative(it.squared_error, it.squared_scale) <= tolerance.worst_row;
        let at = rows.iter().position(|it| !is_right(it)).or_else(|| rows.iter().position(|it| it.row == worst))?;
        let RowError { row, squared_scale, .. } = rows[at];
        let (values, oracle) = (self.output_of(at).values_of(row, bytes), self.oracle_of(at));
        let limit = tolerance.worst_row * (squared_scale / oracle.len() as f64).sqrt();
        let is_near = |(value, exact): (&f64, &f64)| (value - exact).abs() <= limit;
        let place = values.iter().zip(oracle).position(|pair| !is_near(pair))?;
        let (value, exact) = (values[place] as f32, oracle[place] as f32);
        Some(format!("; element {place} of row {row} is {value} by the kernel and {exact} by the oracle"))
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
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::Bool => 0.0,
    }
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
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::Bool => 0.0,
    }
}

/// Returns whether an exact result is too large for a dtype, by more than an honest kernel's error, or is NaN. An 8-bit
/// type may hold its largest number instead.
fn is_infinite(exact: f64, dtype: Dtype) -> bool {
    exact.is_nan() || !dtype.is_float8() && exact.abs() > dtype.largest() * (1.0 + NEAR_LARGEST)
}

/// Returns whether an exact result is so large for a dtype that an honest kernel may return infinity, or is NaN.
fn is_large(exact: f64, dtype: Dtype) -> bool {
    exact.is_nan() || !dtype.is_integer() && exact.abs() > dtype.largest() * (1.0 - NEAR_LARGEST)
}

/// Returns the larger number, or NaN if one of them is NaN.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn relative(squared_error: f64, squared_scale: f64) -> f64 {
    if squared_error == 0.0 { 0.0 } else { (squared_error / squared_scale).sqrt() }
}

/// Chooses `wanted` of `count` rows at random in rising order, always with the first and the last.
fn choose_rows(count: usize, wanted: usize, rng: &mut impl Rng) -> Vec<usize> {
    if wanted >= count {
        return (0..count).collect();
    }
    let mut rows = sample(rng, count, wanted).into_vec();
    rows.extend([0, count - 1]);
    rows.sort_unstable();
    rows.dedup();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;
    use crate::runner::inputs::{draw, encode};
    use crate::runner::outputs::POISON;

    const TOLERANCE: Tolerance = Tolerance { relative_l2: 1e-3, worst_row: 4e-3 };

    fn dims(s: i64) -> Dims {
        [("B", 1), ("H", 2), ("Sq", s), ("Sk", s), ("D", 64), ("CAUSAL", 1)]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }

    /// A correct answer with its inputs, for tests to corrupt.
    fn attention(s: i64) -> (Expectation, Vec<f32>, Vec<Vec<f32>>) {
        let op = ops::find("attention").unwrap();
        let inputs: Vec<_> = op.inputs(&dims(s), Dtype::F16).iter().map(|tensor| draw(tensor, 3)).collect();
        let expectation = Expectation::new(op, &dims(s), Dtype::F16, &inputs, 1e12, 0).unwrap();
        let right = expectation.oracle.iter().map(|value| *value as f32).collect();
        (expectation, right, inputs)
    }

    fn check(expectation: &Expectation, values: &[f32]) -> Result<Correctness, Refusal> {
        expectation.check(&encode(values, Dtype::F16), &TOLERANCE)
    }

    #[test]
    fn the_oracle_rounded_to_its_dtype_passes() {
        let (expectation, right, _) = attention(64);
        let found = check(&expectation, &right).unwrap();
        assert!(found.relative_l2 < 3e-4 && found.rows_checked == 128 && found.rows == 128, "{found:?}");
    }

    #[test]
    fn faults_that_other_checks_miss_are_caught() {
        let (expectation, right, _) = attention(256);
        assert!(check(&expectation, &vec![0.0; right.len()]).is_err(), "zeros");
        let mut one_row = right.clone();
        one_row[64 * 200..64 * 201].iter_mut().for_each(|value| *value *= 1.01);
        insta::assert_snapshot!(check(&expectation, &one_row).unwrap_err(), @"relative error 3.12e-4 over the output (tolerance 1e-3), 1.00e-2 in its worst row 200 (tolerance 4e-3); element 0 of row 200 is -0.06100464 by the kernel and -0.060400087 by the oracle");
        let mut not_a_number = right.clone();
        not_a_number[5] = f32::NAN;
        insta::assert_snapshot!(check(&expectation, &not_a_number).unwrap_err(), @"1 of 32768 elements are NaN or infinite");
        let mut bytes = encode(&right, Dtype::F16);
        bytes[100..104].fill(POISON);
        insta::assert_snapshot!(expectation.check(&bytes, &TOLERANCE).unwrap_err(), @"2 of 32768 elements were not written: does the grid cover the output?");
    }

    /// The last 5% of the keys dropped: an absolute tolerance of 1e-2 passes 99.8% of the elements.
    #[test]
    fn dropped_keys_are_caught() {
        let op = ops::find("attention").unwrap();
        let full = |keys: usize| -> Dims {
            let mut dims = dims(256);
            dims.extend([("Sk".to_owned(), keys as i64), ("CAUSAL".to_owned(), 0)]);
            dims
        };
        let inputs: Vec<_> = op.tensors(&full(256), Dtype::F16)[..3].iter().map(|tensor| draw(tensor, 3)).collect();
        let expectation = Expectation::new(op, &full(256), Dtype::F16, &inputs, 1e12, 0).unwrap();
        let first_243 = |tensor: &[f32]| tensor.chunks(256 * 64).flat_map(|head| head[..243 * 64].to_vec()).collect();
        let fewer = [inputs[0].clone(), first_243(&inputs[1]), first_243(&inputs[2])];
        let rows: Vec<_> = (0..512).collect();
        let spoilt: Vec<f32> =
            op.oracle(&full(243), &fewer, &rows).unwrap().iter().map(|value| *value as f32).collect();
        assert!(check(&expectation, &spoilt).is_err());
    }

    #[test]
    fn a_sample_of_rows_has_the_first_and_the_last() {
        let rows = choose_rows(10_000, 100, &mut SmallRng::seed_from_u64(5));
        assert!(rows.len() >= 100 && rows[0] == 0 && rows[rows.len() - 1] == 9_999);
        assert_eq!(choose_rows(10, 100, &mut SmallRng::seed_from_u64(5)).len(), 10);
    }
}
