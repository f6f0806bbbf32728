//! A worker's reports in a comparison, in cold caches, and for a plan that is only timed.

use optloop::domain::device::regime;
use optloop::domain::family::plan::{Arg, Initial, Launch, LaunchPlan, Workspace};
use optloop::domain::measurement::check::Check;
use optloop::ops;
use optloop::runner::messages::TimeRequest;
use optloop::runner::worker::{AskError, WorkerError};

use super::FAULTS;
use super::bench::{Bench, cold, small};

/// The fault of a kernel that stops computing after 50,000 launches, or a few hundred on the fake device.
const SKIPS_LATER: i64 = 19;

/// A challenger and its A/A control are sampled in turns and stay correct.
pub async fn samples_in_turns(device: &str) {
    let mut bench = Bench::on(device).await;
    for case in [small(), cold()] {
        let bench_participant = bench.participant(case.clone(), 0);
        // The small case's comparison continues while the cold one runs.
        let first = if case.name == "small" { 0 } else { 2 };
        let challenger = bench.worker.enter(bench_participant.clone()).await.unwrap();
        let control = bench.worker.enter(bench_participant).await.unwrap();
        assert_eq!(challenger.correctness, control.correctness, "the same output on the same inputs");
        for participant in [first, first + 1, first + 1, first] {
            let samples = bench.worker.sample(participant, 5, &case.name).await.unwrap().samples_ns;
            assert_eq!(samples.len(), 5);
            assert!(samples.iter().all(|ns| *ns > 500.0 && *ns < 1e8), "{samples:?}");
            assert_eq!(bench.worker.check(participant, &case.name).await.unwrap(), challenger.correctness);
        }
    }
}

/// Every fault has its outcome in a comparison, too. A failing participant does not affect the others, unless it kills
/// the process: then the comparison is over.
pub async fn distinguishes_correct_from_broken_kernels(device: &str) {
    for (fault, expected, _) in FAULTS {
        let mut bench = Bench::on(device).await;
        let [right, faulty] = [0, fault].map(|fault| bench.participant(small(), fault));
        bench.worker.enter(right.clone()).await.unwrap();
        let sampled = match bench.worker.enter(faulty).await {
            Ok(_) => bench.worker.sample(1, 2, "small").await.map(drop),
            Err(error) => Err(error),
        };
        let kind = match sampled {
            Ok(()) => "measured",
            Err(AskError::Variant(outcome)) => outcome.kind(),
            Err(AskError::Machine(error)) => panic!("{error}"),
        };
        assert_eq!(kind, expected, "fault {fault}");
        let after = bench.worker.sample(0, 2, "small").await;
        if ["crashed", "timed_out"].contains(&expected) {
            let Err(AskError::Machine(WorkerError::Broken(said))) = after else { panic!("{after:?}") };
            assert_eq!(said, "the worker of a comparison has exited");
        } else {
            assert_eq!(after.unwrap().samples_ns.len(), 2, "after fault {fault}");
            bench.worker.check(0, "small").await.unwrap();
        }
    }
}

/// A kernel that computes for thousands of launches and then repeats one result passes an evaluation. It also passes
/// every sample group of a comparison, because their contents are the same. The check at the end finds it, and the
/// others continue unaffected.
pub async fn finds_participants_that_stopped_computing(device: &str) {
    let mut bench = Bench::on(device).await;
    assert_eq!(bench.evaluate(SKIPS_LATER, 0, None).await.outcome.kind(), "measured");
    let [right, patient] = [0, SKIPS_LATER].map(|fault| bench.participant(small(), fault));
    bench.worker.enter(right).await.unwrap();
    let entered = bench.worker.enter(patient).await.unwrap();
    let samples = (60_000 / entered.launches_per_sample as usize).max(400);
    bench.worker.sample(1, samples, "small").await.unwrap();
    let Err(AskError::Variant(checked)) = bench.worker.check(1, "small").await else { panic!("it is caught") };
    assert_eq!((checked.kind(), checked.check()), ("cheated", Some(Check::HeldOutInputs)), "{checked:?}");
    assert_eq!(bench.worker.sample(0, 2, "small").await.unwrap().samples_ns.len(), 2);
    bench.worker.check(0, "small").await.unwrap();
}

