//! The suite that every device passes: the required reports of its worker about correct and broken kernels.
//!
//! It always runs on the fake and the virtual device. On a CUDA device, run `cargo test --release --test integration
//! devices:: -- --ignored`. There, set `OPTLOOP_EXE` if the executable is not where it was built.

mod ablations;
mod bench;
mod comparisons;
mod hopper;

use bench::{Bench, cold, small};
use optloop::domain::device::{DeviceInfo, TimeSource};
use optloop::domain::measurement::check::Check;
use optloop::domain::measurement::evaluation::Outcome;
use optloop::domain::op::Dtype;
use optloop::ops;

/// The kernel's `fault` argument, its outcome, and the check that catches it. The fake device uses the same numbers.
const FAULTS: [(i64, &str, Option<Check>); 11] = [
    (0, "measured", None),
    (1, "wrong", Some(Check::Accuracy)),
    (2, "crashed", None),
    (3, "wrong", Some(Check::Written)),
    (4, "timed_out", None),
    (6, "wrong", Some(Check::Finite)),
    // Wrong from its second launch on.
    (7, "cheated", Some(Check::Timed)),
    // Writes behind its output.
    (8, "wrong", Some(Check::GuardRegions)),
    // Overwrites its queries after reading them.
    (9, "wrong", Some(Check::Inputs)),
    // Slightly different bytes from its second launch on.
    (10, "wrong", Some(Check::Repeatable)),
    // Does nothing from its second launch on.
    (11, "cheated", Some(Check::HeldOutInputs)),
];

/// The fault of a kernel that never ends from its second launch on.
const HANGS_LATER: i64 = 20;

/// Faults that an evaluation misses, and the acceptance check that catches each.
const ACCEPTANCE: [(i64, &str, Check); 3] = [
    // Does not subtract the largest score.
    (12, "wrong", Check::Probe),
    // Correct for 33 queries only.
    (13, "wrong", Check::Hidden),
    // Memorizes its results.
    (14, "cheated", Check::Memoization),
];

