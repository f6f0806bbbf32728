//! A configuration through the compiler and the virtual GPU to a modelled time.

use std::time::Duration;

use optloop::catalog::Project;
use optloop::config::Config;
use optloop::domain::artifact::Artifact;
use optloop::domain::device::DeviceInfo;
use optloop::domain::family::Family;
use optloop::domain::plan::{Arg, Launch, LaunchPlan, ScalarValue};
use optloop::domain::workload::{Case, Workload};
use optloop::runner::compile::Compiler;
use optloop::runner::render::render;
use optloop::runner::toolchain::Toolchain;
use virtual_gpu::counters::Counters;
use virtual_gpu::gpu::Gpu;
use virtual_gpu::timing::{Modelled, Shape, model};
use virtual_gpu::{Options, VirtualGpu};

use crate::table::Row;

/// Blocks that stand for a grid: the first and the last, and enough between to see every causal tile.
const SAMPLE_BLOCKS: u32 = 12;

/// What it takes to compile and plan configurations of one workload.
pub struct Lab {
    pub workload: Workload,
    families: Vec<Family>,
    compiler: Compiler,
    device: DeviceInfo,
    pub gpu: Gpu,
}

/// What one launch of a plan did, and what the model makes of it.
pub struct Simulated {
    pub kernel: String,
    pub shape: Shape,
    pub counters: Counters,
    pub modelled: Modelled,
}

impl Lab {
    pub fn open(workload: &str) -> Self {
        let project = Project::find(Some(env!("CARGO_MANIFEST_DIR").as_ref())).unwrap();
        let options = Config::load(project.root()).unwrap().compile.options;
        let gpu = Gpu::h200();
        let (exe, toolchain) = (env!("CARGO_BIN_EXE_optloop").into(), Toolchain::find_or_fetch().unwrap());
        Self {
            workload: project.workload(workload).unwrap(),
            families: project.families().unwrap(),
            compiler: Compiler::new(exe, toolchain, gpu.arch, &options, Duration::from_secs(60)).unwrap(),
            device: DeviceInfo::of_arch(gpu.arch).unwrap(),
            gpu,
        }
    }

    /// Compiles a configuration and simulates it on a case.
    pub fn simulate(&self, row: &Row, case: &Case) -> Vec<Simulated> {
        let Workload { op, dtype, .. } = self.workload;
        let plan = self.family(row).plan(&row.params, case, op, dtype, &self.device).unwrap();
        Machine::new(self, case, &self.artifact(row, case), &plan).run()
    }

    pub fn artifact(&self, row: &Row, case: &Case) -> Artifact {
        let family = self.family(row);
        let variant = render(family, &family.specialization(case), self.workload.dtype, &row.params).unwrap();
        self.compiler.compile(&variant).unwrap()
    }

    pub fn export(&self, row: &Row, case: &Case) -> (Artifact, LaunchPlan) {
        let Workload { op, dtype, .. } = self.workload;
        (self.artifact(row, case), self.family(row).plan(&row.params, case, op, dtype, &self.device).unwrap())
    }

    fn family(&self, row: &Row) -> &Family {
        self.families.iter().find(|family| family.name == row.family).unwrap()
    }
}

/// A virtual GPU with the buffers of one plan.
struct Machine<'a> {
    gpu: VirtualGpu,
    loaded: virtual_gpu::Loaded,
    artifact: &'a Artifact,
    plan: &'a LaunchPlan,
    buffers: Vec<(String, u64)>,
}

impl<'a> Machine<'a> {
    /// Allocates everything filled with zeros: no branch of these kernels depends on the numbers.
    fn new(lab: &Lab, case: &Case, artifact: &'a Artifact, plan: &'a LaunchPlan) -> Self {
        let mut gpu = VirtualGpu::new(lab.gpu.clone());
        let loaded = gpu.load(virtual_gpu::ptx::load("kernel.ptx", &artifact.ptx).unwrap()).unwrap();
        let tensors = lab.workload.op.tensors(&case.dims, lab.workload.dtype);
        let sizes = tensors.iter().map(|tensor| (tensor.name.clone(), tensor.bytes()));
        let sizes = sizes.chain(plan.workspaces.iter().map(|workspace| (workspace.name.clone(), workspace.bytes)));
        let mut buffers = Vec::new();
        for (name, bytes) in sizes {
            let address = gpu.alloc(bytes as u64).unwrap();
            gpu.fill(address, bytes as u64, 0).unwrap();
            buffers.push((name, address));
        }
        Self { gpu, loaded, artifact, plan, buffers }
    }

