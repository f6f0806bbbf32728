//! The worker's side of a contest: variants that are on the device together and are timed in turns.
//!
//! All of them read and write the same tensors. Where a buffer lies decides how far its lines are from the multiprocessors that
//! want them: two copies of a kernel of 3.9 us, each with tensors of its own, differed by 0.85% as long as they lived (H200,
//! 2026-11-21, `optloop bench` of 40 contests). So the output is poisoned before each block and looked at after it, and so are the
//! inputs and what lies around them: who wrote there is found before anybody else meets it.
//!
//! Nothing is ever given back but by an entrant that fails to enter: a contest has a process of its own.

use std::rc::Rc;

use super::data::Data;
use super::sets::Sets;
use super::setup::{Seen, Setup};
use super::{Ended, Step, ended};
use crate::domain::artifact::Artifact;
use crate::domain::evaluation::{Correctness, Timing};
use crate::domain::op::{Dims, Dtype, Op};
use crate::domain::plan::LaunchPlan;
use crate::domain::workload::{Case, Tolerance};
use crate::ops;
use crate::runner::benchmark::{self, Prepared};
use crate::runner::device::{Clock, Device, Fault, Module, Problem, Replay};
use crate::runner::worker::{EnterRequest, TimeRequest};

/// The entrants of a contest, in the order of entry.
#[derive(Default)]
pub struct Arena {
    entrants: Vec<Entrant>,
    /// What the last entrant was given: the others of its contest share it.
    stage: Option<(Source, Rc<Stage>)>,
}

/// Inputs, what must come out of them, and the tensors on the device.
struct Stage {
    data: Data,
    tensors: Sets,
}

/// What data comes from: the same source gives the same data.
#[derive(PartialEq)]
struct Source {
    op: String,
    dims: Dims,
    sets: u32,
    dtype: Dtype,
    oracle_flop: f64,
    seed: u64,
}

/// A variant that is loaded, checked and captured.
struct Entrant {
    op: &'static dyn Op,
    case: Case,
    dtype: Dtype,
    tolerance: Tolerance,
    plan: LaunchPlan,
    held: Held,
    prepared: Prepared,
    stage: Rc<Stage>,
    /// What it gave when it was checked, and must give after every block.
    seen: Seen,
}

/// Code and buffers on the device.
struct Held {
    module: Module,
    sets: Sets,
}

impl Arena {
    /// Takes a variant in: loads it, checks it once, and captures so many executions that a sample is long enough.
    pub fn enter(
        &mut self,
        device: &mut dyn Device,
        request: EnterRequest,
        step: &mut Step<'_>,
    ) -> Result<(Correctness, u32), Ended> {
        clock(device)?;
        let op = ops::find(&request.op).map_err(Ended::Machine)?;
        let EnterRequest { artifact, dtype, case, plan, .. } = &request;
        let problem = Problem { op, dims: &case.dims, dtype: *dtype };
        let count = Sets::count(device.info(), &problem, case.regime)
            .map_err(|reason| Ended::Machine(format!("case `{}`: {reason}", case.name)))?;
        step(&case.name, "load");
        let stage = self.stage(device, &request, &problem, count).map_err(|fault| ended(&case.name, fault))?;
        let held = Held::take(device, artifact, |device| stage.tensors.with_workspaces(device, plan));
        let mut held = held.map_err(|fault| ended(&case.name, fault))?;
        match get_ready(device, &request, &problem, &mut held, &stage.data, step) {
            Ok((seen, prepared)) => {
                let (correctness, executions) = (seen.correctness, prepared.executions);
                let EnterRequest { dtype, tolerance, case, plan, .. } = request;
                self.entrants.push(Entrant { op, case, dtype, tolerance, plan, held, prepared, stage, seen });
                Ok((correctness, executions))
            }
            Err(ended) => {
                // What ended it is what matters: after a crash there is nothing left to give back.
                let _ = stage.tensors.upload(device, &stage.data.inputs).and_then(|()| held.give_back(device));
                Err(ended)
            }
        }
    }

    /// Replays an entrant and returns nanoseconds of one execution, a value per replay.
    ///
    /// One more replay comes first and is not counted: another entrant ran meanwhile and has pushed this one's instructions,
    /// and its data where it is timed warm, out of the caches. Outputs are poisoned before and looked at after: they must be the
    /// very bytes that were checked.
    pub fn sample(
        &mut self,
        device: &mut dyn Device,
        entrant: usize,
        samples: usize,
        step: &mut Step<'_>,
    ) -> Result<Vec<f64>, Ended> {
        let entrant = self.entrant(entrant)?;
        let setup = entrant.setup();
        step(setup.case, "sample");
        setup.poison_outputs(device)?;
        device.reset_caches().map_err(|fault| setup.ended(fault))?;
        let Prepared { capture, executions, .. } = entrant.prepared;
        let replays = clock(device)?;
        let sampled = replays.replay(capture).and_then(|_| benchmark::replays(replays, capture, executions, samples));
        let sampled = sampled.map_err(|fault| setup.ended(fault))?;
        let Stage { data, tensors } = &*entrant.stage;
        setup.check_timed(device, &entrant.seen, data).inspect_err(|_| {
            // The others go on with what they were given. That this one failed is what matters.
            let _ = tensors.upload(device, &data.inputs);
        })?;
        Ok(sampled)
    }

    /// Returns how close an entrant's output came: that of every block since is the same.
    pub fn check(&mut self, entrant: usize) -> Result<Correctness, Ended> {
        Ok(self.entrant(entrant)?.seen.correctness)
    }

