//! One run of a proposer on a recorded space.

use std::collections::VecDeque;
use std::time::Duration;

use crate::agent::diagnosis::diagnose;
use crate::agent::{Proposer, SearchContext};
use crate::domain::budget::cost::Spent;
use crate::domain::history::{ConfigurationId, History, Pending};
use crate::domain::ids::IterationId;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::measurement::verdict::{Policy, judge};
use crate::domain::proposal::Suggestion;
use crate::domain::record::journal::{Begun, Concluded};
use crate::domain::statistics::sampling::Sampling;
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::{VariantHash, show_params};
use crate::domain::workload::Case;
use crate::error::Error;
use crate::spaces::{Failure, Recording, Searchable};

/// Recorded times have no noise here, so only the smallest speed-up counts. It is the default of sessions.
const POLICY: Policy = Policy {
    min_speedup: 1.01,
    screening: Sampling { min_samples: 1, max_samples: 1, relative_error: 1.0, max_ns: 1e9 },
    comparison: Sampling { min_samples: 1, max_samples: 1, relative_error: 1.0, max_ns: 1e9 },
    group_size: 1,
};

/// What a run of a proposer reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The best time in nanoseconds after each evaluation, infinite before the first success.
    pub best_ns: Vec<f64>,
    /// How many of the evaluated configurations failed.
    pub failures: usize,
}

/// Runs a proposer for a session with a number of lanes, the first of which is home: it knows nothing of the results of as many
/// suggestions as there are other lanes.
///
/// A failed configuration costs one evaluation. A proposer that finds nothing new ends the run, and its best time
/// stands. The error is one sentence.
pub fn run(
    mut proposer: Box<dyn Proposer>,
    searched: &Searchable,
    evaluations: usize,
    lanes: usize,
) -> Result<Run, Error> {
    let names = [searched.family().name.clone()];
    let context = SearchContext::new(&searched.workload, &searched.families, &names, &[], &searched.device);
    let mut history = History::default();
    let mut under_way: VecDeque<Suggestion> = VecDeque::new();
    let mut reached = Run { best_ns: Vec::with_capacity(evaluations), failures: 0 };
    while reached.best_ns.len() < evaluations {
        let suggestion = if reached.best_ns.len() + under_way.len() < evaluations {
            let diagnosis = diagnose(&history, &searched.workload, &searched.device);
            history.pending = under_way.iter().map(pending).collect();
            proposer.propose(&context, &diagnosis, &history, under_way.len())?
        } else {
            None
        };
        let is_dry = suggestion.is_none();
        if let Some(suggestion) = suggestion {
            note(&mut history, searched, &suggestion).map_err(|what| {
                let params = show_params(&suggestion.params);
                format!("the proposer `{}` suggested a configuration that {what}: {params}", proposer.name())
            })?;
            under_way.push_back(suggestion);
        }
        if is_dry || under_way.len() == lanes {
            let Some(oldest) = under_way.pop_front() else { break };
            reached.conclude(oldest, searched, &mut history);
        }
    }
    let best_ns = reached.best();
    reached.best_ns.resize(evaluations, best_ns);
    Ok(reached)
}

impl Run {
    /// Returns the best time so far in nanoseconds.
    fn best(&self) -> f64 {
        self.best_ns.last().copied().unwrap_or(f64::INFINITY)
    }

    /// Evaluates a suggestion that is recorded, and lets the proposer know.
    fn conclude(&mut self, suggestion: Suggestion, searched: &Searchable, history: &mut History) {
        let Some(result) = searched.result(&suggestion.params) else { return };
        let iteration = IterationId(self.best_ns.len() as i64 + 1);
        let evaluation = evaluation(result, searched.case());
        let decisions = judge(&history.incumbents, &evaluation, &POLICY);
        let concluded = Concluded::of(iteration, &evaluation, &decisions, Spent::default(), Duration::ZERO);
        history.learn(&begun(iteration, suggestion), &concluded);
        self.failures += usize::from(result.is_err());
        let best_ns = result.map_or(f64::INFINITY, |recording| recording.time_ns);
        self.best_ns.push(best_ns.min(self.best()));
    }
}

fn pending(suggestion: &Suggestion) -> Pending {
    let Suggestion { family, params, cases, .. } = suggestion.clone();
    Pending { family, params, cases: cases.into_iter().map(|case| case.name).collect() }
}

/// Notes that a configuration is suggested. The error says what is wrong with it.
fn note(history: &mut History, searched: &Searchable, suggestion: &Suggestion) -> Result<(), &'static str> {
    let specialization = searched.family().specialization(searched.case());
    let id = ConfigurationId::new(&suggestion.family, &specialization, &suggestion.params);
    if !history.proposed.insert(id) {
        return Err("it had suggested before");
    }
    searched.result(&suggestion.params).map(|_| ()).ok_or("is not recorded")
}

/// Returns the evaluation of a configuration that was recorded.
fn evaluation(result: Result<&Recording, Failure>, case: &Case) -> Evaluation {
    let (name, message) = (case.name.clone(), "as recorded".to_owned());
    let outcome = match result {
        Ok(_) => Outcome::Measured,
        Err(Failure::Compile) => Outcome::RejectedByCompiler { message },
        Err(Failure::Runtime) => Outcome::Crashed { case: name, message, line: None },
        Err(Failure::TimedOut) => Outcome::TimedOut { case: name, message },
        Err(Failure::Wrong) => Outcome::Wrong { case: name, check: Check::Accuracy, message },
    };
    let measurements = result.into_iter().map(|recording| {
        let timing = Some(Timing::modelled(recording.time_ns));
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
    });
    Evaluation { outcome, measurements: measurements.collect(), device_s: 0.0 }
}

fn begun(iteration: IterationId, suggestion: Suggestion) -> Begun {
    let Suggestion { family, params, cases, rationale } = suggestion;
    Begun { iteration, family, hash: VariantHash::of(&show_params(&params)), params, cases, rationale, code: None }
}
