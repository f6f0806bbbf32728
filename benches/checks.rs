//! How long it takes to compare an output with its oracle, on idle cores and on cores that other work fills.
//!
//! `cargo bench --bench checks`. While a session runs, compilers fill all cores. The output is that of
//! `attention-fp16-d64/b8h8s128`: 8192 rows of 64 elements in FP16.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use optloop::domain::op::{Dims, Dtype};
use optloop::domain::workload::Tolerance;
use optloop::ops;
use optloop::runner::inputs;
use optloop::runner::validate::{Expectation, Part};

/// Checks that are timed.
const TIMED: usize = 50;

fn main() {
    let op = ops::find("attention").expect("attention is an op");
    let dims: Dims = [("B", 8), ("H", 8), ("Sq", 128), ("Sk", 128), ("D", 64), ("CAUSAL", 0)]
        .map(|(name, size)| (name.to_owned(), size))
        .into();
    let values: Vec<Vec<f32>> = op.inputs(&dims, Dtype::F16).iter().map(|tensor| inputs::draw(tensor, 1)).collect();
    let rows: Vec<usize> = (0..8 * 8 * 128).collect();
    let exact = op.oracle(&dims, &values, &rows).expect("the oracle answers");
    let exact: Vec<f32> = exact.iter().map(|value| *value as f32).collect();
    let output = inputs::encode(&exact, Dtype::F16);
    let expectation = Expectation::new(op, &dims, Dtype::F16, &values, 1e10, 1).expect("the oracle answers");
    let check = || {
        let start = Instant::now();
        let checked = expectation.check(&output, &Tolerance { relative_l2: 1e-3, worst_row: 4e-3 });
        assert_eq!(checked.expect("the output is right").rows_checked, rows.len());
        start.elapsed()
    };
    held_out();
    println!("idle cores: {}", summary(&mut (0..TIMED).map(|_| check()).collect::<Vec<_>>()));
    let busy = &AtomicBool::new(true);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| while busy.load(Ordering::Relaxed) {});
        }
        let mut times: Vec<Duration> = (0..TIMED).map(|_| check()).collect();
        busy.store(false, Ordering::Relaxed);
        println!("busy cores: {}", summary(&mut times));
    });
}

/// Times what other threads do for each evaluation of large matrix products: inputs are decoded, and the oracle answers for some
/// rows.
fn held_out() {
    let op = ops::find("gemm").expect("gemm is an op");
    for (m, n, k) in [(8192, 8192, 8192), (16, 8192, 8192), (512, 512, 16384), (1024, 16384, 1024)] {
        let dims: Dims = [("M", m), ("N", n), ("K", k)].map(|(name, size)| (name.to_owned(), size)).into();
        let drawn: Vec<Vec<u8>> =
            op.inputs(&dims, Dtype::F16).iter().map(|one| inputs::encode(&inputs::draw(one, 1), one.dtype)).collect();
        let (mut decoding, mut answering) = (Vec::new(), Vec::new());
        for seed in 0..3 {
            let start = Instant::now();
            let values: Vec<Vec<f32>> = drawn.iter().map(|bytes| inputs::decode(bytes, Dtype::F16)).collect();
            decoding.push(start.elapsed());
            let start = Instant::now();
            Expectation::of_part(Part::Few, (op, &dims, Dtype::F16), &values, 2e8, seed).expect("the oracle answers");
            answering.push(start.elapsed());
        }
        println!("m{m}n{n}k{k}: decode {}; oracle {}", summary(&mut decoding), summary(&mut answering));
    }
}

fn summary(times: &mut [Duration]) -> String {
    times.sort();
    let ms = |place: usize| times[place].as_secs_f64() * 1e3;
    format!("median {:.2} ms, 90% below {:.2} ms", ms(times.len() / 2), ms(times.len() * 9 / 10))
}
