//! Hypotheses, written down before the experiment and scored after it.

use serde::{Deserialize, Serialize};

use super::ids::{CaseName, IterationId};
use super::statistics::Interval;

/// A claim with its evidence and a predicted speed-up, made before the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// What is expected to help, and why.
    pub claim: String,
    /// What the claim rests on.
    pub evidence: String,
    /// The case on which it is tested.
    pub case: CaseName,
    /// The predicted speed-up over the variant of `relative_to`, as a range.
    pub predicted: Interval,
    /// The iteration to whose variant the prediction is relative; none for a first variant.
    pub relative_to: Option<IterationId>,
}

/// The score of a hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// The speed-up lies in the predicted range.
    Confirmed,
    /// The speed-up is above the predicted range.
    Exceeded,
    /// The speed-up is below the predicted range.
    Refuted,
    /// There is no speed-up: the variant, or the one that it is relative to, was not measured on the case.
    Untested,
}

impl Score {
    /// Returns the name that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Exceeded => "exceeded",
            Self::Refuted => "refuted",
            Self::Untested => "untested",
        }
    }
}

impl Hypothesis {
    /// Scores the hypothesis against the measured speed-up.
    pub fn score(&self, actual: Option<f64>) -> Score {
        match actual {
            None => Score::Untested,
            Some(actual) if actual < self.predicted.lo => Score::Refuted,
            Some(actual) if actual > self.predicted.hi => Score::Exceeded,
            Some(_) => Score::Confirmed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_scored_by_where_the_actual_speedup_falls() {
        let claim = Hypothesis {
            claim: "padding removes bank conflicts".to_owned(),
            evidence: "64 columns on 32 banks".to_owned(),
            case: "b8h8s128".into(),
            predicted: Interval { lo: 1.3, hi: 1.5 },
            relative_to: Some(IterationId(1)),
        };
        assert_eq!(claim.score(Some(1.4)), Score::Confirmed);
        assert_eq!(claim.score(Some(1.6)), Score::Exceeded);
        assert_eq!(claim.score(Some(0.9)), Score::Refuted);
        assert_eq!(claim.score(None), Score::Untested);
    }
}
