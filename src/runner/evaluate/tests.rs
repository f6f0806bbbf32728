//! What evaluations and comparisons hold on the fake device, and what they free.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use super::*;
use crate::domain::code::artifact::Artifact;
use crate::domain::compute::Compute;
use crate::domain::device::regime::Regime;
use crate::domain::family::plan::{Arg, Initial, Launch, LaunchPlan, Scalar, ScalarValue, Workspace};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::settings::Measuring;
use crate::domain::measurement::verdict::Policy;
use crate::domain::op::{CheckLimits, DimSpec, Dims, Dtype, Op, OpSource, TensorSpec};
use crate::domain::statistics::sampling::Sampling;
use crate::domain::workload::{Case, Tolerance};
use crate::runner::device::FakeDevice;
use crate::runner::messages::{AcceptanceRequest, EnterRequest, Entered, PlannedCase, TimeRequest};

/// Faults of the fake device.
const RIGHT: i32 = 0;
/// See `faults::SLOW_FROM_MEMORY` of the fake device.
const SLOW_FROM_MEMORY: i32 = 21;
const WRONG: i32 = 1;
const WRONG_LATER: i32 = 7;
const STALE: i32 = 11;
const WRITES_BESIDE: i32 = 8;
const WRITES_INPUTS: i32 = 9;
const RIGHT_AT_ENDS: i32 = 16;
const WRITES_INPUTS_LATER: i32 = 17;
const WRITES_BESIDE_LATER: i32 = 18;

/// Faults that screening finds, with the check that finds them.
const SCREENED: [(i32, &str, Check); 8] = [
    (WRONG, "wrong", Check::Accuracy),
    (3, "wrong", Check::Written),
    (6, "wrong", Check::Finite),
    (WRONG_LATER, "cheated", Check::Timed),
    (WRITES_BESIDE, "wrong", Check::GuardRegions),
    (WRITES_INPUTS, "wrong", Check::Inputs),
    (10, "wrong", Check::Repeatable),
    (STALE, "cheated", Check::HeldOutInputs),
];

/// Faults that pass screening and that the acceptance checks find.
const ACCEPTANCE: [(i32, &str, Check); 3] =
    [(12, "wrong", Check::Probe), (13, "wrong", Check::Hidden), (14, "cheated", Check::Memoization)];

fn artifact() -> Artifact {
    Artifact {
        key: String::new(),
        arch: "sm_90a".to_owned(),
        options: Vec::new(),
        nvrtc: "13.0".to_owned(),
        cubin: vec![1],
        ptx: String::new(),
        kernels: Vec::new(),
        log: String::new(),
        compile_ms: 0.0,
    }
}

fn plan(fault: i32) -> LaunchPlan {
    let fault = Arg::Scalar(Scalar { name: "FAULT".to_owned(), value: ScalarValue::I32(fault) });
    let tensors = ["q", "k", "v", "o"].map(|name| Arg::Tensor(name.to_owned()));
    LaunchPlan {
        workspaces: vec![Workspace { name: "w".to_owned(), bytes: 64, initial: Initial::Zero }],
        launches: vec![Launch {
            kernel: "k".to_owned(),
            grid: [2, 1, 1],
            block: [64, 1, 1],
            shared_bytes: 0,
            cluster: None,
            programmatic: false,
            args: tensors.into_iter().chain([fault]).collect(),
        }],
        ..LaunchPlan::default()
    }
}

fn case(regime: Regime) -> Case {
    let dims: Dims = [("B", 1), ("H", 2), ("Sq", 33), ("Sk", 33), ("D", 16), ("CAUSAL", 1)]
        .map(|(name, size)| (name.to_owned(), size))
        .into();
    Case { name: "c".into(), dims, regime }
}

const TOLERANCE: Tolerance = Tolerance { relative_l2: 1e-3, worst_row: 4e-3 };

const MEASURING: Measuring = Measuring {
    policy: Policy {
        min_speedup: 1.01,
        screening: Sampling { min_samples: 10, max_samples: 30, relative_error: 0.005, max_ns: 1e9 },
        comparison: Sampling { min_samples: 30, max_samples: 30, relative_error: 0.002, max_ns: 1e10 },
        group_size: 10,
    },
    min_sample_ns: 200_000.0,
    baseline_samples: 10,
    oracle_flop: 1e10,
    model_flop: 1e9,
};

