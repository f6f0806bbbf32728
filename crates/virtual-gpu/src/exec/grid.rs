//! Executes a launch: checks it, chooses the blocks, runs them on CPU threads and collects the result.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::choice::Choice;
use super::cluster::Machine;
use super::dispatch::Level;
use super::run::Run;
use super::schedule;
use super::shuffle::Permutation;
use super::tally::Tally;
use super::{Launch, Loaded, Options};
use crate::counters::Counters;
use crate::demangle::demangled;
use crate::fault::{Fault, LaunchError};
use crate::gpu::Gpu;
use crate::memory::GlobalMemory;
use crate::memory::accesses::LAUNCHES;
use crate::memory::global::Place;
use crate::program::{Kernel, NotModelled, Op, Origin, Space};
use crate::tensor_map::TensorMap;
use crate::timing::{Prepared, Supposition};

/// Maximum blocks of a cluster on an H100 or H200, if the function allows more than the 8 that every GPU with clusters
/// supports (NVIDIA's Hopper tuning guide, "Thread Block Clusters").
const MAX_CLUSTER_BLOCKS: u32 = 16;

/// Maximum blocks along x, and along y and z (CUDA C++ programming guide, technical specifications).
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// Executes a launch.
pub(crate) fn launch(
    gpu: &Gpu,
    memory: &GlobalMemory,
    loaded: &Loaded,
    kernel: &str,
    launch: &Launch<'_>,
    options: &Options,
) -> Result<Counters, LaunchError> {
    let module = loaded.module();
    let kernel = module
        .kernel(kernel)
        .ok_or_else(|| LaunchError::Refused(format!("there is no kernel `{kernel}` in {}", module.file)))?;
    if let Some(NotModelled { line, instruction }) = &kernel.not_modelled {
        let (name, file) = (demangled(&kernel.name), &module.file);
        let source = module.source_line(*line).map_or_else(String::new, |source| format!("{source}, "));
        return Err(LaunchError::NotModelled(format!("`{instruction}` in kernel {name} ({source}{file}:{line})")));
    }
    let mut run = prepare(gpu, memory, loaded, kernel, launch, options).map_err(LaunchError::Refused)?;
    check_cooperative(&run).map_err(LaunchError::Refused)?;
    let clusters = launch.grid.iter().map(|&blocks| u64::from(blocks)).product::<u64>() / u64::from(run.cluster_blocks);
    let chosen = if options.cooperative {
        Choice::new(clusters, None)
    } else if options.edges {
        let along = |axis: usize| u64::from(launch.grid[axis] / launch.cluster[axis]);
        Choice::edges([along(0), along(1), along(2)])
    } else if let Some(blocks) = options.last_blocks {
        Choice::last(clusters, blocks.div_ceil(run.cluster_blocks))
    } else {
        Choice::new(clusters, options.sample_blocks.map(|blocks| (blocks / run.cluster_blocks).max(1)))
    };
    // The blocks at the edges stand for themselves.
    let is_sample = !options.cooperative && !options.edges && options.last_blocks.is_none();
    run.stands_for = if !is_sample { 1 } else { clusters / chosen.count().max(1) };
    if options.counters {
        memory.forget_touched();
    }
    let mut counters = execute(&run, chosen)?;
    counters.blocks = clusters * u64::from(run.cluster_blocks);
    if options.counters {
        counters.footprint_bytes = memory.touched_bytes(counters.scale());
    }
    Ok(counters)
}

