//! A concluded attempt of a search: what it cost, and whether it worked.

use crate::domain::ids::{CaseName, IterationId};
use crate::domain::variant::Params;

/// A configuration that was evaluated, whether it worked or not, or that was left out because it would be slow.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Its iteration. None if it was left out.
    pub iteration: Option<IterationId>,
    /// The family.
    pub family: String,
    /// The configuration.
    pub params: Params,
    /// The cases that it was evaluated on.
    pub cases: Vec<CaseName>,
    /// Whether it was correct and timed.
    pub worked: bool,
    /// Seconds for which it held the device.
    pub gpu_s: f64,
}