fn evaluation(fault: i32, regime: Regime) -> EvaluateRequest {
    EvaluateRequest {
        artifact: artifact(),
        op: OpSource::BuiltIn("attention".to_owned()),
        dtype: Dtype::F16,
        compute: Compute::Dtype,
        tolerance: TOLERANCE,
        cases: vec![CaseRequest { case: case(regime), plan: plan(fault), incumbent_ns: None, scaled: None }],
        measuring: MEASURING,
        input_seed: 7,
        later_input_seed: None,
        own_seed: 8,
        within_s: None,
        drops_slow: false,
        explain: false,
    }
}

fn participant(fault: i32, regime: Regime) -> EnterRequest {
    EnterRequest {
        artifact: artifact(),
        op: OpSource::BuiltIn("attention".to_owned()),
        dtype: Dtype::F16,
        compute: Compute::Dtype,
        tolerance: TOLERANCE,
        case: case(regime),
        plan: plan(fault),
        measuring: MEASURING,
        input_seed: 7,
    }
}

fn outcome<T: std::fmt::Debug>(answer: Result<T, Ended>) -> Outcome {
    match answer.unwrap_err() {
        Ended::Outcome(outcome) | Ended::TooLong(outcome) => outcome,
        Ended::Oracle(message) | Ended::Machine(message) => panic!("{message}"),
    }
}

#[test]
fn an_evaluation_releases_everything_after_any_outcome() {
    let mut device = FakeDevice::new();
    for (fault, regime, kind) in [
        (RIGHT, Regime::Warm, "measured"),
        (RIGHT, Regime::Cold, "measured"),
        (WRONG, Regime::Warm, "wrong"),
        (WRONG_LATER, Regime::Cold, "cheated"),
    ] {
        let evaluation = evaluate(&mut device, &evaluation(fault, regime), &Stock::default(), &mut |_, _| {}).unwrap();
        assert_eq!(evaluation.outcome.kind(), kind, "{:?}", evaluation.outcome);
        assert_eq!(device.held(), [0, 0, 0], "{kind}");
    }
}

/// Of 528 rows, 64 are compared with the oracle, so that the device scans the output and parts of it are read.
#[test]
fn every_fault_is_found_where_few_rows_are_compared() {
    let none = (RIGHT, "measured", None);
    for (fault, kind, check) in
        SCREENED.map(|(fault, kind, check)| (fault, kind, Some(check))).into_iter().chain([none])
    {
        let mut request = evaluation(fault, Regime::Warm);
        request.cases[0].case.dims.insert("B".to_owned(), 8);
        request.measuring.oracle_flop = 1.0;
        let (stock, step) = (Stock::default(), &mut |_: &str, _: &str| {});
        let evaluation = evaluate(&mut FakeDevice::new(), &request, &stock, step).unwrap();
        assert_eq!(caught(&evaluation.outcome), (kind, check), "fault {fault}: {:?}", evaluation.outcome);
        let rows = evaluation.measurements.first().map(|measurement| measurement.correctness.rows_checked);
        assert!(rows.is_none_or(|rows| rows < 128));
    }
}

/// The first case is always evaluated: an iteration that measures nothing says nothing.
#[test]
fn a_case_that_may_not_end_in_time_is_not_begun() {
    let measured = |within_s| {
        let mut request = EvaluateRequest { within_s, ..evaluation(RIGHT, Regime::Warm) };
        request.cases = vec![request.cases[0].clone(); 3];
        let evaluation = evaluate(&mut FakeDevice::new(), &request, &Stock::default(), &mut |_, _| {}).unwrap();
        assert_eq!(evaluation.outcome, Outcome::Measured);
        evaluation.measurements.len()
    };
    assert_eq!((measured(Some(0.0)), measured(Some(3600.0)), measured(None)), (1, 3, 3));
    assert!(super::ends_within(Some(10.0), 5.0, 4.0) && !super::ends_within(Some(10.0), 5.0, 6.0));
}

