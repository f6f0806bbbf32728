//! Hypotheses, written down before the experiment and scored after it.

use serde::{Deserialize, Serialize};

use super::mechanism::Mechanism;
use super::prediction::{Direction, Prediction};
use crate::domain::ids::{CaseName, IterationId};

/// What an iteration is meant to show, with its evidence. Where something is known, it claims a speed-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// What is tried, and what is expected of it.
    pub claim: String,
    /// What the claim rests on.
    pub evidence: String,
    /// How it is expected to act.
    #[serde(default)]
    pub mechanism: Mechanism,
    /// The case on which it is tested.
    pub case: CaseName,
    /// The predicted speed-up over the reference. None if nothing is predicted: then there is no claim to score.
    #[serde(rename = "predicted")]
    pub prediction: Option<Prediction>,
    /// The predicted range of the speed-up once the search has tuned the parameters of a new family, low and high. None if nothing
    /// is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<[f64; 2]>,
    /// What the prediction is relative to.
    #[serde(flatten)]
    pub reference: Reference,
}

/// What a claim compares its variant with. The claim is scored against this, and against nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ReferenceFields", into = "ReferenceFields")]
pub enum Reference {
    /// The default configuration of the initial kernel's family.
    InitialKernel,
    /// The best confirmed variant at the time of the experiment.
    Incumbent,
    /// What a user would use instead.
    Baseline,
    /// The variant of an earlier iteration, such as the parent.
    Iteration(IterationId),
}

/// The form of a reference in JSON and in the store.
#[derive(Serialize, Deserialize)]
struct ReferenceFields {
    #[serde(default)]
    reference: Option<ReferenceKind>,
    relative_to: Option<IterationId>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReferenceKind {
    InitialKernel,
    Incumbent,
    Baseline,
    Iteration,
}

impl From<ReferenceFields> for Reference {
    /// Before references were recorded, a claim about no iteration was scored against the incumbent.
    fn from(ReferenceFields { reference, relative_to }: ReferenceFields) -> Self {
        match (reference, relative_to) {
            (_, Some(iteration)) => Self::Iteration(iteration),
            (Some(ReferenceKind::InitialKernel), None) => Self::InitialKernel,
            (Some(ReferenceKind::Baseline), None) => Self::Baseline,
            (Some(ReferenceKind::Incumbent | ReferenceKind::Iteration) | None, None) => Self::Incumbent,
        }
    }
}

impl From<Reference> for ReferenceFields {
    fn from(reference: Reference) -> Self {
        let kind = match reference {
            Reference::InitialKernel => ReferenceKind::InitialKernel,
            Reference::Incumbent => ReferenceKind::Incumbent,
            Reference::Baseline => ReferenceKind::Baseline,
            Reference::Iteration(_) => ReferenceKind::Iteration,
        };
        Self { reference: Some(kind), relative_to: reference.iteration() }
    }
}

impl Reference {
    /// Returns the iteration, if the reference is one.
    pub fn iteration(self) -> Option<IterationId> {
        match self {
            Self::Iteration(iteration) => Some(iteration),
            _ => None,
        }
    }

    /// Returns the name that the store uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::InitialKernel => "initial_kernel",
            Self::Incumbent => "incumbent",
            Self::Baseline => "baseline",
            Self::Iteration(_) => "iteration",
        }
    }

    /// Returns the reference in words, as in "over ...".
    pub fn describe(self) -> String {
        match self {
            Self::InitialKernel => "the initial kernel".to_owned(),
            Self::Incumbent => "the incumbent".to_owned(),
            Self::Baseline => "the baseline".to_owned(),
            Self::Iteration(iteration) => format!("iteration {iteration}"),
        }
    }
}

/// Where the outcome of a claim lies. A score says how good the prediction was, not whether the variant was fast: a
/// variant that is slower, as predicted, is in range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// The speed-up lies in the predicted range.
    InRange,
    /// The speed-up is above the predicted range.
    Above,
    /// The speed-up is below the predicted range.
    Below,
    /// There is no speed-up: the variant, or what it is relative to, was not measured on the case.
    Untested,
    /// Nothing was predicted.
    NoClaim,
}

impl Score {
    /// Returns the name that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::InRange => "in_range",
            Self::Above => "above",
            Self::Below => "below",
            Self::Untested => "untested",
            Self::NoClaim => "no_claim",
        }
    }
}

impl Hypothesis {
    /// Makes a hypothesis that predicts nothing: it only says what is run, and why.
    pub fn without_claim(claim: String, evidence: String, case: CaseName, reference: Reference) -> Self {
        Self { claim, evidence, mechanism: Mechanism::default(), case, prediction: None, tuned: None, reference }
    }

    /// Scores the hypothesis against the measured speed-up.
    pub fn score(&self, actual: Option<f64>) -> Score {
        match (self.prediction, actual) {
            (None, _) => Score::NoClaim,
            (_, None) => Score::Untested,
            (Some(predicted), Some(actual)) if actual < predicted.lo => Score::Below,
            (Some(predicted), Some(actual)) if actual > predicted.hi => Score::Above,
            _ => Score::InRange,
        }
    }

    /// Returns the direction in which the claim expects the time to change. None without a claim.
    pub fn direction(&self) -> Option<Direction> {
        self.prediction.map(|prediction| prediction.direction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::claims::prediction::Strength;

    #[test]
    fn a_claim_is_scored_by_where_the_actual_speedup_falls() {
        let prediction = Prediction { median: Some(1.4), lo: 1.3, hi: 1.5, strength: Strength::Prior, model: None };
        let claim = Hypothesis {
            claim: "padding removes bank conflicts".to_owned(),
            evidence: "64 columns on 32 banks".to_owned(),
            mechanism: Mechanism::MemoryAccess,
            case: "b8h8s128".into(),
            prediction: Some(prediction),
            tuned: None,
            reference: Reference::Iteration(IterationId(1)),
        };
        assert_eq!(claim.score(Some(1.4)), Score::InRange);
        assert_eq!(claim.score(Some(1.6)), Score::Above);
        assert_eq!(claim.score(Some(0.9)), Score::Below);
        assert_eq!(claim.score(None), Score::Untested);
        let none = Hypothesis { prediction: None, ..claim };
        assert_eq!((none.score(Some(1.4)), none.score(None)), (Score::NoClaim, Score::NoClaim));
    }

    #[test]
    fn a_reference_reads_back_and_older_claims_without_one_were_about_an_iteration_or_the_incumbent() {
        for reference in
            [Reference::InitialKernel, Reference::Incumbent, Reference::Baseline, Reference::Iteration(IterationId(7))]
        {
            let json = serde_json::to_value(reference).unwrap();
            assert_eq!(json["reference"], reference.name());
            assert_eq!(serde_json::from_value::<Reference>(json).unwrap(), reference);
        }
        let old = |text: &str| serde_json::from_str::<Reference>(text).unwrap();
        assert_eq!(old(r#"{"relative_to":7}"#), Reference::Iteration(IterationId(7)));
        assert_eq!(old(r#"{"relative_to":null}"#), Reference::Incumbent);
    }
}