fn prepare<'a>(
    gpu: &'a Gpu,
    memory: &'a GlobalMemory,
    loaded: &'a Loaded,
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    options: &'a Options,
) -> Result<Run<'a>, String> {
    let threads = check_shape(gpu, kernel, launch)?;
    let dynamic_offset = if kernel.uses_dynamic_shared() {
        kernel.static_shared_bytes.next_multiple_of(kernel.dynamic_align.max(1))
    } else {
        kernel.static_shared_bytes
    };
    let shared_bytes = u64::from(dynamic_offset) + u64::from(launch.dynamic_shared_bytes);
    if shared_bytes > u64::from(gpu.max_shared_bytes_per_block) {
        let most = gpu.max_shared_bytes_per_block;
        return Err(format!("{shared_bytes} bytes of shared memory; a block of the {} has at most {most}", gpu.name));
    }
    let launches = memory.count_launch();
    let params = pack_arguments(kernel, launch)?;
    let prepared = if options.counters { Prepared::all(kernel, gpu) } else { Vec::new() };
    Ok(Run {
        kernel,
        memory,
        options,
        launch,
        gpu,
        written: kernel.writes_to.as_ref().map(|origins| allocations(memory, origins, &params, loaded.globals())),
        params,
        workspace: loaded.workspace.filter(|_| options.cooperative).unwrap_or(0),
        heap: loaded.heap.as_ref().map(|(_, heap)| &**heap),
        globals: loaded.globals(),
        file: &loaded.module().file,
        text: &loaded.module().text,
        threads,
        warps: threads.div_ceil(32),
        cluster_blocks: launch.cluster.iter().product(),
        stands_for: 1,
        shared_bytes: shared_bytes as u32,
        dynamic_offset,
        number: launches % LAUNCHES + 1,
        launches,
        overlapped: launches.checked_sub(1).filter(|_| options.overlaps).map(|before| before % LAUNCHES + 1),
        global_shift: granule_bytes(kernel, false).trailing_zeros(),
        talks: kernel.talks || launch.cluster != [1; 3],
        flags: Mutex::default(),
        messages: Mutex::default(),
        supposed: if options.suppose && options.counters { supposed(kernel, &prepared) } else { Vec::new() },
        prepared,
    })
}

/// Returns the indices of the allocations to which these origins lead.
fn allocations(memory: &GlobalMemory, origins: &[Origin], params: &[u8], globals: &[u64]) -> Vec<usize> {
    let bytes = |offset: u32, count: usize| params.get(offset as usize..)?.get(..count);
    let address = |origin: &Origin| match *origin {
        Origin::Param(offset) => Some(u64::from_le_bytes(bytes(offset, 8)?.try_into().ok()?)),
        Origin::TensorMap(offset) => Some(TensorMap::decode(bytes(offset, 128)?.try_into().ok()?).ok()?.address),
        Origin::Global(index) => globals.get(index as usize).copied(),
    };
    let index = |address: u64| match memory.find(address) {
        Place::Inside(index) => Some(index),
        Place::Freed | Place::Outside(_) => None,
    };
    origins.iter().filter_map(address).filter_map(index).collect()
}

/// Returns every supposition that changes when instructions can issue, with those that take no time under it.
fn supposed(kernel: &Kernel, prepared: &[Prepared]) -> Vec<(Supposition, Vec<bool>)> {
    let free = |supposition: Supposition| {
        let instructions = kernel.instructions.iter().zip(prepared);
        instructions.map(|(instruction, prepared)| supposition.makes_free(&instruction.op, prepared.pipe())).collect()
    };
    let changing = Supposition::ALL.into_iter().filter(|supposition| supposition.changes_warps());
    changing.map(|supposition| (supposition, free(supposition))).collect()
}

/// Checks that all blocks of a cooperative launch are resident at the same time.
fn check_cooperative(run: &Run<'_>) -> Result<(), String> {
    let blocks = run.launch.grid.iter().map(|&blocks| u64::from(blocks)).product::<u64>();
    let most = u64::from(schedule::resident_blocks(run));
    if run.options.cooperative && blocks > most {
        let name = run.gpu.name;
        return Err(format!(
            "a cooperative launch of {blocks} blocks; the {name} has room for {most} of them at a time"
        ));
    }
    Ok(())
}

