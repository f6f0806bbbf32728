//! The arguments of the tools. Their docs are what a client reads.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most configurations of one evaluation.
pub(super) const MOST_CONFIGURATIONS: usize = 8;

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Arguments of `source`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    /// Name of a family: its manifest and its template, with line numbers
    pub family: Option<String>,
    /// Number of an iteration: its rendered source, with line numbers
    pub iteration: Option<i64>,
}

/// One replacement in a text.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// A passage that occurs exactly once, without line numbers
    pub search: String,
    /// What to put in its place
    pub replace: String,
}

/// Arguments of `evaluate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Evaluate {
    /// What is faster and why, in one sentence
    pub claim: String,
    /// 10% quantile of the speed-up on the case: over `base`, if it is an iteration; over the fastest configuration of `base`, if it
    /// is a family; else over the fastest variant of the case
    pub speedup_low: f64,
    /// 90% quantile of the same
    pub speedup_high: f64,
    /// 10% quantile of the same once the parameters are tuned
    pub tuned_low: Option<f64>,
    /// 90% quantile of the same once the parameters are tuned
    pub tuned_high: Option<f64>,
    /// How it acts, such as `tile_size` or `memory_access`
    pub mechanism: Option<String>,
    /// The case of the claim; may be left out where the session has one
    pub case: Option<String>,
    /// A family, or the number of an iteration whose family and parameters are the base. Not with `source`
    pub base: Option<String>,
    /// Changes of the base's template
    #[serde(default)]
    pub edits: Vec<Edit>,
    /// Changes of the base's manifest, such as another value of a parameter
    #[serde(default)]
    pub manifest_edits: Vec<Edit>,
    /// In place of a base: a CUDA source, or a template with the manifest's parameters
    pub source: Option<String>,
    /// With `source`: the text of its family.toml
    pub manifest: Option<String>,
    /// A short name of the change, joined by -
    #[serde(default)]
    pub name: String,
    /// One sentence about the change
    #[serde(default)]
    pub about: String,
    /// Up to 8 configurations. Parameters that are missing have the values of the base. Without any, one is tried
    #[serde(default)]
    #[schemars(length(max = 8), with = "Vec<BTreeMap<String, i64>>")]
    pub configurations: Vec<IndexMap<String, i64>>,
}

/// Arguments of tools that are about one iteration.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct OfIteration {
    /// Number of the iteration
    pub iteration: i64,
}

/// Arguments of `history`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    /// Only this case
    pub case: Option<String>,
}

/// Arguments of `compare`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Compare {
    /// Number of the iteration in question
    pub iteration: i64,
    /// Number of the other iteration; the fastest one of each case if it is left out
    pub with: Option<i64>,
}

/// Arguments of `sass`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Sass {
    /// Number of the iteration
    pub iteration: i64,
    /// Lines of its rendered source, such as 40 or 40..52; all of it if left out
    pub lines: Option<String>,
}

/// Arguments of `tune`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Tune {
    /// The family, of which a variant must have been right
    pub family: String,
    /// How many configurations to try
    #[schemars(range(min = 1, max = 1000))]
    pub configurations: u64,
}

/// Arguments of `tune_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct TuneStatus {
    /// The family
    pub family: String,
}
