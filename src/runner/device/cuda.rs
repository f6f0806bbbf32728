//! CUDA devices, through cudarc's driver bindings, loaded at run time.
//!
//! This is the only device with `unsafe` code. Everything runs on one stream. A call that executes or reads waits for what it
//! started, so an error is reported by the call that caused it; fills and writes, which cannot fail on the way, are waited for by
//! what comes next.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute as FunctionAttribute};
use rayon::prelude::*;

use super::{Buffer, Capture, Clock, Device, Fault, Module, Replay, Work};
use crate::domain::artifact::Artifact;
use crate::domain::device::{DeviceInfo, Peaks, TimeSource};
use crate::domain::op::Dtype;
use crate::domain::plan::{Arg, Launch, ScalarValue, TensorMap};

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

/// Blocks of a cluster that every GPU with clusters runs; a function has to allow more (CUDA C++ programming guide, "Thread Block
/// Clusters").
const PORTABLE_CLUSTER_BLOCKS: u32 = 8;

/// A CUDA device with its primary context, held by this process.
pub struct CudaDevice {
    info: DeviceInfo,
    device: sys::CUdevice,
    stream: sys::CUstream,
    before: sys::CUevent,
    after: sys::CUevent,
    modules: HashMap<usize, Loaded>,
    captures: HashMap<usize, sys::CUgraphExec>,
    buffers: HashMap<usize, Place>,
    window: Window,
    /// Fills or writes were put on the stream that nobody has waited for.
    pending: bool,
    /// The number of the handle given out last.
    next: usize,
}

/// Where a buffer lies: a guard, its bytes, a guard.
#[derive(Clone, Copy)]
struct Place {
    allocated: sys::CUdeviceptr,
    address: sys::CUdeviceptr,
    bytes: usize,
}

/// Page-locked host memory that the device's memory is looked at through: the bus reaches its rate only there, and the pages of
/// a new vector cost more than the copy.
struct Window(*mut u8);

/// A loaded artifact with the kernels that were looked up in it.
struct Loaded {
    module: sys::CUmodule,
    functions: HashMap<String, sys::CUfunction>,
}

/// One argument of a launch, in memory that the driver reads during the call: as many bytes from the front as the parameter has.
/// A tensor map has 128, aligned to 64.
#[repr(C, align(64))]
struct Argument([u8; 128]);

impl Argument {
    fn of(number: u64) -> Self {
        let mut bytes = [0; 128];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Self(bytes)
    }
}

impl CudaDevice {
    /// Opens device `number`. The error says in one sentence why it is not there.
    pub fn open(number: u32) -> Result<Self, String> {
        // cudarc panics where the driver library is missing, so ask first.
        // SAFETY: this only tries to load the library.
        if !unsafe { sys::is_culib_present() } {
            return Err("no CUDA driver is installed (libcuda.so was not found)".to_owned());
        }
        // A driver that lacks a symbol makes cudarc panic lazily; the boundary turns that into the same kind of answer.
        let opened = std::panic::catch_unwind(|| Self::open_present(number));
        opened.unwrap_or_else(|_| Err("the CUDA driver is too old for this version of optloop".to_owned()))
    }

    fn open_present(number: u32) -> Result<Self, String> {
        let explain = |what: &str, error: DriverError| format!("{what}: {}", describe(&error));
        result::init().map_err(|error| explain("the CUDA driver does not start", error))?;
        let count = result::device::get_count().map_err(|error| explain("CUDA devices cannot be counted", error))?;
        let ordinal = i32::try_from(number).unwrap_or(i32::MAX);
        if ordinal >= count {
            return Err(format!("there is no CUDA device {number}: the driver sees {count}"));
        }
        let device = result::device::get(ordinal).map_err(|error| explain("the device cannot be opened", error))?;
        let info = describe_device(device, number).map_err(|error| explain("the device cannot be described", error))?;
        let open = || -> Result<Self, DriverError> {
            // SAFETY: the device was just opened; the context stays current on this thread, the only one that uses it.
            unsafe { result::ctx::set_current(result::primary_ctx::retain(device)?)? };
            let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
            Ok(Self {
                info,
                device,
                stream: result::stream::create(result::stream::StreamKind::NonBlocking)?,
                before: result::event::create(flags)?,
                after: result::event::create(flags)?,
                modules: HashMap::new(),
                captures: HashMap::new(),
                buffers: HashMap::new(),
                // SAFETY: the memory is freed once, when the device is dropped.
                window: Window(unsafe { result::malloc_host(WINDOW_BYTES, 0)? }.cast()),
                pending: false,
                next: 0,
            })
        };
        open().map_err(|error| explain("the device does not give a context", error))
    }

