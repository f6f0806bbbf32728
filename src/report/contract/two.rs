//! Two sessions side by side: what differs in their setup, and how their best times compare.

use serde::Serialize;

use super::{Ratio, Session, Variant};
use crate::domain::ids::CaseName;

/// Two sessions, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Two {
    /// The version of the contract: `optloop.two-sessions/1`.
    pub schema: &'static str,
    /// The first session: before.
    pub a: Session,
    /// The second session: after.
    pub b: Session,
    /// What differs in their setup.
    pub setup: Vec<Difference>,
    /// Every case of either session.
    pub cases: Vec<Both>,
    /// The geometric mean of the ratios of the cases that may be compared. Null without one.
    pub mean_ratio: Option<f64>,
}

/// What differs in the setup of two sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is.
    pub what: &'static str,
    /// In the first session.
    pub a: String,
    /// In the second session.
    pub b: String,
}

/// A case in two sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Both {
    /// The case.
    pub case: CaseName,
    /// The best time of the first session.
    pub a_us: Option<f64>,
    /// The best time of the second session.
    pub b_us: Option<f64>,
    /// The best variant of the first session.
    pub a_variant: Option<Variant>,
    /// The best variant of the second session.
    pub b_variant: Option<Variant>,
    /// The first session's time over the second one's: above 1, the second is faster. Two runs took the times, so changes
    /// of the machine in between are in the estimate and not in the interval. Null if the two may not be compared.
    pub ratio: Option<Ratio>,
    /// `faster` (in the second session), `slower`, `tied`, `not_comparable`, or `missing` if a session has no time.
    pub verdict: &'static str,
    /// Why the times may not be compared. Null if they may.
    pub why_not: Option<String>,
}
