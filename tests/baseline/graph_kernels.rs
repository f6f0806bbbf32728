//! The kernels of a captured graph, as the shipped programs read them from a driver.

use std::path::Path;
use std::process::Command;

use optloop::domain::code::launched::LaunchedKernel;
use optloop::runner::toolchain::Toolchain;

/// Reads the graph of the fake driver, whose structures are those of CUDA's own header. PyTorch is a fake, too.
const PROGRAM: &str = "
import contextlib, json, sys, types
graph = types.SimpleNamespace(raw_cuda_graph=lambda: 7)
cuda = types.SimpleNamespace(CUDAGraph=lambda keep_graph: graph, graph=lambda _graph: contextlib.nullcontext())
sys.modules['torch'] = types.SimpleNamespace(cuda=cuda)
import graph_kernels
print(json.dumps(graph_kernels.kernels_of(lambda: None)))
";

#[test]
fn the_kernels_of_a_graph_are_read_from_the_driver() {
    let (project, folder) = (Path::new(env!("CARGO_MANIFEST_DIR")), tempfile::tempdir().unwrap());
    let driver = folder.path().join("libcuda.so.1");
    let include = Toolchain::find_or_fetch().unwrap().include;
    let mut compiler = Command::new("g++");
    compiler.args(["-shared", "-fPIC", "-isystem"]).arg(include).arg("-o").arg(&driver);
    assert!(compiler.arg(project.join("tests/baseline/fake_driver.cpp")).status().unwrap().success());
    let mut python = Command::new("python3");
    python.args(["-B", "-c", PROGRAM]).env("PYTHONPATH", project.join("kernels/baselines"));
    let output = python.env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let kernels: Vec<LaunchedKernel> = serde_json::from_slice(&output.stdout).expect(&said);
    let (grid, block) = ([32, 2, 1], [128, 1, 3]);
    let kernel = |name: &str| LaunchedKernel {
        name: name.to_owned(),
        grid,
        block,
        shared_bytes: Some(1024),
        registers: Some(168),
    };
    assert_eq!(kernels, [kernel("void flash<float>(float*, int)"), kernel("nvjet_hsh_64x256")]);
    assert_eq!(kernels[0].short_name(), "flash");
}
