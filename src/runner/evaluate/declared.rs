//! Software kernels of a project's ops, honest and not, run against every probe.

use super::acceptance::{Around, magnitudes_of, probed, probes_of};
use crate::domain::compute::Compute;
use crate::domain::measurement::check::Check;
use crate::domain::op::oracle::{Oracle, OracleCall, is_stretchable, stretched};
use crate::domain::op::{DeclaredSource, Dims, Dtype};
use crate::domain::workload::Tolerance;
use crate::ops::Declared;
use crate::runner::device::Problem;
use crate::runner::inputs::encode;
use crate::runner::outputs::Refusal;
use crate::runner::validate::Expectation;

const ROWS: usize = 24;
const COLUMNS: usize = 40;
const TOLERANCE: Tolerance = Tolerance { relative_l2: 1e-5, worst_row: 4e-5 };
const COARSE: Tolerance = Tolerance { relative_l2: 2e-3, worst_row: 8e-3 };

/// What is computed of one row or column.
type Function<T> = fn(&[T]) -> T;

/// Along what a matrix is reduced.
#[derive(Clone, Copy, PartialEq)]
enum Along {
    Rows,
    Columns,
    /// Nothing: each element has a function of its own, of itself and the next one.
    Elements,
}

/// What is computed along what: exactly, by a kernel that is wrong, and by one that is right.
type Case = (&'static str, Along, Function<f64>, Function<f32>, Function<f32>);

struct Reduction {
    along: Along,
    exact: Function<f64>,
}

fn reduced<T: Copy>(along: Along, x: &[T], function: Function<T>) -> Vec<T> {
    match along {
        Along::Rows => x.chunks(COLUMNS).map(function).collect(),
        Along::Columns => {
            let column = |column| x.iter().skip(column).step_by(COLUMNS).copied().collect::<Vec<T>>();
            (0..COLUMNS).map(|at| function(&column(at))).collect()
        }
        Along::Elements => {
            let of_row =
                |row: &[T]| (0..COLUMNS).map(|at| function(&[row[at], row[(at + 1) % COLUMNS]])).collect::<Vec<T>>();
            x.chunks(COLUMNS).flat_map(of_row).collect()
        }
    }
}

impl Oracle for Reduction {
    fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, crate::error::Error> {
        let (tensor, values) = &call.inputs[0];
        let wide = |x: &f32| match call.is_stretched && is_stretchable(tensor) {
            true => stretched(f64::from(*x)),
            false => f64::from(*x),
        };
        let all = reduced(self.along, &values.iter().map(wide).collect::<Vec<f64>>(), self.exact);
        let (output, rows) = &call.outputs[0];
        let length = output.row_len();
        Ok(rows.iter().flat_map(|row| all[row * length..][..length].to_vec()).collect())
    }
}

/// Returns the first probe that a kernel does not pass, with the reason.
fn failed(along: Along, exact: Function<f64>, kernel: Function<f32>) -> Option<(&'static str, Refusal)> {
    failed_with([Dtype::F32; 2], along, exact, kernel)
}

/// Does the same for element types of the input and the output.
fn failed_with(
    [dtype, of_output]: [Dtype; 2],
    along: Along,
    exact: Function<f64>,
    kernel: Function<f32>,
) -> Option<(&'static str, Refusal)> {
    let shape = match along {
        Along::Rows => r#"["R"]"#,
        Along::Columns => r#"["C"]"#,
        Along::Elements => r#"["R", "C"]"#,
    };
    let manifest = format!(
        "name = 'some'\nabout = 'Some.'\noracle = 'oracle.py'\nflop = '0'\n[dims.R]\nabout = 'rows'\n[dims.C]\n\
         about = 'columns'\n[tensors.x]\nrole = 'input'\nshape = ['R', 'C']\n[tensors.y]\nrole = 'output'\nshape = {shape}\ndtype = '{}'\n",
        of_output.name()
    );
    let (oracle, python, files) = (String::new(), String::new(), Vec::new());
    let source = DeclaredSource { manifest, oracle, python, files };
    let op = Declared::parse(source, Box::new(Reduction { along, exact })).map_err(|all| all.join("; ")).unwrap();
    let op: &'static Declared = Box::leak(Box::new(op));
    let dims: Dims = [("R", ROWS), ("C", COLUMNS)].map(|(name, size)| (name.to_owned(), size as i64)).into();
    let problem = Problem { op, dims: &dims, dtype, compute: Compute::Dtype };
    let tolerance = if dtype == Dtype::F32 { TOLERANCE } else { COARSE };
    probes_of(&problem).into_iter().find_map(|probe| {
        let magnitudes = magnitudes_of(&problem, &probe);
        for (place, magnitude) in magnitudes.iter().enumerate() {
            let around = Around { magnitude: *magnitude, constants: &[6.0] };
            let (values, told) = probed(&problem, (&probe, around), 7);
            let mut expectation =
                Expectation::of_probe(op, &dims, dtype, &values, 1e12, 7, &told).expect("the oracle bears all");
            let is_last = place + 1 == magnitudes.len();
            if !is_last && !expectation.is_borne_by(op, &dims, &values) {
                continue;
            }
            let output = encode(&reduced(along, &values[0], kernel), of_output);
            let checked = expectation.check(&output, &tolerance).or_else(|_| {
                let compute = Compute::Dtype;
                expectation.allow_for_rounding((op, compute), &dims, &values, 7, (&output, &tolerance)).unwrap();
                expectation.check(&output, &tolerance)
            });
            match checked {
                Err(refusal) if !is_last && refusal.check == Check::Finite => {}
                Err(refusal) => return Some((probe.name, refusal)),
                Ok(_) => return None,
            }
        }
        None
    })
}

fn most(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn least(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The best path through some states, of which each costs something.
fn path<T: Copy + std::ops::Add<Output = T>>(x: &[T], zero: T, first: T, better: fn(T, T) -> T) -> T {
    let states = 4;
    let mut scores = vec![zero; states];
    for step in x.chunks(states) {
        let best = scores.iter().fold(first, |best, score| better(best, *score));
        scores = step.iter().map(|x| *x + best).collect();
    }
    scores.into_iter().fold(first, better)
}

#[test]
fn a_reduction_that_begins_at_a_finite_number_fails_a_probe_and_an_honest_one_does_not() {
    let cases: [Case; 6] = [
        (
            "a row's minimum from 1e10",
            Along::Rows,
            least,
            |x| x.iter().copied().fold(1e10, f32::min),
            |x| x.iter().copied().fold(f32::INFINITY, f32::min),
        ),
        (
            "a row's maximum from -9999",
            Along::Rows,
            most,
            |x| x.iter().copied().fold(-9999.0, f32::max),
            |x| x.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        ),
        (
            "a column's maximum from -1e4",
            Along::Columns,
            most,
            |x| x.iter().copied().fold(-1e4, f32::max),
            |x| x.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        ),
        (
            "a column's minimum from 1e20",
            Along::Columns,
            least,
            |x| x.iter().copied().fold(1e20, f32::min),
            |x| x.iter().copied().fold(f32::INFINITY, f32::min),
        ),
        (
            "the best path from -1e9",
            Along::Columns,
            |x| path(x, 0.0, f64::NEG_INFINITY, f64::max),
            |x| path(x, 0.0, -1e9, f32::max),
            |x| path(x, 0.0, f32::NEG_INFINITY, f32::max),
        ),
        (
            "a softmax whose maximum begins at -1e5",
            Along::Rows,
            |x| {
                let most = most(x);
                most + x.iter().map(|x| (x - most).exp()).sum::<f64>().ln()
            },
            |x| {
                let most = x.iter().copied().fold(-1e5, f32::max);
                most + x.iter().map(|x| (x - most).exp()).sum::<f32>().ln()
            },
            |x| {
                let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                most + x.iter().map(|x| (x - most).exp()).sum::<f32>().ln()
            },
        ),
    ];
    for (what, along, exact, limited, honest) in cases {
        assert!(failed(along, exact, limited).is_some(), "{what} passes");
        assert_eq!(failed(along, exact, honest), None, "{what}, but honest");
    }
}

#[test]
fn powers_sums_and_quotients_may_overflow_where_fp32_does() {
    let cases: [(&str, Along, Function<f64>, Function<f32>); 6] = [
        (
            "a fifth power",
            Along::Elements,
            |x| x[0].powi(5) / (1.0 + x[0].powi(5).abs()),
            |x| {
                let fifth = x[0] * x[0] * x[0] * x[0] * x[0];
                fifth / (1.0 + fifth.abs())
            },
        ),
        ("an inverse square", Along::Elements, |x| x[0] / (1.0 + x[0] * x[0]), |x| x[0] / (1.0 + x[0] * x[0])),
        (
            "a norm",
            Along::Rows,
            |x| x[0] / (x.iter().map(|x| x * x).sum::<f64>()).sqrt(),
            |x| x[0] / (x.iter().map(|x| x * x).sum::<f32>()).sqrt(),
        ),
        (
            "a mean",
            Along::Columns,
            |x| x.iter().sum::<f64>() / x.len() as f64,
            |x| x.iter().sum::<f32>() / x.len() as f32,
        ),
        ("a distance", Along::Elements, |x| x[0].hypot(x[1]), |x| (x[0] * x[0] + x[1] * x[1]).sqrt()),
        ("a sigmoid", Along::Elements, |x| 1.0 / (1.0 + (-x[0]).exp()), |x| 1.0 / (1.0 + (-x[0]).exp())),
    ];
    for (what, along, exact, honest) in cases {
        assert_eq!(failed(along, exact, honest), None, "{what}");
    }
}

#[test]
fn what_is_wrong_only_at_a_special_number_or_between_equal_ones_fails_a_probe() {
    let cases: [Case; 6] = [
        (
            "a step that excludes 0.5",
            Along::Elements,
            |x| f64::from(u8::from(x[0] >= 0.5)),
            |x| f32::from(u8::from(x[0] > 0.5)),
            |x| f32::from(u8::from(x[0] >= 0.5)),
        ),
        (
            "a number that is 1",
            Along::Elements,
            |x| 2.0 * x[0],
            |x| if x[0] == 1.0 { 1.0 } else { 2.0 * x[0] },
            |x| 2.0 * x[0],
        ),
        (
            "a constant of the kernel",
            Along::Elements,
            |x| x[0].clamp(0.0, 6.0),
            |x| {
                if x[0] < 6.0 {
                    x[0].max(0.0)
                } else if x[0] > 6.0 {
                    6.0
                } else {
                    0.0
                }
            },
            |x| x[0].clamp(0.0, 6.0),
        ),
        ("a whole number", Along::Elements, |x| x[0].floor(), |x| x[0].ceil() - 1.0, |x| x[0].floor()),
        (
            "equal neighbours",
            Along::Elements,
            |x| f64::from(u8::from(x[0] >= x[1])),
            |x| f32::from(u8::from(x[0] > x[1])),
            |x| f32::from(u8::from(x[0] >= x[1])),
        ),
        (
            "zero",
            Along::Elements,
            |x| if x[0] == 0.0 { 0.0 } else { x[0].signum() },
            |x| x[0].signum(),
            |x| if x[0] == 0.0 { 0.0 } else { x[0].signum() },
        ),
    ];
    for (what, along, exact, wrong, honest) in cases {
        assert!(failed(along, exact, wrong).is_some(), "{what} passes");
        assert_eq!(failed(along, exact, honest), None, "{what}, but honest");
    }
}

/// A row's variance, of which the mean is subtracted first.
fn variance<T: Copy + std::iter::Sum + std::ops::Sub<Output = T> + std::ops::Mul<Output = T>>(x: &[T], one: T) -> T {
    let mean = x.iter().copied().sum::<T>() * one;
    x.iter().map(|x| (*x - mean) * (*x - mean)).sum::<T>() * one
}

const PART: f32 = 1.0 / COLUMNS as f32;

#[test]
fn a_variance_keeps_its_digits_beside_a_large_mean_and_so_do_sums() {
    let exact = |x: &[f64]| variance(x, 1.0 / COLUMNS as f64);
    let one_pass = |x: &[f32]| {
        let (sum, squares) = x.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        squares * PART - (sum * PART) * (sum * PART)
    };
    let welford = |x: &[f32]| {
        let (mut mean, mut sum) = (0.0, 0.0);
        for (at, x) in x.iter().enumerate() {
            let distance = x - mean;
            mean += distance / (at + 1) as f32;
            sum += distance * (x - mean);
        }
        sum * PART
    };
    let (found, _) = failed(Along::Rows, exact, one_pass).expect("it passes");
    assert!(found.contains("mean"), "{found}");
    assert_eq!(failed(Along::Rows, exact, |x| variance(x, PART)), None, "two passes");
    assert_eq!(failed(Along::Rows, exact, welford), None, "one pass that subtracts the mean so far");
    assert_eq!(failed(Along::Columns, exact_sum, |x| x.iter().sum()), None, "a sum");
    let shifted: Function<f64> = |x| (x[0] - most(x)).exp() / x.iter().map(|y| (y - most(x)).exp()).sum::<f64>();
    let softmax: Function<f32> = |x| {
        let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        (x[0] - most).exp() / x.iter().map(|y| (y - most).exp()).sum::<f32>()
    };
    assert_eq!(failed(Along::Rows, shifted, softmax), None, "a softmax");
}

fn exact_sum(x: &[f64]) -> f64 {
    x.iter().sum()
}

fn squares(x: &[f32]) -> f32 {
    x.iter().map(|x| x * x).sum()
}

#[test]
fn tiny_rows_show_another_epsilon_where_the_op_bears_them() {
    let cases: [Case; 3] = [
        (
            "1e-12 beside the squares",
            Along::Rows,
            |x| x[0] / x.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12),
            |x| x[0] / (squares(x) + 1e-12).sqrt(),
            |x| x[0] / squares(x).sqrt().max(1e-12),
        ),
        (
            "1e-7 in place of 1e-12",
            Along::Columns,
            |x| x[0] / x.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12),
            |x| x[0] / squares(x).sqrt().max(1e-7),
            |x| x[0] / squares(x).sqrt().max(1e-12),
        ),
        (
            "a number that is not zero",
            Along::Elements,
            |x| f64::from(u8::from(x[0] != 0.0)),
            |x| f32::from(u8::from(x[0].abs() > 1e-12)),
            |x| f32::from(u8::from(x[0] != 0.0)),
        ),
    ];
    for (what, along, exact, wrong, honest) in cases {
        assert!(failed(along, exact, wrong).is_some(), "{what} passes");
        assert_eq!(failed(along, exact, honest), None, "{what}, but honest");
    }
    // Third powers underflow beyond 2^-42.
    let skewness = failed(
        Along::Rows,
        |x| x.iter().map(|x| x.powi(3)).sum::<f64>() / x.iter().map(|x| x * x).sum::<f64>().powf(1.5),
        |x| x.iter().map(|x| x.powi(3)).sum::<f32>() / squares(x).powf(1.5),
    );
    assert_eq!(skewness, None);
    // A one beside a tiny number takes its digits. The tolerance of FP32 shows that for larger numbers, too.
    let beside_one: [(Function<f64>, Function<f32>); 3] = [
        (|x| x[0].exp_m1(), |x| x[0].exp() - 1.0),
        (|x| x[0].ln_1p(), |x| (1.0 + x[0]).ln()),
        (|x| x[0].tanh(), |x| 1.0 - 2.0 / ((2.0 * x[0]).exp() + 1.0)),
    ];
    for (exact, kernel) in beside_one {
        assert_eq!(failed_with([Dtype::Bf16; 2], Along::Elements, exact, kernel), None);
    }
    // The oracle itself has no digits left near zero.
    let exact: Function<f64> = |x| if x[0] > 0.0 { x[0] } else { x[0].exp() - 1.0 };
    assert_eq!(failed(Along::Elements, exact, |x| if x[0] > 0.0 { x[0] } else { x[0].exp_m1() }), None);
}

/// The first place of a row's largest number, of those above a start value. The start's place is given.
fn first_of_most(x: &[f32], start: f32, place: f32) -> f32 {
    let better =
        |(most, at): (f32, f32), (place, x): (usize, &f32)| if *x > most { (*x, place as f32) } else { (most, at) };
    x.iter().enumerate().fold((start, place), better).1
}

#[test]
fn the_place_of_an_extreme_is_the_first_one_among_zeros_of_either_sign_and_in_infinite_rows() {
    let exact: Function<f64> = |x| {
        let most = most(x);
        x.iter().position(|x| *x == most).unwrap_or(0) as f64
    };
    for output in [Dtype::I8, Dtype::F32] {
        let failed = |kernel: Function<f32>| failed_with([Dtype::F32, output], Along::Rows, exact, kernel);
        assert_eq!(failed(|x| first_of_most(x, f32::NEG_INFINITY, 0.0)), None);
        let (found, _) = failed(|x| first_of_most(x, f32::NEG_INFINITY, -1.0)).expect("no place passes");
        assert_eq!(found, "rows of infinite numbers");
        let (found, _) = failed(|x| {
            let keys = x.iter().map(|x| if x.is_sign_negative() { !x.to_bits() } else { x.to_bits() | 1 << 31 });
            let keys: Vec<u32> = keys.collect();
            keys.iter().enumerate().fold(0, |best, (at, key)| if *key > keys[best] { at } else { best }) as f32
        })
        .expect("a key passes that puts -0 before 0");
        assert_eq!(found, "rows with zeros of either sign at one end");
    }
    // What is computed from infinite numbers may become any whole number.
    let exact: Function<f64> = |x| (x[0] - x[1]).clamp(-100.0, 100.0).round_ties_even();
    let kernel: Function<f32> =
        |x| if (x[0] - x[1]).is_nan() { 77.0 } else { (x[0] - x[1]).clamp(-100.0, 100.0).round_ties_even() };
    assert_eq!(failed_with([Dtype::F32, Dtype::I8], Along::Elements, exact, kernel), None);
}

#[test]
fn a_softmax_bears_a_row_that_begins_with_minus_infinity() {
    let exact: Function<f64> = |x| {
        let most = most(x);
        most + x.iter().map(|x| (x - most).exp()).sum::<f64>().ln()
    };
    let rescale: Function<f32> = |x| {
        let (most, sum) = x.iter().fold((f32::NEG_INFINITY, 0.0_f32), |(most, sum), x| {
            let larger = most.max(*x);
            (larger, sum * (most - larger).exp() + (x - larger).exp())
        });
        most + sum.ln()
    };
    let guarded: Function<f32> = |x| {
        let (most, sum) = x.iter().fold((f32::NEG_INFINITY, 0.0_f32), |(most, sum), x| {
            let larger = most.max(*x);
            let part = if larger == f32::NEG_INFINITY { 0.0 } else { (x - larger).exp() };
            (larger, if most == f32::NEG_INFINITY { part } else { sum * (most - larger).exp() + part })
        });
        most + sum.ln()
    };
    assert_eq!(failed(Along::Rows, exact, guarded), None);
    let (_, refusal) = failed(Along::Rows, exact, rescale).expect("NaN passes");
    assert_eq!(refusal.check, Check::Finite, "{refusal}");
}

#[test]
fn a_result_beyond_fp16_is_infinite_and_not_the_largest_number() {
    let exact: Function<f64> = |x| x[0] * x[1];
    let failed = |kernel: Function<f32>| failed_with([Dtype::F16; 2], Along::Elements, exact, kernel);
    assert_eq!(failed(|x| x[0] * x[1]), None);
    let (_, refusal) = failed(|x| (x[0] * x[1]).clamp(-65504.0, 65504.0)).expect("a clamp passes");
    assert!(refusal.to_string().contains("are finite, but the exact result is NaN or infinite"), "{refusal}");
}
