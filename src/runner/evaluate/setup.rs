//! A variant on a case, with everything it needs on the device, and the checks of its outputs.

use std::mem;

use super::data::{Data, Inputs};
use super::resident::Residents;
use super::sets::{Sets, Uploaded};
use super::{Ended, ended, replays};
use crate::domain::family::plan::LaunchPlan;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::workload::Tolerance;
use crate::runner::benchmark::{self, Prepared};
use crate::runner::device::{Capture, Device, Digest, Fault, Module, Problem, Work};
use crate::runner::inputs::mix;
use crate::runner::outputs::Refusal;

/// Samples of the time of a preparation, which is only reported.
const PREPARATION_SAMPLES: usize = 3;

/// A variant on a case, with its buffers and tolerance.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The case's name, for outcomes.
    pub case: &'a str,
    /// The problem to compute.
    pub problem: Problem<'a>,
    /// The largest errors that count as correct.
    pub tolerance: &'a Tolerance,
    /// The variant's code.
    pub module: Module,
    /// The variant's plan.
    pub plan: &'a LaunchPlan,
    /// The buffers.
    pub sets: &'a Sets,
    /// The inputs that stay on the device. None where each check has its own.
    pub residents: Option<&'a Residents>,
    /// Seed that, with a check's data, determines which sets the check inspects. Other variants may share the data.
    pub seed: u64,
}

/// An output that was found correct.
pub struct VerifiedOutput {
    /// What it is.
    pub execution: Execution,
    /// The inputs.
    pub uploaded: Uploaded,
    /// The error.
    pub correctness: Correctness,
}

/// The output of an execution, for a comparison with that of another one on the same inputs.
pub struct Execution {
    /// The digest of each tensor.
    digests: Vec<Digest>,
    /// The elements that may differ within bounds.
    sums: Vec<f64>,
}

impl Execution {
    /// Refuses another output than that of an earlier execution on the same inputs. Tensors whose sums may have any order need
    /// not have the same bytes.
    fn check_same(&self, earlier: &Self, data: &Data) -> Result<(), Refusal> {
        let mut pairs = self.digests.iter().zip(&earlier.digests).zip(data.expectation.may_differ());
        if pairs.any(|((digest, earlier), may_differ)| digest != earlier && !may_differ) {
            let message = "the same inputs gave a different output".to_owned();
            return Err(Refusal { check: Check::Repeatable, message });
        }
        data.expectation.check_order(&earlier.sums, &self.sums)
    }
}

