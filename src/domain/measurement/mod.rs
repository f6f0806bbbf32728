//! What is measured, what may be compared, and what is decided from it.

pub mod check;
pub mod comparison;
pub mod conditions;
pub mod correctness;
pub mod evaluation;
pub mod floor;
pub mod incumbent;
pub mod settings;
pub mod verdict;
