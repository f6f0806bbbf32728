//! Thirteen kernels and their twins with a planted mistake, on PTX that NVRTC compiled with lines: every mistake is
//! found at its line of the CUDA source, and no honest kernel is refused.

use virtual_gpu::fault::{Fault, FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

const SOURCE: &str = include_str!("ptx/pairs.cu");
const PTX: &str = include_str!("ptx/pairs.ptx");

/// Numbers in the input and in the output, no multiple of a block's threads.
const COUNT: u64 = 250;

/// Launches a kernel: 4 blocks of 64 threads, or what a pair needs. The result is the line of a shuffle that reads an
/// absent lane, if there is one.
fn launch(pair: &str, twin: &str, order: Option<u64>) -> Result<Option<u32>, LaunchError> {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("pairs.ptx", PTX).unwrap()).unwrap();
    let [x, y] = [(); 2].map(|()| gpu.alloc(4 * COUNT).unwrap());
    let numbers: Vec<u8> = (0..COUNT).flat_map(|number| (number as f32).to_le_bytes()).collect();
    gpu.write(x, &numbers).unwrap();
    let (mut x, mut n) = (x, COUNT as i32);
    match pair {
        "global_race" | "missing_fence" => gpu.fill(y, 4 * COUNT, 0).unwrap(),
        "overflow" => {
            n = 100_000_000;
            x = gpu.alloc_hollow(4 * 32 * n as u64, 4096).unwrap();
        }
        _ => {}
    }
    let (blocks, threads) = match pair {
        "global_race" | "missing_fence" => (3, 32),
        "out_of_bounds" => (4, 64),
        "write_after_read" => (3, 64),
        "early_release" => (1, 64),
        _ => (1, 32),
    };
    let args = [x.to_le_bytes().to_vec(), y.to_le_bytes().to_vec(), n.to_le_bytes().to_vec()];
    let [grid, block] = [[blocks, 1, 1], [threads, 1, 1]];
    let launch = Launch { grid, block, cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    // On several threads, two blocks at the same time may miss each other.
    let options = Options { threads: Some(1), order, ..Options::default() };
    let counters = gpu.launch(&module, &format!("{pair}_{twin}"), &launch, &options)?;
    let line = counters.absent_lane.and_then(|absent| module.module().source_line(absent.line));
    Ok(line.map(|line| line.line))
}

/// Returns the line with a mark, from 1.
fn marked(mark: &str) -> Option<u32> {
    SOURCE.lines().position(|line| line.contains(mark)).map(|line| line as u32 + 1)
}

fn planted(pair: &str) -> Fault {
    match launch(pair, "planted", None) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("{pair} was to fault, got {other:?}"),
    }
}

/// A pair, and whether a kind of fault is that of its mistake.
type Pair = (&'static str, fn(&FaultKind) -> bool);

const PAIRS: [Pair; 12] = [
    ("global_race", |kind| matches!(kind, FaultKind::GlobalRace { same_block: false, .. })),
    ("warp_race", |kind| matches!(kind, FaultKind::LaneRace { space: "shared", .. })),
    ("missing_fence", |kind| matches!(kind, FaultKind::GlobalRace { same_block: false, .. })),
    ("wrong_mask", |kind| matches!(kind, FaultKind::WrongMembers { members: u32::MAX, active: 0xffff, .. })),
    ("misaligned", |kind| matches!(kind, FaultKind::Misaligned { bytes: 16, .. })),
    ("out_of_bounds", |kind| matches!(kind, FaultKind::OutOfBounds { space: "global", .. })),
    ("uninitialised", |kind| matches!(kind, FaultKind::Uninitialised { space: "global", .. })),
    ("divergent_barrier", |kind| matches!(kind, FaultKind::DivergentBarrier { active: 16, live: 32 })),
    ("missing_wait", |kind| matches!(kind, FaultKind::InFlight { writes: true, .. })),
    ("early_release", |kind| matches!(kind, FaultKind::Race { .. } | FaultKind::InFlight { .. })),
    ("write_after_read", |kind| matches!(kind, FaultKind::GlobalRace { same_block: false, .. })),
    ("overflow", |kind| matches!(kind, FaultKind::OutOfBounds { space: "global", .. })),
];

#[test]
fn planted_mistakes_are_found_at_their_lines() {
    for (pair, is_meant) in PAIRS {
        let fault = planted(pair);
        assert!(is_meant(&fault.kind), "{pair}: {fault}");
        assert_eq!(fault.kernel, format!("{pair}_planted"));
        let line = |source: Option<&ptx::SourceLine>| source.map(|source| (source.file.clone(), source.line));
        let expected = |mark: &str| marked(&format!("{mark}: {pair}")).map(|line| ("pairs.cu".to_owned(), line));
        assert_eq!(line(fault.source.as_ref()), expected("here"), "{fault}");
        let other = fault.other.as_ref().and_then(|other| other.source.as_ref());
        assert_eq!(line(other), expected("other"), "{fault}");
    }
    assert_eq!(launch("absent_lane", "planted", None), Ok(marked("here: absent_lane")));
}

#[test]
fn honest_twins_are_clean_in_every_order() {
    for pair in PAIRS.map(|(pair, _)| pair).into_iter().chain(["absent_lane"]) {
        for order in [None, Some(1), Some(2), Some(3)] {
            assert_eq!(launch(pair, "clean", order), Ok(None), "{pair}");
        }
    }
}

#[test]
fn a_race_is_told_with_both_lines() {
    insta::assert_snapshot!(planted("write_after_read"), @"race at global address 0x1000000100: write, read by warp 0 of block (0, 0, 0) before, no release and acquire between (a load, __threadfence, an atomic or volatile flag, __threadfence, a store) in kernel write_after_read_planted, pairs.cu:177 (pairs.ptx:1486 `st.global.f32 [%rd6], %f1;`), block (1, 0, 0), thread (0, 0, 0); the other access is at pairs.cu:175 (pairs.ptx:1482 `ld.global.f32 %f1, [%rd4];`)");
}
