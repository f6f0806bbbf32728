//! The two attention kernels of the benches compute attention, with all checks of the virtual GPU enabled.

mod problem;
mod reference;

use problem::{Kernel, Problem};
use virtual_gpu::Options;

/// Largest relative L2 error against the float64 oracle: the rounding to f16, with a margin.
const TOLERANCE: f64 = 1e-3;

fn check(kernel: Kernel, problem: &Problem) {
    let (output, counters) = problem.run(kernel, &Options::default());
    let error = problem.relative_error(&output, kernel.causal());
    assert!(error < TOLERANCE, "{kernel:?} on {problem:?}: relative L2 error {error:e}");
    assert_eq!(counters.executed_blocks, counters.blocks);
    assert!(counters.instructions() > 0);
}

#[test]
fn scalar_is_attention() {
    check(Kernel::Scalar, &Problem { heads: 2, queries: 64, keys: 64 });
}

#[test]
fn scalar_masks_the_ends() {
    check(Kernel::Scalar, &Problem { heads: 1, queries: 37, keys: 43 });
}

#[test]
fn mma_is_attention() {
    check(Kernel::Mma, &Problem { heads: 2, queries: 128, keys: 128 });
}

#[test]
fn mma_masks_the_ends() {
    check(Kernel::Mma, &Problem { heads: 2, queries: 70, keys: 99 });
}

#[test]
fn mma_with_one_short_tile() {
    check(Kernel::Mma, &Problem { heads: 1, queries: 5, keys: 3 });
}

#[test]
fn causal_mma_is_attention() {
    check(Kernel::MmaCausal, &Problem { heads: 2, queries: 192, keys: 192 });
}

#[test]
fn causal_mma_with_more_keys_than_queries() {
    check(Kernel::MmaCausal, &Problem { heads: 1, queries: 70, keys: 150 });
}

/// The first queries see no key, so their output is zero.
#[test]
fn causal_mma_with_fewer_keys_than_queries() {
    check(Kernel::MmaCausal, &Problem { heads: 1, queries: 130, keys: 66 });
}

/// The tensor cores do all products except those of the padding: two products of 2 * queries * keys * 64 operations.
#[test]
fn mma_counts_its_operations() {
    let problem = Problem { heads: 1, queries: 64, keys: 128 };
    let (_, counters) = problem.run(Kernel::Mma, &Options::default());
    assert_eq!(counters.flop.tensor16, 4 * 64 * 128 * 64);
}

#[test]
fn results_do_not_depend_on_the_threads_of_the_cpu() {
    let problem = Problem { heads: 3, queries: 128, keys: 96 };
    let on = |threads| problem.run(Kernel::MmaCausal, &Options { threads: Some(threads), ..Options::default() });
    assert_eq!(on(1), on(3));
}

/// A sample of the blocks is scaled up exactly: without a mask all blocks do the same work.
#[test]
fn sampled_blocks_stand_for_the_others() {
    let problem = Problem { heads: 8, queries: 128, keys: 64 };
    let (_, all) = problem.run(Kernel::Mma, &Options::default());
    let prepared = problem.prepare(Kernel::Mma);
    let sample = prepared.launch(&Options { sample_blocks: Some(4), ..Options::default() });
    assert_eq!((sample.blocks, sample.executed_blocks), (16, 4));
    assert_eq!(sample.instructions() * 4, all.instructions());
    assert_eq!(sample.flop.tensor16 * 4, all.flop.tensor16);
}
