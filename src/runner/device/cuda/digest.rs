//! Digests of device memory, computed on the device, so that a check need not copy whole buffers to the host.
//!
//! The key is drawn anew by each process, and is only in the parameters of the digesting kernel. So no variant can write
//! contents that have a wanted digest.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::memory::GUARD_BYTES;
use super::{Buffer, CudaDevice, Fault, describe, fault};

/// The kernel, which the driver compiles for its device.
const PTX: &str = concat!(include_str!("digest.ptx"), "\0");

/// The most regions in one launch.
const MOST_REGIONS: usize = 2048;

/// Threads in a block.
const THREADS: u32 = 256;

/// Bytes of a region for each of its blocks, up to [`MOST_BLOCKS`] of them: eight words for a thread.
const BLOCK_BYTES: usize = 16 << 10;

/// The most blocks for a region: eight on each of 128 multiprocessors, which then have enough loads in flight.
const MOST_BLOCKS: usize = 1024;

/// A region of memory: its address and its size in bytes.
pub(super) type Region = (sys::CUdeviceptr, usize);

/// The kernel and its memory.
pub(super) struct Digester {
    module: sys::CUmodule,
    kernel: sys::CUfunction,
    key: u64,
    regions: sys::CUdeviceptr,
    sums: sys::CUdeviceptr,
    /// The digest of a guard region that nothing was written to.
    pub(super) guard: u64,
}

impl Digester {
    fn new() -> Result<Self, DriverError> {
        // SAFETY: the text ends with a NUL byte. Module and memory live until `free`.
        unsafe {
            let module = result::module::load_data(PTX.as_ptr().cast())?;
            let kernel = result::module::get_function(module, c"digest".to_owned())?;
            let regions = result::malloc_sync(MOST_REGIONS * size_of::<[u64; 2]>())?;
            let sums = result::malloc_sync(MOST_REGIONS * size_of::<u64>())?;
            Ok(Self { module, kernel, key: rand::random(), regions, sums, guard: 0 })
        }
    }

    /// Enqueues the digest of at most [`MOST_REGIONS`] regions.
    fn enqueue(&self, regions: &[Region], stream: sys::CUstream) -> Result<(), DriverError> {
        let table: Vec<[u64; 2]> = regions.iter().map(|(address, bytes)| [*address, *bytes as u64]).collect();
        let largest = regions.iter().map(|(_, bytes)| *bytes).max().unwrap_or_default();
        let blocks = largest.div_ceil(BLOCK_BYTES).clamp(1, MOST_BLOCKS) as u32;
        let (mut at, mut sums, mut key) = (self.regions, self.sums, self.key);
        let mut arguments: [*mut c_void; 3] =
            [ptr::from_mut(&mut at).cast(), ptr::from_mut(&mut sums).cast(), ptr::from_mut(&mut key).cast()];
        // SAFETY: the table has room for all regions. Its source is pageable, so the driver has copied it when the call
        // returns. The kernel takes these three arguments, and only reads the regions, which are buffers of this device.
        unsafe {
            result::memcpy_htod_async(self.regions, &table, stream)?;
            result::memset_d8_async(self.sums, 0, size_of_val(regions), stream)?;
            let grid = (blocks, regions.len() as u32, 1);
            result::launch_kernel(self.kernel, grid, (THREADS, 1, 1), 0, stream, &mut arguments)
        }
    }

    /// Frees everything. Errors at the end of the process change nothing.
    pub(super) fn free(&mut self) {
        // SAFETY: each handle is released once: the device drops this right after.
        unsafe {
            let _ = result::module::unload(self.module);
            let _ = result::free_sync(self.regions);
            let _ = result::free_sync(self.sums);
        }
    }
}

impl CudaDevice {
    /// Returns the digest of each region.
    pub(super) fn digest(&mut self, regions: &[Region]) -> Result<Vec<u64>, Fault> {
        self.digester()?;
        let mut digests = Vec::with_capacity(regions.len());
        for regions in regions.chunks(MOST_REGIONS) {
            let (Some(digester), stream) = (&self.digester, self.stream) else { break };
            digester.enqueue(regions, stream).map_err(|error| fault(&error))?;
            let sums = digester.sums;
            self.scan(sums, size_of::<u64>() * regions.len(), |_, window| {
                let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a chunk has 8 bytes"));
                digests.extend(window.chunks_exact(size_of::<u64>()).map(number));
                true
            })?;
        }
        Ok(digests)
    }

