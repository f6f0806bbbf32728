//! Variants whose machine code and launches have been measured already. Parameters often change the source only: see
//! [decision 68](../../../docs/decisions/0068-variants-without-prospects.md).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::code::cubin;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::proposal::origin::Purpose;
use crate::runner::messages::CaseRequest;
use crate::session::pipeline::Compiled;

/// The machine codes that have been measured, with their launches. Clones share them.
#[derive(Clone, Default)]
pub(in crate::session) struct Duplicates {
    /// The first iteration that timed a machine code on a case.
    timed: Arc<Mutex<HashMap<blake3::Hash, IterationId>>>,
}

impl Duplicates {
    /// Returns why a variant need not be measured: on each of its cases, an iteration has timed its machine code with its
    /// launches. None if it is new on one, or if it is run to be measured again.
    pub fn of(&self, compiled: &Compiled) -> Option<String> {
        if compiled.proposal.rationale.purpose != Purpose::Screening {
            return None;
        }
        let timed = self.timed();
        let firsts: BTreeSet<_> = codes(compiled).map(|(_, code)| timed.get(&code).copied()).collect::<Option<_>>()?;
        let named: Vec<String> = firsts.iter().map(ToString::to_string).collect();
        let iterations = if named.len() == 1 { "iteration" } else { "iterations" };
        (!named.is_empty())
            .then(|| format!("it has the machine code and the launches of {iterations} {}", named.join(" and ")))
    }

    /// Takes note of a variant that has been evaluated.
    pub fn note(&self, iteration: IterationId, compiled: &Compiled, evaluation: &Evaluation) {
        // Each failure is evaluated, because proposers learn from it which parameters fail.
        if evaluation.outcome != Outcome::Measured {
            return;
        }
        for (case, code) in codes(compiled) {
            if evaluation.measurements.iter().any(|found| found.case == *case && found.best_timing().is_some()) {
                self.timed().entry(code).or_insert(iteration);
            }
        }
    }

    /// Has the variants of iterations measured again, if they come again.
    pub fn forget(&self, iterations: &[IterationId]) {
        self.timed().retain(|_, first| !iterations.contains(first));
    }

    fn timed(&self) -> MutexGuard<'_, HashMap<blake3::Hash, IterationId>> {
        self.timed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a variant's cases, each with the hash of the machine code and of its launches there. There is none if the
/// variant has no machine code: it did not compile, or the device is a recording.
fn codes(compiled: &Compiled) -> impl Iterator<Item = (&CaseName, blake3::Hash)> {
    let cubin =
        compiled.artifact.as_ref().ok().map(|artifact| artifact.cubin.as_slice()).filter(|cubin| !cubin.is_empty());
    let requests = compiled.cases.as_deref().unwrap_or_default();
    requests.iter().filter_map(move |request| Some((&request.case.name, code(cubin?, request)?)))
}

fn code(image: &[u8], request: &CaseRequest) -> Option<blake3::Hash> {
    let plan = serde_json::to_vec(&request.plan).ok()?;
    let mut hasher = blake3::Hasher::new();
    for section in cubin::code(image) {
        hasher.update(&(section.len() as u64).to_le_bytes()).update(section);
    }
    hasher.update(request.case.name.as_bytes()).update(&plan);
    Some(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::synthetic::{CASES, Scenario, compiled, evaluation, measurement, setup};

    #[test]
    fn machine_code_that_was_timed_is_not_timed_again() {
        let told = Scenario::new(setup());
        let times = |cases: &[&str]| cases.iter().map(|case| measurement(case, 100, None)).collect();
        let is_pruned = |duplicates: &Duplicates, one: &Compiled| duplicates.of(one).is_some();
        let (mut first, same, mut other) = (compiled(&told, 0), compiled(&told, 1), compiled(&told, 1));
        first.proposal.rationale.purpose = Purpose::Initial;
        other.artifact.as_mut().unwrap().cubin = vec![2];

        let duplicates = Duplicates::default();
        duplicates.note(
            IterationId(1),
            &first,
            &evaluation(Outcome::Crashed { case: CASES[0].into(), message: String::new(), line: None }, times(&CASES)),
        );
        assert!(!is_pruned(&duplicates, &same), "the first one crashed");
        duplicates.note(IterationId(2), &first, &evaluation(Outcome::Measured, times(&CASES[..1])));
        assert!(!is_pruned(&duplicates, &same), "it is new on one case");
        duplicates.note(IterationId(3), &first, &evaluation(Outcome::Measured, times(&CASES)));
        insta::assert_snapshot!(duplicates.of(&same).unwrap(), @"it has the machine code and the launches of iterations 2 and 3");
        assert!(!is_pruned(&duplicates, &other), "its machine code is new");
        assert!(!is_pruned(&duplicates, &first), "an initial kernel is measured in any case");

        let mut recorded = compiled(&told, 1);
        recorded.artifact.as_mut().unwrap().cubin.clear();
        duplicates.note(IterationId(4), &recorded, &evaluation(Outcome::Measured, times(&CASES)));
        assert!(!is_pruned(&duplicates, &recorded), "a recording has no machine code");
    }
}
