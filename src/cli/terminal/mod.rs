//! What verbs print: tables, paragraphs, the live view.

pub mod ablations;
pub mod board;
pub mod comparisons;
pub mod counters;
pub mod ending;
pub mod listing;
pub mod measured;
pub mod paragraph;
pub mod plan;
pub mod progress;
pub mod screen;
pub mod table;
pub mod ticker;