    /// Tells whether two entrants have the same data, in the same memory.
    #[cfg(test)]
    pub fn share_data(&self, a: usize, b: usize) -> bool {
        Rc::ptr_eq(&self.entrants[a].stage, &self.entrants[b].stage)
    }

    fn entrant(&mut self, number: usize) -> Result<&mut Entrant, Ended> {
        let held = self.entrants.len();
        self.entrants
            .get_mut(number)
            .ok_or_else(|| Ended::Machine(format!("there is no entrant {number}: {held} have entered, counted from 0")))
    }

    /// Returns what an entrant is given: what the one before was, if it is of the same contest.
    fn stage(
        &mut self,
        device: &mut dyn Device,
        request: &EnterRequest,
        problem: &Problem<'_>,
        sets: u32,
    ) -> Result<Rc<Stage>, Fault> {
        let source = Source {
            op: request.op.clone(),
            dims: problem.dims.clone(),
            sets,
            dtype: problem.dtype,
            oracle_flop: request.oracle_flop,
            seed: request.input_seed,
        };
        if let Some((_, stage)) = self.stage.as_ref().filter(|(known, _)| *known == source) {
            return Ok(Rc::clone(stage));
        }
        let tensors = Sets::allocate(device, Some(problem), &LaunchPlan::default(), sets)?;
        let data = Data::new(problem, request.oracle_flop, request.input_seed);
        let stage = Rc::new(Stage { data, tensors });
        self.stage = Some((source, Rc::clone(&stage)));
        Ok(stage)
    }
}

/// Times a plan that uses workspaces only.
pub fn time(device: &mut dyn Device, request: &TimeRequest, step: &mut Step<'_>) -> Result<Timing, Ended> {
    clock(device)?;
    let TimeRequest { artifact, plan, samples, min_sample_ns } = request;
    step("", "load");
    let held = Held::take(device, artifact, |device| Sets::allocate(device, None, plan, 1));
    let held = held.map_err(|fault| ended("", fault))?;
    step("", "time");
    let timed = time_held(device, &held, plan, *samples, *min_sample_ns);
    let given_back = held.give_back(device).map_err(|fault| ended("", fault));
    let timing = timed?;
    given_back?;
    Ok(timing)
}

fn time_held(
    device: &mut dyn Device,
    held: &Held,
    plan: &LaunchPlan,
    samples: usize,
    min_sample_ns: f64,
) -> Result<Timing, Ended> {
    let works = held.sets.works(held.module, plan, None);
    held.sets.reset(device, plan).map_err(|fault| ended("", fault))?;
    // Launched by itself, a plan that does not run is told from one that cannot be captured.
    works.iter().try_for_each(|work| device.launch(work)).map_err(|fault| ended("", fault))?;
    benchmark::time(clock(device)?, &works, samples, min_sample_ns).map_err(|fault| ended("", fault))
}

/// Checks an entrant once, loads it anew, gets it ready to be sampled, and looks at what that left.
fn get_ready(
    device: &mut dyn Device,
    request: &EnterRequest,
    problem: &Problem<'_>,
    held: &mut Held,
    data: &Data,
    step: &mut Step<'_>,
) -> Result<(Seen, Prepared), Ended> {
    let EnterRequest { artifact, tolerance, case, plan, min_sample_ns, .. } = request;
    let Held { module, sets } = held;
    let setup = Setup { case: &case.name, problem: *problem, tolerance, module: *module, plan, sets };
    step(&case.name, "check");
    let seen = setup.check_once(device, data)?;
    *module = reload(device, *module, artifact).map_err(|fault| setup.ended(fault))?;
    step(&case.name, "time");
    let setup = Setup { module: *module, ..setup };
    setup.reset(device)?;
    let prepared = benchmark::prepare(clock(device)?, &setup.works(), *min_sample_ns);
    let prepared = prepared.map_err(|fault| setup.ended(fault))?;
    let checked = setup.check_timed(device, &seen, data);
    if checked.is_err() {
        // That it is wrong is what matters.
        let _ = clock(device)?.release(prepared.capture);
    }
    checked.map(|()| (seen, prepared))
}

/// Returns what replays; a device that models its times cannot do what a contest is for.
fn clock(device: &mut dyn Device) -> Result<&mut dyn Replay, Ended> {
    let name = device.info().name.clone();
    match device.clock() {
        Clock::Replay(device) => Ok(device),
        Clock::Model(_) => {
            Err(Ended::Machine(format!("the {name} models its times: only a device that replays can sample in turns")))
        }
    }
}

/// Loads an artifact anew, without what its kernels kept in global variables.
fn reload(device: &mut dyn Device, module: Module, artifact: &Artifact) -> Result<Module, Fault> {
    device.unload(module)?;
    device.load(artifact)
}

impl Entrant {
    fn setup(&self) -> Setup<'_> {
        Setup {
            case: &self.case.name,
            problem: Problem { op: self.op, dims: &self.case.dims, dtype: self.dtype },
            tolerance: &self.tolerance,
            module: self.held.module,
            plan: &self.plan,
            sets: &self.held.sets,
        }
    }
}

impl Held {
    /// Loads an artifact and allocates its buffers, or does neither.
    fn take(
        device: &mut dyn Device,
        artifact: &Artifact,
        allocate: impl FnOnce(&mut dyn Device) -> Result<Sets, Fault>,
    ) -> Result<Self, Fault> {
        let module = device.load(artifact)?;
        match allocate(device) {
            Ok(sets) => Ok(Self { module, sets }),
            Err(fault) => {
                // That there is no room is what matters.
                let _ = device.unload(module);
                Err(fault)
            }
        }
    }

    fn give_back(self, device: &mut dyn Device) -> Result<(), Fault> {
        let freed = self.sets.free(device);
        device.unload(self.module).and(freed)
    }
}
