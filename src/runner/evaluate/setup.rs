//! A variant on a case, with all that it needs on the device, and how its outputs are checked.

use super::data::{Data, Inputs};
use super::sets::Sets;
use super::{Ended, ended};
use crate::domain::check::Check;
use crate::domain::evaluation::{Correctness, Outcome};
use crate::domain::plan::LaunchPlan;
use crate::domain::workload::Tolerance;
use crate::runner::device::{Capture, Clock, Device, Fault, Module, Problem, Work};
use crate::runner::validate::Refusal;

/// See the module.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The case's name, for outcomes.
    pub case: &'a str,
    /// What must be computed.
    pub problem: Problem<'a>,
    /// The largest errors that count as correct.
    pub tolerance: &'a Tolerance,
    /// The variant's code.
    pub module: Module,
    /// The variant's plan.
    pub plan: &'a LaunchPlan,
    /// The buffers.
    pub sets: &'a Sets,
}

/// An output that was found to be right.
pub struct Seen {
    /// Its bytes: the same inputs must give the very same again.
    pub output: Vec<u8>,
    /// How close it came.
    pub correctness: Correctness,
}

impl<'a> Setup<'a> {
    /// Returns the plan's work on each set of buffers.
    pub fn works(&self) -> Vec<Work<'a>> {
        self.sets.works(self.module, self.plan, Some(self.problem))
    }

    /// Uploads inputs to every set, resets the workspaces and poisons the outputs.
    pub fn fill(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<(), Ended> {
        self.sets.upload(device, inputs).map_err(|fault| self.ended(fault))?;
        self.reset(device)
    }

    /// Resets the workspaces and poisons the outputs: nothing that an execution left is of use to a later one.
    pub fn reset(&self, device: &mut dyn Device) -> Result<(), Ended> {
        let reset = self.sets.reset(device, self.plan);
        reset.and_then(|()| self.sets.poison_outputs(device, &self.problem)).map_err(|fault| self.ended(fault))
    }

    /// Poisons the outputs.
    pub fn poison_outputs(&self, device: &mut dyn Device) -> Result<(), Ended> {
        self.sets.poison_outputs(device, &self.problem).map_err(|fault| self.ended(fault))
    }

    /// Uploads inputs, executes the plan once, and returns its output.
    pub fn output_of(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<Vec<u8>, Ended> {
        self.fill(device, inputs)?;
        self.launch(device)
    }

    /// Uploads inputs, executes the plan once, and checks its output and all that it had to leave alone.
    pub fn check_once(&self, device: &mut dyn Device, data: &Data) -> Result<Seen, Ended> {
        let output = self.output_of(device, &data.inputs)?;
        let checked = data.expectation.check(&output, self.tolerance);
        let correctness = checked.map_err(|Refusal { check, message }| self.wrong(check, message))?;
        self.inspect(device, &data.inputs)?;
        Ok(Seen { output, correctness })
    }

    /// Looks at what no execution may change: the inputs, and the memory around every buffer.
    pub fn inspect(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<(), Ended> {
        if let Some(name) = self.sets.overwritten(device, inputs).map_err(|fault| self.ended(fault))? {
            return Err(self.wrong(Check::Inputs, format!("it wrote over its input `{name}`")));
        }
        if let Some(name) = self.sets.written_beside(device).map_err(|fault| self.ended(fault))? {
            return Err(self.wrong(Check::Surroundings, format!("it wrote beside `{name}`")));
        }
        Ok(())
    }

    /// Checks what timed executions left: the very output that was seen when it was checked. Right then but wrong when timed is
    /// a cheat.
    pub fn check_timed(&self, device: &mut dyn Device, seen: &Seen, data: &Data) -> Result<(), Ended> {
        self.inspect(device, &data.inputs)?;
        for output in self.outputs(device)? {
            if output == seen.output {
                continue;
            }
            let checked = data.expectation.check(&output, self.tolerance);
            checked.map_err(|refusal| {
                let message = format!("right when checked, but the timed executions are wrong: {refusal}");
                self.cheated(Check::Timed, message)
            })?;
            let message = "the same inputs gave other bytes when it was timed".to_owned();
            return Err(self.wrong(Check::Repeatable, message));
        }
        Ok(())
    }

    /// Checks what a confirmation left on inputs that no check has seen.
    pub fn check_confirmed(&self, device: &mut dyn Device, data: &Data) -> Result<(), Ended> {
        self.inspect(device, &data.inputs)?;
        for output in self.outputs(device)? {
            let checked = data.expectation.check(&output, self.tolerance);
            checked.map_err(|refusal| self.cheated(Check::Timed, format!("wrong when it was confirmed: {refusal}")))?;
        }
        Ok(())
    }

    /// Checks that after timing other contents in the same memory give their own output: in the replay that was timed, and in an
    /// execution by itself, which one that serves many would not have done.
    ///
    /// Only the sets that are looked at get them: a kernel cannot tell which these are.
    pub fn check_fresh(&self, device: &mut dyn Device, capture: Option<Capture>, data: &Data) -> Result<(), Ended> {
        let uploaded = self.sets.looked_at().try_for_each(|place| self.sets.upload_to(device, place, &data.inputs));
        uploaded.map_err(|fault| self.ended(fault))?;
        let mut replayed = Vec::new();
        if let Some(capture) = capture {
            self.poison_outputs(device)?;
            self.replay(device, capture)?;
            replayed = self.outputs(device)?;
        }
        self.poison_outputs(device)?;
        let alone = self.launch(device)?;
        let checked = data.expectation.check(&alone, self.tolerance);
        let mut checked = checked.map_err(|refusal| refusal.to_string());
        if checked.is_ok() && replayed.iter().any(|output| *output != alone) {
            checked = Err("a replay leaves other bytes than an execution by itself".to_owned());
        }
        let message = |what| format!("right when timed, but wrong on other contents in the same memory: {what}");
        checked.map_err(|what| self.cheated(Check::Fresh, message(what)))?;
        self.inspect(device, &data.inputs)
    }

    /// Replays a capture once and returns how long it took, in nanoseconds.
    pub fn replay(&self, device: &mut dyn Device, capture: Capture) -> Result<f64, Ended> {
        match device.clock() {
            Clock::Replay(device) => device.replay(capture).map_err(|fault| self.ended(fault)),
            Clock::Model(_) => Err(Ended::Machine("the device does not replay".to_owned())),
        }
    }

    /// Executes the plan once, on the first set, and returns its output.
    fn launch(&self, device: &mut dyn Device) -> Result<Vec<u8>, Ended> {
        let launched = self.works().first().map_or(Ok(()), |work| device.launch(work));
        launched.and_then(|()| self.sets.output(device, &self.problem, 0)).map_err(|fault| self.ended(fault))
    }

    /// Reads the outputs of the sets that are looked at.
    fn outputs(&self, device: &mut dyn Device) -> Result<Vec<Vec<u8>>, Ended> {
        let outputs = self.sets.looked_at().map(|place| self.sets.output(device, &self.problem, place));
        outputs.collect::<Result<_, Fault>>().map_err(|fault| self.ended(fault))
    }

    /// Makes the outcome of a variant that is wrong.
    pub fn wrong(&self, check: Check, message: String) -> Ended {
        Ended::Outcome(Outcome::Wrong { case: self.case.to_owned(), check, message })
    }

    /// Makes the outcome of a variant that broke a rule.
    pub fn cheated(&self, check: Check, message: String) -> Ended {
        Ended::Outcome(Outcome::Cheated { case: self.case.to_owned(), check, message })
    }

    /// Says what a fault makes of the case.
    pub fn ended(&self, fault: Fault) -> Ended {
        ended(self.case, fault)
    }
}
