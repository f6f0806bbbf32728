//! Inputs that stay on the device from one screening run to the next, because uploading tens of megabytes takes longer than timing
//! a kernel. Held-out inputs are these, turned on the device.
//!
//! A kernel that writes to wild addresses could change them, and so make later variants wrong. Their digests are checked before
//! each use.

use std::cell::RefCell;

use super::data::{Data, Turned};
use super::sets::Sets;
use crate::runner::device::{Buffer, Device, Digest, Fault};

/// The least bytes of inputs that stay. Fewer are uploaded as fast.
const LEAST_BYTES: usize = 4 << 20;

/// They may take the device's memory divided by this. A comparison, in another process, needs its own.
const MEMORY_SHARE: u64 = 16;

/// The inputs on a device; see the module.
#[derive(Default)]
pub struct Residents {
    /// In order of use, the latest last.
    kept: RefCell<Vec<Resident>>,
}

/// The inputs of one seed.
struct Resident {
    seed: u64,
    buffers: Vec<Buffer>,
    digests: Vec<Digest>,
    sizes: Vec<usize>,
}

impl Resident {
    fn bytes(&self) -> usize {
        self.sizes.iter().sum()
    }

    fn is_of(&self, seed: u64, data: &Data) -> bool {
        self.seed == seed && self.sizes.iter().copied().eq(data.inputs.iter().map(|(_, bytes)| bytes.len()))
    }

    /// Uploads the inputs into new buffers. None if the device has no memory for them.
    fn upload(device: &mut dyn Device, data: &Data) -> Result<Option<Self>, Fault> {
        let (mut buffers, sizes) = (Vec::new(), data.inputs.iter().map(|(_, bytes)| bytes.len()).collect());
        for (_, bytes) in &data.inputs {
            match device.alloc(bytes.len()) {
                Ok(buffer) => buffers.push(buffer),
                Err(Fault::OutOfMemory(_)) => {
                    buffers.into_iter().try_for_each(|buffer| device.free(buffer))?;
                    return Ok(None);
                }
                Err(fault) => return Err(fault),
            }
        }
        let mut resident = Self { seed: data.seed, buffers, digests: Vec::new(), sizes };
        resident.write(device, data)?;
        resident.digests = device.digests(&resident.buffers)?;
        Ok(Some(resident))
    }

    fn write(&self, device: &mut dyn Device, data: &Data) -> Result<(), Fault> {
        self.buffers.iter().zip(&data.inputs).try_for_each(|(buffer, (_, bytes))| device.write(*buffer, bytes))
    }

    fn free(self, device: &mut dyn Device) -> Result<(), Fault> {
        self.buffers.into_iter().try_for_each(|buffer| device.free(buffer))
    }
}

impl Residents {
    /// Uploads data to the sets at `places`, from the device if it has the data, or that from which it was turned.
    pub fn upload(&self, device: &mut dyn Device, sets: &Sets, places: &[usize], data: &Data) -> Result<(), Fault> {
        let Some(at) = self.find(device, data)? else { return sets.upload_to(device, places, &data.inputs) };
        let kept = self.kept.borrow();
        for (which, (name, bytes)) in data.inputs.iter().enumerate() {
            let (from, turn) = (kept[at].buffers[which], data.turned.as_ref().map(|turned| turned.turns[which]));
            sets.write_with(device, places, name, |device, to| match turn {
                None => device.copy(from, to),
                Some(Some(turn)) => device.copy_turned(from, to, turn),
                // It was drawn anew.
                Some(None) => device.write(to, bytes),
            })?;
        }
        Ok(())
    }

