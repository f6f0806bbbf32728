//! Buffer sets: the buffers that a plan needs on the device. The warm regime has one set, the cold regime many.
//!
//! A tensor that is updated in place has a second buffer in each set, with its initial values. No plan names this buffer.
//! An upload writes it, and whatever resets an output copies it. A replay can update each set only once, so such a
//! problem has many sets even in the warm regime. There, the sets share inputs and workspaces, which so stay in L2
//! (docs/decisions/0067-in-place-tensors-rotate.md).

use std::collections::HashMap;
use std::ops::Range;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::index::sample;

use super::data::Inputs;
use crate::domain::device::DeviceInfo;
use crate::domain::device::regime::{self, Regime};
use crate::domain::family::plan::{Initial, LaunchPlan, Workspace};
use crate::domain::op::{TensorRole, TensorSpec};
use crate::error::Result;
use crate::runner::device::{Buffer, Device, Digest, Fault, Module, Problem, Restore, Work};
use crate::runner::outputs::POISON;

/// The most sets that a check inspects.
const LOOKED_AT: usize = 2;

/// With tensors that are updated in place, the fewest and the most executions of a warm replay, if memory allows. The
/// fewest take tens of microseconds, beside which the one or two of a replay's start are little.
const IN_PLACE_SETS: [usize; 2] = [32, 128];

/// With tensors that are updated in place, the bytes that a replay moves at least, which also limit the fewest sets. An
/// H200 needs 0.2 ms for them, as long as a sample should take.
const IN_PLACE_BYTES: usize = 1 << 30;

/// The share of L2 that the buffers of the sets may take in the warm regime, beyond the fewest sets.
const L2_SHARE: f64 = 0.5;

/// Offsets of buffers, in bytes. All are multiples of 256, and each of another power of two from 256 to 8192.
const OFFSETS: [usize; 7] = [256, 8192, 512, 3328, 4096, 7936, 2048];

/// How many sets there are, and what they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// The number of sets.
    pub sets: u32,
    /// Whether the sets have the same inputs and workspaces.
    pub shares_inputs: bool,
    /// Whether the buffers of all sets but the first begin at other offsets from a large power of two.
    pub is_offset: bool,
}

impl Rotation {
    /// Makes sets that share nothing.
    pub fn apart(sets: u32) -> Self {
        Self { sets, shares_inputs: false, is_offset: false }
    }

    /// Makes sets that share nothing, with buffers at other offsets.
    pub fn offset(sets: u32) -> Self {
        Self { is_offset: true, ..Self::apart(sets) }
    }
}

/// What the inputs of a set were when they were uploaded: the digest of each, with the tensor's name.
pub struct Uploaded(Vec<(String, Digest)>);

/// Sets of equal buffers on the device. The caller must free them.
#[derive(Default)]
pub struct Sets {
    sets: Vec<HashMap<String, Buffer>>,
    /// The tensors of each set that are updated in place.
    restores: Vec<Vec<Restore>>,
    shares_inputs: bool,
    is_offset: bool,
    /// Buffers that no other `Sets` owns.
    own: Vec<Buffer>,
}

/// A buffer to allocate in every set.
struct Wanted {
    name: String,
    bytes: usize,
    /// Whether all sets have the same, if they share anything.
    is_shared: bool,
    is_in_place: bool,
}

impl Sets {
    /// Returns the sets for a regime. The error says in one sentence why the problem cannot be timed in it.
    pub fn rotation(device: &DeviceInfo, problem: &Problem<'_>, regime: Regime) -> Result<Rotation> {
        let bytes: usize = problem.tensors().iter().map(|tensor| tensor.bytes()).sum();
        let is_in_place = problem.op.is_in_place(problem.dims, problem.dtype);
        match regime.on(device) {
            Regime::Warm if is_in_place && device.replays() => {
                Ok(Rotation { shares_inputs: true, ..Rotation::apart(warm_in_place(device, problem)) })
            }
            Regime::Warm => Ok(Rotation::apart(1)),
            Regime::Cold => {
                let sets = regime::sets(bytes as u64, device)?;
                let least = if is_in_place { (IN_PLACE_BYTES / bytes.max(1)).min(IN_PLACE_SETS[1]) } else { 1 };
                Ok(Rotation::apart(sets.max(least as u32)))
            }
        }
    }

