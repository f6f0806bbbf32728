//! The micro-benchmarks of a device's peaks compile, and each launch does the assumed work.
//!
//! On a CUDA device: `cargo test --release --test integration peaks:: -- --ignored`. There, set `OPTLOOP_EXE` if the
//! executable is not where it was built.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use optloop::domain::device::{DeviceInfo, Peaks};
use optloop::domain::family::plan::{Arg, LaunchPlan, ScalarValue};
use optloop::runner::compile::Compiler;
use optloop::runner::device::DeviceChoice;
use optloop::runner::peaks::probes::{Effort, Peak, probes};
use optloop::runner::peaks::{measure, variant};
use optloop::runner::toolchain::Toolchain;
use optloop::runner::worker::Worker;
use virtual_gpu::counters::Counters;
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu};

fn exe() -> PathBuf {
    std::env::var_os("OPTLOOP_EXE").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_optloop")), PathBuf::from)
}

fn compiler(arch: &str) -> Compiler {
    let options = ["--std=c++17".to_owned()];
    Compiler::new(exe(), Toolchain::find_or_fetch().unwrap(), arch, &options, Duration::from_secs(60)).unwrap()
}

/// The device that the probes see, scaled down so far that a CPU executes them quickly.
fn small(arch: &str) -> DeviceInfo {
    DeviceInfo { sms: 3, l2_bytes: 300_000, ..DeviceInfo::of_arch(arch).unwrap() }
}

/// Executes a plan on the virtual H200 and returns the counters.
fn execute(ptx: &str, plan: &LaunchPlan) -> Counters {
    let mut gpu = VirtualGpu::new(Gpu::named("h200").unwrap());
    let module = gpu.load(virtual_gpu::ptx::load("a probe", ptx).unwrap()).unwrap();
    let mut addresses = HashMap::new();
    for workspace in &plan.workspaces {
        let address = gpu.alloc(workspace.bytes as u64).unwrap();
        gpu.fill(address, workspace.bytes as u64, 0).unwrap();
        addresses.insert(workspace.name.as_str(), address);
    }
    let bytes = |arg: &Arg| match arg {
        Arg::Tensor(name) | Arg::Workspace(name) => addresses[name.as_str()].to_le_bytes().to_vec(),
        Arg::Scalar(scalar) => match scalar.value {
            ScalarValue::I32(value) => value.to_le_bytes().to_vec(),
            ScalarValue::F32(value) => value.to_le_bytes().to_vec(),
            ScalarValue::I64(value) => value.to_le_bytes().to_vec(),
            ScalarValue::F64(value) => value.to_le_bytes().to_vec(),
        },
        Arg::TensorMap(map) => panic!("a probe takes no tensor map, and this one takes `{}`", map.name),
    };
    let [launch] = plan.launches.as_slice() else { panic!("a probe is one launch") };
    let args: Vec<Vec<u8>> = launch.args.iter().map(bytes).collect();
    let shape = Launch {
        grid: launch.grid,
        block: launch.block,
        cluster: [1; 3],
        dynamic_shared_bytes: launch.shared_bytes,
        args: &args,
    };
    gpu.launch(&module, &launch.kernel, &shape, &Options::default()).unwrap()
}

/// The counted work equals the work in the rate's formula, so the compiler has removed nothing.
fn does_the_assumed_work(arch: &str) {
    let (compiler, device) = (compiler(arch), small(arch));
    let mut figures = Vec::new();
    for probe in probes(&device, Effort { steps: 2, sweeps: 3 }) {
        let artifact = compiler.compile(&variant(&probe)).unwrap();
        // Among other things, ptxas warns when it has to serialize wgmma.
        assert!(!artifact.log.contains("warning"), "{arch}: {}", artifact.log);
        for kernel in &artifact.kernels {
            assert_eq!((kernel.spill_store_bytes, kernel.spill_load_bytes), (0, 0), "{arch}: {kernel:?}");
        }
        let counted = execute(&artifact.ptx, &probe.plan);
        let bytes = counted.global_load.bytes + counted.global_store.bytes;
        let done = match probe.figure {
            Peak::Memory | Peak::L2 => bytes,
            Peak::F16 => counted.flop.tensor16,
            // Besides the multiply-adds, there are 15 additions of 16 sums at the end.
            Peak::Fma => counted.flop.single - 16 * counted.blocks * 512,
            Peak::Launch => counted.blocks,
        };
        assert_eq!(done as f64, probe.work, "{arch}: {:?} by {:?}", probe.figure, probe.plan);
        assert_eq!(counted.global_load.units, counted.global_load.ideal_units, "every load is coalesced");
        figures.push(probe.figure);
    }
    for figure in [Peak::Memory, Peak::L2, Peak::Fma, Peak::F16, Peak::Launch] {
        assert!(figures.contains(&figure), "{arch} has no probe of {figure:?}");
    }
}

