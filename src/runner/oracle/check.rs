//! Checks an oracle before a session begins, because nothing can be checked without it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::device::DeviceInfo;
use crate::domain::op::atomic_sums::magnitudes;
use crate::domain::op::{AtomicSums, Dtype, Op, OpSource, TensorSpec};
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, Result, error};
use crate::ops::Declared;
use crate::runner::inputs;
use crate::runner::memory;
use crate::runner::outputs::Outputs;

/// Rows of each output to compute.
const ROWS: usize = 16;

/// The part of a sum that an oracle may lose to rounding in float64.
const ORACLE_ROUNDING: f64 = 1e-9;

/// What was observed while an oracle was called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Duration of the longest call after the first.
    pub slowest: Duration,
    /// The first line that it printed.
    pub printed: Option<String>,
    /// Where it was computed, if it was to be computed on a GPU.
    pub computed_on: Option<String>,
}

/// Calls the oracle of a declared op on the case with the least work, twice, and on the one with the most. One in CUDA runs
/// on `device`. The error is one sentence. One of optloop's own ops has nothing to check.
pub fn check(workload: &Workload, device: &DeviceInfo) -> Result<Observed> {
    let OpSource::Declared(source) = workload.op.source() else { return Ok(Observed::default()) };
    let one_sentence = |mistakes: Vec<String>| Error::of_all(&mistakes);
    let oracle = super::of(&source, Some(device)).map_err(one_sentence)?;
    let op = Declared::parse(*source, Box::new(Arc::clone(&oracle))).map_err(one_sentence)?;
    let slowest = checked(workload, &op)?;
    Ok(Observed { slowest, printed: oracle.printed(), computed_on: oracle.computed_on() })
}

/// Returns the duration of the longest call after the first.
fn checked(workload: &Workload, op: &Declared) -> Result<Duration> {
    let work = |case: &&Case| op.work(&case.dims);
    let mut cases: Vec<&Case> = workload.cases.iter().collect();
    cases.sort_by(|a, b| work(a).total_cmp(&work(b)));
    let (Some(least), Some(most)) = (cases.first(), cases.last()) else { return Ok(Duration::ZERO) };
    let mut slowest = Duration::ZERO;
    let mut called = |case: &Case| {
        let started = Instant::now();
        let values = computed(op, workload.dtype, case).map_err(|problem| named(case, problem));
        slowest = slowest.max(started.elapsed());
        values
    };
    // This starts its process, which happens once.
    let first = computed(op, workload.dtype, least).map_err(|problem| named(least, problem))?;
    let again = called(least)?;
    if first.iter().zip(&again).any(|(first, again)| first.to_bits() != again.to_bits()) {
        let why = "it must depend on its arguments alone, so remove random numbers and state";
        let op = op.name();
        return Err(named(least, error!("the oracle of op `{op}` returned two results for the same inputs").hint(why)));
    }
    let first = numbers(op, workload.dtype, least, &first);
    if let Some(at) = first.iter().position(|value| !value.is_finite()) {
        let (op, value) = (op.name(), first[at]);
        return Err(named(least, error!("the oracle of op `{op}` returned {value} for ordinary random inputs")));
    }
    check_in_place(workload, op, (least, &first)).map_err(|problem| named(least, problem))?;
    check_products(workload, op, (least, &first)).map_err(|problem| named(least, problem))?;
    let has = op.check_properties(&least.dims, workload.dtype, &inputs_of(op, workload.dtype, least));
    has.map_err(|problem| named(least, problem))?;
    if least.name != most.name {
        called(most)?;
    }
    Ok(slowest)
}

