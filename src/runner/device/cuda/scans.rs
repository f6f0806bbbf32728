//! Scans of device memory on the device, so that a check need not copy whole buffers to the host: digests, and whether all
//! elements are finite.
//!
//! The key of the digests is drawn anew by each process, and is only in the parameters of a kernel of optloop. So no variant
//! can write contents that have a wanted digest.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::memory::{GUARD_BYTES, Region};
use super::{Buffer, CudaDevice, Fault, describe, fault};
use crate::domain::op::Dtype;

/// The kernels, which the driver compiles for its device.
const PTX: &str = concat!(include_str!("scans.ptx"), "\0");

/// The most regions in one launch.
const MOST_REGIONS: usize = 2048;

/// Threads in a block.
const THREADS: u32 = 256;

/// Bytes of a region for each of its blocks, up to [`MOST_BLOCKS`] of them: eight words for a thread.
const BLOCK_BYTES: usize = 16 << 10;

/// The most blocks for a region: eight on each of 128 multiprocessors, which then have enough loads in flight.
const MOST_BLOCKS: usize = 1024;

/// The kernels and their memory.
pub(super) struct Scans {
    module: sys::CUmodule,
    digest: sys::CUfunction,
    count_not_finite: sys::CUfunction,
    key: u64,
    regions: sys::CUdeviceptr,
    sums: sys::CUdeviceptr,
    /// The digests of a guard region that nothing was written to: one at a multiple of 8, and one elsewhere.
    guards: [u64; 2],
}

impl Scans {
    fn new() -> Result<Self, DriverError> {
        // SAFETY: the text ends with a NUL byte. Module and memory live until `free`.
        unsafe {
            let module = result::module::load_data(PTX.as_ptr().cast())?;
            let digest = result::module::get_function(module, c"digest".to_owned())?;
            let count_not_finite = result::module::get_function(module, c"count_not_finite".to_owned())?;
            let regions = result::malloc_sync(MOST_REGIONS * size_of::<[u64; 2]>())?;
            let sums = result::malloc_sync(MOST_REGIONS * size_of::<u64>())?;
            Ok(Self { module, digest, count_not_finite, key: rand::random(), regions, sums, guards: [0; 2] })
        }
    }

    /// Enqueues the digest of at most [`MOST_REGIONS`] regions.
    fn digest(&self, regions: &[Region], stream: sys::CUstream) -> Result<(), DriverError> {
        let table: Vec<[u64; 2]> = regions.iter().map(|(address, bytes)| [*address, *bytes as u64]).collect();
        let largest = regions.iter().map(|(_, bytes)| *bytes).max().unwrap_or_default();
        // SAFETY: the table has room for all regions. Its source is pageable, so the driver has copied it when the call
        // returns. The kernel takes these three numbers, and only reads the regions, which are parts of buffers of this
        // device.
        unsafe {
            result::memcpy_htod_async(self.regions, &table, stream)?;
            result::memset_d8_async(self.sums, 0, size_of::<u64>() * regions.len(), stream)?;
            let grid = (blocks(largest), regions.len() as u32, 1);
            launch(self.digest, grid, &mut [self.regions, self.sums, self.key], stream)
        }
    }

