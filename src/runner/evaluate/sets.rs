//! Buffer sets: what a plan needs on the device, once where it is timed warm, many times where it is timed cold.

use std::collections::HashMap;

use super::data::Inputs;
use crate::domain::device::DeviceInfo;
use crate::domain::plan::{Initial, LaunchPlan};
use crate::domain::regime::{self, Regime};
use crate::runner::device::{Buffer, Device, Fault, Module, Problem, Work};
use crate::runner::validate::POISON;

/// Sets of equal buffers on the device. Whoever made them frees them.
#[derive(Default)]
pub struct Sets {
    sets: Vec<HashMap<String, Buffer>>,
    /// Those that are not another's.
    own: Vec<Buffer>,
}

impl Sets {
    /// Returns how many sets a regime takes. The error says in one sentence why the problem cannot be timed in it.
    pub fn count(device: &DeviceInfo, problem: &Problem<'_>, regime: Regime) -> Result<u32, String> {
        let bytes: usize = problem.tensors().iter().map(|tensor| tensor.bytes()).sum();
        match regime.on(device) {
            Regime::Warm => Ok(1),
            Regime::Cold => regime::sets(bytes as u64, device),
        }
    }

    /// Allocates `count` sets with undefined contents, or none.
    pub fn allocate(
        device: &mut dyn Device,
        problem: Option<&Problem<'_>>,
        plan: &LaunchPlan,
        count: u32,
    ) -> Result<Self, Fault> {
        let tensors = problem.map(Problem::tensors).unwrap_or_default().into_iter().map(|t| (t.bytes(), t.name));
        let workspaces = plan.workspaces.iter().map(|w| (w.bytes, w.name.clone()));
        let wanted: Vec<(usize, String)> = tensors.chain(workspaces).collect();
        let sets = Self { sets: vec![HashMap::new(); count as usize], own: Vec::new() };
        sets.add(device, &wanted)
    }

    /// Allocates sets with the same tensors, in the same memory, and with workspaces for another plan; or none.
    pub fn with_workspaces(&self, device: &mut dyn Device, plan: &LaunchPlan) -> Result<Self, Fault> {
        let wanted: Vec<(usize, String)> = plan.workspaces.iter().map(|w| (w.bytes, w.name.clone())).collect();
        Self { sets: self.sets.clone(), own: Vec::new() }.add(device, &wanted)
    }

    /// Allocates buffers in every set.
    fn add(mut self, device: &mut dyn Device, wanted: &[(usize, String)]) -> Result<Self, Fault> {
        for set in &mut self.sets {
            for (bytes, name) in wanted {
                match device.alloc(*bytes) {
                    Ok(buffer) => {
                        self.own.push(buffer);
                        set.insert(name.clone(), buffer);
                    }
                    Err(fault) => {
                        // That there is no room is what matters.
                        let _ = self.free(device);
                        return Err(fault);
                    }
                }
            }
        }
        Ok(self)
    }

    /// Frees every buffer that is its own.
    pub fn free(self, device: &mut dyn Device) -> Result<(), Fault> {
        self.own.into_iter().try_for_each(|buffer| device.free(buffer))
    }

    /// Returns the plan's work on each set.
    pub fn works<'a>(&'a self, module: Module, plan: &'a LaunchPlan, problem: Option<Problem<'a>>) -> Vec<Work<'a>> {
        self.sets.iter().map(|buffers| Work { module, plan, buffers, problem }).collect()
    }

    /// Uploads the same inputs to every set, resets the workspaces and poisons the outputs.
    pub fn fill(
        &self,
        device: &mut dyn Device,
        problem: &Problem<'_>,
        plan: &LaunchPlan,
        inputs: &Inputs,
    ) -> Result<(), Fault> {
        for set in &self.sets {
            inputs.iter().try_for_each(|(name, bytes)| device.write(set[name], bytes))?;
        }
        self.reset(device, plan)?;
        self.poison_outputs(device, problem)
    }

    /// Brings every workspace into the state that the plan wants before its first launch.
    pub fn reset(&self, device: &mut dyn Device, plan: &LaunchPlan) -> Result<(), Fault> {
        for (set, workspace) in self.sets.iter().flat_map(|set| plan.workspaces.iter().map(move |w| (set, w))) {
            match workspace.initial {
                Initial::Zero => device.fill(set[&workspace.name], 0)?,
                Initial::Undefined => device.poison(set[&workspace.name], POISON)?,
            }
        }
        Ok(())
    }

    /// Poisons the outputs that are looked at, so that what is there afterwards was written afterwards.
    pub fn poison_outputs(&self, device: &mut dyn Device, problem: &Problem<'_>) -> Result<(), Fault> {
        let output = problem.output().name;
        self.looked_at().try_for_each(|set| device.poison(set[&output], POISON))
    }

    /// Reads the first set's output, the only one that a single launch writes.
    pub fn first_output(&self, device: &mut dyn Device, problem: &Problem<'_>) -> Result<Vec<u8>, Fault> {
        let first = self.sets.first().ok_or_else(|| Fault::Broken("there is no set of buffers".to_owned()))?;
        device.read(first[&problem.output().name])
    }

    /// Reads the outputs of the first set and of the last.
    pub fn outputs(&self, device: &mut dyn Device, problem: &Problem<'_>) -> Result<Vec<Vec<u8>>, Fault> {
        let output = problem.output().name;
        self.looked_at().map(|set| device.read(set[&output])).collect()
    }

    fn looked_at(&self) -> impl Iterator<Item = &HashMap<String, Buffer>> {
        let last = self.sets.last().filter(|_| self.sets.len() > 1);
        self.sets.first().into_iter().chain(last)
    }
}
