//! The worker's side of a contest: variants that are on the device together and are timed in turns.
//!
//! Nothing is ever given back but by an entrant that fails to enter: a contest has a process of its own.

use std::rc::Rc;

use super::data::Data;
use super::sets::Sets;
use super::setup::Setup;
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
    /// The data of the last entrant: the others of its contest share it.
    data: Option<(Source, Rc<Data>)>,
}

/// What data comes from: the same source gives the same data.
#[derive(PartialEq)]
struct Source {
    op: String,
    dims: Dims,
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
    data: Rc<Data>,
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
        let EnterRequest { artifact, dtype, tolerance, case, plan, min_sample_ns, .. } = &request;
        let problem = Problem { op, dims: &case.dims, dtype: *dtype };
        let count = Sets::count(device.info(), &problem, case.regime)
            .map_err(|reason| Ended::Machine(format!("case `{}`: {reason}", case.name)))?;
        step(&case.name, "load");
        let held = Held::take(device, artifact, plan, Some(&problem), count).map_err(|f| ended(&case.name, f))?;
        step(&case.name, "check");
        let data = self.data(&request, &problem);
        let setup = Setup { case: &case.name, problem, tolerance, module: held.module, plan, sets: &held.sets };
        match get_ready(device, &setup, &data, *min_sample_ns, step) {
            Ok((correctness, prepared)) => {
                let executions = prepared.executions;
                let EnterRequest { dtype, tolerance, case, plan, .. } = request;
                self.entrants.push(Entrant { op, case, dtype, tolerance, plan, held, prepared, data });
                Ok((correctness, executions))
            }
            Err(ended) => {
                // What ended it is what matters: after a crash there is nothing left to give back.
                let _ = held.give_back(device);
                Err(ended)
            }
        }
    }

    /// Replays an entrant and returns nanoseconds of one execution, a value per replay.
    ///
    /// One more replay comes first and is not counted: another entrant ran meanwhile and has pushed this one's instructions,
    /// and its data where it is timed warm, out of the caches. Outputs are poisoned before, so that a check afterwards is
    /// about this block.
    pub fn sample(
        &self,
        device: &mut dyn Device,
        entrant: usize,
        samples: usize,
        step: &mut Step<'_>,
    ) -> Result<Vec<f64>, Ended> {
        let entrant = self.entrant(entrant)?;
        let setup = entrant.setup();
        step(setup.case, "sample");
        setup.poison_outputs(device)?;
        let Prepared { capture, executions, .. } = entrant.prepared;
        let device = clock(device)?;
        let sampled = device.replay(capture).and_then(|_| benchmark::replays(device, capture, executions, samples));
        sampled.map_err(|fault| setup.ended(fault))
    }

    /// Checks what an entrant's last replay has written.
    pub fn check(&self, device: &mut dyn Device, entrant: usize, step: &mut Step<'_>) -> Result<Correctness, Ended> {
        let entrant = self.entrant(entrant)?;
        let setup = entrant.setup();
        step(setup.case, "check");
        setup.check_timed(device, &entrant.data)
    }

    /// Tells whether two entrants have the same data, in the same memory.
    #[cfg(test)]
    pub fn share_data(&self, a: usize, b: usize) -> bool {
        Rc::ptr_eq(&self.entrants[a].data, &self.entrants[b].data)
    }

    fn entrant(&self, number: usize) -> Result<&Entrant, Ended> {
        let held = self.entrants.len();
        self.entrants
            .get(number)
            .ok_or_else(|| Ended::Machine(format!("there is no entrant {number}: {held} have entered, counted from 0")))
    }

    fn data(&mut self, request: &EnterRequest, problem: &Problem<'_>) -> Rc<Data> {
        let source = Source {
            op: request.op.clone(),
            dims: problem.dims.clone(),
            dtype: problem.dtype,
            oracle_flop: request.oracle_flop,
            seed: request.input_seed,
        };
        if let Some((_, data)) = self.data.as_ref().filter(|(known, _)| *known == source) {
            return Rc::clone(data);
        }
        let data = Rc::new(Data::new(problem, request.oracle_flop, request.input_seed));
        self.data = Some((source, Rc::clone(&data)));
        data
    }
}

/// Times a plan that uses workspaces only.
pub fn time(device: &mut dyn Device, request: &TimeRequest, step: &mut Step<'_>) -> Result<Timing, Ended> {
    clock(device)?;
    let TimeRequest { artifact, plan, samples, min_sample_ns } = request;
    step("", "load");
    let held = Held::take(device, artifact, plan, None, 1).map_err(|fault| ended("", fault))?;
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

/// Checks an entrant once and gets it ready to be sampled.
fn get_ready(
    device: &mut dyn Device,
    setup: &Setup<'_>,
    data: &Data,
    min_sample_ns: f64,
    step: &mut Step<'_>,
) -> Result<(Correctness, Prepared), Ended> {
    let correctness = setup.check_once(device, data)?;
    step(setup.case, "time");
    setup.poison_outputs(device)?;
    let prepared = benchmark::prepare(clock(device)?, &setup.works(), min_sample_ns);
    Ok((correctness, prepared.map_err(|fault| setup.ended(fault))?))
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
    /// Loads an artifact and allocates the buffers of its plan, or does neither.
    fn take(
        device: &mut dyn Device,
        artifact: &Artifact,
        plan: &LaunchPlan,
        problem: Option<&Problem<'_>>,
        count: u32,
    ) -> Result<Self, Fault> {
        let module = device.load(artifact)?;
        match Sets::allocate(device, problem, plan, count) {
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
