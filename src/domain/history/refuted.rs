//! Refuted changes: changes of a single parameter that made a variant slower in every try.

use std::collections::{BTreeSet, HashMap};

use crate::domain::history::{Finished, History};
use crate::domain::ids::CaseName;
use crate::domain::proposal::origin::{Change, Purpose};

/// Tries after which a change that was always slower counts as refuted. Fewer tries could be chance: if a change were
/// faster on half of the bases, one of eight series would still begin with three slower ones.
pub const MIN_TRIES: usize = 3;

/// By what share a variant must be slower than its reference to count against a change. Of 56 pairs of times of one
/// variant on an H200 (two screening runs, or a screening run and a comparison, 2026-11-22), 55 differ by less.
pub const NOISE: f64 = 0.02;

/// A change of one parameter of a family. Each proposal makes a map of them, so names are not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SingleChange<'a> {
    /// The family.
    pub family: &'a str,
    /// The change.
    pub change: &'a Change,
}

/// The results of a change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tries {
    /// The natural logarithm of each speed-up over the reference, oldest first.
    pub ln_speedups: Vec<f64>,
    /// The cases on which it was tried.
    pub cases: BTreeSet<CaseName>,
}

impl Tries {
    /// Counts the tries that were slower than their reference, beyond the noise.
    pub fn slower(&self) -> usize {
        self.ln_speedups.iter().filter(|ln| **ln < -NOISE).count()
    }

    /// Counts the tries that were faster than their reference.
    pub fn faster(&self) -> usize {
        self.ln_speedups.iter().filter(|ln| **ln > 0.0).count()
    }

    /// Tells whether the change was slower each time that it was tried, often enough to give it up.
    pub fn refuted(&self) -> bool {
        self.ln_speedups.len() >= MIN_TRIES && self.slower() == self.ln_speedups.len()
    }

    /// Tells whether the change is given up on a case: it is refuted, and was tried there, or on so many other cases
    /// that one more says nothing new.
    pub fn refuted_on(&self, case: &str) -> bool {
        self.refuted() && (self.cases.iter().any(|tried| tried == case) || self.cases.len() >= MIN_TRIES)
    }
}

/// Returns the results of all changes of a single parameter that a session tried. One that was a little slower or
/// faster even once is not refuted, so a success is all the new evidence that a change needs.
pub fn tries(history: &History) -> HashMap<SingleChange<'_>, Tries> {
    let mut tries: HashMap<SingleChange<'_>, Tries> = HashMap::new();
    for finished in &history.finished {
        let [change] = finished.rationale.origin.changes() else { continue };
        let Some(ln) = ln_speedup(history, finished) else { continue };
        let of_change = tries.entry(SingleChange { family: &finished.family, change }).or_default();
        of_change.ln_speedups.push(ln);
        if !of_change.cases.contains(&finished.rationale.hypothesis.case) {
            of_change.cases.insert(finished.rationale.hypothesis.case.clone());
        }
    }
    tries
}

/// Returns the logarithm of the speed-up of an iteration over the one that its hypothesis names. None for a
/// confirmation, which repeats a screening run, and if one of the two has no time on the case.
pub fn ln_speedup(history: &History, finished: &Finished) -> Option<f64> {
    if finished.rationale.purpose == Purpose::Confirmation {
        return None;
    }
    let case = &finished.rationale.hypothesis.case;
    let reference = history.iteration(finished.rationale.hypothesis.reference.iteration()?)?;
    Some((reference.time_ns(case)? / finished.time_ns(case)?).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(ln_speedups: &[f64], cases: &[&str]) -> Tries {
        Tries { ln_speedups: ln_speedups.to_vec(), cases: cases.iter().map(|case| CaseName::from(*case)).collect() }
    }

    #[test]
    fn a_change_is_refuted_by_three_tries_that_were_all_slower() {
        assert!(!tried(&[-0.5, -0.5], &["a"]).refuted(), "two may be chance");
        assert!(tried(&[-0.5, -0.1, -0.03], &["a"]).refuted());
        assert!(!tried(&[-0.5, -0.1, -0.01], &["a"]).refuted(), "one is within the noise");
        assert!(!tried(&[-0.5, -0.1, -0.3, -0.4, 0.1], &["a"]).refuted(), "one was faster");
    }

    #[test]
    fn a_refuted_change_may_be_tried_on_a_case_that_is_new_to_it_until_three_cases_agree() {
        let two = tried(&[-0.5, -0.1, -0.3], &["a", "b"]);
        assert!(two.refuted_on("a") && !two.refuted_on("c"));
        assert!(tried(&[-0.5, -0.1, -0.3], &["a", "b", "c"]).refuted_on("d"));
    }
}
