//! Synthetic sessions without a device: a setup of two cases, and invented records.

use std::sync::Arc;
use std::time::Duration;

use super::pipeline::Compiled;
use super::setup::{Options, SessionSetup};
use super::state::SessionState;
use crate::domain::budget::Budget;
use crate::domain::budget::cost::{Rate, Spent};
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::code::artifact::{Artifact, KernelResources};
use crate::domain::device::regime::Regime;
use crate::domain::device::{DeviceInfo, TimingMode};
use crate::domain::family::Family;
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::tests::{comparison as comparison_of, participant};
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::measurement::settings::Measuring;
use crate::domain::measurement::verdict::{Policy, judge};
use crate::domain::model_terms::Terms;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::proposal::{Proposal, Rationale, Suggestion};
use crate::domain::record::journal::{Begun, Concluded, Record};
use crate::domain::record::{Baseline, BaselineKind};
use crate::domain::statistics::Interval;
use crate::domain::statistics::sampling::Sampling;
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::{Params, Variant, VariantHash};
use crate::domain::workload::Workload;
use crate::ops;
use crate::runner::planning;

/// The names of the two cases.
pub(super) const CASES: [&str; 2] = ["a", "b"];

/// Makes a setup whose only limit is a budget of an hour.
pub(super) fn setup() -> SessionSetup {
    let case = |name: &str| format!("[[case]]\nname = \"{name}\"\nSq = 64\nSk = 64\nD = 16\n");
    let workload = format!(
        "name = \"w\"\nabout = \"a\"\nop = \"attention\"\ndtype = \"f16\"\ninitial_kernel = \"toy\"\n\
         tolerance = {{ relative_l2 = 1e-3, worst_row = 4e-3 }}\ndims = {{ B = 1, H = 1, CAUSAL = 0 }}\n{}",
        CASES.map(case).concat()
    );
    let manifest = "name = \"toy\"\nabout = \"a\"\nop = \"attention\"\ndtypes = [\"f16\"]\nrequires_sm = 80\n\
                    constants = [\"D\"]\n[params.N]\nvalues = [0, 1]\ndefault = 0\nabout = \"a\"\nexpect = [1.0, 2.0]\n\
                    [[launch]]\nkernel = \"k\"\ngrid = [\"1\"]\nblock = [\"1\"]\nargs = []\n";
    let sampling = Sampling { min_samples: 3, max_samples: 5, relative_error: 0.01, max_ns: 1e10 };
    let policy = Policy { min_speedup: 1.01, screening: sampling, comparison: sampling, group_size: 1 };
    let measuring = Measuring { policy, min_sample_ns: 1.0, baseline_samples: 3, oracle_flop: 1e9, model_flop: 1e9 };
    let mut device = DeviceInfo::of_arch("sm_90a").unwrap();
    device.timing = TimingMode::Simulated;
    SessionSetup {
        workload: Workload::parse(&workload, ops::find).unwrap(),
        families: vec![Family::parse(manifest, String::new()).unwrap()],
        searched: vec!["toy".to_owned()],
        generated: Vec::new(),
        known: Vec::new(),
        device,
        gpus: 1,
        counts_baselines: false,
        options: Options {
            budget: Budget { wall: Duration::from_secs(3600), max_cost_usd: None, max_iterations: None },
            grace: Duration::from_secs(10),
            min_gain: 0.0,
            least_chance: 0.0,
            rate: Rate { gpu_usd_per_hour: 0.0 },
            measuring,
            first_look: Duration::ZERO,
            counters_share: 0.0,
            ablations_share: 0.0,
            compilations: 2,
            compile_ahead: 2,
            seed: 1,
            llm: Terms::none(),
            config: serde_json::Value::Null,
            oracle_on: None,
            submission: None,
            draws_anew: false,
        },
    }
}

/// Returns the parameters of the variant with a number. Those below 100 have one value in common.
pub(super) fn params(number: i64) -> Params {
    Params::from([("N".to_owned(), number), ("HUNDREDS".to_owned(), number / 100)])
}

