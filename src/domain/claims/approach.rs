//! An approach that a language model proposes: what it would change, why, and what it expects.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::hypothesis::{Hypothesis, Reference};
use super::mechanism::Mechanism;
use super::prediction::{Prediction, Strength};
use crate::domain::ids::{CaseName, IterationId};

/// Speed-ups outside this range are not accepted as predictions. No change of a kernel that was worth trying has made
/// it slower or faster by more.
const PLAUSIBLE: [f64; 2] = [0.05, 100.0];

/// The longest claim, in characters. A longer one is cut.
const MAX_TEXT_CHARS: usize = 500;

/// The form of an answer. The cheapest one comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A configuration of a family that exists.
    Parameters,
    /// Search-and-replace edits of a family's template. The search space stays.
    Edits,
    /// A whole kernel with its launch plan and no parameters.
    Kernel,
    /// A new family: a template and a manifest with a search space.
    Family,
}

impl Form {
    /// All forms, the cheapest first.
    pub const ALL: [Self; 4] = [Self::Parameters, Self::Edits, Self::Kernel, Self::Family];

    /// Returns the name that the store, prompts and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Edits => "edits",
            Self::Kernel => "kernel",
            Self::Family => "family",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A change that a language model proposes for a case, before it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approach {
    /// What the model expects, in one sentence.
    pub claim: String,
    /// The expected mechanism of the change. An unknown name becomes `unspecified`.
    #[serde(default, deserialize_with = "known_mechanism")]
    pub mechanism: Mechanism,
    /// The case to try it on first.
    pub case: CaseName,
    /// The predicted range of the speed-up, as the model expects it in 8 of 10 attempts. Parameters and edits are compared with
    /// the fastest configuration of the family that they change, and others with the case's fastest variant.
    pub speedup_low: f64,
    /// See `speedup_low`.
    pub speedup_high: f64,
    /// The predicted range once the parameters of the new family are tuned. None if nothing is predicted.
    #[serde(default)]
    pub tuned_low: Option<f64>,
    /// See `tuned_low`.
    #[serde(default)]
    pub tuned_high: Option<f64>,
    /// The form of the answer.
    pub form: Form,
    /// The family that is changed. Ignored for a new kernel or a new family.
    #[serde(default)]
    pub family: String,
    /// The configuration: of that family, or of the changed one. Parameters that are missing have the values of the family's
    /// fastest configuration on the case, or their defaults.
    #[serde(default)]
    pub parameters: IndexMap<String, i64>,
    /// The iteration with which the prediction is compared, if a client names one. None for the rule of `speedup_low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<IterationId>,
    /// How to write it, for the second call.
    #[serde(default)]
    pub how: String,
}

impl Approach {
    /// Returns the predicted speed-up. None if the range is invalid, such as one from 3 to 1.
    pub fn prediction(&self) -> Option<Prediction> {
        let [least, most] = PLAUSIBLE;
        let (lo, hi) = (self.speedup_low, self.speedup_high);
        let plausible = lo >= least && hi <= most && lo < hi;
        // Any comparison with NaN is false.
        plausible.then(|| Prediction { median: Some((lo * hi).sqrt()), lo, hi, strength: Strength::Prior, model: None })
    }

    /// Returns the predicted range of the speed-up after tuning. None if there is none, or if it is invalid.
    pub fn tuned(&self) -> Option<[f64; 2]> {
        let [least, most] = PLAUSIBLE;
        let range = self.tuned_low.zip(self.tuned_high).map(|(low, high)| [low, high]);
        range.filter(|[low, high]| *low >= least && *high <= most && low < high)
    }

    /// Returns the family whose configurations the prediction is compared with. None for one over the case's fastest variant.
    pub fn base(&self) -> Option<&str> {
        matches!(self.form, Form::Parameters | Form::Edits).then_some(self.family.as_str())
    }

    /// Returns the hypothesis that the first iteration of the approach tests, about a speed-up over `reference`.
    pub fn hypothesis(&self, model: &str, reference: Reference) -> Hypothesis {
        Hypothesis {
            claim: cut(&self.claim),
            evidence: cut(&format!("{model} proposed it: {}", self.how)),
            mechanism: self.mechanism,
            case: self.case.clone(),
            prediction: self.prediction(),
            tuned: self.tuned(),
            reference,
        }
    }

    /// Returns the expected logarithm of the speed-up, if it is a prediction. A slower change is not kept, so the part
    /// of the range below 1 counts as no change.
    pub fn expected_ln_gain(&self) -> f64 {
        self.prediction().map_or(0.0, |range| f64::midpoint(range.lo.max(1.0).ln(), range.hi.max(1.0).ln()))
    }
}

/// Shortens a text to one line of bounded length, because models may write any amount.
fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn known_mechanism<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Mechanism, D::Error> {
    let name = serde_json::Value::deserialize(input)?;
    Ok(serde_json::from_value(name).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approach(lo: f64, hi: f64) -> Approach {
        serde_json::from_value(serde_json::json!({
            "claim": "a  claim\nover lines", "mechanism": "magic", "case": "s64", "speedup_low": lo, "speedup_high": hi,
            "form": "edits", "family": "f"
        }))
        .unwrap()
    }

    #[test]
    fn an_invalid_range_is_not_a_prediction() {
        let prediction = approach(1.1, 1.6).prediction().unwrap();
        assert_eq!((prediction.lo, prediction.hi, prediction.strength), (1.1, 1.6, Strength::Prior));
        for (lo, hi) in [(1.6, 1.1), (1.1, 1e9), (-1.0, 2.0), (0.0, 1.0), (1.1, 1.1)] {
            assert_eq!(approach(lo, hi).prediction(), None, "{lo} to {hi}");
        }
        assert_eq!(approach(0.5, 0.9).expected_ln_gain(), 0.0);
        assert!(approach(1.0, 1.2).expected_ln_gain() < approach(1.1, 1.2).expected_ln_gain());
    }

    #[test]
    fn a_claim_is_shortened_to_one_line() {
        let long = Approach { claim: "x".repeat(1000), ..approach(1.1, 1.2) };
        assert_eq!(approach(1.1, 1.2).hypothesis("m", Reference::Incumbent).claim, "a claim over lines");
        assert_eq!(long.hypothesis("m", Reference::Incumbent).claim.chars().count(), MAX_TEXT_CHARS + 1);
        assert_eq!(approach(1.1, 1.2).mechanism, Mechanism::Unspecified);
    }
}