/// A search need not know how a slow variant does on every case. Nobody chooses it, so its held-out inputs are left out, too.
#[test]
fn a_slow_variant_is_dropped_after_its_first_cases() {
    let evaluated = |fault, drops_slow, to_beat_ns| {
        let mut request = EvaluateRequest { drops_slow, ..evaluation(fault, Regime::Warm) };
        request.cases[0].incumbent_ns = to_beat_ns;
        request.cases = vec![request.cases[0].clone(); 4];
        evaluate(&mut FakeDevice::new(), &request, &Stock::default(), &mut |_, _| {}).unwrap()
    };
    let alone = evaluated(RIGHT, false, None);
    let ns = alone.measurements[0].screening.as_ref().unwrap().median_ns;
    let cases = |drops_slow, share: f64| evaluated(RIGHT, drops_slow, Some(share * ns)).measurements.len();
    assert_eq!([1.0, 0.6, 0.3].map(|share| cases(true, share)), [4, 2, 1]);
    assert_eq!([1.0, 0.6, 0.3].map(|share| cases(false, share)), [4, 4, 4]);
    assert_eq!(evaluated(RIGHT, true, None).measurements.len(), 4, "with nothing to beat");
    let stale = |share: f64| evaluated(STALE, true, Some(share * ns)).outcome;
    assert_eq!([1.0, 0.6].map(|share| stale(share).kind().to_owned()), ["cheated", "measured"]);
}

/// An earlier variant may have left the outputs of the inputs that both were given. Those of the second and third variant
/// were drawn ahead.
#[test]
fn the_contents_after_timing_are_each_variants_own() {
    let (mut device, stock) = (FakeDevice::new(), Stock::default());
    let mut last_inputs = |own_seed| {
        let request = EvaluateRequest { own_seed, ..evaluation(RIGHT, Regime::Warm) };
        assert_eq!(evaluate(&mut device, &request, &stock, &mut |_, _| {}).unwrap().outcome, Outcome::Measured);
        device.last_inputs().unwrap()
    };
    let seen = [1, 2, 3].map(&mut last_inputs);
    assert!((0..3).all(|one| (0..one).all(|other| seen[one] != seen[other])));
}

#[test]
fn one_replay_of_a_cold_case_goes_over_every_set_equally_often() {
    let mut device = FakeDevice::new();
    let mut executions = |regime| {
        let evaluation = evaluate(&mut device, &evaluation(RIGHT, regime), &Stock::default(), &mut |_, _| {}).unwrap();
        evaluation.measurements[0].screening.as_ref().unwrap().launches_per_sample
    };
    // Four tensors of 2 x 33 x 16 halves, an L2 of 1 MiB: see `regime::sets`.
    let sets = 3 * (1 << 20) / (4 * 2 * 33 * 16 * 2) + 2;
    assert!(executions(Regime::Warm) < sets, "a sample of a warm case needs fewer");
    assert_eq!(executions(Regime::Cold) % sets, 0);
}

#[test]
fn a_participant_stays_on_the_device_and_one_that_fails_to_enter_does_not() {
    let mut device = FakeDevice::new();
    let mut arena = Arena::default();
    let step = &mut |_: &str, _: &str| {};
    let first = arena.enter(&mut device, participant(RIGHT, Regime::Warm), step).unwrap();
    let one = device.held();
    assert_eq!(one, [1, 5, 1]);
    assert_eq!(outcome(arena.enter(&mut device, participant(WRONG, Regime::Warm), step)).kind(), "wrong");
    assert_eq!(device.held(), one);
    let control = arena.enter(&mut device, participant(RIGHT, Regime::Warm), step).unwrap();
    let known = |entered: &Entered| (entered.correctness, entered.launches_per_sample);
    assert_eq!(known(&first), known(&control), "the same on the same inputs");
    let [modules, buffers, captures] = one;
    let both = [2 * modules, buffers + 1, 2 * captures];
    assert_eq!(device.held(), both, "the tensors are shared, the workspace is not");

    for participant in [0, 1, 1, 0] {
        assert_eq!(arena.sample(&mut device, participant, 5, step).unwrap().samples_ns.len(), 5);
        assert_eq!(arena.check(&mut device, participant, step).unwrap(), first.correctness);
    }
    assert_eq!(device.held(), both);
}

fn caught(outcome: &Outcome) -> (&str, Option<Check>) {
    (outcome.kind(), outcome.check())
}