/// Returns the outcome of a fault on a device. The virtual device finds accesses out of bounds itself. For timing it
/// executes once, which is a first launch again after loading.
fn expected(device: &str, fault: (i64, &'static str, Option<Check>)) -> (&'static str, Option<Check>) {
    match (device.starts_with("virtual"), fault) {
        (true, (7, ..)) => ("cheated", Some(Check::HeldOutInputs)),
        (true, (8, ..)) => ("crashed", None),
        (true, (10, ..)) => ("measured", None),
        (_, (_, kind, check)) => (kind, check),
    }
}

/// Every fault has its outcome, and afterwards the correct kernel is still measured as before.
async fn distinguishes_correct_from_broken_kernels(device: &str) {
    let mut bench = Bench::on(device).await;
    for fault in FAULTS {
        let outcome = bench.evaluate(fault.0, 0, None).await.outcome;
        assert_eq!((outcome.kind(), outcome.check()), expected(device, fault), "fault {}: {outcome:?}", fault.0);
        let after = bench.evaluate(0, 0, None).await;
        assert_eq!(after.outcome, Outcome::Measured, "after fault {}", fault.0);
    }
}

/// A correct kernel passes its acceptance checks. The faults that only those checks can find are found.
async fn accepts(device: &str) {
    let mut bench = Bench::on(device).await;
    let replays = bench.worker.info().replays();
    let passed = bench.accept(small(), 0).await.unwrap();
    let op = ops::find("attention").unwrap();
    let inputs = op.inputs(&small().dims, Dtype::F16);
    let probes = op.probes().iter().filter(|probe| probe.change.is_of(&inputs)).count();
    let asked = 1 + probes + bench::hidden(&small()).len();
    assert_eq!(passed.outputs, asked, "the case, the probes and the hidden shapes");
    assert_eq!(passed.slowdown.is_some(), replays);
    for (fault, kind, check) in ACCEPTANCE {
        assert_eq!(bench.evaluate(fault, 0, None).await.outcome, Outcome::Measured, "fault {fault}");
        if check == Check::Memoization && bench.worker.info().time_source() == TimeSource::Measured {
            // A case this small takes equally long, whatever a kernel omits.
            continue;
        }
        let accepted = bench.accept(small(), fault).await;
        if check == Check::Memoization && device.starts_with("virtual") {
            // A kernel can only find out whether the output is already there by reading it.
            let caught = accepted.unwrap_err();
            assert!(caught.message().unwrap().contains("uninitialised"), "{caught:?}");
            continue;
        }
        let caught = accepted.unwrap_err();
        assert_eq!((caught.kind(), caught.check()), (kind, Some(check)), "fault {fault}: {caught:?}");
    }
    // One launch serves two checks, so chance decides which one catches the kernel that does nothing.
    let evaluated = bench.evaluate(15, 0, None).await.outcome;
    if evaluated == Outcome::Measured {
        bench.accept(small(), 15).await.unwrap_err();
    }
}

/// The same in cold caches, where every set of buffers has its own contents.
async fn accepts_cold(device: &str) {
    let mut bench = Bench::on(device).await;
    assert!(bench.accept(cold(), 0).await.unwrap().slowdown.is_some());
    assert_eq!(bench.accept(cold(), 14).await.unwrap_err().check(), Some(Check::Memoization));
}

/// A hang during timing is detected as quickly as a hang in the first launch.
async fn a_later_hang_is_detected(device: &str) {
    let mut bench = Bench::on(device).await;
    let outcome = bench.evaluate(HANGS_LATER, 0, None).await.outcome;
    assert_eq!(outcome.kind(), "timed_out", "{outcome:?}");
    // A virtual GPU executes once to time, and detects the hang itself.
    let said = outcome.message().unwrap();
    assert!(said.contains(if device.starts_with("virtual") { "runaway" } else { "`replay` took over 5s" }), "{said}");
    assert_eq!(bench.evaluate(0, 0, None).await.outcome, Outcome::Measured);
}

/// A model needs one screening run: a start is modelled, a faster time is confirmed, any other is not.
async fn models_once(device: &str) {
    let mut bench = Bench::on(device).await;
    let first = bench.evaluate(0, 0, None).await;
    let [measurement] = first.measurements.as_slice() else { panic!("one case") };
    let modelled = measurement.screening.as_ref().unwrap();
    assert_eq!((modelled.samples_ns.len(), modelled.launches_per_sample), (1, 1));
    assert_eq!(modelled.interval_ns.lo, modelled.interval_ns.hi, "a computed time has no noise");
    assert!(modelled.median_ns > 500.0 && modelled.median_ns < 1e8, "{} ns", modelled.median_ns);
    assert_eq!(measurement.confirmation, None);
    assert_eq!(measurement.correctness.rows_checked, 66);
    let profile = measurement.profile.as_ref().unwrap();
    assert_eq!((profile.launches[0].blocks, profile.is_sampled()), (4, false));

    let again = bench.evaluate(0, 0, Some(modelled.median_ns)).await;
    assert_eq!(again.measurements[0].screening.as_ref(), Some(modelled), "the same again");
    assert_eq!(again.measurements[0].confirmation, None);
    let slower_incumbent = bench.evaluate(0, 0, Some(modelled.median_ns * 10.0)).await;
    assert_eq!(slower_incumbent.measurements[0].confirmation.as_ref().unwrap().samples_ns.len(), 1);
}

/// A kernel that asks for more shared memory than a block can have is refused without side effects.
async fn refuses_what_does_not_fit(device: &str) {
    let mut bench = Bench::on(device).await;
    let refused = bench.evaluate(0, 1 << 20, None).await;
    assert_eq!(refused.outcome.kind(), "rejected_by_compiler", "{:?}", refused.outcome);
    assert_eq!(bench.evaluate(0, 0, None).await.outcome, Outcome::Measured);
}

/// A variant is screened, and one that cannot win is dropped after three samples. Only a comparison confirms.
async fn samples_as_the_policy_says(device: &str) {
    let mut bench = Bench::on(device).await;
    let first = bench.evaluate(0, 0, None).await;
    let [measurement] = first.measurements.as_slice() else { panic!("one case") };
    let screened = measurement.screening.as_ref().unwrap();
    assert_eq!(screened.samples_ns.len(), 10);
    assert!(screened.median_ns > 500.0 && screened.median_ns < 1e8, "{} ns", screened.median_ns);
    assert!(screened.launches_per_sample > 1, "a sample lasts 200 us");
    assert!(measurement.correctness.relative_l2 < 1e-3);
    assert_eq!(measurement.correctness.rows_checked, 66);

    let slower_incumbent = bench.evaluate(0, 0, Some(screened.median_ns * 10.0)).await;
    assert_eq!(slower_incumbent.measurements[0].confirmation, None);
    let faster_incumbent = bench.evaluate(0, 0, Some(screened.median_ns / 10.0)).await;
    assert_eq!(faster_incumbent.measurements[0].screening.as_ref().unwrap().samples_ns.len(), 3);
}

fn describes_itself(info: &DeviceInfo) {
    assert!(info.sms > 0 && info.sm >= 80 && info.arch.starts_with("sm_"), "{info:?}");
    assert!(info.peaks.f16_flops > 1e13 && info.peaks.memory_bytes_per_s > 1e11, "{info:?}");
}

#[tokio::test]
async fn the_fake_device_passes() {
    describes_itself(Bench::on("fake").await.worker.info());
    samples_as_the_policy_says("fake").await;
    distinguishes_correct_from_broken_kernels("fake").await;
    comparisons::times_cold("fake").await;
    comparisons::times_a_plan_by_itself("fake").await;
}

#[tokio::test]
async fn the_fake_device_runs_acceptance_checks() {
    accepts("fake").await;
    accepts_cold("fake").await;
}

#[tokio::test]
async fn the_virtual_device_runs_acceptance_checks() {
    accepts("virtual:h200").await;
}

#[tokio::test]
#[ignore = "needs a CUDA GPU"]
async fn the_cuda_device_runs_acceptance_checks() {
    accepts("cuda:0").await;
    accepts_cold("cuda:0").await;
}

#[tokio::test]
async fn the_fake_device_holds_comparisons() {
    comparisons::samples_in_turns("fake").await;
    comparisons::distinguishes_correct_from_broken_kernels("fake").await;
    comparisons::finds_participants_that_stopped_computing("fake").await;
}

#[tokio::test]
async fn the_virtual_device_launches_as_hopper_does() {
    hopper::launches("virtual:h200").await;
    hopper::ends_after_all_launches("virtual:h200").await;
}

#[tokio::test]
async fn the_fake_device_names_lines() {
    ablations::name_lines("fake").await;
}

#[tokio::test]
#[ignore = "needs a CUDA GPU"]
async fn the_cuda_device_times_lines() {
    ablations::name_lines("cuda:0").await;
}

#[tokio::test]
#[ignore = "needs a CUDA GPU of compute capability 9.0"]
async fn the_cuda_device_launches_as_hopper_does() {
    hopper::launches("cuda:0").await;
    hopper::launches_cold("cuda:0").await;
}

#[tokio::test]
#[ignore = "needs a CUDA GPU of compute capability 9.0"]
async fn the_cuda_device_ends_a_plan_after_all_launches() {
    hopper::ends_after_all_launches("cuda:0").await;
}

#[tokio::test]
async fn the_virtual_device_passes() {
    describes_itself(Bench::on("virtual:h200").await.worker.info());
    models_once("virtual:h200").await;
    a_later_hang_is_detected("virtual:h200").await;
    distinguishes_correct_from_broken_kernels("virtual:h200").await;
    refuses_what_does_not_fit("virtual:h200").await;
    comparisons::holds_no_comparisons("virtual:h200").await;
    let mut bench = Bench::on("virtual:h200").await;
    let crashed = bench.evaluate(2, 0, None).await.outcome;
    let said = crashed.message().unwrap();
    assert!(
        said.contains("out of bounds") && said.contains("kernel faulty") && said.contains("block (1, 1, 0)"),
        "{said}"
    );
    let endless = bench.evaluate(4, 0, None).await.outcome;
    assert!(endless.message().unwrap().contains("runaway"), "{endless:?}");
}

#[tokio::test]
#[ignore = "needs a CUDA GPU"]
async fn the_cuda_device_passes() {
    describes_itself(Bench::on("cuda:0").await.worker.info());
    samples_as_the_policy_says("cuda:0").await;
    a_later_hang_is_detected("cuda:0").await;
    distinguishes_correct_from_broken_kernels("cuda:0").await;
    refuses_what_does_not_fit("cuda:0").await;
    comparisons::times_cold("cuda:0").await;
    comparisons::times_a_plan_by_itself("cuda:0").await;
    comparisons::refuses_a_plan_of_another_source("cuda:0").await;
}

#[tokio::test]
#[ignore = "needs a CUDA GPU"]
async fn the_cuda_device_holds_comparisons() {
    comparisons::samples_in_turns("cuda:0").await;
    comparisons::distinguishes_correct_from_broken_kernels("cuda:0").await;
    comparisons::finds_participants_that_stopped_computing("cuda:0").await;
}
