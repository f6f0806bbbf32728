//! A synthetic session and its report.

mod comparisons;
pub(in crate::report) mod full;
mod json;
mod markdown;
mod parts;
mod tested;

use std::sync::LazyLock;

use indexmap::IndexMap;

use super::contract::{ParameterEffect, Without};
use super::*;
use crate::domain::budget::cost::{Spent, UnknownCosts};
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::claims::prediction::{Prediction, Strength};
use crate::domain::code::ablation::Removed;
use crate::domain::code::launched::LaunchedKernel;
use crate::domain::code::profile::Profile;
use crate::domain::code::profile::tests::launch;
use crate::domain::compute::Compute;
use crate::domain::device::gpu_state::Graphs;
use crate::domain::device::regime::Regime;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::op::DimSpec;
use crate::domain::proposal::Rationale;
use crate::domain::proposal::finding::{CauseTest, Confidence, Evidence, EvidenceSource};
use crate::domain::proposal::origin::{Change, Origin, Purpose};
use crate::domain::record::{
    Baseline, BaselineKind, CaseRecord, Environment, IterationRecord, SessionRecord, SessionSummary, Status,
};
use crate::domain::statistics::Interval;
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::VariantHash;
use crate::store::testing;

pub(in crate::report) fn timing(us: f64) -> Timing {
    let interval_ns = Interval { lo: us * 995.0, hi: us * 1005.0 };
    Timing { samples_ns: vec![us * 1000.0; 3], launches_per_sample: 1, median_ns: us * 1000.0, interval_ns }
}

fn session(id: SessionId, wins: u64, spent: Spent) -> SessionSummary {
    SessionSummary {
        kind: crate::domain::record::SessionKind::Search,
        id,
        workload: "attention-fp16-d64".to_owned(),
        cases: ["b1h1s128", "b8h8s512", "b16h8s512"].map(CaseName::from).to_vec(),
        proposer: "rules".to_owned(),
        seed: 1,
        device: "NVIDIA L4".to_owned(),
        devices: 1,
        oracle_on: Some("cuda:0".to_owned()),
        time_source: TimeSource::Measured,
        graphs: Graphs::AmongOthers,
        status: if wins == 0 { Status::Interrupted } else { Status::Finished },
        stop_reason: Some("its time budget is spent".to_owned()),
        early_end: None,
        started_at: "2026-11-20T10:00:00Z".to_owned(),
        ended_at: Some("2026-11-20T10:55:00Z".to_owned()),
        budget_s: 3300.0,
        max_cost_usd: None,
        max_iterations: None,
        wall_s: Some(3301.0),
        resumptions: 0,
        iterations: 5,
        unfinished: 0,
        wins,
        best_speedup: (wins > 0).then_some(1.6),
        best_speedup_ci: None,
        cost: spent,
    }
}

pub(in crate::report) fn iteration(
    id: IterationId,
    block: i64,
    parent: Option<IterationId>,
    outcome: Outcome,
    found: Vec<CaseRecord>,
) -> IterationRecord {
    let actual = found.iter().find_map(|case| case.speedup);
    let hypothesis = Hypothesis {
        claim: format!("{block} threads | more warps hide latency"),
        evidence: "2 blocks on 58 SMs".to_owned(),
        case: "b1h1s128".into(),
        mechanism: Mechanism::Threads,
        prediction: Some(Prediction { median: Some(1.25), lo: 1.1, hi: 1.5, strength: Strength::Weak, model: None }),
        tuned: None,
        reference: parent.map_or(Reference::Incumbent, Reference::Iteration),
    };
    IterationRecord {
        id,
        session: SessionId(2),
        ordinal: id.0,
        proposer: "rules".to_owned(),
        family: "tiled".to_owned(),
        params: IndexMap::from([("BLOCK".to_owned(), block), ("PAD".to_owned(), 8)]),
        hash: VariantHash::of(&block.to_string()),
        kernels: Vec::new(),
        cases: Vec::new(),
        started_at: "2026-11-20T10:00:01Z".to_owned(),
        ended_at: Some("2026-11-20T10:00:04Z".to_owned()),
        outcome: Some(outcome),
        score: Some(hypothesis.score(actual)),
        rationale: Rationale {
            hypothesis,
            parent,
            purpose: Purpose::Screening,
            origin: parent.map_or(Origin::FamilyDefault, |_| Origin::Move { changes: Vec::new() }),
        },
        actual,
        measurements: found,
        device_s: Some(0.5),
        wall_s: Some(3.0),
        steps: None,
        cost: Spent::default(),
    }
}

