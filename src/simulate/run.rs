//! One run of a proposer on a recorded space.

use std::time::Duration;

use crate::agent::diagnosis::diagnose;
use crate::agent::{Proposer, SearchContext};
use crate::domain::check::Check;
use crate::domain::correctness::Correctness;
use crate::domain::cost::Spent;
use crate::domain::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::history::{ConfigurationId, History};
use crate::domain::ids::IterationId;
use crate::domain::journal::{Begun, Concluded};
use crate::domain::proposal::Suggestion;
use crate::domain::sampling::Sampling;
use crate::domain::timing::Timing;
use crate::domain::variant::{VariantHash, show_params};
use crate::domain::verdict::{Policy, judge};
use crate::domain::workload::Case;
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

/// Runs a proposer.
///
/// A failed configuration costs one evaluation. A proposer that finds nothing new ends the run, and its best time
/// stands. The error is one sentence.
pub fn run(mut proposer: Box<dyn Proposer>, searched: &Searchable, evaluations: usize) -> Result<Run, String> {
    let names = [searched.family().name.clone()];
    let context = SearchContext::new(&searched.workload, &searched.families, &names, &[], &searched.device);
    let mut history = History::default();
    let mut best_ns = Vec::with_capacity(evaluations);
    let (mut best, mut failures) = (f64::INFINITY, 0);
    while best_ns.len() < evaluations {
        let diagnosis = diagnose(&history, &searched.workload, &searched.device);
        let Some(suggestion) = proposer.propose(&context, &diagnosis, &history, 0)? else { break };
        let wrong = |what: &str| {
            format!(
                "the proposer `{}` suggested a configuration that {what}: {}",
                proposer.name(),
                show_params(&suggestion.params)
            )
        };
        let id = ConfigurationId::new(
            &suggestion.family,
            &searched.family().specialization(searched.case()),
            &suggestion.params,
        );
        if !history.proposed.insert(id) {
            return Err(wrong("it had suggested before"));
        }
        let result = searched.result(&suggestion.params).ok_or_else(|| wrong("is not recorded"))?;
        let iteration = IterationId(best_ns.len() as i64 + 1);
        let evaluation = evaluation(result, searched.case());
        let decisions = judge(&history.incumbents, &evaluation, &POLICY);
        let concluded = Concluded::of(iteration, &evaluation, &decisions, Spent::default(), Duration::ZERO);
        history.learn(&begun(iteration, suggestion), &concluded);
        failures += usize::from(result.is_err());
        best = result.map_or(best, |recording| recording.time_ns.min(best));
        best_ns.push(best);
    }
    best_ns.resize(evaluations, best);
    Ok(Run { best_ns, failures })
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
            profile: None,
        }
    });
    Evaluation { outcome, measurements: measurements.collect(), device_s: 0.0 }
}

fn begun(iteration: IterationId, suggestion: Suggestion) -> Begun {
    let Suggestion { family, params, cases, hypothesis, purpose, origin, .. } = suggestion;
    Begun {
        iteration,
        purpose,
        origin,
        family,
        hash: VariantHash::of(&show_params(&params)),
        params,
        cases,
        hypothesis,
        code: None,
    }
}