/// Refuses an op that leaves a tensor, which it is to update in place, so much as it was that a kernel that writes nothing
/// would pass. `values` are those of [`rows_of`].
fn check_in_place(workload: &Workload, op: &Declared, (case, values): (&Case, &[f64])) -> Result<()> {
    let (inputs, drawn) = (op.inputs(&case.dims, workload.dtype), inputs_of(op, workload.dtype, case));
    let least = workload.tolerance.relative_l2.max(workload.tolerance.worst_row);
    let mut rest = values;
    for output in op.outputs(&case.dims, workload.dtype) {
        let rows = rows_of(&(0..output.rows()));
        let (after, others) = rest.split_at(rows.len() * output.row_len());
        rest = others;
        let Some(place) = inputs.iter().position(|input| input.name == output.name) else { continue };
        let drawn = output.dtype.numbers(&drawn[place]);
        let before = rows.into_iter().flat_map(|row| &drawn[row * output.row_len()..][..output.row_len()]);
        let change = after.iter().zip(before).map(|(after, before)| (after - before).powi(2)).sum::<f64>().sqrt();
        let (op, name) = (op.name(), &output.name);
        if change == 0.0 {
            return Err(error!("the oracle of op `{op}` returns the in-place tensor `{name}` as it got it")
                .hint("return the new values, or give it the role `input` if kernels only read it"));
        }
        let size = after.iter().map(|value| value * value).sum::<f64>().sqrt();
        if change <= least * size {
            return Err(error!(
                "a kernel that does not write `{name}` would pass: the oracle of op `{op}` changes it by {:.1e} of its \
                 size, and the tolerance is {least:.0e}; reduce the tolerance, or give inputs `values` that change it more",
                change / size
            ));
        }
    }
    Ok(())
}

/// Refuses an output that is declared as sums of products of the inputs, if the oracle returns less for their absolute values.
/// `values` are those of [`rows_of`].
fn check_products(workload: &Workload, op: &Declared, (case, values): (&Case, &[f64])) -> Result<()> {
    let dtype = workload.dtype;
    let outputs = Outputs::of(op, &case.dims, dtype);
    if !outputs.iter().any(|output| output.atomic_sums == Some(AtomicSums::Products)) {
        return Ok(());
    }
    let dtypes = op.inputs(&case.dims, dtype).into_iter().map(|tensor| tensor.dtype);
    let inputs = magnitudes(&inputs_of(op, dtype, case), dtypes);
    let rows: Vec<usize> = outputs.iter().flat_map(|output| rows_of(&output.rows)).collect();
    let sums = op.oracle(&case.dims, &inputs, &rows)?;
    let mut pairs = sums.iter().zip(values);
    for (output, tensor) in outputs.iter().zip(op.outputs(&case.dims, dtype)) {
        let count = rows_of(&output.rows).len() * output.row_len;
        let is_less = |(sum, exact): &(&f64, &f64)| **sum < exact.abs() * (1.0 - ORACLE_ROUNDING);
        let less = pairs.by_ref().take(count).filter(is_less).count();
        if output.atomic_sums == Some(AtomicSums::Products) && less > 0 {
            let name = tensor.name;
            return Err(error!(
                "the elements of `{name}` are declared as sums of products of inputs, but the oracle returns less for the \
                 absolute values of the inputs"
            )
            .hint(format_args!("declare atomic_sums = \"tolerance\" (--atomic-sums {name})")));
        }
    }
    Ok(())
}

fn named(case: &Case, problem: Error) -> Error {
    problem.within(format_args!("case `{}`", case.name))
}

fn computed(op: &dyn Op, dtype: Dtype, case: &Case) -> Result<Vec<f64>> {
    memory::check(op, &case.dims, dtype, ROWS)?;
    let inputs = inputs_of(op, dtype, case);
    let outputs = Outputs::of(op, &case.dims, dtype);
    let rows: Vec<usize> = outputs.iter().flat_map(|output| rows_of(&output.rows)).collect();
    op.oracle(&case.dims, &inputs, &rows)
}

/// Returns the numbers of what [`computed`] returns.
fn numbers(op: &dyn Op, dtype: Dtype, case: &Case, values: &[f64]) -> Vec<f64> {
    let mut rest = values.iter();
    let of_output = |output: TensorSpec| {
        let count = rows_of(&(0..output.rows())).len() * output.row_len();
        rest.by_ref().take(count).map(|value| output.dtype.number(*value)).collect::<Vec<f64>>()
    };
    op.outputs(&case.dims, dtype).into_iter().flat_map(of_output).collect()
}

/// Returns some rows of an output, which has these. Others may behave in another way, so they are far apart.
fn rows_of(rows: &Range<usize>) -> Vec<usize> {
    let some = rows.len().min(ROWS);
    (0..some).map(|at| rows.start + at * rows.len() / some).collect()
}

fn inputs_of(op: &dyn Op, dtype: Dtype, case: &Case) -> Vec<Vec<f32>> {
    op.inputs(&case.dims, dtype).iter().map(|tensor| inputs::draw(tensor, 1)).collect()
}