#[test]
fn every_fault_is_caught_by_its_check_when_it_is_screened_and_when_it_enters_a_comparison() {
    let step = &mut |_: &str, _: &str| {};
    for regime in [Regime::Warm, Regime::Cold] {
        for (fault, kind, check) in SCREENED {
            let mut device = FakeDevice::new();
            let evaluation = evaluate(&mut device, &evaluation(fault, regime), &Stock::default(), step).unwrap();
            assert_eq!(caught(&evaluation.outcome), (kind, Some(check)), "fault {fault}: {:?}", evaluation.outcome);
            assert_eq!(device.held(), [0, 0, 0], "after fault {fault}");
            let mut arena = Arena::default();
            let entered = arena.enter(&mut device, participant(fault, regime), step);
            if check == Check::HeldOutInputs {
                // The output looks right until it is poisoned again.
                entered.unwrap();
                assert_eq!(caught(&outcome(arena.sample(&mut device, 0, 1, step))), ("cheated", Some(Check::Timed)));
            } else {
                assert_eq!(caught(&outcome(entered)), (kind, Some(check)), "fault {fault} in a comparison");
                assert_eq!(device.held()[2], 0, "what was captured is released");
            }
        }
    }
}

#[test]
fn a_participant_that_corrupts_shared_data_fails_and_the_others_continue() {
    let step = &mut |_: &str, _: &str| {};
    for fault in [WRITES_INPUTS, WRITES_BESIDE] {
        let mut device = FakeDevice::new();
        let mut arena = Arena::default();
        arena.enter(&mut device, participant(RIGHT, Regime::Warm), step).unwrap();
        assert_eq!(outcome(arena.enter(&mut device, participant(fault, Regime::Warm), step)).kind(), "wrong");
        arena.sample(&mut device, 0, 2, step).unwrap();
        arena.enter(&mut device, participant(RIGHT, Regime::Warm), step).unwrap();
        arena.sample(&mut device, 1, 2, step).unwrap();
    }
}

/// A kernel that is right only at the first and last addresses needs at most two right answers out of hundreds.
#[test]
fn every_set_of_a_cold_case_may_be_the_one_that_is_looked_at() {
    let step = &mut |_: &str, _: &str| {};
    let mut device = FakeDevice::new();
    let evaluation = evaluate(&mut device, &evaluation(RIGHT_AT_ENDS, Regime::Cold), &Stock::default(), step).unwrap();
    assert_eq!(caught(&evaluation.outcome), ("cheated", Some(Check::Timed)), "{:?}", evaluation.outcome);
    let entered = Arena::default().enter(&mut device, participant(RIGHT_AT_ENDS, Regime::Cold), step);
    assert_eq!(caught(&outcome(entered)), ("cheated", Some(Check::Timed)));
    let mut device = FakeDevice::new();
    let accepted = outcome(accept(&mut device, &acceptance(RIGHT_AT_ENDS, Regime::Cold), step));
    assert_eq!(caught(&accepted), ("cheated", Some(Check::HeldOutInputs)), "{accepted:?}");
    assert_eq!(device.held(), [0, 0, 0]);
}

/// The culprit is found whichever participant meets the corruption. In a cold case one replay executes so often that
/// entering finds it.
#[test]
fn only_the_kernel_that_changes_shared_inputs_when_timed_is_caught() {
    let step = &mut |_: &str, _: &str| {};
    for (fault, check) in [(WRITES_INPUTS_LATER, Check::Inputs), (WRITES_BESIDE_LATER, Check::GuardRegions)] {
        let mut device = FakeDevice::new();
        let mut arena = Arena::default();
        for fault in [RIGHT, fault, RIGHT] {
            arena.enter(&mut device, participant(fault, Regime::Warm), step).unwrap();
        }
        arena.sample(&mut device, 0, 5, step).unwrap();
        // The culprit meets its own writes only in its next execution.
        let _ = arena.sample(&mut device, 1, 30, step);
        for honest in [0, 2] {
            arena.sample(&mut device, honest, 5, step).unwrap();
        }
        arena.check(&mut device, 0, step).unwrap();
        let found = outcome(arena.check(&mut device, 1, step));
        assert_eq!(caught(&found), ("wrong", Some(check)), "{found:?}");
        arena.check(&mut device, 2, step).unwrap();

        let entered = Arena::default().enter(&mut device, participant(fault, Regime::Cold), step);
        assert_eq!(caught(&outcome(entered)), ("wrong", Some(check)));
    }
}

