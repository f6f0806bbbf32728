//! Runs of a coding agent that a session has started as its proposer.

use serde::Serialize;

use super::call::Usage;
use super::money::MicroUsd;

/// One run of the agent, from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentRun {
    /// Counts the session's runs, from 1.
    pub run: u64,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How long it ran, in seconds.
    pub wall_s: f64,
    /// Its exit code, as a shell reports it. None if optloop ended it.
    pub exit_code: Option<u8>,
    /// How many of its kernels were evaluated.
    pub evaluations: u64,
    /// What it says that it cost. None if it does not say: then the cost is unknown.
    #[serde(rename = "cost_micro_usd")]
    pub cost: Option<MicroUsd>,
    /// The tokens, if it counts them.
    pub usage: Option<Usage>,
    /// The end of what it wrote.
    pub said: String,
}