/// Checks grid, block and cluster, and returns the threads of a block.
fn check_shape(gpu: &Gpu, kernel: &Kernel, launch: &Launch<'_>) -> Result<u32, String> {
    let Launch { grid, block, cluster, .. } = launch;
    let product = |of: &[u32; 3]| of.iter().try_fold(1u32, |product, &x| product.checked_mul(x));
    if [grid, block, cluster].iter().any(|of| of.contains(&0)) {
        return Err(format!("a grid of {grid:?}, blocks of {block:?} and clusters of {cluster:?} contain a 0"));
    }
    if (0..3).any(|axis| grid[axis] > MAX_GRID[axis]) {
        return Err(format!("a grid of {grid:?} blocks; at most {MAX_GRID:?} are allowed"));
    }
    let most = kernel.max_threads.unwrap_or(u32::MAX).min(gpu.max_threads_per_block);
    let threads = product(block).filter(|&threads| threads <= most && block[2] <= 64);
    let threads = threads.ok_or_else(|| format!("a block of {block:?} threads; at most {most} are allowed"))?;
    if let Some(required) = kernel.required_block.filter(|required| required != block) {
        return Err(format!("a block of {block:?} threads; the kernel requires {required:?}"));
    }
    if let Some(required) = kernel.required_cluster.filter(|required| required != cluster) {
        return Err(format!("a cluster of {cluster:?} blocks; the kernel requires {required:?}"));
    }
    let size = product(cluster).unwrap_or(u32::MAX);
    if size > 1 && gpu.compute_capability < (9, 0) {
        return Err(format!("a cluster of {cluster:?} blocks; the {} has no clusters", gpu.name));
    }
    if size > MAX_CLUSTER_BLOCKS {
        return Err(format!("a cluster of {cluster:?} blocks; at most {MAX_CLUSTER_BLOCKS} are allowed"));
    }
    if (0..3).any(|axis| !grid[axis].is_multiple_of(cluster[axis])) {
        return Err(format!("a grid of {grid:?} blocks is not a multiple of the cluster {cluster:?}"));
    }
    Ok(threads)
}

fn pack_arguments(kernel: &Kernel, launch: &Launch<'_>) -> Result<Vec<u8>, String> {
    let (got, wanted) = (launch.args.len(), kernel.params.len());
    if got != wanted {
        return Err(format!("{got} arguments; the kernel {} has {wanted} parameters", kernel.name));
    }
    let mut bytes = vec![0; kernel.param_bytes as usize];
    for (param, arg) in kernel.params.iter().zip(launch.args) {
        if arg.len() != param.bytes as usize {
            return Err(format!("{} bytes for the parameter {} of {} bytes", arg.len(), param.name, param.bytes));
        }
        bytes[param.offset as usize..][..arg.len()].copy_from_slice(arg);
    }
    Ok(bytes)
}

/// Executes the clusters on several threads. Results do not depend on which thread executes a cluster.
fn execute(run: &Run<'_>, clusters: Choice) -> Result<Counters, LaunchError> {
    let granule = granule_bytes(run.kernel, true);
    let level = Level::detect();
    if run.kernel.talks {
        return Ok(schedule::take_turns(run, clusters, granule, level)?.finish(run));
    }
    let next = AtomicU64::new(0);
    let order = Permutation::new(run.options.order, clusters.count());
    let first_fault: Mutex<Option<(u64, Box<Fault>)>> = Mutex::new(None);
    let total = Mutex::new(Tally::new(run));
    let work = || {
        let mut machine = Machine::new(run, granule, level);
        while let Some(cluster) = clusters.get(order.get(next.fetch_add(1, Relaxed))) {
            // Skip blocks after the first that failed; they would only report something less useful.
            if lock(&first_fault).as_ref().is_some_and(|(failed, _)| *failed < cluster) {
                continue;
            }
            if let Err(fault) = machine.execute(cluster) {
                let mut first = lock(&first_fault);
                if first.as_ref().is_none_or(|(failed, _)| cluster < *failed) {
                    *first = Some((cluster, fault));
                }
            }
        }
        lock(&total).add(machine.tally());
    };
    let threads = threads_for(run, clusters.count());
    if threads == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    }
    if let Some((_, fault)) = lock(&first_fault).take() {
        return Err(fault.into());
    }
    let tally = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(tally.finish(run))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns the number of CPU threads to use.
fn threads_for(run: &Run<'_>, clusters: u64) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    run.options.threads.unwrap_or_else(cores).clamp(1, usize::try_from(clusters).unwrap_or(usize::MAX).max(1))
}

/// Returns the bytes of the smallest access that may go to shared memory, or to global memory: the granule for race
/// detection.
fn granule_bytes(kernel: &Kernel, in_shared: bool) -> u32 {
    let shared = |space: Space| match space {
        Space::Shared | Space::SharedCluster => in_shared,
        Space::Global | Space::Const => !in_shared,
        _ => space == Space::Generic,
    };
    let bytes = kernel.instructions.iter().filter_map(|instruction| match &instruction.op {
        Op::Ld { space, ty, count, .. } | Op::St { space, ty, count, .. } if shared(*space) => {
            Some(ty.bytes() * u32::from(*count))
        }
        Op::Atom { space, ty, .. } if shared(*space) => Some(ty.bytes()),
        _ => None,
    });
    bytes.min().unwrap_or(4).clamp(1, 4)
}