    fn place(&self, buffer: Buffer) -> Result<Place, Fault> {
        self.buffers.get(&buffer.0).copied().ok_or_else(|| Fault::Broken("no such buffer".to_owned()))
    }

    fn synchronize(&mut self) -> Result<(), Fault> {
        self.pending = false;
        // SAFETY: the stream lives as long as the device.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|error| fault(&error))
    }

    /// Waits for fills and writes, so that nothing of them is in a time that is taken next.
    fn settle(&mut self) -> Result<(), Fault> {
        if self.pending { self.synchronize() } else { Ok(()) }
    }

    /// Puts a fill of memory that is its own on the stream.
    fn set(&mut self, address: sys::CUdeviceptr, bytes: usize, byte: u8) -> Result<(), Fault> {
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

    fn handle(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Finds a kernel and allows it the dynamic shared memory and the size of clusters that the launch wants.
    fn function(&mut self, module: Module, launch: &Launch) -> Result<sys::CUfunction, Fault> {
        let loaded = self.modules.get_mut(&module.0).ok_or_else(|| Fault::Broken("no such module".to_owned()))?;
        let function = match loaded.functions.get(&launch.kernel) {
            Some(function) => *function,
            None => {
                let name = CString::new(launch.kernel.as_str())
                    .map_err(|_| Fault::Refused("a kernel's name has a NUL byte".to_owned()))?;
                // SAFETY: the module is loaded.
                let function = unsafe { result::module::get_function(loaded.module, name) }.map_err(|error| {
                    Fault::Refused(format!("there is no kernel `{}`: {}", launch.kernel, describe(&error)))
                })?;
                loaded.functions.insert(launch.kernel.clone(), function);
                function
            }
        };
        let wanted = i32::try_from(launch.shared_bytes)
            .map_err(|_| Fault::Refused(format!("{} bytes of shared memory", launch.shared_bytes)))?;
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to the loaded module.
        unsafe { result::function::set_function_attribute(function, attribute, wanted) }.map_err(|error| {
            Fault::Refused(format!("{wanted} bytes of dynamic shared memory are refused: {}", describe(&error)))
        })?;
        let blocks = launch.cluster.map_or(1, |cluster| cluster.iter().product());
        if blocks > PORTABLE_CLUSTER_BLOCKS {
            let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
            // SAFETY: the function belongs to the loaded module.
            unsafe { result::function::set_function_attribute(function, attribute, 1) }.map_err(|error| {
                Fault::Refused(format!("a cluster of {blocks} blocks is refused: {}", describe(&error)))
            })?;
        }
        Ok(function)
    }

    /// Puts the plan's launches on the stream without waiting for them.
    fn enqueue(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        for launch in &work.plan.launches {
            let function = self.function(work.module, launch)?;
            let mut arguments = self.arguments(launch, work)?;
            let mut pointers: Vec<*mut c_void> =
                arguments.iter_mut().map(|argument| ptr::from_mut(argument).cast()).collect();
            let mut attributes = attributes(launch);
            let config = sys::CUlaunchConfig {
                gridDimX: launch.grid[0],
                gridDimY: launch.grid[1],
                gridDimZ: launch.grid[2],
                blockDimX: launch.block[0],
                blockDimY: launch.block[1],
                blockDimZ: launch.block[2],
                sharedMemBytes: launch.shared_bytes,
                hStream: self.stream,
                attrs: attributes.as_mut_ptr(),
                numAttrs: attributes.len() as u32,
            };
            // SAFETY: function and stream are alive; the driver copies the arguments, each of which points to 128
            // readable bytes, before the call returns. What the kernel does with them is the variant's affair: it runs
            // in a process of its own.
            let status =
                unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), ptr::null_mut()) }.result();
            status.map_err(|error| launch_fault(launch, &error))?;
        }
        Ok(())
    }

    fn arguments(&self, launch: &Launch, work: &Work<'_>) -> Result<Vec<Argument>, Fault> {
        let address = |name: &String| {
            let buffer = work.buffers.get(name).copied();
            let buffer = buffer.ok_or_else(|| Fault::Refused(format!("the plan names no buffer `{name}`")))?;
            Ok(self.place(buffer)?.address)
        };
        let value = |arg: &Arg| match arg {
            Arg::Tensor(name) | Arg::Workspace(name) => Ok(Argument::of(address(name)?)),
            // From the front: little-endian machines only.
            Arg::Scalar(scalar) => Ok(Argument::of(match scalar.value {
                ScalarValue::I32(value) => u64::from(value.cast_unsigned()),
                ScalarValue::F32(value) => u64::from(value.to_bits()),
            })),
            Arg::TensorMap(map) => tensor_map(map, address(&map.tensor)?),
        };
        launch.args.iter().map(value).collect()
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault> {
        // SAFETY: the driver parses the image and refuses what is no CUBIN.
        let module = unsafe { result::module::load_data(artifact.cubin.as_ptr().cast()) }
            .map_err(|error| Fault::Refused(format!("the driver refuses the CUBIN: {}", describe(&error))))?;
        let handle = self.handle();
        self.modules.insert(handle, Loaded { module, functions: HashMap::new() });
        Ok(Module(handle))
    }

    fn unload(&mut self, module: Module) -> Result<(), Fault> {
        match self.modules.remove(&module.0) {
            // SAFETY: it was just taken out of the table, and nothing of it is running: every call waits for its work.
            Some(loaded) => unsafe { result::module::unload(loaded.module) }.map_err(|error| fault(&error)),
            None => Ok(()),
        }
    }

    /// What is freed is not overwritten: nobody gets at it but by this, and this overwrites what it gives.
    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        let all = bytes + 2 * GUARD_BYTES;
        // SAFETY: the memory is given out as a handle and only reached through this device.
        let allocated = unsafe { result::malloc_sync(all) }
            .map_err(|error| Fault::Refused(format!("{bytes} bytes of device memory: {}", describe(&error))))?;
        let handle = self.handle();
        self.buffers.insert(handle, Place { allocated, address: allocated + GUARD_BYTES as u64, bytes });
        self.set(allocated, all, GUARD)?;
        Ok(Buffer(handle))
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.settle()?;
        match self.buffers.remove(&buffer.0) {
            // SAFETY: it came from `alloc`, was just taken out of the table, and nothing is running.
            Some(place) => unsafe { result::free_sync(place.allocated) }.map_err(|error| fault(&error)),
            None => Ok(()),
        }
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        let Place { address, bytes: size, .. } = self.place(buffer)?;
        if bytes.len() != size {
            return Err(Fault::Broken(format!("{} bytes written to a buffer of {size}", bytes.len())));
        }
        self.pending = true;
        // SAFETY: the buffer has exactly these many bytes. They are pageable, so the driver has taken them when it returns.
        unsafe { result::memcpy_htod_async(address, bytes, self.stream) }.map_err(|error| fault(&error))
    }

    fn copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        if from.bytes != to.bytes {
            return Err(Fault::Broken(format!("{} bytes copied to a buffer of {}", from.bytes, to.bytes)));
        }
        self.pending = true;
        // SAFETY: both buffers have exactly these many bytes, and none is freed before the stream was waited for.
        unsafe { result::memcpy_dtod_async(to.address, from.address, from.bytes, self.stream) }
            .map_err(|error| fault(&error))
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        let place = self.place(buffer)?;
        if place.bytes == 0 { Ok(()) } else { self.set(place.address, place.bytes, byte) }
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        let place = self.place(buffer)?;
        let mut bytes = Vec::with_capacity(place.bytes);
        self.look(place.address, place.bytes, |_, window| {
            bytes.extend_from_slice(window);
            true
        })?;
        Ok(bytes)
    }

    fn holds(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<bool, Fault> {
        let place = self.place(buffer)?;
        if bytes.len() != place.bytes {
            return Ok(false);
        }
        self.look(place.address, place.bytes, |offset, window| same(window, &bytes[offset..offset + window.len()]))
    }

    fn was_intact(&mut self, buffer: Buffer) -> Result<bool, Fault> {
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

    /// Lines that were loaded to stay in L2 become ordinary ones, and none may be from now on.
    fn reset_caches(&mut self) -> Result<(), Fault> {
        self.settle()?;
        let limit = sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
        // SAFETY: the context is current on this thread.
        let reset = unsafe { sys::cuCtxSetLimit(limit, 0).result().and(sys::cuCtxResetPersistingL2Cache().result()) };
        match reset {
            // A device that cannot keep lines, or is not allowed to, has none to reset.
            Err(DriverError(
                sys::cudaError_enum::CUDA_ERROR_UNSUPPORTED_LIMIT | sys::cudaError_enum::CUDA_ERROR_NOT_SUPPORTED,
            )) => Ok(()),
            reset => reset.map_err(|error| fault(&error)),
        }
    }

    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        self.enqueue(work)?;
        self.synchronize()
    }

    fn clock(&mut self) -> Clock<'_> {
        Clock::Replay(self)
    }
}

