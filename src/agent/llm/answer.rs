//! The answers of language models: their JSON schemas, and how they are read.
//!
//! An answer is untrusted text. A wrong answer never fails the session: its error is one sentence, which the model may
//! get back.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::edits::Edit;
use crate::domain::claims::approach::{Approach, Form};
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::models::call::AnswerForm;
use crate::error::{Error, error};

/// The most approaches of one plan that are kept.
pub const MAX_APPROACHES: usize = 6;

/// The most that a model may ask to see at once.
const MAX_WANTS: usize = 6;

/// What a model may ask to see.
const WANT: &str = "instead of an answer: what you must see first, each as `source FAMILY`, `history FAMILY CASE`, \
                    `diagnose ITERATION`, `experiment ITERATION` or `sass ITERATION LINES`, such as `sass 12 40..52`: the machine \
                    code of lines of its rendered source. At most two rounds for a hypothesis";

/// The code of an approach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Code {
    /// The form of the answer.
    pub form: Form,
    /// A short name of the change, such as `double-buffer`.
    #[serde(default)]
    pub name: String,
    /// One sentence about it.
    #[serde(default)]
    pub about: String,
    /// The configuration to try first.
    #[serde(default)]
    pub parameters: IndexMap<String, i64>,
    /// For `edits`: the changes of the family's template.
    #[serde(default)]
    pub edits: Vec<Edit>,
    /// For `edits`: the changes of the family's manifest, such as another value of a parameter.
    #[serde(default)]
    pub manifest_edits: Vec<Edit>,
    /// For `kernel` and `family`: the text of family.toml.
    #[serde(default)]
    pub manifest: String,
    /// For `kernel` and `family`: the CUDA source, or the template.
    #[serde(default)]
    pub source: String,
    /// What the code does, if that is no longer what the approach claims.
    #[serde(default)]
    pub claim: String,
    /// The prediction, now that the code is written. None if it stays.
    #[serde(default)]
    pub speedup_low: Option<f64>,
    /// See `speedup_low`.
    #[serde(default)]
    pub speedup_high: Option<f64>,
    /// The same once its parameters are tuned.
    #[serde(default)]
    pub tuned_low: Option<f64>,
    /// See `tuned_low`.
    #[serde(default)]
    pub tuned_high: Option<f64>,
    /// Why the approach is not worth its code any more. Empty if it is.
    #[serde(default)]
    pub skip: String,
}

impl Code {
    /// Returns the approach as the code carries it out.
    pub fn restated(&self, approach: &Approach) -> Approach {
        let mut restated = approach.clone();
        if !self.claim.trim().is_empty() {
            restated.claim.clone_from(&self.claim);
        }
        if let (Some(low), Some(high)) = (self.speedup_low, self.speedup_high) {
            (restated.speedup_low, restated.speedup_high) = (low, high);
        }
        if let (Some(low), Some(high)) = (self.tuned_low, self.tuned_high) {
            (restated.tuned_low, restated.tuned_high) = (Some(low), Some(high));
        }
        // A family that is written anew is compared with the case's fastest variant.
        restated.form = self.form;
        restated
    }
}

/// Returns the requested form of a plan.
pub fn plan_form() -> AnswerForm {
    let mechanisms: Vec<&str> = Mechanism::ALL.iter().map(|mechanism| mechanism.name()).collect();
    let forms: Vec<&str> = Form::ALL.iter().map(|form| form.name()).collect();
    let approach = json!({
        "type": "object",
        "properties": {
            "claim": { "type": "string", "description": "what is faster and why, in one sentence" },
            "mechanism": { "type": "string", "enum": mechanisms },
            "case": { "type": "string", "description": "the case to try it on first" },
            "speedup_low": { "type": "number", "description": "10% quantile of the speed-up: for parameters and edits over the family's fastest configuration on the case, else over the case's fastest variant" },
            "speedup_high": { "type": "number", "description": "90% quantile of the same" },
            "tuned_low": { "type": "number", "description": "10% quantile once the search has tuned its parameters, over the same" },
            "tuned_high": { "type": "number", "description": "90% quantile of the same" },
            "form": { "type": "string", "enum": forms },
            "family": { "type": "string", "description": "the family to configure or to edit" },
            "parameters": { "type": "object", "additionalProperties": { "type": "integer" } },
            "how": { "type": "string", "description": "what to change where; the code is asked for later" }
        },
        "required": ["claim", "mechanism", "case", "speedup_low", "speedup_high", "form", "family", "how"]
    });
    AnswerForm {
        name: "submit_plan".to_owned(),
        description: "Submits hypotheses about what would make the kernel faster, the most promising first.".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "hypotheses": { "type": "array", "items": approach },
                "want": { "type": "array", "items": { "type": "string" }, "description": WANT }
            },
            "required": ["hypotheses"]
        }),
    }
}