    /// Allocates sets with undefined contents.
    pub fn allocate(
        device: &mut dyn Device,
        problem: Option<&Problem<'_>>,
        plan: &LaunchPlan,
        rotation: Rotation,
    ) -> Result<Self, Fault> {
        let tensor = |tensor: TensorSpec| Wanted {
            bytes: tensor.bytes(),
            is_shared: !tensor.role.is_written(),
            is_in_place: tensor.role == TensorRole::InPlace,
            name: tensor.name,
        };
        let tensors = problem.map(Problem::tensors).unwrap_or_default().into_iter().map(tensor);
        let wanted: Vec<Wanted> = tensors.chain(workspaces(plan)).collect();
        let count = rotation.sets as usize;
        let (sets, restores) = (vec![HashMap::new(); count], vec![Vec::new(); count]);
        let Rotation { shares_inputs, is_offset, .. } = rotation;
        Self { sets, restores, shares_inputs, is_offset, own: Vec::new() }.add(device, &wanted)
    }

    /// Allocates sets that share these tensors and have workspaces for another plan, or none.
    pub fn with_workspaces(&self, device: &mut dyn Device, plan: &LaunchPlan) -> Result<Self, Fault> {
        let wanted: Vec<Wanted> = workspaces(plan).collect();
        let (sets, restores) = (self.sets.clone(), self.restores.clone());
        let Self { shares_inputs, is_offset, .. } = *self;
        Self { sets, restores, shares_inputs, is_offset, own: Vec::new() }.add(device, &wanted)
    }

    /// Allocates buffers in every set.
    fn add(mut self, device: &mut dyn Device, wanted: &[Wanted]) -> Result<Self, Fault> {
        for place in 0..self.sets.len() {
            // Every second set in reverse, so that tensors follow each other in both orders.
            for at in 0..wanted.len() {
                let wanted = &wanted[if place % 2 == 0 { at } else { wanted.len() - 1 - at }];
                if let Err(fault) = self.add_to(device, place, wanted) {
                    // The failed allocation is the error to report.
                    let _ = self.free(device);
                    return Err(fault);
                }
            }
        }
        Ok(self)
    }

    /// Allocates a buffer in one set, unless the set shares that of the first.
    fn add_to(&mut self, device: &mut dyn Device, place: usize, wanted: &Wanted) -> Result<(), Fault> {
        let Wanted { name, bytes, is_shared, is_in_place } = wanted;
        if place > 0 && self.shares_inputs && *is_shared {
            let shared = self.sets[0][name];
            self.sets[place].insert(name.clone(), shared);
            return Ok(());
        }
        let is_offset = self.is_offset && place > 0;
        let mut allocated = || -> Result<Buffer, Fault> {
            let offset = if is_offset { OFFSETS[self.own.len() % OFFSETS.len()] } else { 0 };
            let buffer = device.alloc_at(*bytes, offset)?;
            self.own.push(buffer);
            Ok(buffer)
        };
        let to = allocated()?;
        if *is_in_place {
            let from = allocated()?;
            self.restores[place].push(Restore { from, to });
        }
        self.sets[place].insert(name.clone(), to);
        Ok(())
    }

    /// Frees every buffer that it owns.
    pub fn free(self, device: &mut dyn Device) -> Result<(), Fault> {
        self.own.into_iter().try_for_each(|buffer| device.free(buffer))
    }

