//! Tensor copies: the results of correct kernels, and the faults of wrong ones.
//!
//! The layouts themselves are in the conformance set.

use virtual_gpu::counters::Counters;
use virtual_gpu::fault::{Access, FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Element, Fill, Launch, Options, Swizzle, TensorMap, VirtualGpu, ptx};

/// Elements of the tensor: columns and rows.
const COLUMNS: u64 = 18;
const ROWS: u64 = 6;
/// Bytes between the starts of neighbouring rows.
const PITCH: u64 = 48;

/// A GPU with an output and a tensor of halves, each of which is its row times 256 plus its column.
struct Bench {
    gpu: VirtualGpu,
    input: u64,
    output: u64,
    options: Options,
}

impl Bench {
    fn new() -> Self {
        let mut gpu = VirtualGpu::new(Gpu::h200());
        let input = gpu.alloc(PITCH * ROWS).unwrap();
        let output = gpu.alloc(128).unwrap();
        for (row, column) in (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column))) {
            gpu.write(input + row * PITCH + column * 2, &[column as u8, row as u8]).unwrap();
        }
        Self { gpu, input, output, options: Options::default() }
    }

    fn map(&self) -> TensorMap {
        TensorMap {
            element: Element::F16,
            address: self.input,
            dims: vec![COLUMNS, ROWS],
            strides: vec![PITCH],
            box_dims: vec![16, 4],
            element_strides: Vec::new(),
            swizzle: Swizzle::None,
            fill: Fill::Zeros,
        }
    }

    fn launch(&mut self, kernel: &str, map: &[u8]) -> Result<Counters, LaunchError> {
        let path = format!("{}/tests/kernels/tensor.ptx", env!("CARGO_MANIFEST_DIR"));
        let module = ptx::load("tensor.ptx", &std::fs::read_to_string(path).unwrap()).unwrap();
        let loaded = self.gpu.load(module).unwrap();
        let args = [map.to_vec(), self.output.to_le_bytes().to_vec()];
        let (grid, block, cluster) = ([1; 3], [32, 1, 1], [1; 3]);
        let launch = Launch { grid, block, cluster, dynamic_shared_bytes: 0, args: &args };
        self.gpu.launch(&loaded, kernel, &launch, &self.options)
    }

    fn fault(&mut self, kernel: &str, map: &[u8]) -> FaultKind {
        match self.launch(kernel, map) {
            Err(LaunchError::Fault(fault)) => fault.kind,
            other => panic!("{kernel} was to fault, got {other:?}"),
        }
    }

    fn halves(&self) -> Vec<u16> {
        let bytes = self.gpu.read(self.output, 128).unwrap();
        bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
    }
}

/// Returns the box at column 8, row -1: a row above the tensor, and six columns right of it.
fn expected() -> Vec<u16> {
    let element = |row: u64, column: u64| if row == 0 || column >= COLUMNS { 0 } else { (row - 1) * 256 + column };
    (0..4).flat_map(|row| (8..24).map(move |column| element(row, column) as u16)).collect()
}

#[test]
fn a_box_arrives_with_zeros_outside() {
    let mut bench = Bench::new();
    let map = bench.map().encode().unwrap();
    let counters = bench.launch("waits", &map).unwrap();
    assert_eq!(bench.halves(), expected());
    // No load makes this access, but its sectors come from memory: 5 of the tensor, and 4 of the output.
    assert_eq!(counters.global_load.requests, 0);
    assert_eq!(counters.shared_store.requests, 0);
    assert_eq!(counters.footprint_bytes, (5 + 4) * 32);
}

#[test]
fn a_map_may_be_in_global_memory() {
    let mut bench = Bench::new();
    let map = bench.gpu.alloc(128).unwrap();
    bench.gpu.write(map, &bench.map().encode().unwrap()).unwrap();
    bench.launch("points", &map.to_le_bytes()).unwrap();
    assert_eq!(bench.halves(), expected());
    let FaultKind::Invalid(message) = bench.fault("points", &(map + 16).to_le_bytes()) else { panic!("misaligned") };
    assert!(message.contains("multiple of 64"), "{message}");
    bench.gpu.mark_uninitialised(map, 128).unwrap();
    let kind = bench.fault("points", &map.to_le_bytes());
    assert_eq!(kind, FaultKind::Uninitialised { space: "global", address: map, bytes: 16 });
}

#[test]
fn reads_without_a_wait_see_the_old_contents() {
    let mut bench = Bench::new();
    let map = bench.map().encode().unwrap();
    let kind = bench.fault("forgets", &map);
    assert_eq!(kind, FaultKind::InFlight { address: 0, access: Access::Read, writes: true });
    bench.options.races = false;
    bench.options.uninitialised = false;
    bench.launch("forgets", &map).unwrap();
    assert_ne!(bench.halves(), expected());
}

#[test]
fn invalid_tensor_maps_are_refused() {
    let mut bench = Bench::new();
    let FaultKind::Invalid(message) = bench.fault("waits", &[7; 128]) else { panic!("no map") };
    assert!(message.contains("are not a tensor map"), "{message}");
    let deep = TensorMap {
        dims: vec![COLUMNS, 2, 3],
        strides: vec![PITCH, 2 * PITCH],
        box_dims: vec![16, 2, 2],
        ..bench.map()
    };
    let FaultKind::Invalid(message) = bench.fault("waits", &deep.encode().unwrap()) else { panic!("3 dimensions") };
    assert_eq!(message, "a copy of 2 dimensions by a tensor map of 3");
}

#[test]
fn a_box_of_another_size_is_found() {
    let mut bench = Bench::new();
    // Fewer bytes than the mbarrier expects, so the wait never ends.
    let small = TensorMap { box_dims: vec![16, 2], ..bench.map() }.encode().unwrap();
    assert!(matches!(bench.fault("waits", &small), FaultKind::Deadlock { .. }));
    // More bytes than shared memory has.
    let large = TensorMap { box_dims: vec![16, 8], ..bench.map() }.encode().unwrap();
    let kind = bench.fault("waits", &large);
    assert!(matches!(kind, FaultKind::OutOfBounds { access: Access::Write, space: "shared", .. }), "{kind}");
}

#[test]
fn a_map_of_more_than_the_allocation_is_found() {
    let mut bench = Bench::new();
    let map = TensorMap { address: bench.input + 4 * PITCH, ..bench.map() }.encode().unwrap();
    let kind = bench.fault("waits", &map);
    assert!(matches!(kind, FaultKind::OutOfBounds { access: Access::Read, space: "global", .. }), "{kind}");
}