pub(in crate::report) fn found(
    case: &str,
    us: f64,
    verdict: Verdict,
    speedup: Option<f64>,
    commit: Option<&str>,
) -> CaseRecord {
    let confirmed = verdict == Verdict::Improved;
    CaseRecord {
        case: case.into(),
        regime: Regime::Warm,
        correctness: Some(Correctness { relative_l2: 1.2e-4, worst_row: 3.4e-4, rows_checked: 64, rows: 128 }),
        ctas: Some(2),
        shape: None,
        preparation: None,
        comparison: None,
        profile: None,
        explanation: None,
        counters: None,
        ablations: Vec::new(),
        // The screened time is faster than the confirmed one, which is the one to report.
        screening: Some(timing(if confirmed { us * 0.9 } else { us })),
        confirmation: confirmed.then(|| timing(us)),
        verdict: Some(verdict),
        speedup,
        commit: commit.map(str::to_owned),
        is_earlier: false,
        found_in: None,
    }
}

/// Makes a finding about an iteration of `tiled` with a launch as evidence, of which no experiment is known.
pub(in crate::report) fn finding(case: &str, iteration: i64, rule: &'static str, gain: f64) -> Finding {
    Finding {
        iteration: Some(IterationId(iteration)),
        family: "tiled".to_owned(),
        case: case.into(),
        rule,
        cause: format!("{rule} is slow"),
        mechanism: "",
        kernel_change: "divide the work into more blocks: smaller tiles",
        model_is_off: false,
        evidence: vec![Evidence { source: EvidenceSource::Launch, supports: true, text: "2 blocks".to_owned() }],
        confidence: Confidence::Medium,
        gain,
        remedies: Vec::new(),
        tested: CauseTest::none(gain, true),
    }
}

/// What a winner takes less without a kind of instruction; for [`Removed::Work`], what is left. Nothing else is known of it.
pub(in crate::report) fn without((removed, share): (Removed, f64)) -> Without {
    Without {
        removed,
        us: None,
        share: Some(share),
        places: 1,
        diverting: 0,
        kept: 0,
        problem: None,
        lines: Vec::new(),
    }
}

/// An effect of a change of a parameter of `tiled`, with the same figures for all pairs.
pub(in crate::report) fn effect(parameter: &str, [from, to]: [i64; 2], effect: f64) -> ParameterEffect {
    ParameterEffect {
        family: "tiled".to_owned(),
        parameter: parameter.to_owned(),
        about: String::new(),
        from,
        to,
        effect,
        lower_quartile: effect,
        upper_quartile: effect,
        pairs: 5,
        cases: 2,
        faster: 0,
        slower: 0,
        verdict: "tied",
        by_case: Vec::new(),
        used_on: Vec::new(),
    }
}

/// A kernel of PyTorch with so many blocks.
pub(in crate::report) fn launched(blocks: u32) -> LaunchedKernel {
    LaunchedKernel {
        name: "void pytorch_flash::flash_fwd_kernel<Traits<64, 128>, true>(Params)".to_owned(),
        grid: [1, blocks, 1],
        block: [128, 1, 1],
        shared_bytes: Some(49_152),
        registers: Some(160),
    }
}

