//! Executes a plan without checking its output: for a profiler, or to time it.

use super::data::{draw, encode};
use super::scoped::{with_module, with_sets};
use super::sets::{Rotation, Sets};
use super::{Ended, Step, ended, replays};
use crate::domain::code::artifact::Artifact;
use crate::domain::compute::Compute;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::statistics::timing::Timing;
use crate::runner::benchmark;
use crate::runner::device::{Device, Fault, Module, Problem, Work};
use crate::runner::messages::{LaunchRequest, ProblemRequest, TimeRequest};
use crate::runner::ops;

/// A plan, with the problem that it solves if it is not one of workspaces only.
#[derive(Clone, Copy)]
struct Unchecked<'a> {
    artifact: &'a Artifact,
    plan: &'a LaunchPlan,
    problem: Option<&'a ProblemRequest>,
    seed: u64,
}

/// Executes a plan some times on random inputs. Workspaces are reset, and weights prepared, before each execution.
pub fn execute(device: &mut dyn Device, request: &LaunchRequest, executions: usize) -> Result<(), Ended> {
    let LaunchRequest { artifact, plan, problem, seed, .. } = request;
    let unchecked = Unchecked { artifact, plan, problem: problem.as_ref(), seed: *seed };
    let rotation = |_: &mut dyn Device, _: &Problem<'_>, _: &ProblemRequest| Ok(Rotation::apart(1));
    unchecked.run(device, rotation, |device, sets, works, problem| {
        for execution in 0..executions {
            if execution > 0 {
                reset(device, sets, (plan, works[0].module), problem)?;
            }
            works.iter().try_for_each(|work| device.launch(work))?;
        }
        Ok(())
    })
}

/// Times a plan on random inputs, in the regime of its case.
pub fn time(device: &mut dyn Device, request: &TimeRequest, step: &mut Step<'_>) -> Result<Timing, Ended> {
    replays(device)?;
    let TimeRequest { artifact, plan, problem, samples, min_sample_ns, seed } = request;
    let unchecked = Unchecked { artifact, plan, problem: problem.as_ref(), seed: *seed };
    let case = unchecked.case();
    let rotation = |device: &mut dyn Device, problem: &Problem<'_>, asked: &ProblemRequest| {
        Sets::rotation(device.info(), problem, asked.case.regime).map_err(Ended::Machine)
    };
    step(case, "load");
    unchecked.run(device, rotation, |device, _, works, problem| {
        step(case, "time");
        // A separate launch distinguishes a plan that does not run from one that cannot be captured.
        works.iter().try_for_each(|work| device.launch(work))?;
        let replay = device.as_replay().ok_or_else(|| Fault::Broken("no replays".to_owned()))?;
        match problem {
            Some(_) => benchmark::time_as_recorded(replay, works, *samples, *min_sample_ns),
            // A peak of the device is a time in the best state.
            None => benchmark::time(replay, works, *samples, *min_sample_ns),
        }
    })
}

impl<'a> Unchecked<'a> {
    fn case(&self) -> &'a str {
        self.problem.map_or("", |asked| asked.case.name.as_str())
    }

    /// Loads the kernels, draws the inputs, and calls a function with the work on each set of buffers.
    fn run<T>(
        &self,
        device: &mut dyn Device,
        rotation: impl FnOnce(&mut dyn Device, &Problem<'_>, &ProblemRequest) -> Result<Rotation, Ended>,
        what: impl FnOnce(&mut dyn Device, &Sets, &[Work<'_>], Option<&Problem<'_>>) -> Result<T, Fault>,
    ) -> Result<T, Ended> {
        let Self { artifact, plan, problem: asked, seed } = *self;
        let case = self.case();
        let op = asked.map(|asked| ops::of(&asked.op, device.info()).map_err(Ended::Machine)).transpose()?;
        // Nothing here depends on the compute mode, because the output is not checked.
        let compute = Compute::Dtype;
        let problem = asked.zip(op);
        let problem = problem.map(|(asked, op)| Problem { op, dims: &asked.case.dims, dtype: asked.dtype, compute });
        let rotation = match asked.zip(problem.as_ref()) {
            Some((asked, problem)) => rotation(device, problem, asked)?,
            None => Rotation::apart(1),
        };
        with_module(device, case, artifact, |device, module| {
            with_sets(device, case, (problem.as_ref(), plan), rotation, |device, sets| {
                let run = |device: &mut dyn Device| -> Result<T, Fault> {
                    if let Some(problem) = &problem {
                        sets.upload(device, &encode(problem, &draw(problem, seed)))?;
                    }
                    reset(device, sets, (plan, module), problem.as_ref())?;
                    what(device, sets, &sets.works(module, plan, problem), problem.as_ref())
                };
                run(device).map_err(|fault| ended(case, fault))
            })
        })
    }
}

/// Puts workspaces and outputs into the state before an execution, with weights prepared.
fn reset(
    device: &mut dyn Device,
    sets: &Sets,
    (plan, module): (&LaunchPlan, Module),
    problem: Option<&Problem<'_>>,
) -> Result<(), Fault> {
    sets.reset(device, plan)?;
    problem.map_or(Ok(()), |problem| sets.poison_outputs(device, problem))?;
    sets.prepare(device, (plan, module), &sets.places_apart())
}
