//! CUDA devices, through cudarc's driver bindings, loaded at run time.
//!
//! This is the only device with `unsafe` code. Everything runs on one stream. A call that executes or reads waits for
//! its own work, so the call that caused an error reports it. Fills and writes cannot fail asynchronously, so the next
//! call that needs them waits for them.
#![allow(unsafe_code)]

mod argument;
mod describe;
mod graph_state;
mod launch;
mod memory;
mod replay;
mod scans;
mod tensor_map;

use std::collections::HashMap;
use std::ops::Range;
use std::panic::UnwindSafe;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::{Buffer, Device, Digest, Fault, Module, Replay, Work};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::op::Dtype;
use crate::error::{Error, Result, error};
use describe::{describe, describe_device};
use graph_state::GraphState;
use launch::Loaded;
use memory::{Place, Window};
use replay::{Captured, MAX_IN_FLIGHT};
use scans::Scans;

/// A CUDA device with its primary context, held by this process.
pub struct CudaDevice {
    info: DeviceInfo,
    device: sys::CUdevice,
    stream: sys::CUstream,
    before: sys::CUevent,
    after: sys::CUevent,
    modules: HashMap<usize, Loaded>,
    captures: HashMap<usize, Captured>,
    /// None until the first timing.
    graphs: Option<GraphState>,
    /// None until the first scan.
    scans: Option<Scans>,
    /// Events between replays in a row.
    marks: Vec<sys::CUevent>,
    buffers: HashMap<usize, Place>,
    window: Window,
    /// Whether the stream has fills or writes that no call has waited for.
    pending: bool,
    /// The last handle given out.
    next: usize,
}

impl CudaDevice {
    /// Describes device `number` without using it. The error says in one sentence why the device is not available.
    pub fn describe(number: u32) -> Result<DeviceInfo> {
        with_driver(|| find(number).map(|(_, info)| info))
    }

    /// Opens device `number`. The error says in one sentence why the device is not available.
    pub fn open(number: u32) -> Result<Self> {
        with_driver(|| Self::open_present(number))
    }

