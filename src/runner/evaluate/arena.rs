//! The worker's side of a comparison: variants share the device and are timed in turns.
//!
//! All of them read and write the same tensors. A buffer's address decides how far its cache lines are from the
//! multiprocessors that read them. Two copies of a kernel of 3.9 us, each with its own tensors, differed by 0.85% for
//! as long as they lived (H200, 2026-11-21, `optloop bench` of 40 comparisons). So the output is poisoned before each
//! sample group and checked after it.
//!
//! The inputs and guard regions are checked when a participant has entered, when an output is wrong, and at the end.
//! Replaying each participant alone finds the one that corrupts them. At the end, each participant also gets held-out
//! inputs. By then it has run more often than in any other check. A kernel that has stopped computing returns the
//! output of the old inputs.
//!
//! Memory is freed only when a participant fails to enter, because a comparison has its own process.

use std::cell::OnceCell;
use std::rc::Rc;

use super::case_run::HELD_OUT_SHARE;
use super::data::Data;
use super::sets::{Rotation, Sets};
use super::setup::{Setup, VerifiedOutput};
use super::{Ended, Step, ended, replays};
use crate::domain::code::artifact::Artifact;
use crate::domain::compute::Compute;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::op::{Dims, Dtype, Op, OpSource};
use crate::domain::workload::{Case, Tolerance};
use crate::error::error;
use crate::runner::benchmark::{self, Prepared};
use crate::runner::device::{Device, Fault, Module, Problem};
use crate::runner::inputs::mix;
use crate::runner::messages::{EnterRequest, Entered, SampleGroup};
use crate::runner::ops;
use crate::runner::outputs::Refusal;

/// The participants of a comparison, in the order of entry.
#[derive(Default)]
pub struct Arena {
    participants: Vec<LoadedParticipant>,
    /// The inputs of the last participant. Others of the same comparison share them.
    shared: Option<(SharedKey, Rc<SharedInputs>)>,
}

/// Inputs, their expected output, and the tensors on the device.
struct SharedInputs {
    data: Data,
    tensors: Sets,
    /// Held-out inputs for the final check.
    held_out: OnceCell<Data>,
}

/// Everything that determines the data: equal keys give equal data.
#[derive(PartialEq)]
struct SharedKey {
    op: OpSource,
    dims: Dims,
    rotation: Rotation,
    dtype: Dtype,
    oracle_flop: f64,
    seed: u64,
}

/// A variant that is loaded, checked and captured.
struct LoadedParticipant {
    op: &'static dyn Op,
    case: Case,
    dtype: Dtype,
    compute: Compute,
    tolerance: Tolerance,
    oracle_flop: f64,
    plan: LaunchPlan,
    loaded: LoadedModule,
    prepared: Prepared,
    shared: Rc<SharedInputs>,
    /// Its output when it was checked, which every sample group must reproduce.
    seen: VerifiedOutput,
    /// Number of groups sampled.
    groups: u64,
    /// Whether it ran since the inputs and guard regions were last checked.
    ran: bool,
    /// The forbidden change that it was found to make; `None` if it made none.
    spoils: Option<Refusal>,
}

/// Code and buffers on the device.
struct LoadedModule {
    module: Module,
    sets: Sets,
}

impl Arena {
    /// Adds a variant: loads it, checks it once, and captures enough executions to fill a sample.
    pub fn enter(
        &mut self,
        device: &mut dyn Device,
        request: EnterRequest,
        step: &mut Step<'_>,
    ) -> Result<Entered, Ended> {
        replays(device)?;
        let op = ops::of(&request.op, device.info()).map_err(Ended::Machine)?;
        let EnterRequest { artifact, dtype, compute, case, plan, .. } = &request;
        let problem = Problem { op, dims: &case.dims, dtype: *dtype, compute: *compute };
        let rotation = Sets::rotation(device.info(), &problem, case.regime)
            .map_err(|reason| Ended::Machine(reason.within(format_args!("case `{}`", case.name))))?;
        step(&case.name, "load");
        let shared = self.shared(device, &request, &problem, rotation)?;
        let loaded = LoadedModule::take(device, artifact, |device| shared.tensors.with_workspaces(device, plan));
        let mut loaded = loaded.map_err(|fault| ended(&case.name, fault))?;
        let others = self.others(&shared);
        match get_ready(device, &request, &mut loaded, &shared.data, &others, step) {
            Ok((seen, prepared)) => {
                let Prepared { executions, replay_ns, .. } = prepared;
                let entered = Entered { correctness: seen.correctness, launches_per_sample: executions, replay_ns };
                let EnterRequest { dtype, compute, tolerance, measuring, case, plan, .. } = request;
                self.participants.push(LoadedParticipant {
                    op,
                    case,
                    dtype,
                    compute,
                    tolerance,
                    oracle_flop: measuring.oracle_flop,
                    plan,
                    loaded,
                    prepared,
                    shared,
                    seen,
                    groups: 0,
                    ran: false,
                    spoils: None,
                });
                Ok(entered)
            }
            Err(ended) => {
                // The first error is the one to report. After a crash there is nothing left to free.
                let _ = shared.tensors.upload(device, &shared.data.inputs).and_then(|()| loaded.release(device));
                Err(ended)
            }
        }
    }