    /// Returns the place of what is needed for data, with its contents checked. None if it is not on the device.
    fn find(&self, device: &mut dyn Device, data: &Data) -> Result<Option<usize>, Fault> {
        if !device.info().replays() || data.bytes() < LEAST_BYTES {
            return Ok(None);
        }
        let mut kept = self.kept.borrow_mut();
        let seed = data.turned.as_ref().map_or(data.seed, |Turned { of, .. }| *of);
        let Some(at) = kept.iter().position(|resident| resident.is_of(seed, data)) else {
            if data.turned.is_some() {
                return Ok(None);
            }
            let most_bytes = (device.info().memory_bytes / MEMORY_SHARE) as usize;
            while !kept.is_empty() && kept.iter().map(Resident::bytes).sum::<usize>() + data.bytes() > most_bytes {
                kept.remove(0).free(device)?;
            }
            let uploaded = if data.bytes() <= most_bytes { Resident::upload(device, data)? } else { None };
            kept.extend(uploaded);
            return Ok(kept.last().is_some_and(|resident| resident.is_of(seed, data)).then(|| kept.len() - 1));
        };
        let resident = kept.remove(at);
        let is_intact = device.digests(&resident.buffers)? == resident.digests;
        if !is_intact && data.turned.is_some() {
            resident.free(device)?;
            return Ok(None);
        }
        if !is_intact {
            resident.write(device, data)?;
        }
        kept.push(resident);
        Ok(Some(kept.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::compute::Compute;
    use crate::domain::family::plan::LaunchPlan;
    use crate::domain::op::{Dims, Dtype};
    use crate::ops;
    use crate::runner::device::{FakeDevice, Problem};
    use crate::runner::evaluate::data::Data;
    use crate::runner::evaluate::sets::Rotation;
    use crate::runner::validate::Part;

    /// Keys and values of 4 MiB each, and one query.
    fn dims() -> Dims {
        let dims = [("B", 1), ("H", 1), ("Sq", 1), ("Sk", 1 << 15), ("D", 64), ("CAUSAL", 0)];
        dims.map(|(name, size)| (name.to_owned(), size)).into()
    }

    /// Uploads data, and returns what the two sets have.
    fn contents(residents: &Residents, device: &mut FakeDevice, sets: &Sets, data: &Data) -> Vec<Vec<u8>> {
        residents.upload(device, sets, &[1, 0], data).unwrap();
        let names = ["q", "k", "v"];
        let places = [0, 1].into_iter().flat_map(|place| names.map(|name| (place, name)));
        places.map(|(place, name)| device.read(sets.uploaded(place, name)).unwrap()).collect()
    }

    #[test]
    fn sets_get_what_was_drawn_and_what_was_turned_even_after_a_wild_write() {
        let (dims, mut device, residents) = (dims(), FakeDevice::new(), Residents::default());
        let op = ops::find("attention").unwrap();
        let problem = Problem { op, dims: &dims, dtype: Dtype::F16, compute: Compute::Dtype };
        let sets = Sets::allocate(&mut device, Some(&problem), &LaunchPlan::default(), Rotation::apart(2)).unwrap();
        let before = device.held()[1];
        let data = Data::compared_on(Part::Sample, &problem, 1e6, 1).unwrap();
        let turned = data.turned(&problem, 1e6, 2).unwrap();
        let of = |data: &Data| -> Vec<Vec<u8>> {
            let inputs = data.inputs.iter().map(|(_, bytes)| bytes.clone());
            inputs.clone().chain(inputs).collect()
        };
        assert_ne!(of(&data), of(&turned));
        assert!(
            contents(&residents, &mut device, &sets, &turned) == of(&turned),
            "what it was turned from is not there yet"
        );
        for _ in 0..2 {
            assert!(contents(&residents, &mut device, &sets, &data) == of(&data));
            assert!(contents(&residents, &mut device, &sets, &turned) == of(&turned));
            assert_eq!(device.held()[1], before + 3, "each input once");
            let keys = residents.kept.borrow()[0].buffers[1];
            device.fill(keys, 7).unwrap();
        }
        assert!(contents(&residents, &mut device, &sets, &turned) == of(&turned));
    }
}