/// A cold case is correct, a wrong one is detected, and a replay uses every set of buffers equally often.
pub async fn times_cold(device: &str) {
    let mut bench = Bench::on(device).await;
    let op = ops::find("attention").unwrap();
    let bytes = op.bytes(&cold().dims, optloop::domain::op::Dtype::F16) as u64;
    let sets = regime::sets(bytes, bench.worker.info()).unwrap();
    for (fault, expected) in [(0, "measured"), (1, "wrong"), (7, "cheated")] {
        let evaluation = bench.evaluate_on(cold(), fault, 0, None).await.unwrap();
        assert_eq!(evaluation.outcome.kind(), expected, "fault {fault}: {:?}", evaluation.outcome);
        for measurement in evaluation.measurements {
            let screened = measurement.screening.unwrap();
            assert_eq!(screened.launches_per_sample % sets, 0, "{sets} sets");
            assert!(screened.median_ns > 500.0 && screened.median_ns < 1e8, "{} ns", screened.median_ns);
        }
    }
    // The same shape needs no such thing when warm, and the two do not disturb each other.
    assert_eq!(bench.evaluate(0, 0, None).await.outcome.kind(), "measured");
    let mut tiny = cold();
    tiny.dims.extend(["B", "H", "Sq", "Sk"].map(|dim| (dim.to_owned(), 1)));
    // The worker reports a device fault; another worker finds the device healthy, and only this evaluation fails.
    let refused = bench.evaluate_on(tiny, 0, 0, None).await.unwrap().outcome;
    let said = refused.message().unwrap();
    assert!(
        said.starts_with("the device failed: case `cold`: a working set of 128 bytes cannot be timed cold: "),
        "{said}"
    );
    assert_eq!(bench.evaluate(0, 0, None).await.outcome.kind(), "measured");
}

const COPY: &str = r#"
extern "C" __global__ void copy(float* to, const float* from) {
    int i = blockIdx.x * 256 + threadIdx.x;
    to[i] = from[i];
}
"#;

/// Makes a plan that copies 4 MiB from one workspace to another.
fn copy(bench: &Bench, kernel: &str) -> TimeRequest {
    let workspace = |name: &str| Workspace { name: name.to_owned(), bytes: 4 << 20, initial: Initial::Zero };
    let launch = Launch {
        kernel: kernel.to_owned(),
        grid: [4096, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        cluster: None,
        programmatic: false,
        args: ["to", "from"].map(|name| Arg::Workspace(name.to_owned())).into(),
    };
    let plan = LaunchPlan {
        workspaces: ["to", "from"].map(workspace).into(),
        launches: vec![launch],
        ..LaunchPlan::default()
    };
    TimeRequest { artifact: bench.compile(COPY), plan, problem: None, samples: 7, min_sample_ns: 200_000.0, seed: 0 }
}

/// A plan without an op and tensors is timed repeatedly in one process.
pub async fn times_a_plan_by_itself(device: &str) {
    let mut bench = Bench::on(device).await;
    for _ in 0..3 {
        let request = copy(&bench, "copy");
        let timing = bench.worker.time(request).await.unwrap();
        assert_eq!(timing.samples_ns.len(), 7);
        assert!(timing.launches_per_sample > 1, "a sample lasts 200 us");
        assert!(timing.median_ns > 500.0 && timing.median_ns < 1e6, "{} ns", timing.median_ns);
    }
}

/// A plan that names a missing kernel is refused without side effects. The fake device does not check.
pub async fn refuses_a_plan_of_another_source(device: &str) {
    let mut bench = Bench::on(device).await;
    let request = copy(&bench, "cpoy");
    let refused = bench.worker.time(request).await.unwrap_err().to_string();
    assert!(refused.contains("there is no kernel `cpoy`"), "{refused}");
    let request = copy(&bench, "copy");
    assert!(bench.worker.time(request).await.is_ok());
}

/// A device that models its times cannot sample in turns.
pub async fn holds_no_comparisons(device: &str) {
    let mut bench = Bench::on(device).await;
    let request = bench.participant(small(), 0);
    let refused = bench.worker.enter(request).await.unwrap_err();
    let name = &bench.worker.info().name;
    let said =
        format!("the device failed: the {name} models its times: only a device that replays can run comparisons");
    assert_eq!(refused.to_string(), said);
}