    /// Returns the plan's work on each set.
    pub fn works<'a>(&'a self, module: Module, plan: &'a LaunchPlan, problem: Option<Problem<'a>>) -> Vec<Work<'a>> {
        let sets = self.sets.iter().zip(&self.restores);
        sets.map(|(buffers, restores)| Work { module, plan, buffers, restores, problem }).collect()
    }

    /// Executes the preparation of the weights in the sets at `places`, if the plan has one.
    pub fn prepare(
        &self,
        device: &mut dyn Device,
        (plan, module): (&LaunchPlan, Module),
        places: &[usize],
    ) -> Result<(), Fault> {
        let Some(preparing) = plan.preparing() else { return Ok(()) };
        let works = self.works(module, &preparing, None);
        places.iter().try_for_each(|place| device.launch(&works[*place]))
    }

    /// Returns the places of the sets whose workspaces are their own, or the first one's.
    pub fn places_apart(&self) -> Vec<usize> {
        if self.shares_inputs { vec![0] } else { self.places() }
    }

    /// Poisons the inputs of some sets, but for those that are weights.
    pub fn hide_activations(
        &self,
        device: &mut dyn Device,
        problem: &Problem<'_>,
        places: &[usize],
    ) -> Result<(), Fault> {
        let weights = problem.op.weights();
        let hidden = problem.inputs().into_iter().filter(|input| !weights.contains(&&*input.name));
        for input in hidden {
            places.iter().try_for_each(|place| device.poison(self.uploaded(*place, &input.name), POISON))?;
        }
        Ok(())
    }

    /// Returns the digests of the weights that a plan has prepared in a set.
    pub fn prepared_digests(
        &self,
        device: &mut dyn Device,
        plan: &LaunchPlan,
        place: usize,
    ) -> Result<Vec<Digest>, Fault> {
        let buffers: Vec<Buffer> = plan.prepared().map(|workspace| self.sets[place][&workspace.name]).collect();
        device.digests(&buffers)
    }

    /// Returns the buffer that holds what was uploaded for an input.
    pub fn uploaded(&self, place: usize, name: &str) -> Buffer {
        let buffer = self.sets[place][name];
        self.restores[place].iter().find(|restore| restore.to == buffer).map_or(buffer, |restore| restore.from)
    }

    /// Uploads the same inputs to every set.
    pub fn upload(&self, device: &mut dyn Device, inputs: &Inputs) -> Result<(), Fault> {
        self.upload_to(device, &self.places(), inputs)
    }

    /// Uploads the same inputs to the sets at `places`, or to all if they share inputs. The first is uploaded from the host
    /// and copied to the others, at the speed of the device's memory.
    ///
    /// A tensor that is updated in place has these values once outputs are poisoned.
    pub fn upload_to(&self, device: &mut dyn Device, places: &[usize], inputs: &Inputs) -> Result<(), Fault> {
        for (name, bytes) in inputs {
            self.write_with(device, places, name, |device, to| device.write(to, bytes))?;
        }
        Ok(())
    }

    /// Has a function write an input to the first of the sets at `places`, and copies it to the others; see
    /// [`Sets::upload_to`].
    pub fn write_with(
        &self,
        device: &mut dyn Device,
        places: &[usize],
        name: &str,
        write: impl FnOnce(&mut dyn Device, Buffer) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let all = self.places();
        let places = if self.shares_inputs { &all } else { places };
        let Some((first, others)) = places.split_first() else { return Ok(()) };
        let from = self.uploaded(*first, name);
        write(device, from)?;
        let others = others.iter().map(|other| self.uploaded(*other, name)).filter(|to| *to != from);
        others.into_iter().try_for_each(|to| device.copy(from, to))
    }

    /// Uploads an input to one set. If it is updated in place, it has these values once outputs are poisoned.
    pub fn write(&self, device: &mut dyn Device, place: usize, name: &str, bytes: &[u8]) -> Result<(), Fault> {
        device.write(self.uploaded(place, name), bytes)
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
        let sets = self.sets.iter().take(if self.shares_inputs { 1 } else { self.sets.len() });
        for (set, workspace) in sets.flat_map(|set| plan.workspaces.iter().map(move |w| (set, w))) {
            match workspace.initial {
                Initial::Zero => device.fill(set[&workspace.name], 0)?,
                Initial::Undefined => device.poison(set[&workspace.name], POISON)?,
            }
        }
        Ok(())
    }

    /// Poisons the output of every set, so that any later content was written later. All are poisoned, because a kernel
    /// can see which ones are. What is updated in place gets its initial values instead.
    pub fn poison_outputs(&self, device: &mut dyn Device, problem: &Problem<'_>) -> Result<(), Fault> {
        (0..self.sets.len()).try_for_each(|place| self.poison_output(device, problem, place))
    }

    /// Poisons the outputs of a set.
    pub fn poison_output(&self, device: &mut dyn Device, problem: &Problem<'_>, place: usize) -> Result<(), Fault> {
        problem.outputs().iter().try_for_each(|output| {
            let buffer = self.sets[place][&output.name];
            match self.uploaded(place, &output.name) {
                initial if initial != buffer => device.copy(initial, buffer),
                _ => device.poison(buffer, POISON),
            }
        })
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

    /// Reads parts of the outputs of a set, whose bytes are counted through all outputs. Returns as many bytes as all outputs
    /// have, with zeros elsewhere. `None` if an element of any output is not finite.
    pub fn output_parts(
        &self,
        device: &mut dyn Device,
        problem: &Problem<'_>,
        place: usize,
        parts: &[Range<usize>],
    ) -> Result<Option<Vec<u8>>, Fault> {
        let outputs = problem.outputs();
        // Pages that are not written to are not in memory.
        let mut bytes = vec![0; outputs.iter().map(TensorSpec::bytes).sum()];
        let mut start = 0;
        for output in outputs {
            let buffer = self.sets[place][&output.name];
            if !device.are_finite(buffer, output.dtype)? {
                return Ok(None);
            }
            let end = start + output.bytes();
            let own: Vec<Range<usize>> =
                parts.iter().filter(|part| (start..end).contains(&part.start)).cloned().collect();
            let of_buffer: Vec<Range<usize>> = own.iter().map(|part| part.start - start..part.end - start).collect();
            let read = device.read_parts(buffer, &of_buffer)?;
            let mut rest = &read[..];
            for part in own {
                let (first, others) = rest.split_at(part.len());
                bytes[part].copy_from_slice(first);
                rest = others;
            }
            start = end;
        }
        Ok(Some(bytes))
    }

    /// Returns the digest of each output of a set.
    pub fn output_digests(
        &self,
        device: &mut dyn Device,
        problem: &Problem<'_>,
        place: usize,
    ) -> Result<Vec<Digest>, Fault> {
        let outputs: Vec<Buffer> = problem.outputs().iter().map(|output| self.sets[place][&output.name]).collect();
        device.digests(&outputs)
    }

    /// Returns the digests of a set's inputs, which were just uploaded.
    pub fn uploaded_inputs(&self, device: &mut dyn Device, inputs: &Inputs, place: usize) -> Result<Uploaded, Fault> {
        let buffers: Vec<Buffer> = inputs.iter().map(|(name, _)| self.uploaded(place, name)).collect();
        let names = inputs.iter().map(|(name, _)| name.clone());
        Ok(Uploaded(names.zip(device.digests(&buffers)?).collect()))
    }

    /// Returns the name of an input that no longer holds what was uploaded, in the sets at `places`.
    pub fn overwritten(
        &self,
        device: &mut dyn Device,
        uploaded: &Uploaded,
        places: &[usize],
    ) -> Result<Option<String>, Fault> {
        let inputs = || places.iter().flat_map(|place| uploaded.0.iter().map(move |input| (*place, input)));
        let buffers: Vec<Buffer> = inputs().map(|(place, (name, _))| self.uploaded(place, name)).collect();
        let mut found = inputs().zip(device.digests(&buffers)?);
        Ok(found.find(|((_, (_, digest)), found)| digest != found).map(|((_, (name, _)), _)| name.clone()))
    }

    /// Returns the name of a buffer whose guard regions were written, in the sets at `places`.
    pub fn written_beside(&self, device: &mut dyn Device, places: &[usize]) -> Result<Option<String>, Fault> {
        let mut guarded: Vec<(&String, Buffer)> = Vec::new();
        for place in places {
            let mut buffers: Vec<(&String, Buffer)> =
                self.sets[*place].iter().map(|(name, buffer)| (name, *buffer)).collect();
            buffers.sort_by_key(|(name, _)| *name);
            for (name, buffer) in buffers {
                let uploaded = self.uploaded(*place, name);
                guarded.push((name, buffer));
                guarded.extend((uploaded != buffer).then_some((name, uploaded)));
            }
        }
        let buffers: Vec<Buffer> = guarded.iter().map(|(_, buffer)| *buffer).collect();
        let mut intact = guarded.into_iter().zip(device.were_intact(&buffers)?);
        Ok(intact.find(|(_, is_intact)| !is_intact).map(|((name, _), _)| name.clone()))
    }
}