/// Makes two wins in a row on one case, a start without a win on another, and nothing correct on the third.
pub(in crate::report) fn record() -> SessionRecord {
    let message = "all zeros".to_owned();
    let wrong = Outcome::Wrong { case: "b16h8s512".into(), check: Check::Accuracy, message };
    let spent = Spent { gpu_s: 3301.0, gpu_usd: 0.18, llm_usd: 0.75 };
    let earlier = Spent { gpu_s: 10_800.0, gpu_usd: 0.6, llm_usd: 3.0 };
    let session = session(SessionId(2), 2, spent);
    SessionRecord {
        environment: Environment {
            device: DeviceInfo {
                name: "NVIDIA L4".to_owned(),
                driver: Some("13.0".to_owned()),
                ..DeviceInfo::of_arch("sm_89").unwrap()
            },
            nvrtc: "13.0".to_owned(),
            optloop: "0.1.0".to_owned(),
            torch: Some("2.9.0".to_owned()),
            host: "Linux, 16 cores".to_owned(),
        },
        baselines: vec![Baseline {
            case: "b1h1s128".into(),
            name: "torch sdpa (flash)".to_owned(),
            kind: BaselineKind::Program,
            regime: Regime::Warm,
            timing: timing(25.0),
            eager_ns: None,
            relative_l2: None,
            kernels: Vec::new(),
        }],
        iterations: vec![
            iteration(
                IterationId(1),
                64,
                None,
                Outcome::Measured,
                vec![
                    found("b1h1s128", 80.0, Verdict::Start, None, None),
                    found("b8h8s512", 400.0, Verdict::Start, None, None),
                ],
            ),
            iteration(
                IterationId(2),
                128,
                Some(IterationId(1)),
                Outcome::Measured,
                vec![found("b1h1s128", 64.0, Verdict::Improved, Some(1.25), Some("0123456789abcdef"))],
            ),
            iteration(
                IterationId(3),
                256,
                Some(IterationId(2)),
                Outcome::Measured,
                vec![found("b1h1s128", 50.0, Verdict::Improved, Some(1.28), None)],
            ),
            iteration(IterationId(4), 512, Some(IterationId(3)), wrong, Vec::new()),
            IterationRecord {
                outcome: None,
                score: None,
                ended_at: None,
                ..iteration(IterationId(5), 96, Some(IterationId(3)), Outcome::Measured, vec![])
            },
        ],
        excerpt: None,
        finals: Vec::new(),
        phases: Vec::new(),
        no_counters: None,
        baseline_counters: Vec::new(),
        suggestions_left_out: 0,
        unknown_costs: UnknownCosts::default(),
        left_out: Vec::new(),
        compute: Compute::Dtype,
        ledger: vec![self::session(SessionId(1), 0, earlier), session.clone()],
        session,
    }
}

/// Makes the same, but the baseline is slower than the winner.
pub(in crate::report) fn record_ahead() -> SessionRecord {
    let mut record = record();
    record.baselines[0].timing = timing(125.0);
    record
}

pub(in crate::report) fn report(record: &SessionRecord) -> Report {
    report_with(record, &[])
}

pub(in crate::report) fn report_with(record: &SessionRecord, findings: &[Finding]) -> Report {
    build(&ReportInput { findings, ..input(record) })
}

/// The facts of a case that needs 4 MFLOP and 0.5 MB, on a device with 120 TFLOP/s and 3 TB/s.
pub(in crate::report) fn facts(case: &str) -> CaseFacts {
    CaseFacts {
        case: case.into(),
        conditions: testing::comparison(case, Vec::new()).conditions,
        floor_ns: 1000.0,
        flop: 4.0e6,
        peak_flops: 1.2e14,
        fma_share: Some(1.0 / 16.0),
        bytes: 5.0e5,
        bytes_from: Limiter::L2,
        bandwidth: 3.0e12,
        floor_limiter: Limiter::Launch,
        launch_ns: 1000.0,
    }
}

/// The facts of two families.
pub(in crate::report) fn families() -> Vec<FamilyFacts> {
    let family = |name: &str, about: &str| FamilyFacts {
        name: name.to_owned(),
        about: about.to_owned(),
        lines: 120,
        parameters: [("BLOCK", "threads of a block: more of them hide latency"), ("PAD", "padding of a row")]
            .map(|(name, about)| (name.to_owned(), about.to_owned()))
            .into(),
        pipelining: Vec::new(),
        reads_by_descriptor: false,
        excluded: Vec::new(),
    };
    vec![family("tiled", "Tiles of queries: keys are shared."), family("split-k", "Keys are split over blocks.")]
}

static FACTS: LazyLock<Vec<CaseFacts>> = LazyLock::new(|| ["b1h1s128", "b8h8s512", "b16h8s512"].map(facts).to_vec());
static DIMS: [DimSpec; 1] = [DimSpec { name: "S", about: "the sequence length", range: (1, 64) }];
static FAMILIES: LazyLock<Vec<FamilyFacts>> = LazyLock::new(families);

/// The input of a report without findings.
pub(in crate::report) fn input(record: &SessionRecord) -> ReportInput<'_> {
    ReportInput {
        record,
        facts: &FACTS,
        families: &FAMILIES,
        dims: &DIMS,
        independent_dims: &["B", "H"],
        is_valid: &|_, _, _| true,
        findings: &[],
        began: &[],
        predict: &|_, _| None,
        known_after: &|_, claims| vec![None; claims.len()],
    }
}