    /// Replays a participant and returns a group of samples, with the control of its turn.
    ///
    /// A short replay is preceded by one that is not counted. Another participant ran meanwhile and has evicted this
    /// one's instructions, and its data in the warm regime, from the caches. Outputs are poisoned before and checked
    /// after: they must equal the checked bytes. Nothing else is checked here, so that the GPU does not rest before the
    /// next participant.
    pub fn sample(
        &mut self,
        device: &mut dyn Device,
        number: usize,
        samples: usize,
        step: &mut Step<'_>,
    ) -> Result<SampleGroup, Ended> {
        step(&self.participant(number)?.case.name, "sample");
        let sampled = self.participants[number].sample(device, samples);
        let Err(Ended::Outcome(Outcome::Wrong { .. } | Outcome::Cheated { .. })) = &sampled else { return sampled };
        let is_anothers = self.spoilt(device, number)?.is_some()
            && self.find_corrupting_participant(device, number)?.is_some_and(|it| it != number);
        // The others continue with clean inputs, whichever participant corrupted them.
        self.repair(device, number)?;
        if is_anothers { self.participants[number].sample(device, samples) } else { sampled }
    }

    /// Checks the inputs and guard regions again, checks this participant on held-out inputs, and returns its output
    /// error. Every sample group since had the same error.
    pub fn check(&mut self, device: &mut dyn Device, number: usize, step: &mut Step<'_>) -> Result<Correctness, Ended> {
        step(&self.participant(number)?.case.name, "check");
        let peers: Vec<usize> = self.peers(number).collect();
        if peers.iter().any(|peer| self.participants[*peer].ran)
            && let Some(found) = self.spoilt(device, number)?
        {
            let culprit = self.find_corrupting_participant(device, number)?.unwrap_or(number);
            self.participants[culprit].spoils.get_or_insert(found);
        }
        peers.into_iter().for_each(|peer| self.participants[peer].ran = false);
        let participant = &self.participants[number];
        participant.fail_if_corrupting()?;
        participant.check_held_out(device)?;
        Ok(participant.seen.correctness)
    }

    /// Returns the change to the inputs or guard regions of a participant's comparison, if there is one.
    fn spoilt(&self, device: &mut dyn Device, number: usize) -> Result<Option<Refusal>, Ended> {
        let participant = &self.participants[number];
        find_corruption(device, &participant.setup(), &participant.seen, &self.others(&participant.shared))
    }

    /// Finds the participant that corrupts shared data, by replaying each of the comparison alone, this one last. The
    /// culprit fails when its turn comes.
    fn find_corrupting_participant(&mut self, device: &mut dyn Device, number: usize) -> Result<Option<usize>, Ended> {
        let numbers: Vec<usize> = self.peers(number).filter(|peer| *peer != number).chain([number]).collect();
        for peer in numbers {
            self.repair(device, number)?;
            let participant = &self.participants[peer];
            participant.setup().replay(device, participant.prepared.capture)?;
            if let Some(found) = self.spoilt(device, number)? {
                self.participants[peer].spoils = Some(found);
                return Ok(Some(peer));
            }
        }
        Ok(None)
    }

    /// Restores the inputs, workspaces and guard regions of a participant's comparison.
    fn repair(&self, device: &mut dyn Device, number: usize) -> Result<(), Ended> {
        let participant = &self.participants[number];
        let SharedInputs { data, tensors, .. } = &*participant.shared;
        tensors.upload(device, &data.inputs).map_err(|fault| participant.setup().ended(fault))?;
        self.others(&participant.shared).into_iter().try_for_each(|peer| {
            peer.setup().reset(device)?;
            peer.setup().prepare(device)?;
            // Checking the guard regions also restores them.
            peer.setup().check_guard_regions(device, &peer.loaded.sets.places()).map(drop)
        })
    }

