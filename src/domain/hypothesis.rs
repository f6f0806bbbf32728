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
    /// The predicted speed-up over the reference, as a range.
    pub predicted: Interval,
    /// What the prediction is relative to.
    #[serde(flatten)]
    pub reference: Reference,
}

/// What a claim compares its variant with. The claim is scored against this, and against nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields", into = "Fields")]
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
struct Fields {
    #[serde(default)]
    reference: Option<Kind>,
    relative_to: Option<IterationId>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    InitialKernel,
    Incumbent,
    Baseline,
    Iteration,
}

impl From<Fields> for Reference {
    /// Before references were recorded, a claim about no iteration was scored against the incumbent.
    fn from(Fields { reference, relative_to }: Fields) -> Self {
        match (reference, relative_to) {
            (_, Some(iteration)) => Self::Iteration(iteration),
            (Some(Kind::InitialKernel), None) => Self::InitialKernel,
            (Some(Kind::Baseline), None) => Self::Baseline,
            (Some(Kind::Incumbent | Kind::Iteration) | None, None) => Self::Incumbent,
        }
    }
}

impl From<Reference> for Fields {
    fn from(reference: Reference) -> Self {
        let kind = match reference {
            Reference::InitialKernel => Kind::InitialKernel,
            Reference::Incumbent => Kind::Incumbent,
            Reference::Baseline => Kind::Baseline,
            Reference::Iteration(_) => Kind::Iteration,
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
    /// There is no speed-up: the variant, or what it is relative to, was not measured on the case.
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
            reference: Reference::Iteration(IterationId(1)),
        };
        assert_eq!(claim.score(Some(1.4)), Score::Confirmed);
        assert_eq!(claim.score(Some(1.6)), Score::Exceeded);
        assert_eq!(claim.score(Some(0.9)), Score::Refuted);
        assert_eq!(claim.score(None), Score::Untested);
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