impl Replay for CudaDevice {
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault> {
        self.settle()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is idle; capture is ended below whatever happens in between.
        unsafe { result::stream::begin_capture(self.stream, mode) }.map_err(|error| fault(&error))?;
        let enqueued = works.iter().cycle().take(executions as usize).try_for_each(|work| self.enqueue(work));
        // SAFETY: capture was begun on this stream.
        let graph = unsafe { result::stream::end_capture(self.stream) };
        enqueued?;
        let graph = graph.map_err(|error| fault(&error))?;
        // SAFETY: the graph came from the capture; it may go once it is instantiated.
        let replay = unsafe {
            let replay = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            replay.map_err(|error| fault(&error))?
        };
        let handle = self.handle();
        self.captures.insert(handle, replay);
        // SAFETY: graph and stream are alive. Uploading now keeps it out of the first sample.
        unsafe { result::graph::upload(replay, self.stream) }.map_err(|error| fault(&error))?;
        self.synchronize()?;
        Ok(Capture(handle))
    }

    fn replay(&mut self, capture: Capture) -> Result<f64, Fault> {
        let replay = *self.captures.get(&capture.0).ok_or_else(|| Fault::Broken("no such capture".to_owned()))?;
        self.settle()?;
        // SAFETY: graph, stream and events are alive, and the events are recorded before they are compared.
        let elapsed_ms = unsafe {
            result::event::record(self.before, self.stream)
                .and_then(|()| result::graph::launch(replay, self.stream))
                .and_then(|()| result::event::record(self.after, self.stream))
                .and_then(|()| result::event::synchronize(self.after))
                .and_then(|()| result::event::elapsed(self.before, self.after))
        };
        elapsed_ms.map(|ms| f64::from(ms) * 1e6).map_err(|error| fault(&error))
    }

