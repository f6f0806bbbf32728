//! Memory of the device: buffers between guards, and how their bytes get there and back.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use rayon::prelude::*;

use super::{Buffer, CudaDevice, Fault, describe, fault};

/// What lies on either side of a buffer: as much as a tile of 128 rows of 256 halves, so that a whole tile at a ragged end lands
/// in it. A multiple of the 256 bytes to which the driver aligns what it allocates, so that a buffer is aligned to them, too.
const GUARD_BYTES: usize = 64 << 10;

/// What guards and new buffers are filled with: all bits set are a NaN of every dtype, so that who reads beyond an end, or what
/// nobody wrote, gets an output that is none.
const GUARD: u8 = 0xff;

/// What is copied to the host at a time: long enough for the bus to run at its rate, short enough for a core's cache.
const WINDOW_BYTES: usize = 4 << 20;

/// What one core compares at a time. Below, handing it out takes longer than comparing it.
const COMPARED_BYTES: usize = 256 << 10;

/// Where a buffer lies: a guard, its bytes, a guard.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) allocated: sys::CUdeviceptr,
    pub(super) address: sys::CUdeviceptr,
    pub(super) bytes: usize,
}

/// Page-locked host memory that the device's memory is looked at through: the bus reaches its rate only there, and the pages of
/// a new vector cost more than the copy.
pub(super) struct Window(*mut u8);

impl Window {
    pub(super) fn new() -> Result<Self, DriverError> {
        // SAFETY: the memory is freed once, by whoever made the window.
        Ok(Self(unsafe { result::malloc_host(WINDOW_BYTES, 0)? }.cast()))
    }

    /// Frees the memory, which nobody may look at any more.
    pub(super) fn free(&mut self) {
        // SAFETY: it came from `malloc_host`. An error at the end of the process changes nothing.
        let _ = unsafe { result::free_host(self.0.cast()) };
    }
}

impl CudaDevice {
    pub(super) fn place(&self, buffer: Buffer) -> Result<Place, Fault> {
        self.buffers.get(&buffer.0).copied().ok_or_else(|| Fault::Broken("no such buffer".to_owned()))
    }

    /// What is freed is not overwritten: nobody gets at it but by this, and this overwrites what it gives.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        let all = bytes + 2 * GUARD_BYTES;
        // SAFETY: the memory is given out as a handle and only reached through this device.
        let allocated = unsafe { result::malloc_sync(all) }
            .map_err(|error| Fault::Refused(format!("{bytes} bytes of device memory: {}", describe(&error))))?;
        let handle = self.handle();
        self.buffers.insert(handle, Place { allocated, address: allocated + GUARD_BYTES as u64, bytes });
        self.set(allocated, all, GUARD)?;
        Ok(Buffer(handle))
    }

    pub(super) fn give_back(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.settle()?;
        match self.buffers.remove(&buffer.0) {
            // SAFETY: it came from `alloc`, was just taken out of the table, and nothing is running.
            Some(place) => unsafe { result::free_sync(place.allocated) }.map_err(|error| fault(&error)),
            None => Ok(()),
        }
    }

    pub(super) fn upload(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        let Place { address, bytes: size, .. } = self.place(buffer)?;
        if bytes.len() != size {
            return Err(Fault::Broken(format!("{} bytes written to a buffer of {size}", bytes.len())));
        }
        self.pending = true;
        // SAFETY: the buffer has exactly these many bytes. They are pageable, so the driver has taken them when it returns.
        unsafe { result::memcpy_htod_async(address, bytes, self.stream) }.map_err(|error| fault(&error))
    }

    pub(super) fn copy_within(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        if from.bytes != to.bytes {
            return Err(Fault::Broken(format!("{} bytes copied to a buffer of {}", from.bytes, to.bytes)));
        }
        self.pending = true;
        // SAFETY: both buffers have exactly these many bytes, and none is freed before the stream was waited for.
        unsafe { result::memcpy_dtod_async(to.address, from.address, from.bytes, self.stream) }
            .map_err(|error| fault(&error))
    }

    pub(super) fn download(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        let place = self.place(buffer)?;
        let mut bytes = Vec::with_capacity(place.bytes);
        self.look(place.address, place.bytes, |_, window| {
            bytes.extend_from_slice(window);
            true
        })?;
        Ok(bytes)
    }

    pub(super) fn compare(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<bool, Fault> {
        let place = self.place(buffer)?;
        if bytes.len() != place.bytes {
            return Ok(false);
        }
        self.look(place.address, place.bytes, |offset, window| same(window, &bytes[offset..offset + window.len()]))
    }

    pub(super) fn look_at_guards(&mut self, buffer: Buffer) -> Result<bool, Fault> {
        let Place { allocated, address, bytes } = self.place(buffer)?;
        for guard in [allocated, address + bytes as u64] {
            if !self.look(guard, GUARD_BYTES, |_, window| window.iter().all(|byte| *byte == GUARD))? {
                self.set(allocated, GUARD_BYTES, GUARD)?;
                self.set(address + bytes as u64, GUARD_BYTES, GUARD)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts a fill of memory that is its own on the stream.
    pub(super) fn set(&mut self, address: sys::CUdeviceptr, bytes: usize, byte: u8) -> Result<(), Fault> {
        self.pending = true;
        // SAFETY: the caller names memory of a buffer and its guards.
        unsafe { result::memset_d8_async(address, byte, bytes, self.stream) }.map_err(|error| fault(&error))
    }

    /// Shows memory of the device to `look`, a window at a time, from the offset that it is told, until it says stop.
    fn look(
        &mut self,
        address: sys::CUdeviceptr,
        bytes: usize,
        mut look: impl FnMut(usize, &[u8]) -> bool,
    ) -> Result<bool, Fault> {
        for offset in (0..bytes).step_by(WINDOW_BYTES) {
            let size = WINDOW_BYTES.min(bytes - offset);
            // SAFETY: the window has as many bytes, was written by the driver or is about to be, and is looked at nowhere else.
            let window = unsafe { std::slice::from_raw_parts_mut(self.window.0, size) };
            // SAFETY: both sides have `size` bytes, and the copy is waited for before the window is looked at.
            unsafe { result::memcpy_dtoh_async(window, address + offset as u64, self.stream) }
                .map_err(|error| fault(&error))?;
            self.synchronize()?;
            if !look(offset, window) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Compares, on as many cores as it is worth.
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() <= COMPARED_BYTES {
        return a == b;
    }
    a.par_chunks(COMPARED_BYTES).zip(b.par_chunks(COMPARED_BYTES)).all(|(a, b)| a == b)
}
