//! What became of the committed winners that a session began with, as the contract gives it.

use serde::Serialize;

use super::{Finding, Ratio};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::origin::Change;

/// A committed winner that the session began with on a case, and that another variant beat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beaten {
    /// The case.
    pub case: CaseName,
    /// The iteration that measured the committed winner again.
    pub iteration: IterationId,
    /// Its family.
    pub family: String,
    /// What limited it: its first cause of lost time that no experiment has refuted. Null without one.
    pub cause: Option<Finding>,
    /// How many of its causes experiments have refuted.
    pub refuted: u64,
    /// The family of the best variant.
    pub by: String,
    /// The parameters in which the two differ. Empty if their families do.
    pub changes: Vec<Change>,
    /// The committed winner's time over the best one. Null if the two may not be compared.
    pub ratio: Option<Ratio>,
    /// Whether no rule finds the same cause in the best variant. Null without a cause, and where the cause was found in
    /// counts that the best variant lacks.
    pub is_gone: Option<bool>,
}
