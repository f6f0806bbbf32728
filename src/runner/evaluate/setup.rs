//! A variant on a case, with all that it needs on the device, and how its outputs are checked.

use super::data::{Data, Inputs};
use super::sets::Sets;
use super::{Ended, ended};
use crate::domain::check::Check;
use crate::domain::evaluation::{Correctness, Outcome};
use crate::domain::plan::LaunchPlan;
use crate::domain::workload::Tolerance;
use crate::runner::device::{Device, Fault, Module, Problem, Work};
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

impl<'a> Setup<'a> {
    /// Returns the plan's work on each set of buffers.
    pub fn works(&self) -> Vec<Work<'a>> {
        self.sets.works(self.module, self.plan, Some(self.problem))
    }

    /// Uploads inputs, resets the workspaces and poisons the outputs.
    pub fn fill(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<(), Ended> {
        self.sets.fill(device, &self.problem, self.plan, inputs).map_err(|fault| self.ended(fault))
    }

    /// Poisons the outputs.
    pub fn poison_outputs(&self, device: &mut dyn Device) -> Result<(), Ended> {
        self.sets.poison_outputs(device, &self.problem).map_err(|fault| self.ended(fault))
    }

    /// Uploads inputs, executes the plan once, and checks its output.
    pub fn check_once(&self, device: &mut dyn Device, data: &Data) -> Result<Correctness, Ended> {
        self.fill(device, &data.inputs)?;
        let launched = self.works().first().map_or(Ok(()), |work| device.launch(work));
        let output = launched.and_then(|()| self.sets.first_output(device, &self.problem));
        let output = output.map_err(|fault| self.ended(fault))?;
        let checked = data.expectation.check(&output, self.tolerance);
        checked.map_err(|Refusal { check, message }| {
            Ended::Outcome(Outcome::Wrong { case: self.case.to_owned(), check, message })
        })
    }

    /// Reads the outputs that the timed executions left.
    pub fn outputs(&self, device: &mut dyn Device) -> Result<Vec<Vec<u8>>, Ended> {
        self.sets.outputs(device, &self.problem).map_err(|fault| self.ended(fault))
    }

    /// Checks the outputs of timed executions: right when checked but wrong when timed is a cheat.
    pub fn check_timed(&self, outputs: &[Vec<u8>], data: &Data) -> Result<Correctness, Ended> {
        let checked = outputs.iter().map(|output| data.expectation.check(output, self.tolerance));
        let checked: Vec<Correctness> = checked.collect::<Result<_, Refusal>>().map_err(|refusal| {
            let message = format!("right when checked, but the timed executions are wrong: {refusal}");
            Ended::Outcome(Outcome::Cheated { case: self.case.to_owned(), check: Check::Timed, message })
        })?;
        let worst = checked.into_iter().max_by(|a, b| a.relative_l2.total_cmp(&b.relative_l2));
        worst.ok_or_else(|| Ended::Machine("there is no set of buffers".to_owned()))
    }

    /// Says what a fault makes of the case.
    pub fn ended(&self, fault: Fault) -> Ended {
        ended(self.case, fault)
    }
}
