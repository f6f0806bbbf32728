//! Buffer sets: the buffers that a plan needs on the device. The warm regime has one set, the cold regime many.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::index::sample;

use super::data::Inputs;
use crate::domain::device::DeviceInfo;
use crate::domain::plan::{Initial, LaunchPlan};
use crate::domain::regime::{self, Regime};
use crate::runner::device::{Buffer, Device, Fault, Module, Problem, Work};
use crate::runner::outputs::POISON;

/// The most sets that a check inspects.
const LOOKED_AT: usize = 2;

/// Sets of equal buffers on the device. The caller must free them.
#[derive(Default)]
pub struct Sets {
    sets: Vec<HashMap<String, Buffer>>,
    /// Buffers that no other `Sets` owns.
    own: Vec<Buffer>,
}

impl Sets {
    /// Returns the number of sets for a regime. The error says in one sentence why the problem cannot be timed in it.
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

    /// Allocates sets that share these tensors and have workspaces for another plan, or none.
    pub fn with_workspaces(&self, device: &mut dyn Device, plan: &LaunchPlan) -> Result<Self, Fault> {
        let wanted: Vec<(usize, String)> = plan.workspaces.iter().map(|w| (w.bytes, w.name.clone())).collect();
        Self { sets: self.sets.clone(), own: Vec::new() }.add(device, &wanted)
    }

    /// Allocates buffers in every set.
    fn add(mut self, device: &mut dyn Device, wanted: &[(usize, String)]) -> Result<Self, Fault> {
        for (place, set) in self.sets.iter_mut().enumerate() {
            // Every second set in reverse, so that tensors follow each other in both orders.
            for at in 0..wanted.len() {
                let (bytes, name) = &wanted[if place % 2 == 0 { at } else { wanted.len() - 1 - at }];
                match device.alloc(*bytes) {
                    Ok(buffer) => {
                        self.own.push(buffer);
                        set.insert(name.clone(), buffer);
                    }
                    Err(fault) => {
                        // The failed allocation is the error to report.
                        let _ = self.free(device);
                        return Err(fault);
                    }
                }
            }
        }
        Ok(self)
    }

    /// Frees every buffer that it owns.
    pub fn free(self, device: &mut dyn Device) -> Result<(), Fault> {
        self.own.into_iter().try_for_each(|buffer| device.free(buffer))
    }

    /// Returns the plan's work on each set.
    pub fn works<'a>(&'a self, module: Module, plan: &'a LaunchPlan, problem: Option<Problem<'a>>) -> Vec<Work<'a>> {
        self.sets.iter().map(|buffers| Work { module, plan, buffers, problem }).collect()
    }

    /// Uploads the same inputs to every set.
    pub fn upload(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<(), Fault> {
        self.upload_to(device, &self.places(), inputs)
    }

    /// Uploads the same inputs to the sets at `places`. The first is uploaded from the host and copied to the others,
    /// at the speed of the device's memory.
    pub fn upload_to(&self, device: &mut dyn Device, places: &[usize], inputs: &Inputs) -> Result<(), Fault> {
        let Some((first, others)) = places.split_first() else { return Ok(()) };
        for (name, bytes) in inputs {
            self.write(device, *first, name, bytes)?;
            for other in others {
                device.copy(self.sets[*first][name], self.sets[*other][name])?;
            }
        }
        Ok(())
    }

    /// Overwrites a buffer of one set.
    pub fn write(&self, device: &mut dyn Device, place: usize, name: &str, bytes: &[u8]) -> Result<(), Fault> {
        device.write(self.sets[place][name], bytes)
    }

    /// Draws the places of the sets that a check inspects.
    ///
    /// Every check draws again. A kernel could recognise the sets by their addresses. If it knew which sets are
    /// inspected, it would have to be right only there.
    pub fn draw(&self, seed: u64) -> Vec<usize> {
        let count = self.sets.len();
        sample(&mut SmallRng::seed_from_u64(seed), count, LOOKED_AT.min(count)).into_vec()
    }

    /// Returns the places of all sets.
    pub fn places(&self) -> Vec<usize> {
        (0..self.sets.len()).collect()
    }

    /// Puts every workspace into the state that the plan needs before its first launch.
    pub fn reset(&self, device: &mut dyn Device, plan: &LaunchPlan) -> Result<(), Fault> {
        for (set, workspace) in self.sets.iter().flat_map(|set| plan.workspaces.iter().map(move |w| (set, w))) {
            match workspace.initial {
                Initial::Zero => device.fill(set[&workspace.name], 0)?,
                Initial::Undefined => device.poison(set[&workspace.name], POISON)?,
            }
        }
        Ok(())
    }

    /// Poisons the output of every set, so that any later content was written later. All are poisoned, because a kernel
    /// can see which ones are.
    pub fn poison_outputs(&self, device: &mut dyn Device, problem: &Problem<'_>) -> Result<(), Fault> {
        (0..self.sets.len()).try_for_each(|place| self.poison_output(device, problem, place))
    }

    /// Poisons the outputs of a set.
    pub fn poison_output(&self, device: &mut dyn Device, problem: &Problem<'_>, place: usize) -> Result<(), Fault> {
        let outputs = problem.outputs();
        outputs.iter().try_for_each(|output| device.poison(self.sets[place][&output.name], POISON))
    }

    /// Reads the outputs of a set, one after the other.
    pub fn output(&self, device: &mut dyn Device, problem: &Problem<'_>, place: usize) -> Result<Vec<u8>, Fault> {
        let mut outputs = problem.outputs().into_iter();
        // One is not copied once more.
        let first = outputs.next().map(|output| device.read(self.sets[place][&output.name])).transpose()?;
        outputs.try_fold(first.unwrap_or_default(), |mut bytes, output| {
            bytes.extend(device.read(self.sets[place][&output.name])?);
            Ok(bytes)
        })
    }

    /// Returns whether the outputs of a set are these bytes. Reading large outputs takes several times as long.
    pub fn has_output(
        &self,
        device: &mut dyn Device,
        problem: &Problem<'_>,
        place: usize,
        bytes: &[u8],
    ) -> Result<bool, Fault> {
        let mut rest = bytes;
        for output in problem.outputs() {
            let Some((own, others)) = rest.split_at_checked(output.bytes()) else { return Ok(false) };
            if !device.holds(self.sets[place][&output.name], own)? {
                return Ok(false);
            }
            rest = others;
        }
        Ok(rest.is_empty())
    }

    /// Returns the name of an input that no longer holds what was uploaded, in the sets at `places`.
    ///
    /// Every byte is compared. A hash on the host would take longer, and the bytes must be downloaded for either.
    pub fn overwritten(
        &self,
        device: &mut dyn Device,
        inputs: &Inputs,
        places: &[usize],
    ) -> Result<Option<String>, Fault> {
        for (name, bytes) in inputs {
            for place in places {
                if !device.holds(self.sets[*place][name], bytes)? {
                    return Ok(Some(name.clone()));
                }
            }
        }
        Ok(None)
    }

    /// Returns the name of a buffer whose guard regions were written, in the sets at `places`.
    pub fn written_beside(&self, device: &mut dyn Device, places: &[usize]) -> Result<Option<String>, Fault> {
        let mut found = None;
        for set in places.iter().map(|place| &self.sets[*place]) {
            let mut names: Vec<&String> = set.keys().collect();
            names.sort();
            // Continues after a finding, because the check also restores the guard regions.
            for name in names {
                if !device.was_intact(set[name])? {
                    found.get_or_insert_with(|| name.clone());
                }
            }
        }
        Ok(found)
    }
}
