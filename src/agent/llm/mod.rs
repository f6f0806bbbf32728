//! Prompts of language models, and the families and configurations from their answers. Pure: no network, no files.

pub mod answer;
pub mod bandit;
mod edits;
pub mod generated;
pub mod prompt;