/// Makes the proposal of the variant with a number, on both cases or on the first ones.
pub(super) fn proposal(setup: &SessionSetup, number: i64, purpose: Purpose, cases: usize) -> Proposal {
    let source = format!("variant {number}");
    let origin = if purpose == Purpose::Initial { Origin::InitialKernel } else { Origin::Random };
    Proposal {
        proposer: "random".to_owned(),
        variant: Variant { family: "toy".to_owned(), params: params(number), hash: VariantHash::of(&source), source },
        cases: setup.workload.cases[..cases].to_vec(),
        rationale: Rationale {
            hypothesis: Hypothesis::without_claim(
                "c".to_owned(),
                "e".to_owned(),
                CASES[0].into(),
                Reference::Incumbent,
            ),
            parent: None,
            purpose,
            origin,
        },
    }
}

/// Makes the compiled proposal of the variant with a number, on both cases, as if it were a random configuration. All
/// variants have the same machine code.
pub(super) fn compiled(told: &Scenario, number: i64) -> Compiled {
    let setup = told.state.setup();
    let proposal = proposal(setup, number, Purpose::Screening, 2);
    let suggestion = suggestion(told, number);
    let cases = planning::of_suggestion(&setup.families[0], &suggestion, &setup.workload, &setup.device, 1e9);
    let artifact = Artifact {
        key: "key".to_owned(),
        arch: "sm_90a".to_owned(),
        options: Vec::new(),
        nvrtc: "13.0".to_owned(),
        cubin: vec![1],
        ptx: String::new(),
        kernels: vec![KernelResources { registers: 32, ..KernelResources::default() }],
        log: String::new(),
        compile_ms: 0.0,
    };
    Compiled { proposal, cases, artifact: Ok(artifact), is_control: false }
}

/// Suggests variant `number` for both cases.
pub(super) fn suggestion(told: &Scenario, number: i64) -> Suggestion {
    let proposal = proposal(told.state.setup(), number, Purpose::Screening, 2);
    Suggestion {
        family: "toy".to_owned(),
        params: proposal.variant.params,
        cases: proposal.cases,
        rationale: proposal.rationale,
    }
}

/// Makes the timing of a screening run with three samples. An f32 holds them exactly.
fn timing(us: u32) -> Timing {
    let ns = f64::from(us) * 1024.0;
    Timing { samples_ns: vec![ns; 3], launches_per_sample: 1, median_ns: ns, interval_ns: Interval { lo: ns, hi: ns } }
}

/// Makes a measurement on a case: its screened time, and the comparison with the incumbent's time, if one was held.
pub(super) fn measurement(case: &str, us: u32, against_us: Option<(IterationId, IterationId, u32)>) -> Measurement {
    let mut measurement = Measurement {
        case: case.into(),
        regime: Regime::Warm,
        correctness: Correctness { relative_l2: 0.5, worst_row: 0.5, rows_checked: 1, rows: 1 },
        screening: Some(timing(us)),
        confirmation: None,
        ctas: 1,
        shape: None,
        preparation: None,
        comparison: None,
        profile: None,
    };
    if let Some((own, incumbent, incumbent_us)) = against_us {
        measurement.confirm(comparison(case, (own, us), (incumbent, incumbent_us)));
    }
    measurement
}

/// Makes a comparison of two variants, given by their iterations and times.
pub(super) fn comparison(case: &str, challenger: (IterationId, u32), incumbent: (IterationId, u32)) -> Comparison {
    let side = |role, (iteration, us): (IterationId, u32)| {
        let mut side = participant(role, vec![f64::from(us) * 1024.0; 24]);
        (side.iteration, side.timing) = (Some(iteration), timing(us));
        side
    };
    let participants =
        vec![side(Role::Challenger, challenger), side(Role::Control, challenger), side(Role::Incumbent, incumbent)];
    let mut comparison = comparison_of(participants);
    comparison.conditions.case = case.into();
    comparison.wall_s = Some(1.0);
    comparison
}

