//! Executes a plan without checking or timing it, for a profiler.

use super::data::{draw, encode};
use super::scoped::with_module;
use super::sets::{Rotation, Sets};
use super::{Ended, ended};
use crate::domain::compute::Compute;
use crate::runner::device::{Device, Fault, Problem};
use crate::runner::messages::LaunchRequest;
use crate::runner::ops;

/// Executes a plan some times on random inputs. Workspaces are reset before each execution.
pub fn execute(device: &mut dyn Device, request: &LaunchRequest, executions: usize) -> Result<(), Ended> {
    let LaunchRequest { artifact, plan, problem, seed, .. } = request;
    let asked = problem.as_ref();
    let op = asked.map(|asked| ops::of(&asked.op, device.info()).map_err(Ended::Machine)).transpose()?;
    // Nothing here depends on the compute mode, because the output is not checked.
    let compute = Compute::Dtype;
    let problem = asked.zip(op);
    let problem = problem.map(|(asked, op)| Problem { op, dims: &asked.case.dims, dtype: asked.dtype, compute });
    let case = asked.map_or("", |asked| asked.case.name.as_str());
    with_module(device, case, artifact, |device, module| {
        let run = |device: &mut dyn Device| -> Result<(), Fault> {
            let sets = Sets::allocate(device, problem.as_ref(), plan, Rotation::apart(1))?;
            if let Some(problem) = &problem {
                sets.upload(device, &encode(problem, &draw(problem, *seed)))?;
            }
            for _ in 0..executions {
                sets.reset(device, plan)?;
                if let Some(problem) = &problem {
                    sets.poison_outputs(device, problem)?;
                }
                for work in sets.works(module, plan, problem) {
                    device.launch(&work)?;
                }
            }
            sets.free(device)
        };
        run(device).map_err(|fault| ended(case, fault))
    })
}