    /// Returns the numbers of all participants in the same comparison as `number`.
    fn peers(&self, number: usize) -> impl Iterator<Item = usize> {
        (0..self.participants.len()).filter(move |peer| self.share_data(*peer, number))
    }

    /// Returns the participants that share these inputs.
    fn others(&self, shared: &Rc<SharedInputs>) -> Vec<&LoadedParticipant> {
        self.participants.iter().filter(|participant| Rc::ptr_eq(&participant.shared, shared)).collect()
    }

    /// Returns whether two participants have the same data in the same memory.
    pub fn share_data(&self, a: usize, b: usize) -> bool {
        Rc::ptr_eq(&self.participants[a].shared, &self.participants[b].shared)
    }

    fn participant(&mut self, number: usize) -> Result<&mut LoadedParticipant, Ended> {
        let loaded = self.participants.len();
        self.participants
            .get_mut(number)
            .ok_or_else(|| Ended::Machine(error!("there is no participant {number}: {loaded} exist, counted from 0")))
    }

    /// Returns a participant's inputs: those of the previous one, if both are in the same comparison.
    fn shared(
        &mut self,
        device: &mut dyn Device,
        request: &EnterRequest,
        problem: &Problem<'_>,
        rotation: Rotation,
    ) -> Result<Rc<SharedInputs>, Ended> {
        let source = SharedKey {
            op: request.op.clone(),
            dims: problem.dims.clone(),
            rotation,
            dtype: problem.dtype,
            oracle_flop: request.measuring.oracle_flop,
            seed: request.input_seed,
        };
        if let Some((_, shared)) = self.shared.as_ref().filter(|(known, _)| *known == source) {
            return Ok(Rc::clone(shared));
        }
        let data = Data::new(problem, request.measuring.oracle_flop, request.input_seed).map_err(Ended::Oracle)?;
        let tensors = Sets::allocate(device, Some(problem), &LaunchPlan::default(), rotation);
        let tensors = tensors.map_err(|fault| ended(&request.case.name, fault))?;
        let shared = Rc::new(SharedInputs { data, tensors, held_out: OnceCell::new() });
        self.shared = Some((source, Rc::clone(&shared)));
        Ok(shared)
    }
}

/// Returns the first forbidden change, to the inputs or to any guard region, in every set.
fn find_corruption(
    device: &mut dyn Device,
    setup: &Setup<'_>,
    seen: &VerifiedOutput,
    participants: &[&LoadedParticipant],
) -> Result<Option<Refusal>, Ended> {
    let mut found = setup.spoilt(device, &seen.uploaded, &setup.sets.places())?;
    // Continues after a finding, because checking the guard regions also restores them.
    for participant in participants {
        found = found.or(participant.setup().check_guard_regions(device, &participant.loaded.sets.places())?);
    }
    Ok(found)
}

/// Checks a participant once, reloads it, prepares it for sampling, and then checks the buffers of all participants.
fn get_ready(
    device: &mut dyn Device,
    request: &EnterRequest,
    loaded: &mut LoadedModule,
    data: &Data,
    others: &[&LoadedParticipant],
    step: &mut Step<'_>,
) -> Result<(VerifiedOutput, Prepared), Ended> {
    let EnterRequest { op, artifact, dtype, compute, tolerance, case, plan, measuring, .. } = request;
    let LoadedModule { module, sets } = loaded;
    let op = ops::of(op, device.info()).map_err(Ended::Machine)?;
    let problem = Problem { op, dims: &case.dims, dtype: *dtype, compute: *compute };
    let setup =
        Setup { case: &case.name, problem, tolerance, module: *module, plan, sets, residents: None, seed: data.seed };
    step(&case.name, "check");
    let seen = setup.check_once(device, data)?;
    *module = reload(device, *module, artifact).map_err(|fault| setup.ended(fault))?;
    step(&case.name, "time");
    let setup = Setup { module: *module, ..setup };
    setup.reset(device)?;
    setup.prepare(device)?;
    let prepared = benchmark::prepare(replays(device)?, &setup.works(), measuring.min_sample_ns);
    let prepared = prepared.map_err(|fault| setup.ended(fault))?;
    let checked =
        setup.check_timed(device, &seen, data).and_then(|()| match find_corruption(device, &setup, &seen, others)? {
            Some(Refusal { check, message }) => Err(setup.wrong(check, message)),
            None => Ok(()),
        });
    if checked.is_err() {
        // The failed check is the error to report.
        let _ = replays(device)?.release(prepared.capture);
    }
    checked.map(|()| (seen, prepared))
}