    /// Returns the digester, and the digest of an intact guard region.
    pub(super) fn digester(&mut self) -> Result<u64, Fault> {
        if let Some(digester) = &self.digester {
            return Ok(digester.guard);
        }
        let digester = Digester::new().map_err(|error| {
            Fault::Broken(format!("the driver does not load the kernel that digests memory: {}", describe(&error)))
        })?;
        self.digester = Some(digester);
        // A new buffer has the contents of a guard region.
        let buffer = self.allocate(GUARD_BYTES)?;
        let guard = self.digest(&[self.region(buffer)?])?;
        self.give_back(buffer)?;
        let guard = guard.first().copied().unwrap_or_default();
        if let Some(digester) = &mut self.digester {
            digester.guard = guard;
        }
        Ok(guard)
    }

    /// Returns the contents of a buffer.
    pub(super) fn region(&self, buffer: Buffer) -> Result<Region, Fault> {
        self.place(buffer).map(|place| (place.address, place.bytes))
    }
}

#[cfg(test)]
mod tests {
    use virtual_gpu::gpu::Gpu;
    use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

    use super::PTX;

    const KEY: u64 = 0x0123_4567_89ab_cdef;

    /// The digest of digest.ptx, as its head says.
    fn digest(bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        let items = words.iter().map(|word| u64::from_le_bytes(*word)).chain(rest.iter().map(|byte| u64::from(*byte)));
        let term = |(place, word): (usize, u64)| {
            let x = word ^ KEY.wrapping_add((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
            let x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            x ^ x >> 33
        };
        items.enumerate().map(term).fold(0, u64::wrapping_add)
    }

    /// Has the kernel digest regions on a virtual GPU.
    fn digests(regions: &[Vec<u8>]) -> Vec<u64> {
        let mut gpu = VirtualGpu::new(Gpu::named("h200").unwrap());
        let module = gpu.load(ptx::load("digest.ptx", PTX).unwrap()).unwrap();
        let mut table = Vec::new();
        for bytes in regions {
            let address = gpu.alloc(bytes.len() as u64).unwrap();
            gpu.write(address, bytes).unwrap();
            table.extend([address, bytes.len() as u64]);
        }
        let table: Vec<u8> = table.iter().flat_map(|number| number.to_le_bytes()).collect();
        let (at, sums) = (gpu.alloc(table.len() as u64).unwrap(), gpu.alloc(8 * regions.len() as u64).unwrap());
        gpu.write(at, &table).unwrap();
        gpu.fill(sums, 8 * regions.len() as u64, 0).unwrap();
        let args = [at, sums, KEY].map(|number| number.to_le_bytes().to_vec());
        let launch = Launch {
            grid: [3, regions.len() as u32, 1],
            block: [64, 1, 1],
            cluster: [1; 3],
            dynamic_shared_bytes: 0,
            args: &args,
        };
        gpu.launch(&module, "digest", &launch, &Options::default()).unwrap();
        let sums = gpu.read(sums, 8 * regions.len() as u64).unwrap();
        sums.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number)).collect()
    }

    #[test]
    fn each_region_has_its_digest_whatever_its_size() {
        let byte = |at: usize| (at * 31 % 251) as u8;
        let regions: Vec<Vec<u8>> = [1, 8, 9, 4000, 4096, 5003].map(|size| (0..size).map(byte).collect()).into();
        assert_eq!(digests(&regions), regions.iter().map(|bytes| digest(bytes)).collect::<Vec<_>>());
    }

    #[test]
    fn a_changed_or_moved_byte_changes_the_digest() {
        let zeros = vec![0; 4099];
        let changed = [0, 7, 8, 2000, 4095, 4096, 4098].map(|at| {
            let mut bytes = zeros.clone();
            bytes[at] = 1;
            bytes
        });
        let mut digests = digests(&[&[zeros], &changed[..]].concat());
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 8);
    }
}