fn workspaces(plan: &LaunchPlan) -> impl Iterator<Item = Wanted> {
    let wanted = |workspace: &Workspace| Wanted {
        name: workspace.name.clone(),
        bytes: workspace.bytes,
        is_shared: true,
        is_in_place: false,
    };
    plan.workspaces.iter().map(wanted)
}

/// Returns the number of sets in the warm regime: the buffers that they do not share are in L2, unless that leaves too few.
fn warm_in_place(device: &DeviceInfo, problem: &Problem<'_>) -> u32 {
    let copies = |role: TensorRole| if role == TensorRole::InPlace { 2 } else { 1 };
    let bytes = problem.outputs().iter().map(|tensor| tensor.bytes() * copies(tensor.role)).sum::<usize>().max(1);
    let fitting = (device.l2_bytes as f64 * L2_SHARE / bytes as f64) as usize;
    let [fewest, most] = IN_PLACE_SETS;
    fitting.clamp((IN_PLACE_BYTES / bytes).clamp(1, fewest), most) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::compute::Compute;
    use crate::domain::op::{Dims, Dtype};
    use crate::ops::declared_for_tests;
    use crate::runner::device::FakeDevice;

    /// `x` is updated in place with `w`, which has as many elements.
    const MANIFEST: &str = "name = \"update\"\nabout = \"\"\noracle = \"o.py\"\nflop = \"0\"\n[dims.N]\nabout = \"\"\n\
        [tensors.x]\nrole = \"in-place\"\nshape = [\"N\"]\n[tensors.w]\nrole = \"input\"\nshape = [\"N\"]\n";

    fn dims(n: i64) -> Dims {
        [("N".to_owned(), n)].into()
    }

    /// With an L2 of 50 MiB.
    #[test]
    fn a_replay_has_enough_executions_and_warm_ones_fit_l2_if_they_can() {
        let device = DeviceInfo { l2_bytes: 50 << 20, ..FakeDevice::new().info().clone() };
        let op = declared_for_tests(MANIFEST);
        let sets = |n: i64, regime| {
            let problem = Problem { op, dims: &dims(n), dtype: Dtype::F32, compute: Compute::Dtype };
            Sets::rotation(&device, &problem, regime).unwrap()
        };
        let warm = |n| sets(n, Regime::Warm);
        assert_eq!(warm(1000), Rotation { shares_inputs: true, ..Rotation::apart(128) });
        assert_eq!(warm(64 << 10).sets, 50, "two buffers of 256 KiB each take half of L2");
        assert_eq!(warm(1 << 20).sets, 32, "fewer would make a replay too short");
        assert_eq!(warm(32 << 20).sets, 4, "each moves 256 MiB");
        assert_eq!(warm(1 << 30).sets, 1);
        assert_eq!(sets(1 << 20, Regime::Cold), Rotation::apart(128));
        assert_eq!(sets(64 << 20, Regime::Cold), Rotation::apart(2));
        let modelled = DeviceInfo { timing: crate::domain::device::TimingMode::Modelled, ..device.clone() };
        let problem = Problem { op, dims: &dims(1000), dtype: Dtype::F32, compute: Compute::Dtype };
        assert_eq!(Sets::rotation(&modelled, &problem, Regime::Warm), Ok(Rotation::apart(1)));
    }

    #[test]
    fn outputs_in_place_get_what_was_uploaded_and_spoilt_copies_are_noticed() {
        let mut device = FakeDevice::new();
        let (op, dims) = (declared_for_tests(MANIFEST), dims(2));
        let problem = Problem { op, dims: &dims, dtype: Dtype::F32, compute: Compute::Dtype };
        let plan = LaunchPlan::default();
        let rotation = Rotation { shares_inputs: true, ..Rotation::apart(3) };
        let sets = Sets::allocate(&mut device, Some(&problem), &plan, rotation).unwrap();
        assert_eq!(device.held()[1], 3 * 2 + 1, "a tensor with its initial values in each set, and one input");
        let inputs: Inputs = [("x", 1), ("w", 2)].map(|(name, byte)| (name.to_owned(), vec![byte; 8])).into();
        sets.upload_to(&mut device, &[2], &inputs).unwrap();
        let uploaded = sets.uploaded_inputs(&mut device, &inputs, 2).unwrap();
        for place in sets.places() {
            device.write(sets.sets[place]["x"], &[9; 8]).unwrap();
        }
        assert_eq!(sets.overwritten(&mut device, &uploaded, &sets.places()), Ok(None), "a result is no input");
        sets.poison_outputs(&mut device, &problem).unwrap();
        for place in sets.places() {
            assert_eq!(sets.output(&mut device, &problem, place), Ok(vec![1; 8]));
        }
        device.write(sets.restores[1][0].from, &[9; 8]).unwrap();
        assert_eq!(sets.overwritten(&mut device, &uploaded, &[1]), Ok(Some("x".to_owned())));
        sets.free(&mut device).unwrap();
        assert_eq!(device.held(), [0; 3]);
    }
}