    fn release(&mut self, capture: Capture) -> Result<(), Fault> {
        match self.captures.remove(&capture.0) {
            // SAFETY: it was just taken out of the table, and nothing of it is running: every replay is waited for.
            Some(replay) => unsafe { result::graph::exec_destroy(replay) }.map_err(|error| fault(&error)),
            None => Ok(()),
        }
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // SAFETY: handles are released once; errors at the end of the process change nothing.
        unsafe {
            for replay in self.captures.values() {
                let _ = result::graph::exec_destroy(*replay);
            }
            for loaded in self.modules.values() {
                let _ = result::module::unload(loaded.module);
            }
            for place in self.buffers.values() {
                let _ = result::free_sync(place.allocated);
            }
            let _ = result::free_host(self.window.0.cast());
            let _ = result::event::destroy(self.before);
            let _ = result::event::destroy(self.after);
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

/// Compares, on as many cores as it is worth.
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() <= COMPARED_BYTES {
        return a == b;
    }
    a.par_chunks(COMPARED_BYTES).zip(b.par_chunks(COMPARED_BYTES)).all(|(a, b)| a == b)
}

/// Returns what a launch asks for beside grid, block and shared memory.
fn attributes(launch: &Launch) -> Vec<sys::CUlaunchAttribute> {
    let mut all = Vec::new();
    if let Some([x, y, z]) = launch.cluster {
        let mut attribute = empty_attribute(sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
        attribute.value.clusterDim.x = x;
        attribute.value.clusterDim.y = y;
        attribute.value.clusterDim.z = z;
        all.push(attribute);
    }
    if launch.programmatic {
        let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        let mut attribute = empty_attribute(id);
        attribute.value.programmaticStreamSerializationAllowed = 1;
        all.push(attribute);
    }
    all
}

fn empty_attribute(id: sys::CUlaunchAttributeID) -> sys::CUlaunchAttribute {
    // SAFETY: an all-zero attribute is valid; the caller sets the member of the union that `id` selects.
    let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
    attribute.id = id;
    attribute
}

/// Describes a tensor at `address` for the copy engine.
fn tensor_map(map: &TensorMap, address: sys::CUdeviceptr) -> Result<Argument, Fault> {
    use sys::{CUtensorMapDataType as Type, CUtensorMapSwizzle as Swizzle};
    let dtype = match map.dtype {
        Dtype::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    };
    let swizzle = match map.swizzle_bytes {
        32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        _ => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    let rank = map.sizes.len();
    if map.stride_bytes.len() + 1 != rank || map.box_sizes.len() != rank {
        return Err(Fault::Refused(format!("tensor map `{}` has lists of different lengths", map.name)));
    }
    let dense = vec![1_u32; rank];
    let mut encoded = Argument([0; 128]);
    // SAFETY: the driver writes the 128 bytes of a map, aligned to 64, and reads as many numbers of each list as the rank says,
    // strides one fewer.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            ptr::from_mut(&mut encoded).cast(),
            dtype,
            rank as u32,
            address as *mut c_void,
            map.sizes.as_ptr().cast(),
            map.stride_bytes.as_ptr().cast(),
            map.box_sizes.as_ptr(),
            dense.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            // Whole sectors of two: what is fetched is read to its end by a neighbouring box or block.
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    status.result().map_err(|error| {
        Fault::Refused(format!("the driver refuses the tensor map `{}`: {}", map.name, describe(&error)))
    })?;
    Ok(encoded)
}

fn describe_device(device: sys::CUdevice, number: u32) -> Result<DeviceInfo, DriverError> {
    // SAFETY: the device handle is valid.
    let get = |attribute| unsafe { result::device::get_attribute(device, attribute) };
    let unsigned = |attribute| get(attribute).map(i32::unsigned_abs);
    let sm = unsigned(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
        + unsigned(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let sms = unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let peaks = Peaks::derived(
        sm,
        sms,
        f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?),
        f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?),
        f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?),
    );
    Ok(DeviceInfo {
        id: format!("cuda:{number}"),
        name: result::device::get_name(device)?,
        sm,
        // Only the architecture-specific target has Hopper's wgmma and setmaxnreg.
        arch: if sm >= 90 { format!("sm_{sm}a") } else { format!("sm_{sm}") },
        sms,
        smem_limit_bytes: u64::from(unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?),
        max_threads: unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        l2_bytes: u64::from(unsigned(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        // SAFETY: the device handle is valid.
        memory_bytes: unsafe { result::device::total_mem(device)? } as u64,
        driver: driver_version(),
        uuid: result::device::get_uuid(device).ok().map(|uuid| uuid_text(&uuid)),
        time_source: TimeSource::Measured,
        replays: true,
        peaks,
    })
}

/// Writes a UUID as NVML does, such as `GPU-1b2c…`.
fn uuid_text(uuid: &sys::CUuuid) -> String {
    let hex: String = uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns the CUDA version of the driver, such as `13.0`.
fn driver_version() -> Option<String> {
    let mut version = 0;
    // SAFETY: the pointer is writable.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().ok()?;
    Some(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// Returns the driver's name and sentence for an error.
fn describe(error: &DriverError) -> String {
    let text = |text: Result<&std::ffi::CStr, DriverError>| text.map(|t| t.to_string_lossy().into_owned()).ok();
    match (text(error.error_name()), text(error.error_string())) {
        (Some(name), Some(sentence)) => format!("{name}, {sentence}"),
        _ => format!("{:?}", error.0),
    }
}

/// Sorts an error of running work: after these the context is lost.
fn fault(error: &DriverError) -> Fault {
    Fault::Crashed(describe(error))
}

/// Sorts an error of the launch call itself: a bad configuration leaves the context alive.
fn launch_fault(launch: &Launch, error: &DriverError) -> Fault {
    use sys::cudaError_enum as Code;
    match error.0 {
        Code::CUDA_ERROR_INVALID_VALUE
        | Code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
        | Code::CUDA_ERROR_INVALID_CLUSTER_SIZE
        | Code::CUDA_ERROR_INVALID_IMAGE
        | Code::CUDA_ERROR_NO_BINARY_FOR_GPU => {
            Fault::Refused(format!("the launch of `{}` is refused: {}", launch.kernel, describe(error)))
        }
        _ => fault(error),
    }
}
