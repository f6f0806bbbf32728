//! Device memory: buffers between guard regions, and copies to and from the host.

use std::ops::Range;
use std::slice;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::{Buffer, CudaDevice, Fault, describe, fault};

/// Size in bytes of the guard region on either side of a buffer. It equals a tile of 128 rows of 256 halves, so a whole
/// tile at a ragged end lands in the guard region. It is a multiple of 256 bytes, the driver's alignment of
/// allocations, so buffers keep that alignment.
pub(super) const GUARD_BYTES: usize = 64 << 10;

/// The byte that fills guard regions and new buffers. All bits set are a NaN of every dtype. So a kernel that reads out
/// of bounds or reads unwritten memory gets a NaN output.
const GUARD: u8 = 0xff;

/// Bytes copied to the host at a time: enough for the bus to run at its full rate, few enough for a core's cache.
const WINDOW_BYTES: usize = 4 << 20;

/// A part of device memory: its address and its size in bytes.
pub(super) type Region = (sys::CUdeviceptr, usize);

/// Location of a buffer: perhaps some bytes, guard region, contents, guard region.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) allocated: sys::CUdeviceptr,
    pub(super) address: sys::CUdeviceptr,
    pub(super) bytes: usize,
}

/// Page-locked host memory through which device memory is read. The bus reaches its full rate only with page-locked
/// memory. Faulting in the pages of a new vector costs more than the copy.
pub(super) struct Window(*mut u8);

impl Window {
    pub(super) fn new() -> Result<Self, DriverError> {
        // SAFETY: the owner of the window frees the memory, once.
        Ok(Self(unsafe { result::malloc_host(WINDOW_BYTES, 0)? }.cast()))
    }

    /// Frees the memory. It must not be used afterwards.
    pub(super) fn free(&mut self) {
        // SAFETY: the memory came from `malloc_host`. An error at the end of the process changes nothing.
        let _ = unsafe { result::free_host(self.0.cast()) };
    }
}

impl CudaDevice {
    pub(super) fn place(&self, buffer: Buffer) -> Result<Place, Fault> {
        self.buffers.get(&buffer.0).copied().ok_or_else(|| Fault::Broken("no such buffer".to_owned()))
    }

    /// Returns the contents of a buffer.
    pub(super) fn region(&self, buffer: Buffer) -> Result<Region, Fault> {
        self.place(buffer).map(|place| (place.address, place.bytes))
    }

    /// Allocates a buffer that begins `offset` bytes later than the driver's alignment asks for, and overwrites all of it. So `give_back`
    /// need not overwrite the memory that it frees, which is accessible only through a later allocation.
    pub(super) fn allocate(&mut self, bytes: usize, offset: usize) -> Result<Buffer, Fault> {
        let all = offset + bytes + 2 * GUARD_BYTES;
        // SAFETY: the memory is given out as a handle and only reached through this device.
        let allocated = unsafe { result::malloc_sync(all) }
            .map_err(|error| Fault::OutOfMemory(format!("{bytes} bytes of device memory: {}", describe(&error))))?;
        let handle = self.handle();
        let address = allocated + (GUARD_BYTES + offset) as u64;
        self.buffers.insert(handle, Place { allocated, address, bytes });
        self.set(allocated, all, GUARD)?;
        Ok(Buffer(handle))
    }

    pub(super) fn give_back(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.settle()?;
        match self.buffers.remove(&buffer.0) {
            // SAFETY: the memory came from `alloc`, was just removed from the table, and nothing is running.
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
        // SAFETY: the buffer has exactly this many bytes. The source is pageable, so the driver has copied it when the
        // call returns.
        unsafe { result::memcpy_htod_async(address, bytes, self.stream) }.map_err(|error| fault(&error))
    }

    pub(super) fn copy_within(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        self.copy_turned_within(from, to, 0)
    }

    /// Copies a buffer to another. The first `turn` bytes come to the end.
    pub(super) fn copy_turned_within(&mut self, from: Buffer, to: Buffer, turn: usize) -> Result<(), Fault> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        if from.bytes != to.bytes || turn > from.bytes {
            let (size, most) = (from.bytes, to.bytes);
            return Err(Fault::Broken(format!("{size} bytes, turned by {turn}, copied to a buffer of {most}")));
        }
        self.pending = true;
        let rest = from.bytes - turn;
        // SAFETY: both buffers have exactly `turn + rest` bytes. Neither is freed before the stream is synchronised.
        let copied = unsafe {
            result::memcpy_dtod_async(to.address, from.address + turn as u64, rest, self.stream).and_then(|()| {
                match turn {
                    0 => Ok(()),
                    _ => result::memcpy_dtod_async(to.address + rest as u64, from.address, turn, self.stream),
                }
            })
        };
        copied.map_err(|error| fault(&error))
    }

