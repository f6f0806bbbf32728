//! Takes a configuration through the compiler and the virtual GPU to a modelled time.

use std::time::Duration;

use optloop::catalog::Project;
use optloop::config::Config;
use optloop::domain::code::artifact::Artifact;
use optloop::domain::device::DeviceInfo;
use optloop::domain::family::Family;
use optloop::domain::family::plan::{Arg, Launch, LaunchPlan, ScalarValue};
use optloop::domain::workload::{Case, Workload};
use optloop::runner::compile::Compiler;
use optloop::runner::render::render;
use optloop::runner::toolchain::Toolchain;
use virtual_gpu::gpu::Gpu;
use virtual_gpu::model::{Shape, model};
use virtual_gpu::{Options, VirtualGpu};

use super::table::Row;

/// Blocks that represent a grid: enough to see every kind of causal tile. More do not change the ranking.
const SAMPLE_BLOCKS: u32 = 12;

/// The tools to compile and plan configurations of one workload.
pub struct Lab {
    pub workload: Workload,
    families: Vec<Family>,
    compiler: Compiler,
    device: DeviceInfo,
    gpu: Gpu,
}

impl Lab {
    pub fn open(workload: &str) -> Self {
        let project = Project::find(Some(env!("CARGO_MANIFEST_DIR").as_ref())).unwrap();
        let options = Config::load(project.root()).unwrap().compile.options;
        let gpu = Gpu::h200();
        let (exe, toolchain) = (env!("CARGO_BIN_EXE_optloop").into(), Toolchain::find_or_fetch().unwrap());
        Self {
            workload: project.workload(workload).unwrap(),
            families: project.families().unwrap().sound,
            compiler: Compiler::new(exe, toolchain, gpu.arch, &options, Duration::from_secs(60)).unwrap(),
            device: DeviceInfo::of_arch(gpu.arch).unwrap(),
            gpu,
        }
    }

    /// Compiles a configuration. Returns its modelled time on a case, in nanoseconds, for all launches of its plan.
    pub fn modelled_ns(&self, row: &Row, case: &Case) -> f64 {
        let family = self.families.iter().find(|family| family.name == row.family).unwrap();
        let Workload { op, dtype, .. } = self.workload;
        let variant = render(family, &family.specialization(case), dtype, &row.params).unwrap();
        let artifact = self.compiler.compile(&variant).unwrap();
        let plan = family.plan(&row.params, case, op, dtype, &self.device).unwrap();
        let machine = Machine::new(self, case, &artifact, &plan);
        plan.launches.iter().map(|launch| machine.modelled_ns(launch)).sum()
    }
}

/// A virtual GPU with the buffers of one plan.
struct Machine<'a> {
    gpu: VirtualGpu,
    loaded: virtual_gpu::Loaded,
    artifact: &'a Artifact,
    buffers: Vec<(String, u64)>,
}

impl<'a> Machine<'a> {
    /// Allocates everything, filled with zeros: no branch of these kernels depends on the numbers.
    fn new(lab: &Lab, case: &Case, artifact: &'a Artifact, plan: &LaunchPlan) -> Self {
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
        Self { gpu, loaded, artifact, buffers }
    }

    fn modelled_ns(&self, launch: &Launch) -> f64 {
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
        model(self.gpu.gpu(), &shape, &counters).time_ns
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
                ScalarValue::I64(value) => value.to_le_bytes().to_vec(),
                ScalarValue::F64(value) => value.to_le_bytes().to_vec(),
            },
            Arg::TensorMap(map) => panic!("the recorded kernels take no tensor map, and this one takes `{}`", map.name),
        }
    }
}
