//! What a session knows so far, as proposers and the judge see it.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;

use super::evaluation::{Evaluation, Timing};
use super::hypothesis::Hypothesis;
use super::op::Dims;
use super::variant::{Params, Variant, VariantHash};
use super::verdict::{Decision, Verdict};

/// The best confirmed variant of each case, by the case's name.
pub type Incumbents = HashMap<String, Incumbent>;

/// The best confirmed variant of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Incumbent {
    /// The iteration that brought it.
    pub iteration: i64,
    /// Its name.
    pub hash: VariantHash,
    /// Its time.
    pub timing: Timing,
}

/// A point of a search space on which a variant stands: the same parameters rendered for two specializations are two.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Point {
    /// The family.
    pub family: String,
    /// The dimensions rendered into the source, as sorted pairs.
    pub specialization: Vec<(String, i64)>,
    /// The parameters, as sorted pairs.
    pub params: Vec<(String, i64)>,
}

impl Point {
    /// Makes the point of parameters in a family and specialization.
    pub fn new(family: &str, specialization: &Dims, params: &Params) -> Self {
        let sorted = |map: &IndexMap<String, i64>| {
            let mut pairs: Vec<_> = map.iter().map(|(name, value)| (name.clone(), *value)).collect();
            pairs.sort();
            pairs
        };
        Self { family: family.to_owned(), specialization: sorted(specialization), params: sorted(params) }
    }
}

/// A finished iteration, as far as later decisions need it.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The store's number of the iteration.
    pub iteration: i64,
    /// The variant's family.
    pub family: String,
    /// The variant's parameters.
    pub params: Params,
    /// What was claimed before the experiment.
    pub hypothesis: Hypothesis,
    /// The time per case, in nanoseconds, and the blocks launched.
    pub times: Vec<CaseTime>,
}

/// The time of a variant on a case, with what a diagnosis needs beside it.
#[derive(Debug, Clone)]
pub struct CaseTime {
    /// The case's name.
    pub case: String,
    /// Median time.
    pub median_ns: f64,
    /// Blocks (CTAs) of the largest launch.
    pub ctas: u64,
}

/// Everything that a session has learnt.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Finished iterations that were measured, oldest first.
    pub finished: Vec<Finished>,
    /// The best confirmed variant of each case.
    pub incumbents: Incumbents,
    /// Points proposed so far, also those in flight: none is proposed twice.
    pub proposed: HashSet<Point>,
}

impl History {
    /// Takes up a finished iteration and its verdicts.
    pub fn learn(
        &mut self,
        iteration: i64,
        variant: &Variant,
        hypothesis: &Hypothesis,
        evaluation: &Evaluation,
        decisions: &[Decision],
    ) {
        for decision in decisions {
            let wins = matches!(decision.verdict, Verdict::Start | Verdict::Improved);
            let measurement = evaluation.measurements.iter().find(|m| m.case == decision.case);
            if let (true, Some(timing)) = (wins, measurement.and_then(|m| m.best_timing())) {
                let incumbent = Incumbent { iteration, hash: variant.hash.clone(), timing: timing.clone() };
                self.incumbents.insert(decision.case.clone(), incumbent);
            }
        }
        let times: Vec<_> = evaluation
            .measurements
            .iter()
            .filter_map(|m| {
                let median_ns = m.best_timing()?.median_ns;
                Some(CaseTime { case: m.case.clone(), median_ns, ctas: m.ctas })
            })
            .collect();
        if !times.is_empty() {
            self.finished.push(Finished {
                iteration,
                family: variant.family.clone(),
                params: variant.params.clone(),
                hypothesis: hypothesis.clone(),
                times,
            });
        }
    }

    /// Finds a finished iteration by its number.
    pub fn iteration(&self, iteration: i64) -> Option<&Finished> {
        self.finished.iter().rev().find(|finished| finished.iteration == iteration)
    }
}