/// Returns the requested form of code.
pub fn code_form() -> AnswerForm {
    let forms: Vec<&str> = Form::ALL.iter().map(|form| form.name()).collect();
    let edit = json!({
        "type": "object",
        "properties": { "search": { "type": "string" }, "replace": { "type": "string" } },
        "required": ["search", "replace"]
    });
    AnswerForm {
        name: "submit_code".to_owned(),
        description: "Submits the code of one hypothesis.".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "form": { "type": "string", "enum": forms },
                "name": { "type": "string", "description": "2 to 4 words for the change, joined by -" },
                "about": { "type": "string", "description": "one sentence" },
                "parameters": { "type": "object", "additionalProperties": { "type": "integer" } },
                "claim": { "type": "string", "description": "what this code makes faster and why, in one sentence, as it is written now" },
                "speedup_low": { "type": "number", "description": "10% quantile of the speed-up, predicted again for this code" },
                "speedup_high": { "type": "number", "description": "90% quantile" },
                "tuned_low": { "type": "number", "description": "10% quantile once the search has tuned its parameters, over the same" },
                "tuned_high": { "type": "number", "description": "90% quantile" },
                "edits": { "type": "array", "items": edit },
                "manifest_edits": { "type": "array", "items": edit, "description": "for edits: of family.toml, such as more values of a parameter" },
                "manifest": { "type": "string", "description": "the text of family.toml, for kernel and family" },
                "source": { "type": "string", "description": "the CUDA source or template, for kernel and family" },
                "want": { "type": "array", "items": { "type": "string" }, "description": WANT },
                "skip": { "type": "string", "description": "instead of code: why the hypothesis is no longer worth trying. It costs no correction" }
            },
            "required": ["form", "name", "about"]
        }),
    }
}

/// Reads a plan. Returns the valid approaches for one of the cases, the most promising first, and the errors of the
/// others.
pub fn plan(answer: &Value, cases: &[&str]) -> (Vec<Approach>, Vec<String>) {
    let (mut approaches, mut problems) = (Vec::new(), Vec::new());
    let Some(items) = answer.get("hypotheses").and_then(Value::as_array) else {
        return (approaches, vec!["the answer has no list `hypotheses`".to_owned()]);
    };
    for (place, item) in items.iter().take(MAX_APPROACHES).enumerate() {
        match serde_json::from_value::<Approach>(item.clone()) {
            Ok(approach) if cases.contains(&approach.case.as_str()) => approaches.push(approach),
            Ok(approach) => {
                problems.push(format!("hypothesis {}: there is no case `{}`", place + 1, approach.case));
            }
            Err(error) => problems.push(format!("hypothesis {}: {error}", place + 1)),
        }
    }
    approaches.sort_by(|a, b| b.expected_ln_gain().total_cmp(&a.expected_ln_gain()));
    (approaches, problems)
}

/// Returns what an answer asks to see instead of answering. Empty for an answer.
pub fn wants(answer: &Value) -> Vec<String> {
    let asked = answer.get("want").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    asked.iter().filter_map(Value::as_str).take(MAX_WANTS).map(str::to_owned).collect()
}

/// Reads code. An answer without a form has the one that was asked for.
pub fn code(answer: &Value, asked: Form) -> Result<Code, Error> {
    let mut answer = answer.clone();
    if let Some(object) = answer.as_object_mut() {
        object.entry("form").or_insert_with(|| json!(asked));
    }
    serde_json::from_value(answer).map_err(|error| error!("the answer does not fit its schema: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_keeps_the_valid_approaches_ranked() {
        let item = |case: &str, hi: f64| {
            json!({"claim": "c", "mechanism": "tile_size", "case": case, "speedup_low": 1.0, "speedup_high": hi,
                   "form": "parameters", "family": "f", "how": "h"})
        };
        let answer = json!({ "hypotheses": [item("a", 1.1), item("x", 2.0), item("b", 1.5), 7] });
        let (approaches, problems) = plan(&answer, &["a", "b"]);
        assert_eq!(approaches.iter().map(|one| one.case.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert_eq!(plan(&json!({}), &["a"]).1, ["the answer has no list `hypotheses`"]);
        let many = json!({ "hypotheses": vec![item("a", 1.1); 100] });
        assert_eq!(plan(&many, &["a"]).0.len(), MAX_APPROACHES);
    }

    #[test]
    fn code_that_does_not_fit_is_a_sentence() {
        assert_eq!(code(&json!({"form": "edits", "edits": []}), Form::Kernel).unwrap().form, Form::Edits);
        assert_eq!(code(&json!({"source": "s"}), Form::Kernel).unwrap().form, Form::Kernel);
        let error = code(&json!({"form": "poem"}), Form::Kernel).unwrap_err();
        assert!(error.to_string().starts_with("the answer does not fit its schema: unknown variant `poem`"), "{error}");
    }
}
