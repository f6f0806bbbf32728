//! Calls of language models and coding agents, and what they cost.

pub mod agent_run;
pub mod call;
pub mod call_error;
pub mod call_record;
pub mod money;
