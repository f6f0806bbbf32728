//! All sessions, with what they cost and what came of it.

use super::contract::{Entry, Ledger, LedgerRow};
use crate::domain::budget::cost::Spent;
use crate::domain::record::SessionSummary;

/// The version of the contract.
const SCHEMA: &str = "optloop.ledger/1";

impl From<&SessionSummary> for LedgerRow {
    fn from(session: &SessionSummary) -> Self {
        Self {
            session: session.id,
            workload: session.workload.clone(),
            status: session.status,
            time_source: session.time_source,
            wall_s: session.wall_s,
            cost: session.cost,
            wins: session.wins,
            best_speedup: session.best_speedup,
            best_speedup_ci: session.best_speedup_ci,
        }
    }
}

/// Makes the ledger of sessions, oldest first.
pub fn of(sessions: &[SessionSummary]) -> Ledger {
    let (mut total, mut wall_s, mut wins) = (Spent::default(), 0.0, 0);
    let entries = sessions.iter().map(|session| {
        total += session.cost;
        wall_s += session.wall_s.unwrap_or_default();
        wins += session.wins;
        Entry {
            row: session.into(),
            device: session.device.clone(),
            started_at: session.started_at.clone(),
            iterations: session.iterations,
            cumulative_usd: total.total_usd(),
            cumulative_wins: wins,
        }
    });
    let sessions: Vec<Entry> = entries.collect();
    let usd_per_win = (wins > 0).then(|| total.total_usd() / wins as f64);
    Ledger { schema: SCHEMA, sessions, total, wall_s, wins, usd_per_win }
}
