//! The tolerance of a new workload, with its reason.

use indexmap::IndexMap;

use super::{CaseSizes, Draft, Kind, Wanted};
use crate::domain::compute::Compute;
use crate::domain::expr::Expr;
use crate::domain::op::Dtype;

/// What rounding costs in a matrix product in TF32. BF16 factors must fail (docs/workload.md).
const TF32_ROUNDING: &str = "1e-7, and that of factors to TF32 up to 7e-4";

/// The largest error that a sum of many terms may have by default. A larger one would hide mistakes.
const MOST_OF_A_SUM: f64 = 1e-3;

/// How far outputs may be from the oracle's.
pub(super) struct Tolerance {
    /// A sentence on why.
    pub reason: String,
    /// The largest relative error of an output, as TOML.
    pub relative_l2: String,
    /// The same of a row.
    pub worst_row: String,
}

impl Tolerance {
    /// Returns a tolerance that is no larger than that of the user's own checks.
    pub fn at_most(self, most: f64) -> Self {
        let cut = |text: String| match text.parse::<f64>() {
            Ok(own) if own > most && most > 0.0 => format!("{most:e}"),
            _ => text,
        };
        let Self { reason, relative_l2, worst_row } = self;
        Self { reason, relative_l2: cut(relative_l2), worst_row: cut(worst_row) }
    }

    /// Returns the section of a workload.
    pub fn section(&self) -> String {
        let Self { reason, relative_l2, worst_row } = self;
        format!("\n[tolerance]\n# {reason}\nrelative_l2 = {relative_l2}\nworst_row = {worst_row}\n")
    }
}

/// What the rounding of an op depends on.
pub(super) struct Rounding {
    /// The dtype of its workload.
    pub dtype: Dtype,
    /// The dtypes of its outputs.
    pub outputs: Vec<Dtype>,
    /// The precision in which kernels may multiply.
    pub compute: Compute,
    /// The terms of the longest sum.
    pub terms: i64,
}

/// Returns the tolerance for a kernel.
pub(super) fn of_kernel(draft: &Draft, wanted: &Wanted) -> Tolerance {
    let outputs = draft.outputs().map(|(_, dtype)| dtype).collect();
    let tensors: Vec<(&str, bool)> = draft
        .kernel
        .parameters
        .iter()
        .filter_map(|parameter| match parameter.kind {
            Some(Kind::Tensor { is_output, .. }) => Some((parameter.name.as_str(), is_output)),
            _ => None,
        })
        .collect();
    let terms = most_terms(&tensors, &wanted.shapes, &wanted.cases);
    of(&Rounding { dtype: draft.kernel.dtype(), outputs, compute: wanted.compute, terms })
}

/// Returns the tolerance for a dtype. Where few outputs are made of many inputs, it allows for the rounding of a sum of so many
/// terms.
pub(super) fn of(rounding: &Rounding) -> Tolerance {
    let Rounding { dtype, ref outputs, compute, terms } = *rounding;
    if dtype.is_integer() {
        let zero = || "0.0".to_owned();
        return Tolerance { reason: "Whole numbers are exact.".to_owned(), relative_l2: zero(), worst_row: zero() };
    }
    if outputs.iter().any(|output| matches!(output, Dtype::I8 | Dtype::U8)) {
        let reason = "A tie between two whole numbers costs 8e-3 of the largest.".to_owned();
        return Tolerance { reason, relative_l2: "2e-3".to_owned(), worst_row: "2e-2".to_owned() };
    }
    let (rounding, relative_l2, worst_row) = match dtype {
        Dtype::F32 if compute == Compute::Tf32 => (TF32_ROUNDING, 1.5e-3, 1.2e-2),
        Dtype::F16 => ("2e-4", 1e-3, 4e-3),
        Dtype::Bf16 => ("2e-3", 8e-3, 3e-2),
        Dtype::F64 => ("1e-16, and a sum of thousands of terms up to 1e-13", 1e-12, 4e-12),
        Dtype::E4m3 => ("3e-2", 5e-2, 1e-1),
        Dtype::E5m2 => ("6e-2", 1e-1, 2e-1),
        _ => ("3e-8, and a sum of thousands of terms up to 1e-6", 1e-5, 4e-5),
    };
    let of_sum = error_of_a_sum(terms).min(MOST_OF_A_SUM);
    let is_full_f32 = outputs.contains(&Dtype::F32) && dtype == Dtype::F32 && compute.is_dtype();
    if is_full_f32 && of_sum > relative_l2 {
        let reason =
            format!("Rounding each term of a sum of {terms} costs up to {of_sum:.0e}, relative to a usual sum.");
        return Tolerance { reason, relative_l2: format!("{of_sum:.0e}"), worst_row: format!("{:.0e}", 4.0 * of_sum) };
    }
    let number = |value: f64| format!("{value:e}");
    let reason = format!("Rounding the output alone costs {rounding}.");
    Tolerance { reason, relative_l2: number(relative_l2), worst_row: number(worst_row) }
}