#[test]
fn probes_do_the_assumed_work_on_sm_80() {
    does_the_assumed_work("sm_80");
}

#[test]
fn probes_do_the_assumed_work_on_sm_89() {
    does_the_assumed_work("sm_89");
}

#[test]
fn probes_do_the_assumed_work_on_sm_90a() {
    does_the_assumed_work("sm_90a");
}

/// On all known GPUs, sweeps over memory are far larger than L2, and sweeps over L2 far smaller.
#[test]
fn sweeps_go_where_they_should() {
    for (l2_mib, memory_gib) in [(6, 24), (40, 80), (48, 24), (60, 141)] {
        let of = DeviceInfo::of_arch("sm_90a").unwrap();
        let device = DeviceInfo { l2_bytes: l2_mib << 20, memory_bytes: memory_gib << 30, ..of };
        for probe in probes(&device, Effort::FULL) {
            let footprint: u64 = probe.plan.workspaces.iter().map(|workspace| workspace.bytes as u64).sum();
            match probe.figure {
                Peak::Memory => {
                    assert!(footprint >= device.l2_bytes * 29 / 10 && footprint < device.memory_bytes / 3)
                }
                Peak::L2 => assert!(footprint <= device.l2_bytes / 4 + 16),
                Peak::Fma | Peak::F16 | Peak::Launch => assert!(footprint <= 16),
            }
        }
    }
}

async fn measured(choice: &DeviceChoice) -> (Peaks, DeviceInfo) {
    let mut worker = Worker::start(exe(), choice, Duration::from_secs(60)).await.unwrap();
    let compiler = compiler(&worker.info().arch);
    (measure(&mut worker, &compiler).await.unwrap(), worker.info().clone())
}

/// On the fake device every launch takes about equally long, so its bytes and FLOP rates are far from plausible.
#[tokio::test]
async fn implausible_peaks_are_derived() {
    let (peaks, device) = measured(&DeviceChoice::Fake(0)).await;
    assert_eq!(peaks.memory_bytes_per_s, device.peaks.memory_bytes_per_s);
    assert_eq!(peaks.f16_flops, device.peaks.f16_flops);
    for figure in ["memory bandwidth", "FP16 rate"] {
        assert!(peaks.source.contains(&format!("{figure} derived")), "{}", peaks.source);
    }
    assert_ne!(peaks.launch_ns, device.peaks.launch_ns, "what a launch takes was measured");
    assert!((100.0..10_000.0).contains(&peaks.launch_ns), "{} ns", peaks.launch_ns);
}

/// A floor may be wrong by 3%.
#[tokio::test]
#[ignore = "needs a CUDA GPU"]
async fn peaks_of_a_gpu_are_plausible_and_the_same_again() {
    let (first, device) = measured(&DeviceChoice::Cuda(0)).await;
    let (second, _) = measured(&DeviceChoice::Cuda(0)).await;
    println!("{first:#?}\n{second:#?}\nderived: {:#?}", device.peaks);
    assert_eq!(first.source, "measured on this device");
    for figure in [
        |peaks: &Peaks| peaks.f16_flops,
        |peaks: &Peaks| peaks.f32_flops,
        |peaks: &Peaks| peaks.memory_bytes_per_s,
        |peaks: &Peaks| peaks.l2_bytes_per_s,
        |peaks: &Peaks| peaks.launch_ns,
    ] {
        let ratio = figure(&first) / figure(&second);
        assert!((0.97..1.03).contains(&ratio), "{first:?} and {second:?}");
    }
}
