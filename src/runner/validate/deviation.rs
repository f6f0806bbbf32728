//! Judges how far an output is from the oracle.

use numerics::compare;

use super::finite::least_large;
use super::{ComparedRow, Expectation};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::op::Dtype;
use crate::domain::workload::Tolerance;
use crate::runner::outputs::Refusal;
use crate::runner::threads;

/// The deviation of one output row.
pub(super) struct RowError {
    pub(super) row: usize,
    pub(super) output: usize,
    pub(super) squared_error: f64,
    pub(super) squared_scale: f64,
    /// Whether elements differ that must be equal.
    pub(super) is_unequal: bool,
}

impl Expectation {
    /// Returns the deviation of each compared row.
    pub(super) fn row_errors(&self, bytes: &[u8]) -> Vec<RowError> {
        threads::map(self.rows.len(), self.oracle.len(), |at| self.row_error(at, bytes))
    }

    /// Returns the deviation of the compared row at a place in the list, over the elements with a finite exact result.
    fn row_error(&self, at: usize, bytes: &[u8]) -> RowError {
        let ComparedRow { row, output, .. } = self.rows[at];
        let none = RowError { row, output, squared_error: 0.0, squared_scale: 0.0, is_unequal: false };
        if self.unspecified.iter().any(|rows| rows.contains(&row)) {
            return none;
        }
        let (output, dtype) = (self.output_of(at), self.found_dtype(at));
        let (values, oracle) = (self.found(at, bytes), self.oracle_of(at));
        let squares = if dtype == Dtype::I64 {
            let numbers = |bits: &[f64]| -> Vec<f64> { bits.iter().map(|bits| dtype.number(*bits)).collect() };
            compare::squares(&numbers(&values), &numbers(oracle), f64::INFINITY)
        } else {
            compare::squares(&values, oracle, least_large(dtype))
        };
        let is_unequal = self.first_unequal(at, &values).is_some();
        let allowance = self.allowances.get(at).copied().unwrap_or(0.0);
        let squared_error = (squares.error.sqrt() - allowance).max(0.0).powi(2);
        let squared_scale = if output.is_logarithm { squares.count as f64 } else { squares.scale };
        RowError { squared_error, squared_scale, is_unequal, ..none }
    }

    /// Judges each output by itself: one with large values would hide the errors of another.
    pub(super) fn judge(&self, rows: &[RowError], bytes: &[u8], tolerance: &Tolerance) -> Result<Correctness, Refusal> {
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
        if let Some(place) = all.iter().position(|it| it.is_unequal) {
            let element = self.unequal_element(place, bytes).unwrap_or_default();
            let rule = if self.must_be_equal(self.found_dtype(place)) {
                "whole numbers that are computed from whole numbers must be equal"
            } else {
                "what is selected must be equal"
            };
            let message = format!("{rule}{element}");
            return Err(Refusal { check: Check::Accuracy, message });
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

    /// Tells whether the elements of an output must be equal to the oracle's.
    pub(super) fn must_be_equal(&self, dtype: Dtype) -> bool {
        self.is_exact && dtype.is_integer()
    }

    /// Returns the place of the first of a compared row's values that must be equal to the oracle's, and is not. What is infinite has no
    /// deviation, so an index that selects it must be right.
    fn first_unequal(&self, at: usize, values: &[f64]) -> Option<usize> {
        let (dtype, oracle) = (self.found_dtype(at), self.oracle_of(at));
        let is_exact = self.must_be_equal(dtype) || self.output_of(at).is_copied;
        let is_selected = self.selections.at(at).is_some() && !self.is_beyond_domain;
        if !is_exact && !is_selected {
            return None;
        }
        let is_wrong = |(value, exact): (&f64, &f64)| {
            let is_same = dtype.is_same(*value, *exact) || (value.is_nan() && exact.is_nan() && !dtype.is_integer());
            !is_same && (is_exact || exact.is_infinite())
        };
        values.iter().zip(oracle).position(is_wrong)
    }

    /// Describes the first element of a compared row that is not equal to the oracle's.
    fn unequal_element(&self, at: usize, bytes: &[u8]) -> Option<String> {
        let (row, dtype) = (self.rows[at].row, self.found_dtype(at));
        let (values, oracle) = (self.found(at, bytes), self.oracle_of(at));
        let place = self.first_unequal(at, &values)?;
        if let Some(wrong) = self.wrong_index(at, place, bytes, (values[place] as f32, oracle[place] as f32)) {
            return Some(wrong);
        }
        let shown = |exact: f64| match dtype {
            Dtype::I64 => (exact.to_bits() as i64).to_string(),
            _ => exact.to_string(),
        };
        let (value, exact) = (shown(values[place]), shown(oracle[place]));
        Some(format!("; element {place} of row {row} is {value} by the kernel and {exact} by the oracle"))
    }

    /// Describes the first wrong element of the first wrong row, or of the worst row if no row is wrong by itself.
    fn first_wrong(&self, rows: &[RowError], worst: usize, bytes: &[u8], tolerance: &Tolerance) -> Option<String> {
        // Written so that a NaN is wrong.
        let is_right = |it: &RowError| relative(it.squared_error, it.squared_scale) <= tolerance.worst_row;
        let at = rows.iter().position(|it| !is_right(it)).or_else(|| rows.iter().position(|it| it.row == worst))?;
        let RowError { row, squared_scale, .. } = rows[at];
        let numbers =
            |exact: &[f64]| -> Vec<f64> { exact.iter().map(|exact| self.found_dtype(at).number(*exact)).collect() };
        let (values, oracle) = (self.found(at, bytes), self.oracle_of(at));
        let (values, oracle) = (numbers(&values), &numbers(oracle)[..]);
        let limit = tolerance.worst_row * (squared_scale / oracle.len() as f64).sqrt();
        let is_near = |(value, exact): (&f64, &f64)| (value - exact).abs() <= limit;
        let place = values.iter().zip(oracle).position(|pair| !is_near(pair))?;
        let (value, exact) = (values[place] as f32, oracle[place] as f32);
        let of_element =
            || format!("; element {place} of row {row} is {value} by the kernel and {exact} by the oracle");
        Some(self.wrong_index(at, place, bytes, (value, exact)).unwrap_or_else(of_element))
    }
}

/// Returns the larger number, or NaN if one of them is NaN.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn relative(squared_error: f64, squared_scale: f64) -> f64 {
    if squared_error == 0.0 { 0.0 } else { (squared_error / squared_scale).sqrt() }
}
