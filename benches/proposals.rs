//! How long a proposal takes, with few and many observations, on one case and on 18.
//!
//! `cargo bench --bench proposals [-- PROPOSER]`. The workload is `attention-fp16-d64` with all of its families, and times
//! come from a formula. Random configurations fill the history between the measured proposals. A session makes up to
//! 3,000 evaluations a minute, so a proposal may take at most 10 ms of the processor, and 5 ms with up to 500
//! observations.

use std::path::Path;
use std::time::Duration;

use optloop::agent::diagnosis::diagnose;
use optloop::agent::{self, Proposer, SearchContext};
use optloop::domain::budget::cost::Spent;
use optloop::domain::device::DeviceInfo;
use optloop::domain::family::Family;
use optloop::domain::history::{ConfigurationId, History};
use optloop::domain::ids::IterationId;
use optloop::domain::measurement::correctness::Correctness;
use optloop::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use optloop::domain::measurement::verdict::{Policy, judge};
use optloop::domain::proposal::Suggestion;
use optloop::domain::record::journal::{Begun, Concluded};
use optloop::domain::statistics::sampling::Sampling;
use optloop::domain::statistics::timing::Timing;
use optloop::domain::variant::{VariantHash, show_params};
use optloop::domain::workload::{Case, Workload};
use optloop::ops;

/// Observations after which proposals are timed, and the most milliseconds that one may take on average.
const OBSERVATIONS: [(usize, f64); 4] = [(100, 5.0), (500, 5.0), (1000, 10.0), (3000, 10.0)];

/// Proposals that are timed each time.
const TIMED: usize = 60;

const POLICY: Policy = Policy {
    min_speedup: 1.01,
    screening: Sampling { min_samples: 1, max_samples: 1, relative_error: 1.0, max_ns: 1e9 },
    comparison: Sampling { min_samples: 1, max_samples: 1, relative_error: 1.0, max_ns: 1e9 },
    group_size: 1,
};

fn main() {
    // Cargo adds the argument `--bench`.
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let name = name.unwrap_or_else(|| agent::PORTFOLIO.to_owned());
    let mut missed = Vec::new();
    println!("{name}\n\ncases  observations  mean ms  highest ms");
    for cases in [1, 18] {
        let mut session = Session::new(cases);
        let mut proposer = agent::proposer(&name, 1).unwrap();
        let mut random = agent::proposer("random", 2).unwrap();
        for (observations, limit_ms) in OBSERVATIONS {
            while session.history.attempts.len() < observations - TIMED / 2 {
                session.evaluate(random.as_mut());
            }
            let times: Vec<Duration> = (0..TIMED).map(|_| session.evaluate(proposer.as_mut())).collect();
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let mean_ms = ms(times.iter().sum()) / TIMED as f64;
            let highest_ms = times.into_iter().max().map_or(0.0, ms);
            println!("{cases:>5}  {observations:>12}  {mean_ms:>7.2}  {highest_ms:>10.2}");
            if mean_ms > limit_ms {
                missed.push((cases, observations));
            }
        }
    }
    assert!(missed.is_empty(), "over the limit with these cases and observations: {missed:?}");
}

/// What a proposer needs of a session, without a compiler and a device.
struct Session {
    workload: Workload,
    families: Vec<Family>,
    device: DeviceInfo,
    history: History,
}

impl Session {
    fn new(cases: usize) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let text = read(&root.join("kernels/workloads/attention-fp16-d64.toml"));
        let mut workload = Workload::parse(&text, ops::find).unwrap();
        let (others, last) = (workload.cases.len() - cases, workload.cases.len());
        workload.cases = workload.cases.drain(others..last).collect();
        let folders = std::fs::read_dir(root.join("templates/kernels")).unwrap();
        let mut manifests: Vec<_> = folders.map(|folder| folder.unwrap().path().join("family.toml")).collect();
        manifests.retain(|manifest| manifest.exists());
        manifests.sort();
        let families =
            manifests.iter().map(|manifest| Family::parse(&read(manifest), String::new()).unwrap()).collect();
        let device = DeviceInfo::of_arch("sm_90a").unwrap();
        Self { workload, families, device, history: History::default() }
    }

    /// Evaluates a proposal, and returns how long it took to make.
    fn evaluate(&mut self, proposer: &mut dyn Proposer) -> Duration {
        let names: Vec<String> = self.families.iter().map(|family| family.name.clone()).collect();
        let context = SearchContext::new(&self.workload, &self.families, &names, &[], &self.device);
        let began = processor_time();
        let diagnosis = diagnose(&self.history, &self.workload, &self.device);
        let suggestion = proposer.propose(&context, &diagnosis, &self.history, 0).unwrap().unwrap();
        let took = processor_time() - began;
        let family = context.family(&suggestion.family).unwrap();
        let id = ConfigurationId::new(&family.name, &family.specialization(&suggestion.cases[0]), &suggestion.params);
        self.history.proposed.insert(id);
        self.learn(suggestion);
        took
    }

    fn learn(&mut self, suggestion: Suggestion) {
        let measurement = |case: &Case| {
            let timing = Some(Timing::modelled(time_ns(&suggestion, case)));
            Measurement {
                case: case.name.clone(),
                regime: case.regime,
                correctness: Correctness { relative_l2: 0.0, worst_row: 0.0, rows_checked: 1, rows: 1 },
                screening: timing.clone(),
                confirmation: timing,
                comparison: None,
                ctas: 1,
                shape: None,
                preparation: None,
                profile: None,
            }
        };
        let measurements = suggestion.cases.iter().map(measurement).collect();
        let evaluation = Evaluation { outcome: Outcome::Measured, measurements, device_s: 0.01 };
        let iteration = IterationId(self.history.attempts.len() as i64 + 1);
        let decisions = judge(&self.history.incumbents, &evaluation, &POLICY);
        let concluded = Concluded::of(iteration, &evaluation, &decisions, Spent::default(), Duration::ZERO);
        let Suggestion { family, params, cases, rationale } = suggestion;
        let hash = VariantHash::of(&format!("{family} {}", show_params(&params)));
        let begun = Begun { iteration, family, hash, params, cases, rationale, code: None };
        self.history.learn(&begun, &concluded);
    }
}

/// Returns the time that the processor has spent on this thread. Other processes do not count.
fn processor_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), u32::try_from(spent.tv_nsec).unwrap())
}

/// Returns a made-up time that depends on every parameter, and on their products with the sequence length.
fn time_ns(suggestion: &Suggestion, case: &Case) -> f64 {
    let length = (case.dims["Sq"] as f64).log2();
    let part = |(place, value): (usize, &i64)| {
        let best = 1.0 + (place as f64 * 1.7 + length * 0.3) % 5.0;
        0.05 * (f64::max(*value as f64, 0.5).log2() - best).abs()
    };
    let slowness: f64 = suggestion.params.values().enumerate().map(part).sum();
    let family = 1.0 + (suggestion.family.len() % 5) as f64 / 4.0;
    1e3 * length * family * slowness.exp()
}