/// Reloads an artifact, which drops what its kernels kept in global variables.
fn reload(device: &mut dyn Device, module: Module, artifact: &Artifact) -> Result<Module, Fault> {
    device.unload(module)?;
    device.load(artifact)
}

impl LoadedParticipant {
    /// Takes a group of samples and checks its outputs.
    fn sample(&mut self, device: &mut dyn Device, samples: usize) -> Result<SampleGroup, Ended> {
        self.fail_if_corrupting()?;
        self.groups += 1;
        self.ran = true;
        let (setup, data) = (self.setup(), &self.shared.data);
        let places = self.loaded.sets.draw(mix(data.seed, &["group", &self.groups.to_string()]));
        setup.poison_outputs(device)?;
        device.reset_caches().map_err(|fault| setup.ended(fault))?;
        let Prepared { capture, executions, replay_ns, .. } = self.prepared;
        let replays = replays(device)?;
        let sampled = replays.begin_timing().and_then(|graph_node_ns| {
            let uncounted = usize::from(!benchmark::is_long(replay_ns));
            let mut samples_ns = benchmark::replays(replays, capture, executions, uncounted + samples)?;
            samples_ns.drain(..uncounted);
            Ok(SampleGroup { samples_ns, graph_node_ns })
        });
        let sampled = sampled.map_err(|fault| setup.ended(fault))?;
        setup.check_outputs(device, &self.seen, data, &places)?;
        Ok(sampled)
    }

    /// Checks that held-out inputs give their own output, and restores the inputs and what was prepared of them.
    fn check_held_out(&self, device: &mut dyn Device) -> Result<(), Ended> {
        let (setup, SharedInputs { data, tensors, held_out }) = (self.setup(), &*self.shared);
        let held_out = match held_out.get() {
            Some(drawn) => drawn,
            None => {
                let flop = self.oracle_flop * HELD_OUT_SHARE;
                let drawn = Data::new(&setup.problem, flop, mix(data.seed, &["held_out_inputs"]));
                let drawn = drawn.map_err(Ended::Oracle)?;
                held_out.get_or_init(|| drawn)
            }
        };
        let checked = setup.check_held_out(device, Some(&self.prepared), held_out);
        let restored = tensors.upload_to(device, &setup.held_out_places(held_out), &data.inputs);
        checked.and(restored.map_err(|fault| setup.ended(fault)))?;
        setup.prepare(device)
    }

    /// Fails if this participant was found to make a forbidden change.
    fn fail_if_corrupting(&self) -> Result<(), Ended> {
        match self.spoils.clone() {
            Some(Refusal { check, message }) => Err(self.setup().wrong(check, message)),
            None => Ok(()),
        }
    }

    fn setup(&self) -> Setup<'_> {
        Setup {
            case: &self.case.name,
            problem: Problem { op: self.op, dims: &self.case.dims, dtype: self.dtype, compute: self.compute },
            tolerance: &self.tolerance,
            module: self.loaded.module,
            plan: &self.plan,
            sets: &self.loaded.sets,
            residents: None,
            seed: self.shared.data.seed,
        }
    }
}

impl LoadedModule {
    /// Loads an artifact and allocates its buffers. On failure, nothing stays allocated.
    fn take(
        device: &mut dyn Device,
        artifact: &Artifact,
        allocate: impl FnOnce(&mut dyn Device) -> Result<Sets, Fault>,
    ) -> Result<Self, Fault> {
        let module = device.load(artifact)?;
        match allocate(device) {
            Ok(sets) => Ok(Self { module, sets }),
            Err(fault) => {
                // The failed allocation is the error to report.
                let _ = device.unload(module);
                Err(fault)
            }
        }
    }

    fn release(self, device: &mut dyn Device) -> Result<(), Fault> {
        let freed = self.sets.free(device);
        device.unload(self.module).and(freed)
    }
}