    pub(super) fn download(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        let bytes = self.place(buffer)?.bytes;
        self.download_parts(buffer, slice::from_ref(&(0..bytes)))
    }

    pub(super) fn download_parts(&mut self, buffer: Buffer, parts: &[Range<usize>]) -> Result<Vec<u8>, Fault> {
        let place = self.place(buffer)?;
        let mut bytes = Vec::with_capacity(parts.iter().map(ExactSizeIterator::len).sum());
        let mut in_window = 0;
        for part in parts {
            if part.end > place.bytes {
                return Err(Fault::Broken(format!("{} bytes read from a buffer of {}", part.end, place.bytes)));
            }
            for start in part.clone().step_by(WINDOW_BYTES) {
                let size = WINDOW_BYTES.min(part.end - start);
                if in_window + size > WINDOW_BYTES {
                    bytes.extend_from_slice(self.finished_window(in_window)?);
                    in_window = 0;
                }
                self.copy_to_window(in_window, place.address + start as u64, size)?;
                in_window += size;
            }
        }
        bytes.extend_from_slice(self.finished_window(in_window)?);
        Ok(bytes)
    }

    /// Enqueues a copy of device memory to the window, `offset` bytes from its beginning.
    fn copy_to_window(&mut self, offset: usize, address: sys::CUdeviceptr, size: usize) -> Result<(), Fault> {
        if offset + size > WINDOW_BYTES {
            return Err(Fault::Broken(format!("{size} bytes read to a window with {offset} bytes of {WINDOW_BYTES}")));
        }
        // SAFETY: the window has this many bytes. They were written by the driver or are about to be, and nothing else uses
        // them.
        let window = unsafe { slice::from_raw_parts_mut(self.window.0.add(offset), size) };
        self.pending = true;
        // SAFETY: both sides have `size` bytes, and the stream is synchronised before the window is read.
        unsafe { result::memcpy_dtoh_async(window, address, self.stream) }.map_err(|error| fault(&error))
    }

    /// Waits for the copies to the window and returns its first bytes.
    fn finished_window(&mut self, size: usize) -> Result<&[u8], Fault> {
        self.synchronize()?;
        // SAFETY: the window has so many bytes, which the driver has written.
        Ok(unsafe { slice::from_raw_parts(self.window.0, size.min(WINDOW_BYTES)) })
    }

    /// Returns of each buffer whether both guard regions are unchanged, and restores them.
    pub(super) fn guards_are_intact(&mut self, buffers: &[Buffer]) -> Result<Vec<bool>, Fault> {
        let guards = |buffer: &Buffer| {
            self.place(*buffer)
                .map(|Place { address, bytes, .. }| [address - GUARD_BYTES as u64, address + bytes as u64])
        };
        let guards: Vec<[sys::CUdeviceptr; 2]> = buffers.iter().map(guards).collect::<Result<_, _>>()?;
        let regions: Vec<Region> = guards.as_flattened().iter().map(|guard| (*guard, GUARD_BYTES)).collect();
        let (intact, found) = (self.intact_guards(guards.as_flattened())?, self.digest(&regions)?);
        let are_intact: Vec<bool> =
            intact.chunks(2).zip(found.chunks(2)).map(|(intact, found)| intact == found).collect();
        for (guards, _) in guards.iter().zip(&are_intact).filter(|(_, is_intact)| !**is_intact) {
            guards.iter().try_for_each(|guard| self.set(*guard, GUARD_BYTES, GUARD))?;
        }
        Ok(are_intact)
    }

    /// Enqueues a fill of a buffer, its guard regions or a part of them.
    pub(super) fn set(&mut self, address: sys::CUdeviceptr, bytes: usize, byte: u8) -> Result<(), Fault> {
        self.pending = true;
        // SAFETY: the caller passes memory of a buffer and its guard regions.
        unsafe { result::memset_d8_async(address, byte, bytes, self.stream) }.map_err(|error| fault(&error))
    }

    /// Copies device memory to the host, one window at a time. Passes each window to `visit` with its offset, until
    /// `visit` returns false. Returns whether `visit` accepted all windows.
    pub(super) fn scan(
        &mut self,
        address: sys::CUdeviceptr,
        bytes: usize,
        mut visit: impl FnMut(usize, &[u8]) -> bool,
    ) -> Result<bool, Fault> {
        for offset in (0..bytes).step_by(WINDOW_BYTES) {
            let size = WINDOW_BYTES.min(bytes - offset);
            self.copy_to_window(0, address + offset as u64, size)?;
            if !visit(offset, self.finished_window(size)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
