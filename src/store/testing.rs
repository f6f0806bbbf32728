//! A store with a scenario in it, for tests.

use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use sqlx::SqlitePool;
use tempfile::TempDir;

use super::{Finish, NewSession, Store};
use crate::domain::budget::Budget;
use crate::domain::budget::cost::Spent;
use crate::domain::budget::phase::StepTimes;
use crate::domain::claims::hypothesis::{Hypothesis, Reference, Score};
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::claims::prediction::{Crps, Modelled, Prediction, Strength};
use crate::domain::code::artifact::{Artifact, KernelResources};
use crate::domain::compute::Compute;
use crate::domain::device::gpu_state::{Graphs, Load};
use crate::domain::device::machine::{MachineSummary, Throttle};
use crate::domain::device::regime::Regime;
use crate::domain::device::{DeviceInfo, TimeSource, TimingMode};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::comparison::{Comparison, Participant, Role};
use crate::domain::measurement::conditions::Conditions;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::measurement::verdict::{Decision, Verdict};
use crate::domain::op::Dtype;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::proposal::{Proposal, Rationale};
use crate::domain::record::{Environment, SessionKind, SessionScope};
use crate::domain::statistics::Interval;
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::{Variant, VariantHash};
use crate::domain::workload::Case;

/// A store in its own folder.
pub(crate) struct Scene {
    folder: TempDir,
    /// The store.
    pub(crate) store: Store,
}

impl Scene {
    /// Makes an empty store.
    pub(crate) async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = Store::open(&folder.path().join("deep/store.db")).await.unwrap();
        Self { folder, store }
    }

    /// Returns the path of the store.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("deep/store.db")
    }

    /// Begins a session.
    pub(crate) async fn session(&self) -> SessionId {
        self.store.begin_session(&session()).await.unwrap()
    }

    /// Records a measured iteration with a time in nanoseconds and a verdict.
    pub(crate) async fn measured(
        &self,
        session: SessionId,
        block: i64,
        parent: Option<IterationId>,
        ns: f64,
        verdict: Verdict,
    ) -> IterationId {
        let proposal = proposal(block, parent);
        let iteration = self.store.begin(session, &proposal).await.unwrap();
        let evaluation = evaluation(ns, verdict == Verdict::Improved);
        let speedup = parent.map(|_| 100_000.0 / ns);
        let decisions = [Decision { case: "b1h1s128".into(), verdict, speedup }];
        let artifact = artifact(block);
        let score = proposal.rationale.hypothesis.score(speedup);
        let end = finish(&evaluation, &decisions);
        let finish = Finish {
            artifact: Some(&artifact),
            actual_speedup: speedup,
            score,
            crps: Crps::of(proposal.rationale.hypothesis.prediction, speedup),
            ..end
        };
        self.store.finish(iteration, &finish).await.unwrap();
        iteration
    }
}

/// Has every commit to a file pass or fail as a function says. The pool has one connection.
pub(crate) async fn on_commit(pool: &SqlitePool, passes: impl FnMut() -> bool + Send + 'static) {
    let mut connection = pool.acquire().await.unwrap();
    connection.lock_handle().await.unwrap().set_commit_hook(passes);
}

/// A session on an L4.
pub(crate) fn session() -> NewSession {
    let mut device = DeviceInfo::of_arch("sm_89").unwrap();
    device.id = "cuda:0".to_owned();
    device.name = "NVIDIA L4".to_owned();
    device.driver = Some("13.0".to_owned());
    device.timing = TimingMode::Measured(Default::default());
    NewSession {
        kind: SessionKind::Search,
        workload: "attention-fp16-d64".to_owned(),
        proposer: "rules".to_owned(),
        seed: u64::MAX,
        budget: Budget { wall: Duration::from_secs(3600), max_cost_usd: Some(1.5), max_iterations: None },
        asked: SessionScope {
            families: vec!["tiled".to_owned()],
            dtype: Dtype::F16,
            compute: Compute::Dtype,
            cases: vec![case()],
            meaning: None,
            left_out: Vec::new(),
            lessons: None,
        },
        config: serde_json::json!({ "min_speedup": 1.01 }),
        lanes: Vec::new(),
        oracle_on: Some("cuda:0".to_owned()),
        submission: None,
        environment: Environment {
            device,
            nvrtc: "13.0".to_owned(),
            optloop: "0.1.0".to_owned(),
            torch: None,
            host: "Linux, 16 cores".to_owned(),
        },
    }
}

/// Makes the only case.
fn case() -> Case {
    Case { name: "b1h1s128".into(), dims: IndexMap::from([("S".to_owned(), 128)]), regime: Regime::Warm }
}

/// Makes a prediction of a model.
pub(crate) fn prediction() -> Prediction {
    let model = Some(Modelled { mean: 0.25, sd: 0.125 });
    Prediction { median: Some(1.25), lo: 1.1, hi: 1.5, strength: Strength::Weak, model }
}

/// Makes a variant whose only parameter is its number of threads.
pub(crate) fn proposal(block: i64, parent: Option<IterationId>) -> Proposal {
    let source = format!("__launch_bounds__({block})\n");
    Proposal {
        proposer: "rules".to_owned(),
        variant: Variant {
            family: "tiled".to_owned(),
            params: IndexMap::from([("BLOCK".to_owned(), block)]),
            hash: VariantHash::of(&source),
            source,
        },
        cases: vec![case()],
        rationale: Rationale {
            hypothesis: Hypothesis {
                claim: format!("{block} threads fill the SMs"),
                evidence: "2 blocks on 58 SMs".to_owned(),
                case: "b1h1s128".into(),
                mechanism: Mechanism::Threads,
                prediction: Some(prediction()),
                tuned: Some([1.2, 1.6]),
                reference: parent.map_or(Reference::Incumbent, Reference::Iteration),
            },
            parent,
            purpose: Purpose::Screening,
            origin: parent.map_or(Origin::FamilyDefault, |_| Origin::Random),
        },
    }
}

