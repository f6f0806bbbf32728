//! Checks an oracle before a session begins, because nothing can be checked without it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::PythonOracle;
use crate::domain::op::{Dtype, Op, OpSource, Oracle, OracleCall, TensorRole};
use crate::domain::workload::{Case, Workload};
use crate::ops::Declared;
use crate::runner::inputs;
use crate::runner::outputs::Outputs;

/// Rows of each output to compute.
const ROWS: usize = 16;

/// What was observed while an oracle was called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Duration of the longest call.
    pub slowest: Duration,
    /// The first line that it printed.
    pub printed: Option<String>,
}

/// An oracle that is shared with the op that calls it.
struct Shared(Arc<PythonOracle>);

impl Oracle for Shared {
    fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, String> {
        self.0.compute(call)
    }
}

/// Calls the oracle of a declared op on the case with the least work, twice, and on the one with the most. The error is
/// one sentence. One of optloop's own ops has nothing to check.
pub fn check(workload: &Workload) -> Result<Observed, String> {
    let OpSource::Declared(source) = workload.op.source() else { return Ok(Observed::default()) };
    let oracle = Arc::new(PythonOracle::new(source.oracle.clone(), source.python.clone()));
    let op = Declared::parse(*source, Box::new(Shared(Arc::clone(&oracle)))).map_err(|mistakes| mistakes.join("; "))?;
    let slowest = checked(workload, &op)?;
    Ok(Observed { slowest, printed: oracle.printed() })
}

/// Returns the duration of the longest call.
fn checked(workload: &Workload, op: &Declared) -> Result<Duration, String> {
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
    let first = called(least)?;
    let again = called(least)?;
    if first.iter().zip(&again).any(|(first, again)| first.to_bits() != again.to_bits()) {
        let why = "it must depend on its arguments alone, so remove random numbers and state";
        let op = op.name();
        return Err(named(least, format!("the oracle of op `{op}` returned two results for the same inputs: {why}")));
    }
    if let Some(at) = first.iter().position(|value| !value.is_finite()) {
        let (op, value) = (op.name(), first[at]);
        return Err(named(least, format!("the oracle of op `{op}` returned {value} for ordinary random inputs")));
    }
    let has = op.check_properties(&least.dims, workload.dtype, &inputs_of(op, workload.dtype, least));
    has.map_err(|problem| named(least, problem))?;
    if least.name != most.name {
        called(most)?;
    }
    Ok(slowest)
}

fn named(case: &Case, problem: String) -> String {
    format!("case `{}`: {problem}", case.name)
}

fn computed(op: &dyn Op, dtype: Dtype, case: &Case) -> Result<Vec<f64>, String> {
    let inputs = inputs_of(op, dtype, case);
    let outputs = Outputs::of(op, &case.dims, dtype);
    let rows: Vec<usize> = outputs.iter().flat_map(|output| output.rows.clone().take(ROWS)).collect();
    op.oracle(&case.dims, &inputs, &rows)
}

fn inputs_of(op: &dyn Op, dtype: Dtype, case: &Case) -> Vec<Vec<f32>> {
    let tensors = op.tensors(&case.dims, dtype);
    tensors.iter().filter(|tensor| tensor.role == TensorRole::Input).map(|tensor| inputs::draw(tensor, 1)).collect()
}