#[test]
fn a_winner_may_have_to_be_better_than_correct_on_the_case_itself() {
    let step = &mut |_: &str, _: &str| {};
    // The oracle's answer rounded to FP16 is off by more.
    let accuracy = Tolerance { relative_l2: 1e-5, worst_row: 4e-3 };
    let request = AcceptanceRequest { accuracy, ..acceptance(RIGHT, Regime::Warm) };
    let mut device = FakeDevice::new();
    let accepted = outcome(accept(&mut device, &request, step));
    assert_eq!(caught(&accepted), ("wrong", Some(Check::Accuracy)), "{accepted:?}");
    assert_eq!(device.held(), [0, 0, 0]);
}

fn acceptance(fault: i32, regime: Regime) -> AcceptanceRequest {
    let EvaluateRequest { artifact, op, dtype, compute, tolerance, measuring, input_seed, .. } =
        evaluation(fault, regime);
    let accuracy = tolerance;
    let planned = |case: Case| PlannedCase { case, plan: plan(fault) };
    let least = CheckLimits { flop: 1e7, bytes: 1e6 };
    let hidden = crate::ops::find("attention").unwrap().hidden(&case(regime).dims, least, 5);
    let hidden = hidden.into_iter().map(|dims| planned(Case { dims, ..case(regime) })).collect();
    let case = planned(case(regime));
    AcceptanceRequest {
        artifact,
        op,
        dtype,
        compute,
        tolerance,
        accuracy,
        case,
        hidden,
        far: Vec::new(),
        probes: true,
        only: None,
        within_s: None,
        measuring,
        input_seed,
    }
}

#[test]
fn acceptance_catches_faults_that_screening_misses_and_releases_everything() {
    let step = &mut |_: &str, _: &str| {};
    for regime in [Regime::Warm, Regime::Cold] {
        let mut device = FakeDevice::new();
        let found = accept(&mut device, &acceptance(RIGHT, regime), step).unwrap();
        let hidden = acceptance(RIGHT, regime).hidden.len();
        assert!(hidden > 3);
        assert_eq!(found.outputs, 1 + 9 + hidden, "the case, nine probes and the hidden shapes");
        let slowdown = found.slowdown.unwrap();
        assert!((slowdown - 1.0).abs() < 0.01, "as fast on what it never saw: {slowdown}");
        assert_eq!(device.held(), [0, 0, 0]);
        for (fault, kind, check) in ACCEPTANCE {
            let screened = evaluate(&mut device, &evaluation(fault, regime), &Stock::default(), step).unwrap();
            assert_eq!(screened.outcome, Outcome::Measured, "fault {fault}");
            let accepted = outcome(accept(&mut device, &acceptance(fault, regime), step));
            assert_eq!(caught(&accepted), (kind, Some(check)), "fault {fault}: {accepted:?}");
            assert_eq!(device.held(), [0, 0, 0], "after fault {fault}");
        }
    }
}

/// A kernel with few loads in flight took 131 us with its inputs in L2, and 214 us with inputs from memory (H200, 2026-11-29).
#[test]
fn a_kernel_that_waits_for_memory_memoizes_nothing() {
    let step = &mut |_: &str, _: &str| {};
    for regime in [Regime::Warm, Regime::Cold] {
        let accepted = accept(&mut FakeDevice::new(), &acceptance(SLOW_FROM_MEMORY, regime), step).unwrap();
        assert!(accepted.slowdown.unwrap() > 0.9, "{regime:?}: {:?}", accepted.slowdown);
    }
}

#[test]
fn acceptance_says_where_a_variant_failed() {
    let step = &mut |_: &str, _: &str| {};
    let mut said = |fault| {
        let accepted = outcome(accept(&mut FakeDevice::new(), &acceptance(fault, Regime::Warm), step));
        accepted.message().unwrap().to_owned()
    };
    insta::assert_snapshot!(said(12), @"on an exception among ordinary inputs: 1 of 1056 elements are NaN or infinite");
    let on_hidden = said(13);
    let (shape, what) = on_hidden.split_once(": ").unwrap();
    assert!(shape.starts_with("on B=") && shape.ends_with(", which is not in the workload"), "{shape}");
    assert!(what.starts_with("relative error"), "{what}");
    insta::assert_snapshot!(said(14), @"it takes 7.06 us on inputs that it has never seen, but 2.36 us on repeated inputs");
    insta::assert_snapshot!(said(15), @"the same inputs gave a different output in the next execution, or in other buffers");
}

