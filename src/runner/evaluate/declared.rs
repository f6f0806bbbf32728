//! Software kernels of a project's ops, honest and not, run against every probe.

use super::acceptance::{Around, magnitudes_of, probed, probes_of};
use crate::domain::check::Check;
use crate::domain::compute::Compute;
use crate::domain::op::{DeclaredSource, Dims, Dtype};
use crate::domain::oracle::{Oracle, OracleCall, is_stretchable, stretched};
use crate::domain::workload::Tolerance;
use crate::ops::Declared;
use crate::runner::device::Problem;
use crate::runner::inputs::encode;
use crate::runner::outputs::Refusal;
use crate::runner::validate::Expectation;

const ROWS: usize = 24;
const COLUMNS: usize = 40;
const TOLERANCE: Tolerance = Tolerance { relative_l2: 1e-5, worst_row: 4e-5 };

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
    fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, String> {
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
    let shape = match along {
        Along::Rows => r#"["R"]"#,
        Along::Columns => r#"["C"]"#,
        Along::Elements => r#"["R", "C"]"#,
    };
    let manifest = format!(
        "name = 'some'\nabout = 'Some.'\noracle = 'oracle.py'\nflop = '0'\n[dims.R]\nabout = 'rows'\n[dims.C]\n\
         about = 'columns'\n[tensors.x]\nrole = 'input'\nshape = ['R', 'C']\n[tensors.y]\nrole = 'output'\nshape = {shape}\n"
    );
    let (oracle, python, files) = (String::new(), String::new(), Vec::new());
    let source = DeclaredSource { manifest, oracle, python, files };
    let op = Declared::parse(source, Box::new(Reduction { along, exact })).map_err(|all| all.join("; ")).unwrap();
    let op: &'static Declared = Box::leak(Box::new(op));
    let dims: Dims = [("R", ROWS), ("C", COLUMNS)].map(|(name, size)| (name.to_owned(), size as i64)).into();
    let problem = Problem { op, dims: &dims, dtype: Dtype::F32, compute: Compute::Dtype };
    probes_of(&problem).into_iter().find_map(|probe| {
        let magnitudes = magnitudes_of(&problem, &probe);
        for (place, magnitude) in magnitudes.iter().enumerate() {
            let around = Around { magnitude: *magnitude, constants: &[6.0] };
            let (values, told) = probed(&problem, (&probe, around), 7);
            let mut expectation =
                Expectation::of_probe(op, &dims, Dtype::F32, &values, 1e12, 7, &told).expect("the oracle bears all");
            let is_last = place + 1 == magnitudes.len();
            if !is_last && !expectation.is_borne_by(op, &dims, &values) {
                continue;
            }
            let output = encode(&reduced(along, &values[0], kernel), Dtype::F32);
            let checked = expectation.check(&output, &TOLERANCE).or_else(|_| {
                let compute = Compute::Dtype;
                expectation.allow_for_rounding((op, compute), &dims, &values, 7, (&output, &TOLERANCE)).unwrap();
                expectation.check(&output, &TOLERANCE)
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
