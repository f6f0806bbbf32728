//! Checks an oracle before a session begins, because nothing can be checked without it.

use crate::domain::op::{OpSource, TensorRole};
use crate::domain::workload::{Case, Workload};
use crate::runner::inputs;
use crate::runner::outputs::Outputs;

/// Rows of each output to compute.
const ROWS: usize = 16;

/// Calls the oracle of a declared op on the case with the least work, twice, and on the one with the most. The error is
/// one sentence. One of optloop's own ops has nothing to check.
pub fn check(workload: &Workload) -> Result<(), String> {
    let OpSource::Declared(_) = workload.op.source() else { return Ok(()) };
    let work = |case: &&Case| workload.op.work(&case.dims);
    let mut cases: Vec<&Case> = workload.cases.iter().collect();
    cases.sort_by(|a, b| work(a).total_cmp(&work(b)));
    let (Some(least), Some(most)) = (cases.first(), cases.last()) else { return Ok(()) };
    let named = |case: &Case, problem: String| format!("case `{}`: {problem}", case.name);
    let first = computed(workload, least).map_err(|problem| named(least, problem))?;
    let again = computed(workload, least).map_err(|problem| named(least, problem))?;
    let op = workload.op.name();
    if first.iter().zip(&again).any(|(first, again)| first.to_bits() != again.to_bits()) {
        let why = "it must depend on its arguments alone, so remove random numbers and state";
        return Err(named(least, format!("the oracle of op `{op}` returned two results for the same inputs: {why}")));
    }
    if let Some(at) = first.iter().position(|value| !value.is_finite()) {
        let value = first[at];
        return Err(named(least, format!("the oracle of op `{op}` returned {value} for ordinary random inputs")));
    }
    if least.name != most.name {
        computed(workload, most).map_err(|problem| named(most, problem))?;
    }
    Ok(())
}

fn computed(workload: &Workload, case: &Case) -> Result<Vec<f64>, String> {
    let tensors = workload.op.tensors(&case.dims, workload.dtype);
    let inputs = tensors.iter().filter(|tensor| tensor.role == TensorRole::Input);
    let inputs: Vec<Vec<f32>> = inputs.map(|tensor| inputs::draw(tensor, 1)).collect();
    let outputs = Outputs::of(workload.op, &case.dims, workload.dtype);
    let rows: Vec<usize> = outputs.iter().flat_map(|output| output.rows.clone().take(ROWS)).collect();
    workload.op.oracle(&case.dims, &inputs, &rows)
}