/// Returns the error of a sum in FP32 whose terms have both signs and are added one after the other: each of the partial sums,
/// which grow with the square root of their number, is rounded by 2^-24 at most. (Higham, Accuracy and Stability of Numerical
/// Algorithms, 2002, chapter 4, for random errors.)
fn error_of_a_sum(terms: i64) -> f64 {
    0.5_f64.powi(24) * (terms as f64).sqrt()
}

/// Returns the most elements of an input for each element of the largest output, over all cases. Expressions with mistakes are
/// told of elsewhere.
pub(super) fn most_terms(tensors: &[(&str, bool)], shapes: &IndexMap<String, Vec<String>>, cases: &[CaseSizes]) -> i64 {
    let elements = |name: &str, case: &CaseSizes| -> Option<i64> {
        let sides = shapes.get(name)?;
        sides.iter().try_fold(1_i64, |product, side| product.checked_mul(Expr::parse(side).ok()?.int(case).ok()?))
    };
    let of_case = |case| {
        let sizes = |of_outputs: bool| {
            let wanted = tensors.iter().filter(move |(_, is_output)| *is_output == of_outputs);
            wanted.filter_map(|(name, _)| elements(name, case))
        };
        let (inputs, outputs) = (sizes(false).max()?, sizes(true).max().filter(|elements| *elements > 0)?);
        Some(inputs / outputs)
    };
    cases.iter().filter_map(of_case).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::Reading;

    fn reason(text: &str, shapes: [(&str, &str); 2]) -> String {
        let draft = Draft::read(Reading::of(text)).unwrap();
        let shapes = shapes.map(|(name, side)| (name.to_owned(), vec![side.to_owned()]));
        let cases = vec![[("n".to_owned(), 1 << 26)].into()];
        let Tolerance { reason, relative_l2, worst_row } =
            of_kernel(&draft, &Wanted { shapes: shapes.into(), cases, ..Wanted::default() });
        format!("{reason} {relative_l2} {worst_row}")
    }

    #[test]
    fn a_sum_of_many_terms_may_be_less_exact() {
        let dot = "__global__ void dot(const __nv_fp8_e4m3* a, float* out, int n) {}";
        insta::assert_snapshot!(reason(dot, [("a", "n"), ("out", "1")]), @"Rounding each term of a sum of 67108864 costs up to 5e-4, relative to a usual sum. 5e-4 2e-3");
        let scale = "__global__ void scale(const float* a, float* out, int n) {}";
        insta::assert_snapshot!(reason(scale, [("a", "n"), ("out", "n")]), @"Rounding the output alone costs 3e-8, and a sum of thousands of terms up to 1e-6. 1e-5 4e-5");
        let count = "__global__ void count(const unsigned char* a, int* out, int n) {}";
        insta::assert_snapshot!(reason(count, [("a", "n"), ("out", "1")]), @"Whole numbers are exact. 0.0 0.0");
    }
}