    fn run(&self) -> Vec<Simulated> {
        self.plan.launches.iter().map(|launch| self.launch(launch)).collect()
    }

    fn launch(&self, launch: &Launch) -> Simulated {
        let args: Vec<Vec<u8>> = launch.args.iter().map(|arg| self.bytes(arg)).collect();
        let request = virtual_gpu::Launch {
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster.unwrap_or([1; 3]),
            dynamic_shared_bytes: launch.shared_bytes,
            args: &args,
        };
        let options = Options {
            races: false,
            uninitialised: false,
            sample_blocks: Some(SAMPLE_BLOCKS),
            threads: Some(1),
            ..Options::default()
        };
        let counters = self.gpu.launch(&self.loaded, &launch.kernel, &request, &options).unwrap();
        let resources = self.artifact.kernel(&launch.kernel).unwrap();
        let shape = Shape {
            blocks: launch.ctas(),
            threads: launch.block.iter().product(),
            registers: resources.registers,
            shared_bytes: resources.shared_bytes + launch.shared_bytes,
            cluster_blocks: request.cluster.iter().product(),
            spill_bytes: resources.spill_store_bytes + resources.spill_load_bytes,
        };
        let modelled = model(self.gpu.gpu(), &shape, &counters);
        Simulated { kernel: launch.kernel.clone(), shape, counters, modelled }
    }

    fn bytes(&self, arg: &Arg) -> Vec<u8> {
        match arg {
            Arg::Tensor(name) | Arg::Workspace(name) => {
                let (_, address) = self.buffers.iter().find(|(other, _)| other == name).unwrap();
                address.to_le_bytes().to_vec()
            }
            Arg::Scalar(scalar) => match scalar.value {
                ScalarValue::I32(value) => value.to_le_bytes().to_vec(),
                ScalarValue::F32(value) => value.to_le_bytes().to_vec(),
            },
        }
    }
}

impl Simulated {
    pub fn json(&self) -> serde_json::Value {
        let c = &self.counters;
        serde_json::json!({
            "kernel": self.kernel,
            "blocks": self.shape.blocks, "threads": self.shape.threads, "registers": self.shape.registers,
            "shared_bytes": self.shape.shared_bytes, "spill_bytes": self.shape.spill_bytes,
            "resident": self.modelled.blocks_per_multiprocessor, "time_ns": self.modelled.time_ns,
            "limiter": format!("{:?}", self.modelled.limiter),
            "executed": c.executed_blocks, "warps": c.warps_per_block, "instructions": c.instructions(),
            "class": c.warp_instructions, "slots": c.issue_slots, "partition": c.partition_slots, "pipes": c.pipe_cycles,
            "in_order": c.in_order_cycles, "dataflow": c.dataflow_cycles,
            "longest_in_order": c.longest_in_order_cycles, "longest_dataflow": c.longest_dataflow_cycles,
            "static": c.static_instructions, "l2": c.l2_sectors, "barriers": c.barriers,
            "gl": [c.global_load.requests, c.global_load.units, c.global_load.ideal_units, c.global_load.bytes],
            "gs": [c.global_store.requests, c.global_store.units, c.global_store.ideal_units, c.global_store.bytes],
            "sl": [c.shared_load.requests, c.shared_load.units, c.shared_load.ideal_units, c.shared_load.bytes],
            "ss": [c.shared_store.requests, c.shared_store.units, c.shared_store.ideal_units, c.shared_store.bytes],
            "local": [c.local.requests, c.local.units], "footprint": c.footprint_bytes, "branches": c.branches,
        })
    }
}