    fn open_present(number: u32) -> Result<Self> {
        let (device, info) = find(number)?;
        let open = || -> Result<Self, DriverError> {
            // SAFETY: the device was just opened. The context stays current on this thread, and no other thread uses
            // it.
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
                graphs: None,
                scans: None,
                marks: (0..=MAX_IN_FLIGHT).map(|_| result::event::create(flags)).collect::<Result<_, _>>()?,
                buffers: HashMap::new(),
                window: Window::new()?,
                pending: false,
                next: 0,
            })
        };
        open().map_err(|error| error!("the device cannot create a context: {}", describe(&error)))
    }

    fn synchronize(&mut self) -> Result<(), Fault> {
        self.pending = false;
        // SAFETY: the stream lives as long as the device.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|error| fault(&error))
    }

    /// Waits for pending fills and writes, to keep them out of the next time measured.
    fn settle(&mut self) -> Result<(), Fault> {
        if self.pending { self.synchronize() } else { Ok(()) }
    }

    fn handle(&mut self) -> usize {
        self.next += 1;
        self.next
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault> {
        // SAFETY: the driver parses the image: a CUBIN, or PTX that ends with a zero. It refuses anything else.
        let module = unsafe { result::module::load_data(artifact.cubin.as_ptr().cast()) }
            .map_err(|error| Fault::Refused(format!("the driver refuses its machine code: {}", describe(&error))))?;
        let handle = self.handle();
        self.modules.insert(handle, Loaded { module, functions: HashMap::new() });
        Ok(Module(handle))
    }

    fn unload(&mut self, module: Module) -> Result<(), Fault> {
        match self.modules.remove(&module.0) {
            // SAFETY: the module was just removed from the table. None of its kernels is running: every call waits for
            // its work.
            Some(loaded) => unsafe { result::module::unload(loaded.module) }.map_err(|error| fault(&error)),
            None => Ok(()),
        }
    }

    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        self.allocate(bytes, 0)
    }

    fn noticed(&self) -> Option<String> {
        None
    }

    fn alloc_at(&mut self, bytes: usize, offset: usize) -> Result<Buffer, Fault> {
        self.allocate(bytes, offset)
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.give_back(buffer)
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        self.upload(buffer, bytes)
    }

    fn copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        self.copy_within(from, to)
    }

    fn copy_turned(&mut self, from: Buffer, to: Buffer, turn: usize) -> Result<(), Fault> {
        self.copy_turned_within(from, to, turn)
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        let place = self.place(buffer)?;
        if place.bytes == 0 { Ok(()) } else { self.set(place.address, place.bytes, byte) }
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        self.download(buffer)
    }

    fn read_parts(&mut self, buffer: Buffer, parts: &[Range<usize>]) -> Result<Vec<u8>, Fault> {
        self.download_parts(buffer, parts)
    }

    fn digests(&mut self, buffers: &[Buffer]) -> Result<Vec<Digest>, Fault> {
        let regions = buffers.iter().map(|buffer| self.region(*buffer)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.digest(&regions)?.into_iter().map(Digest).collect())
    }

    fn are_finite(&mut self, buffer: Buffer, dtype: Dtype) -> Result<bool, Fault> {
        self.are_all_finite(buffer, dtype)
    }

    fn were_intact(&mut self, buffers: &[Buffer]) -> Result<Vec<bool>, Fault> {
        self.guards_are_intact(buffers)
    }

    /// Turns lines loaded to stay in L2 into ordinary ones, and allows no new ones.
    fn reset_caches(&mut self) -> Result<(), Fault> {
        self.settle()?;
        let limit = sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
        // SAFETY: the context is current on this thread.
        let reset = unsafe { sys::cuCtxSetLimit(limit, 0).result().and(sys::cuCtxResetPersistingL2Cache().result()) };
        match reset {
            // A device that cannot keep lines, or is not allowed to, has nothing to reset.
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

    fn as_replay(&mut self) -> Option<&mut dyn Replay> {
        Some(self)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        self.graphs.iter_mut().for_each(GraphState::free);
        self.scans.iter_mut().for_each(Scans::free);
        // SAFETY: each handle is released once. Errors at the end of the process change nothing.
        unsafe {
            for graph in self.captures.values().flat_map(Captured::graphs) {
                let _ = result::graph::exec_destroy(graph);
            }
            for loaded in self.modules.values() {
                let _ = result::module::unload(loaded.module);
            }
            for place in self.buffers.values() {
                let _ = result::free_sync(place.allocated);
            }
            self.window.free();
            for mark in &self.marks {
                let _ = result::event::destroy(*mark);
            }
            let _ = result::event::destroy(self.before);
            let _ = result::event::destroy(self.after);
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

/// Calls a function that needs the driver. The error says in one sentence why the driver is not available.
fn with_driver<T>(what: impl FnOnce() -> Result<T> + UnwindSafe) -> Result<T> {
    // cudarc panics if the driver library is missing, so check first.
    // SAFETY: this only tries to load the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::new("no CUDA driver is installed (libcuda.so was not found)"));
    }
    // cudarc panics on first use of a symbol that the driver lacks. This boundary turns the panic into an error of the
    // same kind.
    let done = std::panic::catch_unwind(what);
    done.unwrap_or_else(|_| Err(Error::new("the CUDA driver is too old for this version of optloop")))
}

/// Finds a device by number.
fn find(number: u32) -> Result<(sys::CUdevice, DeviceInfo)> {
    let explain = |what: &str, error: DriverError| error!("{what}: {}", describe(&error));
    result::init().map_err(|error| explain("the CUDA driver cannot be initialized", error))?;
    let count = result::device::get_count().map_err(|error| explain("CUDA devices cannot be counted", error))?;
    let ordinal = i32::try_from(number).unwrap_or(i32::MAX);
    if ordinal >= count {
        return Err(error!("there is no CUDA device {number}: the driver sees {count}"));
    }
    let device = result::device::get(ordinal).map_err(|error| explain("the device cannot be opened", error))?;
    let info = describe_device(device, number).map_err(|error| explain("the device cannot be described", error))?;
    Ok((device, info))
}

/// Classifies an error of running work. After such an error, the context is lost.
fn fault(error: &DriverError) -> Fault {
    Fault::Crashed { message: describe(error), line: None }
}