/// Makes an evaluation that ended as `outcome`, with what was measured until then.
pub(super) fn evaluation(outcome: Outcome, measurements: Vec<Measurement>) -> Evaluation {
    Evaluation { outcome, measurements, device_s: 0.5 }
}

/// A history that is built record by record.
pub(super) struct Scenario {
    pub state: SessionState,
    iterations: IterationId,
}

impl Scenario {
    /// Begins with nothing known.
    pub fn new(setup: SessionSetup) -> Self {
        Self { state: SessionState::new(Arc::new(setup)), iterations: IterationId(0) }
    }

    /// Begins an iteration.
    pub fn begin(&mut self, number: i64, purpose: Purpose) -> Begun {
        self.begin_proposal(proposal(self.state.setup(), number, purpose, CASES.len()))
    }

    fn begin_proposal(&mut self, proposal: Proposal) -> Begun {
        self.iterations.0 += 1;
        let begun = Begun::of(self.iterations, &proposal, None);
        self.state.apply(&Record::Begun(Box::new(begun.clone())));
        begun
    }

    /// Ends an iteration that took one second.
    pub fn conclude(&mut self, begun: &Begun, evaluation: &Evaluation) {
        self.conclude_after(Duration::from_secs(1), begun, evaluation);
    }

    /// Ends an iteration that took this long.
    pub fn conclude_after(&mut self, wall: Duration, begun: &Begun, evaluation: &Evaluation) {
        let decisions = judge(&self.state.history().incumbents, evaluation, self.state.setup().policy());
        let evaluation = &Evaluation { device_s: wall.as_secs_f64(), ..evaluation.clone() };
        let concluded = Concluded::of(begun.iteration, evaluation, &decisions, Spent::default(), wall);
        self.state.apply(&Record::Concluded(Box::new(concluded)));
    }

    /// Times a backend of the baseline program on the first case.
    pub fn baseline(&mut self, us: u32) {
        self.state.apply(&Record::Baseline(Baseline {
            case: CASES[0].into(),
            name: "program".to_owned(),
            kind: BaselineKind::Program,
            regime: Regime::Warm,
            timing: timing(us),
            eager_ns: None,
            relative_l2: None,
            kernels: Vec::new(),
        }));
    }

    /// Screens a variant with the given time on each case. Returns its iteration.
    pub fn screened(&mut self, number: i64, purpose: Purpose, us: [u32; 2]) -> IterationId {
        let begun = self.begin(number, purpose);
        self.conclude_screened(&begun, us)
    }

    fn conclude_screened(&mut self, begun: &Begun, us: [u32; 2]) -> IterationId {
        let measurements = CASES.iter().zip(us).map(|(case, us)| measurement(case, us, None)).collect();
        self.conclude(begun, &evaluation(Outcome::Measured, measurements));
        begun.iteration
    }

    /// Screens a variant that was committed for the first case on another device.
    pub fn screened_from_another_device(&mut self, number: i64, us: [u32; 2]) -> IterationId {
        let origin = Origin::CommittedWinner { device: "another".to_owned(), cases: vec![CASES[0].into()] };
        let proposal = proposal(self.state.setup(), number, Purpose::Screening, CASES.len());
        let begun = self.begin_proposal(Proposal { rationale: Rationale { origin, ..proposal.rationale }, ..proposal });
        self.conclude_screened(&begun, us)
    }

    /// Confirms a variant on the first case, in a comparison with the incumbent.
    pub fn confirmed(&mut self, number: i64, us: u32) -> IterationId {
        let begun = self.begin(number, Purpose::Confirmation);
        let incumbent = &self.state.history().incumbents[CASES[0]];
        let against = (begun.iteration, incumbent.iteration, (incumbent.timing.median_ns / 1024.0) as u32);
        let found = vec![measurement(CASES[0], us, Some(against))];
        self.conclude(&begun, &evaluation(Outcome::Measured, found));
        begun.iteration
    }
}
