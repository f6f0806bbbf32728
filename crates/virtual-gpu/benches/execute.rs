//! Warp instructions per second of the executor, on attention over (8, 8, 128) with a head dimension of 64 in f16: the
//! scalar kernel and the one on tensor cores, with the counters and checks on and off. After each kernel's rates the
//! process's largest memory is printed, where the system tells it.

#[path = "../tests/attention/problem.rs"]
mod problem;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use problem::{Kernel, Problem};
use virtual_gpu::Options;

/// Batch 8 times 8 heads.
const PROBLEM: Problem = Problem { heads: 64, queries: 128, keys: 128 };

fn execute(criterion: &mut Criterion) {
    let off = Options { counters: false, races: false, uninitialised: false, ..Options::default() };
    let variants = [
        ("plain", off.clone()),
        ("counters", Options { counters: true, ..off.clone() }),
        ("all checks", Options::default()),
        ("plain, one thread", Options { threads: Some(1), ..off }),
    ];
    for (name, kernel) in [("scalar", Kernel::Scalar), ("mma", Kernel::Mma), ("causal mma", Kernel::MmaCausal)] {
        let prepared = PROBLEM.prepare(kernel);
        let instructions = prepared.launch(&Options::default()).instructions();
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(instructions));
        group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(4));
        for (variant, options) in &variants {
            group.bench_function(*variant, |bencher| bencher.iter(|| black_box(prepared.launch(options))));
        }
        group.finish();
        match largest_memory() {
            Some(kib) => {
                println!("{name}: {instructions} warp instructions a launch, at most {kib} KiB of memory so far")
            }
            None => println!("{name}: {instructions} warp instructions a launch"),
        }
    }
}

/// Returns the most memory that this process has held, in KiB, if the system says.
fn largest_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    execute(&mut criterion);
    criterion.final_summary();
}
