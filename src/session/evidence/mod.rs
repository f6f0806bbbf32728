//! The evidence beside the times: counters, ablations, experiments and models of a variant, and what the rules find in it.

mod ablating;
mod experiments;
pub(super) mod explanations;
pub(super) mod findings;
mod profiling;
