//! Virtual GPUs: the crate of that name executes PTX on the CPU with exact results. Times are *modelled*.
//!
//! A plan is executed in one of two ways. A launch runs every block and looks for errors of the kernels: accesses out
//! of bounds, reads of uninitialised memory, and races. A model run counts the plan's work, perhaps in a sample of the
//! blocks only, and turns the counts into a time.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;

use virtual_gpu::counters::{AbsentLane, Counters, Traffic};
use virtual_gpu::fault::{FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::model::{Limiter, Shape, model, model_supposing};
use virtual_gpu::program::{self, Param};
use virtual_gpu::ptx::{self, SourceLine};
use virtual_gpu::timing::Supposition;
use virtual_gpu::{Element, Fill, Loaded, MemoryError, Options, Swizzle, VirtualGpu};

use super::{Buffer, Device, Fault, Model, Module, Work};
use crate::domain::code::artifact::{Artifact, KernelResources};
use crate::domain::code::profile::{Cause, LaunchProfile, Profile, Units, Without};
use crate::domain::device::{DeviceInfo, Peaks, TimingMode};
use crate::domain::dtype::Dtype;
use crate::domain::family::plan::{Arg, Launch, ScalarValue, TensorMap};
use crate::error::{Result, error};
use crate::runner::nvrtc::SOURCE_NAME;
use crate::runner::outputs::POISON;

/// The fewest blocks in a sample. The executor samples symmetrically. So work that grows along the grid, as under a
/// causal mask, is sampled at its mean for any number of blocks. This number also covers heads and splits of every
/// kind.
const MIN_SAMPLED_BLOCKS: u32 = 18;

/// Instructions per FLOP of the case after which a warp counts as endless. A warp that did all of the case's work
/// alone, one lane at a time, would take about three: load, load, multiply-add.
const INSTRUCTIONS_PER_FLOP: f64 = 4.0;

/// The lower limit of that count, for cases whose work is mostly not FLOP. It takes about a second of a CPU core.
const MIN_INSTRUCTIONS: u64 = 20_000_000;

/// Instructions of a warp after which a launch of the blocks at the edges ends. A block that does the work of many, such as one
/// of a persistent kernel, is not worth more.
const MAX_EDGE_INSTRUCTIONS: u64 = 2_000_000;

/// A virtual GPU; see the module.
pub struct VirtualDevice {
    info: DeviceInfo,
    gpu: VirtualGpu,
    modules: HashMap<usize, (Loaded, Vec<KernelResources>)>,
    /// The module parsed last; `None` before the first.
    last: Option<program::Module>,
    /// Address and size in bytes of every buffer.
    buffers: HashMap<usize, (u64, u64)>,
    /// The last handle given out.
    next: usize,
    /// Launches so far. Each runs its blocks and warps in another order, so that an output that depends on the order is
    /// not repeatable. Sessions with the same seed make the same launches.
    launches: u64,
    /// See [`Device::noticed`].
    noticed: Option<String>,
}

impl VirtualDevice {
    /// Opens a virtual GPU by name.
    pub fn open(name: &str) -> Result<Self> {
        let gpu = Gpu::named(name).ok_or_else(|| error!("there is no virtual GPU `{name}`"))?;
        let info = describe(name, &gpu);
        Ok(Self {
            info,
            gpu: VirtualGpu::new(gpu),
            modules: HashMap::new(),
            last: None,
            buffers: HashMap::new(),
            next: 0,
            launches: 0,
            noticed: None,
        })
    }

    fn place(&self, buffer: Buffer) -> Result<(u64, u64), Fault> {
        self.buffers.get(&buffer.0).copied().ok_or_else(|| Fault::Broken("no such buffer".to_owned()))
    }

    /// Parses a PTX text, unless it is the last one parsed: a variant is loaded again for every phase of its
    /// evaluation.
    fn parsed(&mut self, text: &str) -> Result<program::Module, Fault> {
        if let Some(last) = self.last.as_ref().filter(|last| last.text == text.trim_end_matches('\0')) {
            return Ok(last.clone());
        }
        let module = ptx::load("the variant's PTX", text)
            .map_err(|error| Fault::Refused(format!("the virtual GPU refuses the PTX: {error}")))?;
        self.last = Some(module.clone());
        Ok(module)
    }

    /// Executes one launch of a plan and returns its counts.
    fn execute(&self, launch: &Launch, work: &Work<'_>, options: &Options) -> Result<Counters, Fault> {
        let (module, _) = self.loaded(work.module)?;
        let kernel = module.module().kernel(&launch.kernel);
        let kernel = kernel.ok_or_else(|| Fault::Refused(format!("there is no kernel `{}`", launch.kernel)))?;
        let args = self.arguments(launch, &kernel.params, work)?;
        let shape = virtual_gpu::Launch {
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster.unwrap_or([1; 3]),
            dynamic_shared_bytes: launch.shared_bytes,
            args: &args,
        };
        self.gpu.launch(module, &launch.kernel, &shape, options).map_err(|error| sort(&launch.kernel, error))
    }

    /// Encodes each argument in as many bytes as its parameter has.
    fn arguments(&self, launch: &Launch, params: &[Param], work: &Work<'_>) -> Result<Vec<Vec<u8>>, Fault> {
        if launch.args.len() != params.len() {
            let (given, wanted) = (launch.args.len(), params.len());
            return Err(Fault::Refused(format!("`{}` takes {wanted} arguments, not {given}", launch.kernel)));
        }
        let address = |name: &String| {
            let buffer = work.buffers.get(name).copied();
            let buffer = buffer.ok_or_else(|| Fault::Refused(format!("the plan has no buffer `{name}`")))?;
            Ok(self.place(buffer)?.0)
        };
        let value = |arg: &Arg| match arg {
            Arg::Tensor(name) | Arg::Workspace(name) => Ok(address(name)?.to_le_bytes().to_vec()),
            Arg::Scalar(scalar) => Ok(match scalar.value {
                ScalarValue::I32(value) => i64::from(value).to_le_bytes().to_vec(),
                ScalarValue::F32(value) => u64::from(value.to_bits()).to_le_bytes().to_vec(),
                ScalarValue::I64(value) => value.to_le_bytes().to_vec(),
                ScalarValue::F64(value) => value.to_le_bytes().to_vec(),
            }),
            Arg::TensorMap(map) => tensor_map(map, address(&map.tensor)?),
        };
        let bytes = |(arg, param): (&Arg, &Param)| {
            let (mut bytes, size) = (value(arg)?, param.bytes as usize);
            if bytes.len() < size || (matches!(arg, Arg::TensorMap(_)) && bytes.len() != size) {
                let (name, kernel) = (&param.name, &launch.kernel);
                return Err(Fault::Refused(format!(
                    "parameter `{name}` of `{kernel}` has {size} bytes, not {}",
                    bytes.len()
                )));
            }
            bytes.truncate(size);
            Ok(bytes)
        };
        launch.args.iter().zip(params).map(bytes).collect()
    }

    /// Counts the work of one launch and models its time.
    fn profile(&self, launch: &Launch, work: &Work<'_>, options: &Options) -> Result<LaunchProfile, Fault> {
        let counters = self.execute(launch, work, options)?;
        if options.sample_blocks.is_some() && counters.executed_blocks < counters.blocks && !has_atomics(&counters) {
            // Where a grid ends, most errors of large cases are. These blocks are not counted: the sample is symmetric.
            let edges =
                Options { counters: false, suppose: false, sample_blocks: None, edges: true, ..options.clone() };
            self.execute(launch, work, &edges)?;
        }
        let (module, resources) = self.loaded(work.module)?;
        let static_shared = module.module().kernel(&launch.kernel).map_or(0, |kernel| kernel.static_shared_bytes);
        let used = resources.iter().find(|kernel| kernel.name == launch.kernel).cloned().unwrap_or_default();
        let shape = Shape {
            blocks: launch.ctas(),
            threads: launch.block.iter().product(),
            registers: used.registers,
            shared_bytes: static_shared + launch.shared_bytes,
            cluster_blocks: launch.cluster.map_or(1, |cluster| cluster.iter().product()),
            spill_bytes: used.spill_store_bytes + used.spill_load_bytes,
        };
        let modelled = model(self.gpu.gpu(), &shape, &counters);
        let loaded = counters.global_load.bytes + counters.bulk_load_bytes;
        Ok(LaunchProfile {
            kernel: launch.kernel.clone(),
            modelled_ns: modelled.time_ns,
            limiter: name(modelled.limiter),
            parts_ns: modelled.parts_ns.iter().map(|(part, ns)| (name(*part), *ns)).collect(),
            without: if options.suppose { without(self.gpu.gpu(), &shape, &counters) } else { Vec::new() },
            blocks: counters.blocks,
            executed_blocks: counters.executed_blocks,
            blocks_per_sm: modelled.blocks_per_multiprocessor,
            threads_per_block: shape.threads,
            busiest_warp: counters.busiest_warp(),
            warp_instructions: counters.instructions(),
            issue_slots: counters.issue_slots,
            index_slots: counters.index_slots,
            global_load_requests: counters.global_load.requests,
            active_lanes: counters.active_lanes(),
            branches: counters.branches,
            divergent_branches: counters.divergent_branches,
            flop: counters.flop.total(),
            flop_tensor: counters.flop.tensor(),
            atomics: counters.atomics.requests,
            rows_compared: None,
            global_loads: units(&[&counters.global_load]),
            sectors_l2: counters.l2_sectors,
            global_load_bytes: (loaded as f64 * counters.scale()) as u64,
            footprint_bytes: counters.footprint_bytes,
            global_stores: units(&[&counters.global_store]),
            shared: units(&[&counters.shared_load, &counters.shared_store]),
            local: units(&[&counters.local]),
        })
    }

    fn loaded(&self, module: Module) -> Result<(&Loaded, &[KernelResources]), Fault> {
        let loaded = self.modules.get(&module.0).ok_or_else(|| Fault::Broken("no such module".to_owned()))?;
        Ok((&loaded.0, &loaded.1))
    }
}

impl Device for VirtualDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault> {
        let module = self.parsed(&artifact.ptx)?;
        let loaded = self.gpu.load(module).map_err(|error| Fault::Refused(error.to_string()))?;
        self.next += 1;
        self.noticed = None;
        self.modules.insert(self.next, (loaded, artifact.kernels.clone()));
        Ok(Module(self.next))
    }

    fn unload(&mut self, module: Module) -> Result<(), Fault> {
        match self.modules.remove(&module.0) {
            Some((loaded, _)) => self.gpu.unload(&loaded).map_err(broken),
            None => Ok(()),
        }
    }

    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        self.alloc_at(bytes, 0)
    }

    fn alloc_at(&mut self, bytes: usize, offset: usize) -> Result<Buffer, Fault> {
        let size = bytes as u64;
        let held: u64 = self.buffers.values().map(|(_, size)| size).sum();
        if held.saturating_add(size) > self.info.memory_bytes {
            let total = self.info.memory_bytes;
            return Err(Fault::OutOfMemory(format!(
                "{bytes} bytes of device memory in addition to {held}: it has {total}"
            )));
        }
        // The virtual GPU has enough memory, but this machine does not.
        let broken = |error: MemoryError| Fault::Broken(format!("{bytes} bytes of device memory: {error}"));
        let address = self.gpu.alloc_at(size.max(1), offset as u64).map_err(broken)?;
        self.next += 1;
        self.buffers.insert(self.next, (address, size));
        Ok(Buffer(self.next))
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        match self.buffers.remove(&buffer.0) {
            Some((address, _)) => self.gpu.free(address).map_err(broken),
            None => Ok(()),
        }
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        let (address, size) = self.place(buffer)?;
        if bytes.len() as u64 != size {
            return Err(Fault::Broken(format!("{} bytes written to a buffer of {size}", bytes.len())));
        }
        self.gpu.write(address, bytes).map_err(broken)
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        let (address, size) = self.place(buffer)?;
        self.gpu.fill(address, size, byte).map_err(broken)
    }

    fn poison(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.fill(buffer, byte)?;
        let (address, size) = self.place(buffer)?;
        self.gpu.mark_uninitialised(address, size).map_err(broken)
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        let (address, size) = self.place(buffer)?;
        self.gpu.read(address, size).map_err(broken)
    }

    fn read_parts(&mut self, buffer: Buffer, parts: &[Range<usize>]) -> Result<Vec<u8>, Fault> {
        let address = self.place(buffer)?.0;
        let read = |part: &Range<usize>| self.gpu.read(address + part.start as u64, part.len() as u64).map_err(broken);
        Ok(parts.iter().map(read).collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        work.plan.launches.iter().try_for_each(|launch| {
            self.launches += 1;
            let looking = Options {
                counters: false,
                order: Some(self.launches),
                overlaps: launch.programmatic,
                instruction_limit: limit(work),
                ..Options::default()
            };
            let counters = self.execute(launch, work, &looking)?;
            // A worker sends its replies on standard output, so kernels print to standard error.
            for printed in counters.printed.values() {
                let _ = std::io::stderr().write_all(printed.as_bytes());
            }
            if let Some(AbsentLane { line, lane, source }) = counters.absent_lane {
                let own = self.loaded(work.module)?.0.module().source_line(line);
                let place = own.map_or_else(|| format!("the variant's PTX:{line}"), |own| own.to_string());
                self.noticed = Some(format!(
                    "in kernel {}, {place}, a shuffle of lane {lane} reads lane {source}, which takes no part \
                     in it: its value is undefined",
                    launch.kernel
                ));
            }
            Ok(())
        })
    }

    fn noticed(&self) -> Option<String> {
        self.noticed.clone()
    }

    fn as_model(&mut self) -> Option<&mut dyn Model> {
        Some(self)
    }
}

