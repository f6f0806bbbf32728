//! The variants to beat.

use std::collections::HashMap;

use crate::domain::ids::{CaseName, IterationId};
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::VariantHash;

/// The best confirmed variant of each case, by the case's name.
pub type Incumbents = HashMap<CaseName, Incumbent>;

/// The best confirmed variant of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Incumbent {
    /// The iteration that measured the variant.
    pub iteration: IterationId,
    /// The variant's name.
    pub hash: VariantHash,
    /// The variant's time.
    pub timing: Timing,
}
