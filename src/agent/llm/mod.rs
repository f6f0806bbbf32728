//! What language models are asked, and what becomes of their answers. Pure: no network, no files.

pub mod answer;
pub mod bandit;
mod edits;
pub mod generated;
pub mod prompt;
