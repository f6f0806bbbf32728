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

    /// Uploads the same inputs to every set.
    pub fn upload(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<(), Fault> {
        (0..self.sets.len()).try_for_each(|place| self.upload_to(device, place, inputs))
    }

    /// Uploads inputs to one set.
    pub fn upload_to(&self, device: &mut dyn Device, place: usize, inputs: &Inputs) -> Result<(), Fault> {
        inputs.iter().try_for_each(|(name, bytes)| device.write(self.sets[place][name], bytes))
    }

    /// Returns the places of the sets that are looked at: the first and the last.
    pub fn looked_at(&self) -> impl Iterator<Item = usize> {
        let last = self.sets.len() - 1;
        [0].into_iter().chain((last > 0).then_some(last))
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
        self.looked_at().try_for_each(|place| self.poison_output(device, problem, place))
    }

    /// Poisons the output of a set.
    pub fn poison_output(&self, device: &mut dyn Device, problem: &Problem<'_>, place: usize) -> Result<(), Fault> {
        device.poison(self.sets[place][&problem.output().name], POISON)
    }

    /// Reads the output of a set.
    pub fn output(&self, device: &mut dyn Device, problem: &Problem<'_>, place: usize) -> Result<Vec<u8>, Fault> {
        device.read(self.sets[place][&problem.output().name])
    }

    /// Returns the name of an input that no longer holds what was uploaded, in a set that is looked at.
    ///
    /// Every byte is compared: a hash of it on the host would take longer, and the bytes have to come here for either.
    pub fn overwritten(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<Option<String>, Fault> {
        for (place, (name, bytes)) in self.looked_at().flat_map(|place| inputs.iter().map(move |input| (place, input)))
        {
            if !device.holds(self.sets[place][name], bytes)? {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    /// Returns the name of a buffer beside which somebody wrote, in a set that is looked at.
    pub fn written_beside(&self, device: &mut dyn Device) -> Result<Option<String>, Fault> {
        let mut found = None;
        for set in self.looked_at().map(|place| &self.sets[place]) {
            let mut names: Vec<&String> = set.keys().collect();
            names.sort();
            // Every one of them: it is mended by being looked at.
            for name in names {
                if !device.was_intact(set[name])? {
                    found.get_or_insert_with(|| name.clone());
                }
            }
        }
        Ok(found)
    }
}
