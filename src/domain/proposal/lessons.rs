//! What earlier sessions of a workload have taught on a kind of device: the effects of single parameters, and claims of language
//! models that were refuted.

use serde::{Deserialize, Serialize};

use super::origin::Change;
use crate::domain::ids::{CaseName, IterationId};

/// The lessons for a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lessons {
    /// Product name of the device. They hold for no other.
    pub device: String,
    /// The effects, the largest first.
    pub effects: Vec<Effect>,
    /// The refuted claims, the latest first.
    pub refuted: Vec<RefutedClaim>,
}

/// The effect of one value of a parameter instead of another one, where nothing else changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The family.
    pub family: String,
    /// The change. Its `from` is smaller than its `to`.
    pub change: Change,
    /// The median of the time before divided by the time after, over all sessions and cases.
    pub speedup: f64,
    /// The pairs of configurations that it comes from.
    pub pairs: usize,
}

/// A claim of a language model whose result was below its range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefutedClaim {
    /// The iteration that refuted it.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
    /// The claim.
    pub claim: String,
    /// The predicted range of the speed-up, low and high.
    pub predicted: [f64; 2],
    /// The speed-up that was found.
    pub actual: f64,
}

impl Effect {
    /// Tells whether a change of parameters makes use of the effect, or goes against it. None if it does neither.
    pub fn is_followed(&self, family: &str, change: &Change) -> Option<bool> {
        if self.family != family || self.change.parameter != change.parameter {
            return None;
        }
        let upwards = (self.change.from, self.change.to) == (change.from, change.to);
        let downwards = (self.change.from, self.change.to) == (change.to, change.from);
        (upwards || downwards).then_some(upwards == (self.speedup > 1.0))
    }
}

impl Lessons {
    /// Returns each lesson as a sentence.
    pub fn sentences(&self) -> Vec<String> {
        let effects = self.effects.iter().map(|Effect { family, change, speedup, pairs }| {
            let Change { parameter, from, to } = change;
            format!("`{family}`: {parameter} {to} instead of {from} is {speedup:.2}x as fast (median, n = {pairs})")
        });
        let refuted = self.refuted.iter().map(|one| {
            let RefutedClaim { iteration, case, claim, predicted: [low, high], actual } = one;
            format!("refuted on {case} by iteration {iteration}: {claim} (predicted {low:.2}x to {high:.2}x, found {actual:.2}x)")
        });
        effects.chain(refuted).collect()
    }
}