impl<'a> Setup<'a> {
    /// Returns the plan's work on each set of buffers.
    pub fn works(&self) -> Vec<Work<'a>> {
        self.sets.works(self.module, self.plan, Some(self.problem))
    }

    /// Uploads inputs to every set, resets the workspaces, poisons the outputs and prepares the weights.
    pub fn fill(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<Uploaded, Ended> {
        let uploaded = self.sets.upload(device, inputs).and_then(|()| self.sets.uploaded_inputs(device, inputs, 0));
        let uploaded = uploaded.map_err(|fault| self.ended(fault))?;
        self.reset(device)?;
        self.prepare(device).map(|()| uploaded)
    }

    /// Executes the preparation of the weights in every set, if the plan has one.
    pub fn prepare(&self, device: &mut dyn Device) -> Result<(), Ended> {
        self.prepare_at(device, &self.sets.places_apart())
    }

    fn prepare_at(&self, device: &mut dyn Device, places: &[usize]) -> Result<(), Ended> {
        self.sets.prepare(device, (self.plan, self.module), places).map_err(|fault| self.ended(fault))
    }

    /// Uploads data to the sets at `places`, or copies it there on the device.
    fn upload(&self, device: &mut dyn Device, places: &[usize], data: &Data) -> Result<Uploaded, Ended> {
        let uploaded = match self.residents {
            Some(residents) => residents.upload(device, self.sets, places, data),
            None => self.sets.upload_to(device, places, &data.inputs),
        };
        let uploaded = uploaded.and_then(|()| self.sets.uploaded_inputs(device, &data.inputs, places[0]));
        uploaded.map_err(|fault| self.ended(fault))
    }

    /// Resets the workspaces and poisons the outputs, so that an execution cannot use the results of an earlier one.
    pub fn reset(&self, device: &mut dyn Device) -> Result<(), Ended> {
        let reset = self.sets.reset(device, self.plan);
        reset.and_then(|()| self.sets.poison_outputs(device, &self.problem)).map_err(|fault| self.ended(fault))
    }

    /// Poisons the outputs.
    pub fn poison_outputs(&self, device: &mut dyn Device) -> Result<(), Ended> {
        self.sets.poison_outputs(device, &self.problem).map_err(|fault| self.ended(fault))
    }

    /// Uploads inputs, executes the plan once on one set, and checks its output, the inputs and the guard regions.
    pub fn check_once(&self, device: &mut dyn Device, data: &Data) -> Result<VerifiedOutput, Ended> {
        let places = self.sets.places();
        let (uploaded, place) = (self.upload(device, &places, data)?, self.places(data.seed, "once")[0]);
        self.reset(device)?;
        self.prepare(device)?;
        self.launch(device, place)?;
        let checked = self.checked_output(device, place, data)?;
        let (correctness, sums) = checked.map_err(|Refusal { check, message }| self.wrong(check, message))?;
        self.inspect_once(device, &uploaded, data.seed)?;
        let execution = Execution { digests: self.output_digests(device, place)?, sums };
        Ok(VerifiedOutput { execution, uploaded, correctness })
    }

    /// Checks the output of the set at `place`. Of a large one, the device tells whether it is finite, and only what is
    /// compared is read. Returns the elements that may differ within bounds, too.
    fn checked_output(
        &self,
        device: &mut dyn Device,
        place: usize,
        data: &Data,
    ) -> Result<Result<(Correctness, Vec<f64>), Refusal>, Ended> {
        let expectation = &data.expectation;
        if let Some(parts) = expectation.compared_parts() {
            let read =
                self.sets.output_parts(device, &self.problem, place, &parts).map_err(|fault| self.ended(fault))?;
            if let Some(bytes) = read {
                let checked = expectation.check_parts(&bytes, self.tolerance);
                return Ok(checked.map(|found| (found, expectation.sums(&bytes))));
            }
        }
        let bytes = self.output(device, place)?;
        let checked = expectation.check(&bytes, self.tolerance);
        Ok(checked.map(|found| (found, expectation.sums(&bytes))))
    }

    /// Returns the output of the set at `place`. What need not have the bytes of other executions must be right by itself.
    fn execution(
        &self,
        device: &mut dyn Device,
        place: usize,
        data: &Data,
    ) -> Result<Result<Execution, Refusal>, Ended> {
        let may_differ = data.expectation.may_differ().any(|may_differ| may_differ);
        let checked = may_differ.then(|| self.checked_output(device, place, data)).transpose()?;
        let sums = checked.transpose().map(|checked| checked.map(|(_, sums)| sums).unwrap_or_default());
        let digests = self.output_digests(device, place)?;
        Ok(sums.map(|sums| Execution { digests, sums }))
    }

    /// Uploads the inputs of a seed, executes the plan once on one set, and returns its output.
    pub fn output_of(&self, device: &mut dyn Device, inputs: &Inputs, seed: u64) -> Result<(Vec<u8>, Uploaded), Ended> {
        let (uploaded, place) = (self.fill(device, inputs)?, self.places(seed, "once")[0]);
        self.launch(device, place)?;
        Ok((self.output(device, place)?, uploaded))
    }

    /// Does the same with the workspaces as earlier executions on other inputs left them.
    pub fn next_output_of(
        &self,
        device: &mut dyn Device,
        inputs: &Inputs,
        seed: u64,
    ) -> Result<(Vec<u8>, Uploaded), Ended> {
        let uploaded = self.sets.upload(device, inputs).and_then(|()| self.sets.uploaded_inputs(device, inputs, 0));
        let uploaded = uploaded.map_err(|fault| self.ended(fault))?;
        self.poison_outputs(device)?;
        self.prepare(device)?;
        let place = self.places(seed, "once")[0];
        self.launch(device, place)?;
        Ok((self.output(device, place)?, uploaded))
    }

    /// Checks the inputs and guard regions after [`Setup::output_of`].
    pub fn inspect_once(&self, device: &mut dyn Device, uploaded: &Uploaded, seed: u64) -> Result<(), Ended> {
        self.inspect(device, uploaded, &self.places(seed, "once"))
    }

    /// Executes the plan again after [`Setup::check_once`], on every set, with the workspaces as the executions before
    /// left them. The same inputs must give the same output again, and in other buffers.
    pub fn check_again(&self, device: &mut dyn Device, seen: &VerifiedOutput, data: &Data) -> Result<(), Ended> {
        self.poison_outputs(device)?;
        for place in self.sets.places() {
            self.launch(device, place)?;
            let execution = self.execution(device, place, data)?;
            execution.and_then(|execution| execution.check_same(&seen.execution, data)).map_err(
                |Refusal { check, message }| {
                    self.wrong(check, format!("{message} in the next execution, or in other buffers"))
                },
            )?;
        }
        Ok(())
    }

    /// Draws the sets that get held-out inputs after timing.
    pub fn held_out_places(&self, data: &Data) -> Vec<usize> {
        self.places(data.seed, "held_out_inputs")
    }

    /// Draws the sets that a check on the data of a seed inspects.
    fn places(&self, seed: u64, check: &str) -> Vec<usize> {
        self.sets.draw(mix(self.seed, &[&seed.to_string(), "places", check]))
    }

    /// Checks the data that no execution may change: the inputs and the guard regions.
    fn inspect(&self, device: &mut dyn Device, uploaded: &Uploaded, places: &[usize]) -> Result<(), Ended> {
        match self.spoilt(device, uploaded, places)? {
            Some(Refusal { check, message }) => Err(self.wrong(check, message)),
            None => Ok(()),
        }
    }

    /// Returns the forbidden change to the inputs or guard regions, if there is one.
    pub fn spoilt(
        &self,
        device: &mut dyn Device,
        uploaded: &Uploaded,
        places: &[usize],
    ) -> Result<Option<Refusal>, Ended> {
        let overwritten = self.sets.overwritten(device, uploaded, places).map_err(|fault| self.ended(fault))?;
        let refusal = |name| Refusal { check: Check::Inputs, message: format!("it overwrote its input `{name}`") };
        let beside = self.check_guard_regions(device, places)?;
        Ok(overwritten.map(refusal).or(beside))
    }

    /// Returns the change to the guard regions, if there is one, and restores them.
    pub fn check_guard_regions(&self, device: &mut dyn Device, places: &[usize]) -> Result<Option<Refusal>, Ended> {
        let beside = self.sets.written_beside(device, places).map_err(|fault| self.ended(fault))?;
        let refusal = |name| Refusal { check: Check::GuardRegions, message: format!("it wrote outside of `{name}`") };
        Ok(beside.map(refusal))
    }

    /// Checks the buffers after timed executions: the same output as in `seen`, and unchanged inputs and guard regions.
    pub fn check_timed(&self, device: &mut dyn Device, seen: &VerifiedOutput, data: &Data) -> Result<(), Ended> {
        let places = self.places(data.seed, "timed");
        self.inspect(device, &seen.uploaded, &places)?;
        self.check_outputs(device, seen, data, &places)
    }

    /// Checks the outputs of timed executions. Every set has the same inputs, so every output must be that of `seen`. A
    /// kernel that was right in the check but is wrong when timed is a cheat.
    pub fn check_outputs(
        &self,
        device: &mut dyn Device,
        seen: &VerifiedOutput,
        data: &Data,
        places: &[usize],
    ) -> Result<(), Ended> {
        for place in places {
            let execution = self.execution(device, *place, data)?;
            let compared = execution.and_then(|execution| execution.check_same(&seen.execution, data));
            let Err(difference) = compared else { continue };
            self.checked_output(device, *place, data)?.map_err(|refusal| {
                let message = format!("correct when checked, but wrong when timed: {refusal}");
                // An order of sums that is worse than others is no cheat.
                let may_differ = data.expectation.may_differ().any(|may_differ| may_differ);
                if may_differ { self.wrong(refusal.check, message) } else { self.cheated(Check::Timed, message) }
            })?;
            return Err(self.wrong(difference.check, format!("{difference} when it was timed")));
        }
        Ok(())
    }

    /// Checks the output of a confirmation on inputs that no check has used.
    pub fn check_confirmed(&self, device: &mut dyn Device, uploaded: &Uploaded, data: &Data) -> Result<(), Ended> {
        // A device that models its times has only the first set.
        self.inspect(device, uploaded, &[0])?;
        let checked = self.checked_output(device, 0, data)?;
        let checked = checked.map_err(|refusal| format!("wrong in its confirmation: {refusal}"));
        checked.map(drop).map_err(|message| self.cheated(Check::Timed, message))
    }

    /// Checks after timing that other inputs in the same memory give their own output. The timed replay runs on them,
    /// and so does a single execution, which catches one execution doing the work for many. A long replay of one
    /// execution needs no second run.
    ///
    /// Only some sets get held-out inputs, drawn at random. A kernel cannot tell which ones before it reads them. Where weights are
    /// prepared, that happens while the other inputs hold poison, so the preparation cannot use them.
    pub fn check_held_out(
        &self,
        device: &mut dyn Device,
        prepared: Option<&Prepared>,
        data: &Data,
    ) -> Result<(), Ended> {
        let places = self.held_out_places(data);
        let mut uploaded = self.upload(device, &places, data)?;
        if !self.plan.preparation.is_empty() {
            self.sets.hide_activations(device, &self.problem, &places).map_err(|fault| self.ended(fault))?;
            self.prepare_at(device, &places)?;
            uploaded = self.upload(device, &places, data)?;
        }
        let prepared_weights = self.prepared_digests(device, &places)?;
        let mut replayed = Vec::new();
        if let Some(prepared) = prepared {
            self.poison_outputs(device)?;
            self.replay(device, prepared.capture)?;
            replayed = places.iter().map(|place| self.execution(device, *place, data)).collect::<Result<_, _>>()?;
        }
        let was_alone = prepared.is_some_and(|it| it.executions == 1 && benchmark::is_long(it.replay_ns));
        if !was_alone {
            self.poison_outputs(device)?;
            self.launch(device, places[0])?;
        }
        let checked = self.checked_output(device, places[0], data)?;
        let mut checked = checked.map(|(_, sums)| sums).map_err(|refusal| refusal.to_string());
        if let Ok(sums) = &mut checked {
            let alone = Execution { digests: self.output_digests(device, places[0])?, sums: mem::take(sums) };
            let is_same = |replayed: Result<Execution, Refusal>| replayed?.check_same(&alone, data);
            if replayed.into_iter().map(is_same).any(|compared| compared.is_err()) {
                checked = Err("a replay gives a different output than a single execution".to_owned());
            }
        }
        let message = |what| format!("correct when timed, but wrong on other inputs in the same memory: {what}");
        checked.map(drop).map_err(|what| self.cheated(Check::HeldOutInputs, message(what)))?;
        if self.prepared_digests(device, &places)? != prepared_weights {
            return Err(self.wrong(Check::Inputs, "an execution overwrote prepared weights".to_owned()));
        }
        self.inspect(device, &uploaded, &places)
    }

    /// Returns the digests of prepared weights in the first of some sets. None without a preparation.
    fn prepared_digests(&self, device: &mut dyn Device, places: &[usize]) -> Result<Vec<Digest>, Ended> {
        self.sets.prepared_digests(device, self.plan, places[0]).map_err(|fault| self.ended(fault))
    }

    /// Times one preparation of the weights of a set, in nanoseconds, or models its time. None without a preparation.
    pub fn preparation_ns(&self, device: &mut dyn Device, min_sample_ns: f64) -> Result<Option<f64>, Ended> {
        let Some(plan) = self.plan.preparing() else { return Ok(None) };
        let works = self.sets.works(self.module, &plan, None);
        let timed = match (device.info().replays(), device.as_model()) {
            (false, Some(device)) => device.model(&works[0], 1.0, false).map(|profile| profile.modelled_ns()),
            _ => {
                let timed = benchmark::time(replays(device)?, &works, PREPARATION_SAMPLES, min_sample_ns);
                timed.map(|timing| timing.median_ns)
            }
        };
        timed.map(Some).map_err(|fault| self.ended(fault))
    }

    /// Replays a capture once and returns the time in nanoseconds.
    pub fn replay(&self, device: &mut dyn Device, capture: Capture) -> Result<f64, Ended> {
        replays(device)?.replay(capture).map_err(|fault| self.ended(fault))
    }

    /// Executes the plan once on the set at `place`.
    fn launch(&self, device: &mut dyn Device, place: usize) -> Result<(), Ended> {
        device.launch(&self.works()[place]).map_err(|fault| self.ended(fault))
    }

    /// Reads the outputs of the set at `place`.
    fn output(&self, device: &mut dyn Device, place: usize) -> Result<Vec<u8>, Ended> {
        self.sets.output(device, &self.problem, place).map_err(|fault| self.ended(fault))
    }

    /// Returns the digests of the outputs of the set at `place`.
    fn output_digests(&self, device: &mut dyn Device, place: usize) -> Result<Vec<Digest>, Ended> {
        self.sets.output_digests(device, &self.problem, place).map_err(|fault| self.ended(fault))
    }

    /// Makes the outcome of a variant with a wrong result.
    pub fn wrong(&self, check: Check, message: String) -> Ended {
        Ended::Outcome(Outcome::Wrong { case: self.case.into(), check, message })
    }

    /// Makes the outcome of a variant that broke a rule.
    pub fn cheated(&self, check: Check, message: String) -> Ended {
        Ended::Outcome(Outcome::Cheated { case: self.case.into(), check, message })
    }

    /// Makes the outcome of a fault on this case.
    pub fn ended(&self, fault: Fault) -> Ended {
        ended(self.case, fault)
    }
}
