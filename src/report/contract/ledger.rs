//! All sessions, with what they cost and what came of it.

use serde::Serialize;

use super::LedgerRow;
use crate::domain::budget::cost::Spent;

/// All sessions of a store, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ledger {
    /// The version of the contract: `optloop.ledger/1`.
    pub schema: &'static str,
    /// The sessions.
    pub sessions: Vec<Entry>,
    /// What they cost.
    pub total: Spent,
    /// Wall time of all of them in seconds.
    pub wall_s: f64,
    /// Improvements that they have found.
    pub wins: u64,
    /// US dollars for one of these. Null without any.
    pub usd_per_win: Option<f64>,
}

/// A session of the ledger, with sums up to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The session.
    #[serde(flatten)]
    pub row: LedgerRow,
    /// Product name of the device.
    pub device: String,
    /// When it started, RFC 3339 in UTC.
    pub started_at: String,
    /// Iterations begun.
    pub iterations: u64,
    /// US dollars of all sessions up to this one.
    pub cumulative_usd: f64,
    /// Improvements of all sessions up to this one.
    pub cumulative_wins: u64,
}
