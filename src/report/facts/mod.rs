//! The facts of a report: pure functions from a session's record to the contract. Words are up to the views.

mod advice;
mod baselines;
mod began;
mod breakdown;
mod build;
mod calibration;
mod comparisons;
mod counts;
mod cycles;
mod edges;
mod excluded;
mod exhausted;
mod experiment;
mod fastest;
mod findings;
mod gains;
mod grids;
mod improved_by;
mod leads;
pub mod ledger;
mod limit;
mod little_tried;
mod outlook;
mod pairs;
mod parameters;
mod paths;
mod phases;
mod progress;
mod roofline;
mod scaling;
mod standing;
mod transfer;
pub mod two;

use super::{CaseFacts, FamilyFacts, ReportInput, contract};

pub use build::build;
pub use leads::beaten_winners;
pub use standing::best_of_case;