/// Makes the artifact of such a variant.
pub(crate) fn artifact(block: i64) -> Artifact {
    Artifact {
        key: format!("key-{block}"),
        arch: "sm_89".to_owned(),
        options: vec!["--use_fast_math".to_owned()],
        nvrtc: "13.0".to_owned(),
        cubin: vec![0x7f; 100],
        ptx: String::new(),
        kernels: vec![KernelResources { name: "tiled".to_owned(), registers: 64, ..KernelResources::default() }],
        log: "ptxas info".to_owned(),
        compile_ms: 120.0,
    }
}

/// Makes a timing of three samples that are exact in f32.
pub(crate) fn timing(ns: f64) -> Timing {
    Timing {
        samples_ns: vec![ns * 0.5, ns, ns * 1.5],
        launches_per_sample: 4,
        median_ns: ns,
        interval_ns: Interval { lo: ns * 0.5, hi: ns * 1.5 },
    }
}

/// Makes a correct evaluation on the only case.
pub(crate) fn evaluation(ns: f64, confirmed: bool) -> Evaluation {
    let measurement = Measurement {
        case: "b1h1s128".into(),
        regime: Regime::Warm,
        correctness: Correctness { relative_l2: 1e-4, worst_row: 2e-4, rows_checked: 64, rows: 128 },
        screening: Some(timing(ns + 1024.0)),
        confirmation: confirmed.then(|| timing(ns)),
        ctas: 2,
        shape: None,
        preparation: None,
        comparison: None,
        profile: None,
    };
    Evaluation { outcome: Outcome::Measured, measurements: vec![measurement], device_s: 0.25 }
}

/// Makes a comparison on an L4. The A/A control and the challenger differ only by the noise of [`participant`].
pub(crate) fn comparison(case: &str, participants: Vec<Participant>) -> Comparison {
    Comparison {
        conditions: Conditions {
            workload: "attention-fp16-d64".to_owned(),
            case: case.into(),
            dims: IndexMap::from([("S".to_owned(), 128)]),
            dtype: Dtype::F16,
            compute: Compute::Dtype,
            device: "NVIDIA L4".to_owned(),
            regime: Regime::Warm,
            time_source: TimeSource::Measured,
            graphs: Graphs::AmongOthers,
            load: Load::Bursts,
        },
        participants,
        group_size: 1,
        discarded_rounds: 2,
        winners_curse: Some(1.0625),
        floor_ns: Some(1000.0),
        others: vec!["python3 (process 4242, 512 MiB)".to_owned()],
        wall_s: Some(2.5),
    }
}

/// Makes a participant with twelve rounds of one sample each, around a time in microseconds. All participants share a
/// drift. No two roles share their 1% noise. Every sample is exact in f32.
pub(crate) fn participant(role: Role, name: &str, iteration: Option<IterationId>, us: f64) -> Participant {
    let noise = |round: usize| ((round * 7 + role as usize * 3) % 5) as f64 * 0.005 - 0.01;
    let sample = |round: usize| us * 1000.0 * (1.0 + 0.01 * round as f64) * (1.0 + noise(round));
    let samples: Vec<f64> = (0..12).map(|round| f64::from(sample(round) as f32)).collect();
    let of_variant = role != Role::Baseline;
    Participant {
        role,
        name: name.to_owned(),
        iteration,
        timing: Timing::of(samples.clone(), 4).unwrap(),
        groups_ns: samples,
        correctness: of_variant.then_some(Correctness {
            relative_l2: 1e-4,
            worst_row: 2e-4,
            rows_checked: 64,
            rows: 128,
        }),
        machine: Some(MachineSummary {
            sm_clock_mhz: Some(1980.0),
            sm_clock_range_mhz: Some([1965, 1980]),
            memory_clock_mhz: Some(6250.0),
            power_w: Some(71.5),
            temperature_c: Some(64),
            throttle: [Throttle::PowerCap].into_iter().collect(),
        }),
        energy_j: of_variant.then_some(0.25),
        graph_node_ns: of_variant.then_some(710.0),
        wrong: None,
    }
}

/// The end of an iteration.
pub(crate) fn finish<'a>(evaluation: &'a Evaluation, decisions: &'a [Decision]) -> Finish<'a> {
    Finish {
        artifact: None,
        compile_log: None,
        plans: &[],
        evaluation,
        decisions,
        actual_speedup: None,
        score: Score::Untested,
        crps: None,
        left_out: 0,
        lane: None,
        disqualified: &[],
        spent: Spent { gpu_s: 9.0, gpu_usd: 0.01, llm_usd: 0.02 },
        wall_s: 3.0,
        steps: StepTimes { screening_s: 0.25, acceptance_s: 0.5, ..StepTimes::default() },
    }
}

/// An output of zeros.
pub(crate) fn wrong() -> (Evaluation, [Decision; 1]) {
    let case = CaseName::from("b1h1s128");
    let outcome = Outcome::Wrong { case: case.clone(), check: Check::Accuracy, message: "all zeros".to_owned() };
    (Evaluation::without_device(outcome), [Decision { case, verdict: Verdict::Rejected, speedup: None }])
}
