//! What is asserted of a change, and how it is scored.

pub mod approach;
pub mod hypothesis;
pub mod mechanism;
pub mod prediction;
