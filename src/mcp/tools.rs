//! The list of tools: names, descriptions and schemas.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::JsonSchema;
use serde_json::{Value, json};

use super::arguments::{Compare, Evaluate, History, Nothing, OfIteration, Sass, Source, Tune, TuneStatus};

/// Every tool.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        reads::<Nothing>(
            "task",
            "What must be computed: tensors, oracle, tolerance, cases with their floors and fastest times, the device, the \
             families, and the manual of manifests. Call it first.",
        ),
        reads::<Source>("source", "The manifest and template of a family, or the rendered source of an iteration."),
        runs::<Evaluate>(
            "evaluate",
            "Compiles, checks and times a kernel on the device: a configuration of a family, edits of one, or a new source with \
             its manifest. Each configuration is an iteration on record with your claim. Errors name file and line.",
        ),
        reads::<History>(
            "history",
            "What was tried in this session: claims with predicted and actual speed-ups, failures, the fastest configurations of \
             each family, and lessons of earlier sessions.",
        ),
        runs::<Compare>(
            "compare",
            "Two iterations side by side: the ratio of their times, with interval and noise. Where none was on record, the device times \
             both in turns, for some seconds of the budget. A difference within the noise is none.",
        ),
        runs::<OfIteration>(
            "submit",
            "Confirms an iteration: it is checked on shapes and inputs that are drawn anew, and compared with the incumbent of \
             each case. What wins is committed when the session ends. Only optloop commits.",
        ),
        reads::<OfIteration>(
            "diagnose",
            "Why an iteration is slow: findings with their evidence, the parts of its time beside those of its base, and counters.",
        ),
        reads::<Sass>("sass", "The machine code of lines of an iteration's rendered source. Needs NVIDIA's nvdisasm."),
        runs::<OfIteration>(
            "experiment",
            "The times of an iteration on smaller and larger cases, and, on a GPU, without its loads, products or barriers. What is not on \
             record is taken now, for some seconds of the budget.",
        ),
        runs::<Tune>(
            "tune",
            "Searches the parameters of a family beside you. Returns at once: `tune_status` shows what it has found.",
        ),
        reads::<TuneStatus>(
            "tune_status",
            "The fastest configurations of a family, the effect of each parameter, and what is left to try.",
        ),
        runs::<Nothing>(
            "finish",
            "Ends the session: final comparisons, one commit with all winners, and the report. Nothing can be tried afterwards.",
        ),
    ]
});

/// Returns every tool.
pub(super) fn all() -> Vec<Tool> {
    TOOLS.clone()
}

fn reads<A: JsonSchema + 'static>(name: &'static str, description: &'static str) -> Tool {
    tool::<A>(name, description).with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

fn runs<A: JsonSchema + 'static>(name: &'static str, description: &'static str) -> Tool {
    let annotations = ToolAnnotations::new().read_only(false).destructive(false).open_world(false);
    tool::<A>(name, description).with_annotations(annotations)
}

fn tool<A: JsonSchema + 'static>(name: &'static str, description: &'static str) -> Tool {
    Tool::new(name, description, JsonObject::new()).with_input_schema::<A>().with_raw_output_schema(Arc::clone(&OUTPUT))
}

/// The schema of every result: what was asked for, beside what is used, what is left, and the record of each case.
static OUTPUT: LazyLock<Arc<JsonObject>> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "result": { "type": ["object", "null"], "description": "what was asked for" },
            "spent": { "type": "object", "description": "seconds, usd and iterations that the session has used" },
            "left": { "type": "object", "description": "the same that is left of its budget; null where there is no limit" },
            "record": {
                "type": "array",
                "description": "the fastest variant of each case: case, iteration, family, us, time_source, is_confirmed"
            }
        },
        "required": ["result", "spent", "left", "record"]
    });
    match schema {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
});
