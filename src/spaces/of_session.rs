//! A session's own results as a recorded space.

use indexmap::IndexMap;
use serde_json::Value;

use super::space::{Failure, RecordedSpace, Recording, Row};
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::text::names::did_you_mean;
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::{Error, error};

/// Returns the space that a session evaluated for a family on a case. If the session has one case or one family, it need
/// not be named. The error is one sentence.
///
/// A configuration that was evaluated several times counts once: with its confirmed time if it has one, else with its
/// latest time. Failures of the case count, and failures to compile.
pub fn of_session(record: &SessionRecord, case: Option<&str>, family: Option<&str>) -> Result<RecordedSpace, Error> {
    let session = record.session.id;
    let Chosen { case, family, iterations } = Chosen::of(record, case, family)?;
    let case = case.name;
    let mut results: IndexMap<Vec<i64>, (bool, Result<Recording, Failure>)> = IndexMap::new();
    let mut names: Option<&Params> = None;
    for iteration in iterations {
        let first = *names.get_or_insert(&iteration.params);
        let Some((confirmed, result)) = result(iteration, &case) else { continue };
        let values: Option<Vec<i64>> = first.keys().map(|name| iteration.params.get(name).copied()).collect();
        let Some(values) = values.filter(|values| values.len() == iteration.params.len()) else {
            return Err(error!("family `{family}` got other parameters during session {session}"));
        };
        let is_confirmed = results.get(&values).is_some_and(|(confirmed, _)| *confirmed);
        if confirmed || !is_confirmed {
            results.insert(values, (confirmed, result));
        }
    }
    let names: Vec<String> = names.into_iter().flat_map(Params::keys).cloned().collect();
    if results.is_empty() {
        return Err(error!("session {session} has no result of `{family}` on `{case}`"));
    }
    let row = |(values, (_, result)): (Vec<i64>, _)| {
        let values = values.into_iter().map(Value::from).collect();
        Row { values, result, cost_s: None }
    };
    let name = format!("session-{session}-{case}-{family}");
    let space = RecordedSpace::of_rows(name, names, None, results.into_iter().map(row).collect())?;
    Ok(RecordedSpace { kernel: Some(family), device: Some(record.session.device.clone()), ..space })
}

/// Returns the case and the family that [`of_session`] exports.
pub fn chosen(record: &SessionRecord, case: Option<&str>, family: Option<&str>) -> Result<(Case, String), Error> {
    Chosen::of(record, case, family).map(|Chosen { case, family, .. }| (case, family))
}

/// A family on a case of a session, with its iterations there.
struct Chosen<'a> {
    case: Case,
    family: String,
    iterations: Vec<&'a IterationRecord>,
}

impl<'a> Chosen<'a> {
    fn of(record: &'a SessionRecord, case: Option<&str>, family: Option<&str>) -> Result<Self, Error> {
        let session = record.session.id;
        let cases = record.session.cases.iter().map(|case| case.as_str());
        let case = choose(cases, case, "case", &format!("session {session}"))?;
        let on_case = |iteration: &'a IterationRecord| iteration.cases.iter().find(|other| *other.name == *case);
        let evaluated = |iteration: &&IterationRecord| iteration.rationale.purpose != Purpose::Experiment;
        let on_case = record.iterations.iter().filter(evaluated).filter_map(|one| Some((one, on_case(one)?)));
        let on_case: Vec<(&IterationRecord, &Case)> = on_case.collect();
        let families = on_case.iter().map(|(iteration, _)| iteration.family.as_str());
        let family = choose(families, family, "family", &format!("session {session} on {case}"))?;
        let of_family: Vec<_> = on_case.into_iter().filter(|(iteration, _)| iteration.family == family).collect();
        let case = of_family.first().map(|(_, case)| (*case).clone()).ok_or("nothing was evaluated")?;
        Ok(Self { case, family, iterations: of_family.into_iter().map(|(iteration, _)| iteration).collect() })
    }
}

/// Chooses the only name, or the named one.
fn choose<'a>(
    names: impl Iterator<Item = &'a str>,
    wanted: Option<&str>,
    what: &str,
    place: &str,
) -> Result<String, Error> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let all = names.join(", ");
    match (wanted, names.as_slice()) {
        (_, []) => Err(error!("{place} has evaluated nothing")),
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => Err(error!("{place} has several: choose one with --{what} ({all})")),
        (Some(wanted), _) if names.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), _) => {
            let hint = did_you_mean(wanted, names.iter().copied());
            Err(error!("{place} has no {what} `{wanted}`{hint}; it has: {all}"))
        }
    }
}

/// Returns the result of an iteration on a case, and whether its time is confirmed. None if the iteration says nothing
/// about the case, for example because it failed on another one or never ended.
fn result(iteration: &IterationRecord, case: &str) -> Option<(bool, Result<Recording, Failure>)> {
    let outcome = iteration.outcome.as_ref()?;
    let failure = match outcome {
        Outcome::RejectedByCompiler { .. } => Some(Failure::Compile),
        Outcome::Crashed { case: failed, .. } if failed == case => Some(Failure::Runtime),
        Outcome::TimedOut { case: failed, .. } if failed == case => Some(Failure::TimedOut),
        Outcome::Wrong { case: failed, .. } | Outcome::Cheated { case: failed, .. } if failed == case => {
            Some(Failure::Wrong)
        }
        _ => None,
    };
    if let Some(failure) = failure {
        return Some((true, Err(failure)));
    }
    let found = iteration.measurements.iter().find(|found| found.case == case)?;
    let timing = found.best_timing()?;
    let recording = Recording { time_ns: timing.median_ns, samples_ns: timing.samples_ns.clone() };
    Some((found.confirmation.is_some(), Ok(recording)))
}