#[test]
fn the_oracle_runs_once_for_the_same_inputs() {
    let mut device = FakeDevice::new();
    let mut arena = Arena::default();
    let step = &mut |_: &str, _: &str| {};
    for _ in 0..2 {
        arena.enter(&mut device, participant(RIGHT, Regime::Warm), step).unwrap();
    }
    let other = EnterRequest { input_seed: 8, ..participant(RIGHT, Regime::Warm) };
    arena.enter(&mut device, other, step).unwrap();
    assert!(arena.share_data(0, 1) && !arena.share_data(1, 2));
    for participant in 0..3 {
        arena.sample(&mut device, participant, 1, step).unwrap();
        arena.check(&mut device, participant, step).unwrap();
    }
}

/// Attention, with the threads that have called its oracle.
struct Watched {
    uses_device: bool,
    callers: Mutex<HashSet<ThreadId>>,
}

impl Watched {
    fn attention() -> &'static dyn Op {
        crate::ops::find("attention").unwrap()
    }
}

impl Op for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn dims(&self) -> &'static [DimSpec] {
        Self::attention().dims()
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        Self::attention().tensors(dims, dtype)
    }

    fn scalars(&self, dims: &Dims) -> Vec<(&'static str, f64)> {
        Self::attention().scalars(dims)
    }

    fn flop(&self, dims: &Dims) -> f64 {
        Self::attention().flop(dims)
    }

    fn oracle_uses_device(&self) -> bool {
        self.uses_device
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, crate::error::Error> {
        self.callers.lock().unwrap().insert(thread::current().id());
        Self::attention().oracle(dims, inputs, rows)
    }
}

/// An oracle that answers on other threads answers while the device is timed.
#[test]
fn an_oracle_on_the_device_does_not_answer_while_a_kernel_is_timed() {
    let callers = |uses_device| {
        let op: &'static Watched = Box::leak(Box::new(Watched { uses_device, callers: Mutex::default() }));
        let (request, stock) = (evaluation(RIGHT, Regime::Warm), Stock::default());
        let context = EvaluationContext { op, request: &request, stock: &stock, explain: false };
        case_run::measure(&mut FakeDevice::new(), &context, &request.cases[0], &mut |_, _| {}).unwrap();
        op.callers.lock().unwrap().len()
    };
    assert_eq!(callers(true), 1);
    assert!(callers(false) > 1, "other threads draw inputs ahead");
}

#[test]
fn a_plan_without_an_op_is_timed_and_released() {
    let mut device = FakeDevice::new();
    let mut plan = plan(RIGHT);
    plan.launches[0].args = vec![Arg::Workspace("w".to_owned())];
    let request =
        TimeRequest { artifact: artifact(), plan, problem: None, samples: 7, min_sample_ns: 200_000.0, seed: 0 };
    let timing = time(&mut device, &request, &mut |_, _| {}).unwrap();
    assert_eq!(timing.samples_ns.len(), 7);
    assert!((timing.median_ns / 2000.0 - 1.0).abs() < 0.01, "{} ns", timing.median_ns);
    assert_eq!(device.held(), [0, 0, 0]);
}

#[test]
fn impossible_requests_fail_with_one_sentence() {
    let mut device = FakeDevice::new();
    let mut arena = Arena::default();
    let step = &mut |_: &str, _: &str| {};
    let sentence = |ended| match ended {
        Ended::Machine(message) => message,
        ended => panic!("{ended:?}"),
    };
    insta::assert_snapshot!(sentence(arena.sample(&mut device, 1, 5, step).unwrap_err()), @"there is no participant 1: 0 exist, counted from 0");
    let mut small = participant(RIGHT, Regime::Cold);
    small.case.dims.extend([("Sq".to_owned(), 1), ("Sk".to_owned(), 1)]);
    insta::assert_snapshot!(sentence(arena.enter(&mut device, small, step).unwrap_err()), @r#"case `c`: a working set of 256 bytes cannot be timed cold: this needs 12290 sets of buffers for an L2 of 1048576 bytes, and the limit is 4096; give the case `regime = "warm"`"#);
}
