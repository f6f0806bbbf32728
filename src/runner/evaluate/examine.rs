//! The examination of a variant that is about to win: everything that is too slow to ask of every variant.

use super::data::Data;
use super::sets::Sets;
use super::setup::Setup;
use super::{Ended, Examination, ExamineRequest, PlannedCase, Step, ended};
use crate::domain::check::Check;
use crate::domain::evaluation::{Correctness, Outcome};
use crate::domain::op::Op;
use crate::ops;
use crate::runner::device::{Device, Module, Problem};
use crate::runner::inputs;

/// Examines a variant. `step` is called with a case's name and what is being done, before each step on the device.
pub fn examine(device: &mut dyn Device, request: &ExamineRequest, step: &mut Step<'_>) -> Result<Examination, Ended> {
    let op = ops::find(&request.op).map_err(Ended::Machine)?;
    let name = request.case.case.name.as_str();
    step(name, "load");
    let module = device.load(&request.artifact).map_err(|fault| ended(name, fault))?;
    let mut outputs = 0;
    for hidden in &request.hidden {
        step(name, "examine");
        check_hidden(device, request, op, module, hidden)?;
        outputs += 1;
    }
    device.unload(module).map_err(|fault| ended(name, fault))?;
    Ok(Examination { outputs, pace: None })
}

/// Checks a shape that is not in the workload.
fn check_hidden(
    device: &mut dyn Device,
    request: &ExamineRequest,
    op: &'static dyn Op,
    module: Module,
    hidden: &PlannedCase,
) -> Result<Correctness, Ended> {
    let PlannedCase { case, plan } = hidden;
    let problem = Problem { op, dims: &case.dims, dtype: request.dtype };
    let sets = Sets::allocate(device, Some(&problem), plan, 1).map_err(|fault| ended(&case.name, fault))?;
    let setup = Setup { case: &case.name, problem, tolerance: &request.tolerance, module, plan, sets: &sets };
    let data = Data::new(&problem, request.oracle_flop, inputs::mix(request.input_seed, &["hidden"]));
    let checked = setup.check_once(device, &data);
    let freed = sets.free(device);
    let correctness = checked.map_err(|ended| match ended {
        Ended::Outcome(Outcome::Wrong { case, message, .. }) => {
            let message = format!("on a shape that is not in the workload: {message}");
            Ended::Outcome(Outcome::Wrong { case, check: Check::Hidden, message })
        }
        other => other,
    })?;
    freed.map_err(|fault| ended(&case.name, fault))?;
    Ok(correctness)
}