    /// Enqueues the count of the elements of a region that are not finite. The region has whole words of 8 bytes.
    fn count_not_finite(
        &self,
        (address, bytes): Region,
        (bits, width): (u64, u64),
        stream: sys::CUstream,
    ) -> Result<(), DriverError> {
        let words = (bytes / size_of::<u64>()) as u64;
        // SAFETY: the kernel takes these five numbers, and only reads the region, which is a buffer of this device.
        unsafe {
            result::memset_d8_async(self.sums, 0, size_of::<u64>(), stream)?;
            let mut arguments = [address, words, bits, width, self.sums];
            launch(self.count_not_finite, (blocks(bytes), 1, 1), &mut arguments, stream)
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

/// Returns the number of blocks for a region of so many bytes.
fn blocks(bytes: usize) -> u32 {
    bytes.div_ceil(BLOCK_BYTES).clamp(1, MOST_BLOCKS) as u32
}

/// Enqueues a kernel that takes numbers of 8 bytes.
///
/// # Safety
///
/// The kernel must take just these arguments, and may access only memory that lives until the stream is synchronised.
unsafe fn launch(
    kernel: sys::CUfunction,
    grid: (u32, u32, u32),
    arguments: &mut [u64],
    stream: sys::CUstream,
) -> Result<(), DriverError> {
    let mut pointers: Vec<*mut c_void> = arguments.iter_mut().map(|argument| ptr::from_mut(argument).cast()).collect();
    // SAFETY: the caller answers for the kernel. The driver copies the arguments before the call returns.
    unsafe { result::launch_kernel(kernel, grid, (THREADS, 1, 1), 0, stream, &mut pointers) }
}

impl CudaDevice {
    /// Returns the digest of each region.
    pub(super) fn digest(&mut self, regions: &[Region]) -> Result<Vec<u64>, Fault> {
        self.load_scans()?;
        let mut digests = Vec::with_capacity(regions.len());
        for regions in regions.chunks(MOST_REGIONS) {
            let (Some(scans), stream) = (&self.scans, self.stream) else { break };
            scans.digest(regions, stream).map_err(|error| fault(&error))?;
            let sums = scans.sums;
            self.scan(sums, size_of::<u64>() * regions.len(), |_, window| {
                digests.extend(numbers(window));
                true
            })?;
        }
        Ok(digests)
    }

    /// Returns whether all elements of a buffer are finite numbers.
    pub(super) fn are_all_finite(&mut self, buffer: Buffer, dtype: Dtype) -> Result<bool, Fault> {
        let Some(bits) = dtype.not_finite_bits() else { return Ok(true) };
        let region = self.region(buffer)?;
        if !region.1.is_multiple_of(size_of::<u64>()) {
            return Ok(dtype.are_finite(&self.download(buffer)?));
        }
        self.load_scans()?;
        let (Some(scans), stream) = (&self.scans, self.stream) else { return Ok(false) };
        let of_element = (bits, 8 * dtype.bytes() as u64);
        scans.count_not_finite(region, of_element, stream).map_err(|error| fault(&error))?;
        self.scan(scans.sums, size_of::<u64>(), |_, window| numbers(window).all(|count| count == 0))
    }

    /// Returns the digests of guard regions that nothing was written to, at these addresses.
    pub(super) fn intact_guards(&mut self, guards: &[sys::CUdeviceptr]) -> Result<Vec<u64>, Fault> {
        self.load_scans()?;
        let Some(Scans { guards: [aligned, elsewhere], .. }) = &self.scans else { return Ok(Vec::new()) };
        let intact = |guard: &sys::CUdeviceptr| if is_aligned(*guard) { *aligned } else { *elsewhere };
        Ok(guards.iter().map(intact).collect())
    }

    fn load_scans(&mut self) -> Result<(), Fault> {
        if self.scans.is_some() {
            return Ok(());
        }
        let scans = Scans::new().map_err(|error| {
            let reason = describe(&error);
            Fault::Broken(format!("the driver does not load the kernels that scan memory: {reason}"))
        })?;
        self.scans = Some(scans);
        // A new buffer has the contents of a guard region.
        let buffer = self.allocate(GUARD_BYTES + 1, 0)?;
        let (address, _) = self.region(buffer)?;
        let digests = self.digest(&[(address, GUARD_BYTES), (address + 1, GUARD_BYTES)])?;
        self.give_back(buffer)?;
        if let (Some(scans), &[aligned, elsewhere]) = (&mut self.scans, &digests[..]) {
            scans.guards = [aligned, elsewhere];
        }
        Ok(())
    }
}

/// Returns whether `digest` reads a region in words.
fn is_aligned(address: sys::CUdeviceptr) -> bool {
    address.is_multiple_of(size_of::<u64>() as u64)
}

/// Returns the numbers of 8 bytes.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use virtual_gpu::gpu::Gpu;
    use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

    use super::PTX;
    use crate::domain::op::Dtype;

    const KEY: u64 = 0x0123_4567_89ab_cdef;

    /// The digest of scans.ptx, as its head says.
    fn digest(bytes: &[u8], is_aligned: bool) -> u64 {
        let (words, rest) = if is_aligned { bytes.as_chunks::<8>() } else { (&[][..], bytes) };
        let items = words.iter().map(|word| u64::from_le_bytes(*word)).chain(rest.iter().map(|byte| u64::from(*byte)));
        let term = |(place, word): (usize, u64)| {
            let x = word ^ KEY.wrapping_add((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
            let x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            x ^ x >> 33
        };
        items.enumerate().map(term).fold(0, u64::wrapping_add)
    }

    /// Has a kernel run on a virtual GPU, with arguments that `prepare` makes. Returns the numbers at the address that it
    /// returns.
    fn run(
        kernel: &str,
        grid: [u32; 3],
        prepare: impl FnOnce(&mut VirtualGpu) -> (Vec<u64>, u64),
        numbers: usize,
    ) -> Vec<u64> {
        let mut gpu = VirtualGpu::new(Gpu::named("h200").unwrap());
        let module = gpu.load(ptx::load("scans.ptx", PTX).unwrap()).unwrap();
        let (args, result) = prepare(&mut gpu);
        let args: Vec<Vec<u8>> = args.iter().map(|number| number.to_le_bytes().to_vec()).collect();
        let launch = Launch { grid, block: [64, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
        gpu.launch(&module, kernel, &launch, &Options::default()).unwrap();
        super::numbers(&gpu.read(result, 8 * numbers as u64).unwrap()).collect()
    }

    /// Puts bytes into a new buffer and returns its address.
    fn put(gpu: &mut VirtualGpu, bytes: &[u8]) -> u64 {
        let address = gpu.alloc(bytes.len() as u64).unwrap();
        gpu.write(address, bytes).unwrap();
        address
    }

    /// Digests regions that begin `offset` bytes after an aligned address.
    fn digests(regions: &[Vec<u8>], offset: usize) -> Vec<u64> {
        let prepare = |gpu: &mut VirtualGpu| {
            let region = |bytes: &Vec<u8>| {
                [put(gpu, &[&vec![9; offset], &bytes[..]].concat()) + offset as u64, bytes.len() as u64]
            };
            let table: Vec<u64> = regions.iter().flat_map(region).collect();
            let table = put(gpu, &table.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
            let sums = put(gpu, &vec![0; 8 * regions.len()]);
            (vec![table, sums, KEY], sums)
        };
        run("digest", [3, regions.len() as u32, 1], prepare, regions.len())
    }

    #[test]
    fn each_region_has_its_digest_whatever_its_size_and_address() {
        let byte = |at: usize| (at * 31 % 251) as u8;
        let regions: Vec<Vec<u8>> = [1, 8, 9, 4000, 4096, 5003].map(|size| (0..size).map(byte).collect()).into();
        for offset in [0, 4, 8] {
            let expected: Vec<u64> = regions.iter().map(|bytes| digest(bytes, offset != 4)).collect();
            assert_eq!(digests(&regions, offset), expected);
        }
    }

    #[test]
    fn a_changed_or_moved_byte_changes_the_digest() {
        let zeros = vec![0; 4099];
        let changed = [0, 7, 8, 2000, 4095, 4096, 4098].map(|at| {
            let mut bytes = zeros.clone();
            bytes[at] = 1;
            bytes
        });
        let mut digests = digests(&[&[zeros], &changed[..]].concat(), 0);
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 8);
    }

    #[test]
    fn elements_that_are_not_finite_are_counted() {
        for dtype in [Dtype::E4m3, Dtype::F16, Dtype::F32, Dtype::F64] {
            let mut values = vec![1.5; 4000];
            for at in [0, 1, 1999, 3999] {
                values[at] = f32::NAN;
            }
            let mut bytes = vec![0; values.len() * dtype.bytes()];
            dtype.encode(&values, &mut bytes);
            let prepare = |gpu: &mut VirtualGpu| {
                let (address, count) = (put(gpu, &bytes), put(gpu, &[0; 8]));
                let (bits, width) = (dtype.not_finite_bits().unwrap(), 8 * dtype.bytes() as u64);
                (vec![address, bytes.len() as u64 / 8, bits, width, count], count)
            };
            assert_eq!(run("count_not_finite", [3, 1, 1], prepare, 1), [4], "{}", dtype.name());
        }
    }
}
