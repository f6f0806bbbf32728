//! Planted faults: each kind is found at the line, thread and address where it was planted. A clean variant of each
//! kernel causes no fault.

mod harness;

use harness::{BYTES, Bench, without_detail};
use virtual_gpu::fault::{Access, FaultKind, LaunchError};

/// Asserts an access out of bounds.
fn expect_bounds(
    bench: &Bench,
    kernel: &str,
    threads: u32,
    thread: u32,
    (access, space, address, bytes): (Access, &'static str, u64, u32),
) {
    let fault = bench.fault(kernel, threads);
    let kind = FaultKind::OutOfBounds { access, space, address, bytes, detail: String::new() };
    assert_eq!((fault.thread, without_detail(&fault)), ([thread, 0, 0], kind), "{fault}");
}

#[test]
fn global_accesses_outside() {
    let bench = Bench::new("global_bounds");
    let (input, output) = (bench.input, bench.output);
    expect_bounds(&bench, "past_end", 128, 127, (Access::Read, "global", input + BYTES, 4));
    // On a GPU the next allocation may start right there; the fault must not depend on that.
    expect_bounds(&bench, "neighbour", 128, 5, (Access::Write, "global", input + BYTES, 4));
    expect_bounds(&bench, "before_start", 128, 0, (Access::Write, "global", output - 8, 4));
    expect_bounds(&bench, "atomic", 1, 0, (Access::Atomic, "global", output + BYTES, 4));
    expect_bounds(&bench, "null", 32, 0, (Access::Read, "global", 16, 4));
    expect_bounds(&bench, "vector", 128, 32, (Access::Read, "global", input + BYTES, 16));
    bench.clean("clean", 128);
}

#[test]
fn shared_accesses_outside() {
    let bench = Bench::new("shared_bounds");
    expect_bounds(&bench, "past_end", 128, 127, (Access::Write, "shared", 512, 4));
    expect_bounds(&bench, "generic", 128, 127, (Access::Write, "shared", 512, 4));
    bench.clean("clean", 128);
}

#[test]
fn local_accesses_outside() {
    let bench = Bench::new("local_bounds");
    expect_bounds(&bench, "past_end", 32, 9, (Access::Write, "local", 16, 4));
    bench.clean("clean", 32);
}

#[test]
fn misaligned_accesses() {
    let bench = Bench::new("misaligned");
    let kind = |space, address, bytes| FaultKind::Misaligned { access: Access::Read, space, address, bytes };
    bench.expect("global", 32, 7, kind("global", bench.input + 30, 4));
    bench.expect("vector", 32, 1, kind("global", bench.input + 8, 16));
    bench.expect("shared", 128, 1, kind("shared", 6, 4));
    bench.clean("clean", 32);
}

#[test]
fn use_after_free() {
    let mut bench = Bench::new("global_bounds");
    bench.clean("clean", 128);
    let (input, output) = (bench.input, bench.output);
    bench.gpu.free(input).expect("it is allocated");
    let error = bench.launch("clean", 128).expect_err("the input is gone");
    let LaunchError::Fault(fault) = error else { panic!("{error}") };
    let read = FaultKind::UseAfterFree { access: Access::Read, address: input + 4, bytes: 4 };
    assert_eq!((fault.thread, &fault.kind), ([0, 0, 0], &read), "{fault}");

    // A new allocation of the same size does not take the place of the old one.
    let again = bench.gpu.alloc(BYTES).expect("there is memory");
    assert!(again != input && again != output);
    assert!(bench.gpu.free(input).is_err(), "freed twice");
    assert!(bench.gpu.write(input, &[0]).is_err(), "written after free");
}

#[test]
fn uninitialised_reads() {
    let bench = Bench::new("uninitialised");
    let kind = |space, address| FaultKind::Uninitialised { space, address, bytes: 4 };
    bench.expect("global", 32, 0, kind("global", bench.output));
    bench.expect("shared", 128, 64, kind("shared", 256));
    bench.clean("clean", 128);
}

#[test]
fn uninitialised_reads_are_only_checked_on_request() {
    let mut bench = Bench::new("uninitialised");
    bench.options.uninitialised = false;
    bench.clean("global", 32);
    bench.clean("shared", 128);
}

#[test]
fn forgotten_memory_is_uninitialised() {
    let mut bench = Bench::new("uninitialised");
    bench.clean("clean", 128);
    bench.clean("global", 32);
    bench.gpu.mark_uninitialised(bench.output + 20, 4).expect("it is allocated");
    bench.expect("global", 32, 5, FaultKind::Uninitialised { space: "global", address: bench.output + 20, bytes: 4 });
}

/// Without the wait the copy has not arrived, so the kernel reads uninitialised memory.
#[test]
fn asynchronous_copy_without_wait() {
    let bench = Bench::new("uninitialised");
    let in_flight = FaultKind::InFlight { address: 0, access: Access::Read, writes: true };
    bench.expect("copy", 128, 0, in_flight);
    bench.clean("clean_copy", 128);
}

/// Asserts a race between the first two warps at a word between `from` and `to`, with these accesses in either order.
fn expect_race(bench: &Bench, kernel: &str, accesses: [Access; 2], words: std::ops::Range<u64>) {
    let fault = bench.fault(kernel, 64);
    let FaultKind::Race { address, access, warp, other_access, other_warp } = fault.kind else { panic!("{fault}") };
    assert!(words.contains(&address), "{fault}");
    assert!([access, other_access] == accesses || [other_access, access] == accesses, "{fault}");
    assert_eq!(warp + other_warp, 1, "{fault}");
    assert_eq!(fault.thread[0] / 32, warp, "{fault}");
}

#[test]
fn races_between_warps() {
    let bench = Bench::new("race");
    expect_race(&bench, "missing_barrier", [Access::Read, Access::Write], 0..256);
    expect_race(&bench, "write_write", [Access::Write, Access::Write], 0..4);
    expect_race(&bench, "read_write", [Access::Read, Access::Write], 0..4);
    expect_race(&bench, "atomic_read", [Access::Read, Access::Atomic], 0..4);
    for kernel in ["clean", "clean_atomics", "clean_within_warp", "clean_named"] {
        bench.clean(kernel, 64);
    }
}

#[test]
fn races_are_only_checked_on_request() {
    let mut bench = Bench::new("race");
    bench.options.races = false;
    bench.clean("missing_barrier", 64);
}

#[test]
fn divergent_barriers() {
    let bench = Bench::new("barrier");
    bench.expect("divergent", 64, 32, FaultKind::DivergentBarrier { active: 8, live: 32 });
    bench.expect("guarded", 32, 0, FaultKind::DivergentBarrier { active: 16, live: 32 });
    bench.clean("clean", 64);
    bench.clean("clean_after_exit", 64);
}

#[test]
fn deadlocks() {
    let bench = Bench::new("barrier");
    for (kernel, threads) in [("two_names", 64), ("nobody_arrives", 64)] {
        let fault = bench.fault(kernel, threads);
        let FaultKind::Deadlock { waiting, warps, ref detail } = fault.kind else { panic!("{fault}") };
        assert_eq!((waiting, warps, fault.thread), (2, 2, [0, 0, 0]), "{fault}");
        assert!(!detail.is_empty());
    }
    bench.clean("clean_mbarrier", 64);
}

#[test]
fn loops_without_end() {
    let mut bench = Bench::new("control");
    bench.options.instruction_limit = 10_000;
    bench.expect("runaway", 1, 0, FaultKind::Runaway { limit: 10_000 });
    let fault = bench.fault("runaway_with_waits", 64);
    assert_eq!(fault.kind, FaultKind::Runaway { limit: 10_000 }, "no slice of a warp comes to its end");
    bench.clean("clean", 32);
}

#[test]
fn traps() {
    let bench = Bench::new("control");
    bench.expect("trapped", 32, 5, FaultKind::Trap);
}

#[test]
fn wrong_members() {
    let bench = Bench::new("control");
    for (kernel, expected_members, expected_active) in
        [("shuffle", 0xffff_ffff, 0xffff), ("not_a_member", 0x7fff_ffff, 0xffff_ffff), ("vote", 0xffff_ffff, 0xffff)]
    {
        let fault = bench.fault(kernel, 32);
        let FaultKind::WrongMembers { opcode, members, active } = fault.kind else { panic!("{fault}") };
        assert_eq!((members, active), (expected_members, expected_active), "{fault}");
        assert!(fault.instruction.contains(opcode.split('.').next().unwrap_or_default()), "{fault}");
    }
}

#[test]
fn launches_that_are_refused() {
    let bench = Bench::new("launches");
    let refuses = |kernel, grid, block, cluster, shared| {
        let result = bench.launch_shape(kernel, grid, block, cluster, shared);
        assert!(matches!(result, Err(LaunchError::Refused(_))), "{grid:?} {block:?} {cluster:?} {shared}: {result:?}");
    };
    let one = [1, 1, 1];
    let warp = [32, 1, 1];
    refuses("clean", one, warp, one, 227 * 1024 + 1);
    refuses("clean", one, [1025, 1, 1], one, 0);
    refuses("clean", one, [64, 32, 1], one, 0);
    refuses("clean", one, [1, 1, 65], one, 0);
    refuses("clean", one, [0, 1, 1], one, 0);
    refuses("clean", [0, 1, 1], warp, one, 0);
    refuses("clean", [1, 65536, 1], warp, one, 0);
    refuses("clean", [1, 1, 65536], warp, one, 0);
    refuses("clean", [3, 1, 1], warp, [2, 1, 1], 0);
    refuses("clean", [32, 1, 1], warp, [32, 1, 1], 0);
    refuses("limited", one, [65, 1, 1], one, 0);
    refuses("required", one, [64, 1, 1], one, 0);
    refuses("no_such_kernel", one, warp, one, 0);
    for (kernel, threads) in [("clean", 128), ("limited", 64), ("required", 32)] {
        bench.clean(kernel, threads);
    }
    bench.launch_shape("clean", one, warp, one, 227 * 1024).expect("as much as a block may have");
    bench.launch_shape("clean", [16, 1, 1], warp, [16, 1, 1], 0).expect("as many blocks as a cluster may have");
}