impl Model for VirtualDevice {
    fn model(&mut self, work: &Work<'_>, share: f64, explain: bool) -> Result<Profile, Fault> {
        let profile = |launch| self.profile(launch, work, &counting(launch, work, share, explain));
        let launches = work.plan.launches.iter().map(profile);
        Ok(Profile { launches: launches.collect::<Result<_, Fault>>()?, checked_on: None })
    }

    fn alloc_hollow(&mut self, bytes: usize, window: usize) -> Result<Buffer, Fault> {
        let address = self.gpu.alloc_hollow(bytes as u64, window as u64).map_err(broken)?;
        self.next += 1;
        self.buffers.insert(self.next, (address, bytes as u64));
        Ok(Buffer(self.next))
    }

    fn write_part(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<(), Fault> {
        self.gpu.write(self.place(buffer)?.0 + at as u64, bytes).map_err(broken)
    }

    fn poison_part(&mut self, buffer: Buffer, part: Range<usize>) -> Result<(), Fault> {
        let (address, bytes) = (self.place(buffer)?.0 + part.start as u64, part.len() as u64);
        self.gpu.fill(address, bytes, POISON).map_err(broken)?;
        self.gpu.mark_uninitialised(address, bytes).map_err(broken)
    }

    fn launch_edges(&mut self, work: &Work<'_>, last: Option<u32>) -> Result<(), Fault> {
        let options = Options {
            counters: false,
            races: false,
            edges: last.is_none(),
            last_blocks: last,
            instruction_limit: MAX_EDGE_INSTRUCTIONS,
            ..Options::default()
        };
        work.plan.launches.iter().try_for_each(|launch| self.execute(launch, work, &options).map(drop))
    }
}

/// Returns the options for counting. An earlier launch has already looked for errors, so these options skip that.
fn counting(launch: &Launch, work: &Work<'_>, share: f64, suppose: bool) -> Options {
    let wanted = (launch.ctas() as f64 * share).ceil() as u32;
    let sample_blocks = (share < 1.0).then(|| wanted.max(MIN_SAMPLED_BLOCKS));
    let instruction_limit = limit(work);
    Options { suppose, races: false, uninitialised: false, sample_blocks, instruction_limit, ..Options::default() }
}

/// Returns whether blocks may share work by counters, so that a few of them would do all of it.
fn has_atomics(counters: &Counters) -> bool {
    counters.atomics.requests > 0
}

/// Models a launch without each cause of lost time.
fn without(gpu: &Gpu, shape: &Shape, counters: &Counters) -> Vec<Without> {
    let without = |supposition| {
        let modelled = model_supposing(gpu, shape, counters, supposition)?;
        Some(Without { cause: cause_of(supposition), ns: modelled.time_ns })
    };
    Supposition::ALL.into_iter().filter_map(without).collect()
}

/// Returns the cause that a supposition takes away.
fn cause_of(supposition: Supposition) -> Cause {
    match supposition {
        Supposition::NoBankConflicts => Cause::BankConflicts,
        Supposition::NoScatteredAccess => Cause::ScatteredAccess,
        Supposition::NoCacheMisses => Cause::CacheMisses,
        Supposition::NoGlobalLoads => Cause::GlobalLoads,
        Supposition::NoSharedAccess => Cause::SharedAccess,
        Supposition::NoProducts => Cause::Products,
        Supposition::NoExponentials => Cause::Exponentials,
        Supposition::NoBarriers => Cause::Barriers,
        Supposition::NoSpills => Cause::Spills,
        Supposition::NoIdleWarps => Cause::IdleWarps,
        Supposition::NoUnevenBlocks => Cause::UnevenBlocks,
        Supposition::NoPartialWave => Cause::PartialWave,
        Supposition::NoLaunch => Cause::Launch,
    }
}

fn limit(work: &Work<'_>) -> u64 {
    let flop = work.problem.map_or(0.0, |problem| problem.op.executed_flop(problem.dims));
    ((flop * INSTRUCTIONS_PER_FLOP) as u64).max(MIN_INSTRUCTIONS)
}

/// Classifies an error of a launch. None of them harms the device. A session still replaces the worker after a crash,
/// because it treats every device alike.
fn sort(kernel: &str, error: LaunchError) -> Fault {
    let is_own = |line: &SourceLine| SOURCE_NAME.to_str() == Ok(&line.file);
    match error {
        LaunchError::Refused(reason) => Fault::Refused(format!("cannot launch `{kernel}`: {reason}")),
        LaunchError::NotModelled(what) => Fault::NotModelled(what),
        LaunchError::Fault(fault) => match fault.kind {
            FaultKind::Runaway { .. } => Fault::TooLong(fault.to_string()),
            FaultKind::Deadlock { .. } => Fault::TimedOut(fault.to_string()),
            _ => Fault::Crashed { message: fault.to_string(), line: fault.source.filter(is_own).map(|line| line.line) },
        },
    }
}

/// Describes a tensor at `address` for the copy engine.
fn tensor_map(map: &TensorMap, address: u64) -> Result<Vec<u8>, Fault> {
    let swizzle = match map.swizzle_bytes {
        32 => Swizzle::Bytes32,
        64 => Swizzle::Bytes64,
        128 => Swizzle::Bytes128,
        0 => Swizzle::None,
        other => {
            return Err(Fault::Refused(format!("tensor map `{}`: swizzle {other} is not 0, 32, 64 or 128", map.name)));
        }
    };
    let described = virtual_gpu::TensorMap {
        element: element(map.dtype),
        address,
        dims: map.sizes.clone(),
        strides: map.stride_bytes.clone(),
        box_dims: map.box_sizes.clone(),
        element_strides: Vec::new(),
        swizzle,
        fill: Fill::Zeros,
    };
    let refused = |reason| Fault::Refused(format!("the virtual GPU refuses the tensor map `{}`: {reason}", map.name));
    described.encode().map(Vec::from).map_err(refused)
}

/// Returns what the driver takes for a tensor of this type.
fn element(dtype: Dtype) -> Element {
    match dtype {
        Dtype::F16 => Element::F16,
        Dtype::Bf16 => Element::Bf16,
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        Dtype::I32 => Element::S32,
        Dtype::U32 => Element::U32,
        Dtype::I64 => Element::S64,
        Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 | Dtype::Bool => Element::U8,
    }
}

fn broken(error: MemoryError) -> Fault {
    Fault::Broken(error.to_string())
}

fn name(limiter: Limiter) -> String {
    format!("{limiter:?}").to_lowercase()
}

fn units(traffic: &[&Traffic]) -> Units {
    let sum = |of: fn(&Traffic) -> u64| traffic.iter().map(|traffic| of(traffic)).sum();
    Units { moved: sum(|traffic| traffic.units), ideal: sum(|traffic| traffic.ideal_units) }
}

fn describe(name: &str, gpu: &Gpu) -> DeviceInfo {
    let (major, minor) = gpu.compute_capability;
    DeviceInfo {
        id: format!("virtual:{name}"),
        name: format!("virtual {}", gpu.name),
        sm: major * 10 + minor,
        arch: gpu.arch.to_owned(),
        sms: gpu.multiprocessors,
        smem_limit_bytes: u64::from(gpu.max_shared_bytes_per_block),
        max_threads: gpu.max_threads_per_block,
        l2_bytes: gpu.l2_bytes,
        memory_bytes: gpu.memory_bytes,
        driver: None,
        uuid: None,
        timing: TimingMode::Modelled,
        peaks: peaks(gpu),
    }
}

/// Returns the peaks of the real GPU, from the rates in its model.
fn peaks(gpu: &Gpu) -> Peaks {
    let rates = &gpu.rates;
    let per_clock = gpu.clock_hz * f64::from(gpu.multiprocessors);
    let f32_flop = Peaks::f32_peak(2.0 * f64::from(rates.fma_lanes), rates.tensor16_flop);
    Peaks {
        f16_flops: per_clock * rates.tensor16_flop,
        f32_flops: per_clock * f32_flop,
        memory_bytes_per_s: rates.memory_bytes_per_s,
        l2_bytes_per_s: rates.l2_bytes_per_s,
        // The model adds both to every launch.
        launch_ns: (rates.launch_s + rates.start_s) * 1e9,
        source: format!("the published rates of the {} at {:.0} MHz, not measured", gpu.name, gpu.clock_hz / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::compute::Compute;
    use crate::domain::op::Dtype;

    /// No kernel of the model is faster than one that does nothing.
    #[test]
    fn the_floor_of_a_launch_is_what_the_model_gives_an_empty_kernel() {
        for name in Gpu::NAMES {
            let gpu = Gpu::named(name).unwrap();
            let shape = Shape { blocks: 1, threads: 32, ..Shape::default() };
            let empty = model(&gpu, &shape, &Counters { blocks: 1, executed_blocks: 1, ..Counters::default() });
            assert_eq!(peaks(&gpu).launch_ns, empty.time_ns, "{name}");
        }
    }

    #[test]
    fn the_peak_of_tf32_is_the_rate_of_the_tensor_cores() {
        for name in Gpu::NAMES {
            let gpu = Gpu::named(name).unwrap();
            let tf32 = gpu.clock_hz * f64::from(gpu.multiprocessors) * gpu.rates.tensor_tf32_flop;
            let peaks = peaks(&gpu);
            assert_eq!(peaks.flops(Dtype::F32, Compute::Tf32), tf32, "{name}");
            assert!(peaks.flops(Dtype::F32, Compute::Dtype) < tf32, "{name}");
            // Nothing else depends on the mode.
            assert_eq!(peaks.flops(Dtype::F16, Compute::Tf32), peaks.f16_flops, "{name}");
        }
    }
}
