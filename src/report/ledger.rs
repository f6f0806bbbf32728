//! All sessions, with what they cost and what came of it.

use serde::Serialize;

use super::contract::LedgerRow;
use super::format::{duration, times, usd};
use super::table::Table;
use super::{ReportError, markdown};
use crate::domain::cost::Spent;
use crate::domain::device::TimeSource;
use crate::domain::record::{SessionSummary, Status};

/// The version of the contract.
const SCHEMA: &str = "optloop.ledger/1";

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

/// Says what came of a session.
pub(super) fn result(row: &LedgerRow) -> String {
    let status = if row.status == Status::Finished { String::new() } else { format!("{}, ", row.status.name()) };
    let wins = format!("{} win{}", row.wins, if row.wins == 1 { "" } else { "s" });
    let best = row.best_speedup.map_or_else(String::new, |best| {
        let run = match (row.time_source, row.best_speedup_ci) {
            (TimeSource::Modelled | TimeSource::Recorded, _) => "",
            (TimeSource::Measured, Some(_)) => ", in one run",
            (TimeSource::Measured, None) => ", not in one run",
        };
        format!(", best {} over what it began with ({}{run})", times(best), row.time_source.name())
    });
    format!("{status}{wins}{best}")
}

impl Ledger {
    /// Writes the ledger as JSON.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes the ledger as Markdown.
    pub fn to_markdown(&self) -> String {
        let head = format!(
            "# All sessions\n\n{}\n\nThe result counts improvements over what a session began with. Measured and modelled times are \
             never compared.\n\n",
            self.sentence()
        );
        head + markdown::of_table(&self.table()).as_str()
    }

    /// Says what all sessions cost and gained.
    pub(super) fn sentence(&self) -> String {
        let each = self.usd_per_win.map(|usd_each| format!(", {} for each win", usd(usd_each))).unwrap_or_default();
        let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!(
            "{} took {} and cost {} (GPU {}, language models {}), and found {}{each}.",
            plural(self.sessions.len() as u64, "session"),
            duration(self.wall_s),
            usd(self.total.total_usd()),
            usd(self.total.gpu_usd),
            usd(self.total.llm_usd),
            plural(self.wins, "win")
        )
    }

    /// Returns the ledger as a table, with the total in the last row.
    pub(super) fn table(&self) -> Table {
        let row = |entry: &Entry| {
            let row = &entry.row;
            vec![
                row.session.to_string(),
                row.workload.clone(),
                entry.device.clone(),
                row.wall_s.map_or_else(|| super::format::NOTHING.to_owned(), duration),
                entry.iterations.to_string(),
                usd(row.cost.gpu_usd),
                usd(row.cost.llm_usd),
                usd(row.cost.total_usd()),
                usd(entry.cumulative_usd),
                result(row),
            ]
        };
        let mut rows: Vec<Vec<String>> = self.sessions.iter().map(row).collect();
        let (total, iterations) = (self.total, self.sessions.iter().map(|entry| entry.iterations).sum::<u64>());
        rows.push(vec![
            "all".to_owned(),
            String::new(),
            String::new(),
            duration(self.wall_s),
            iterations.to_string(),
            usd(total.gpu_usd),
            usd(total.llm_usd),
            usd(total.total_usd()),
            usd(total.total_usd()),
            format!("{} wins", self.wins),
        ]);
        let headings = [
            ">Session",
            "Workload",
            "Device",
            ">Time",
            ">Iterations",
            ">GPU",
            ">Language models",
            ">Total",
            ">Total so far",
            "Result",
        ];
        Table::new(&headings, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn the_ledger_adds_up_cost_and_wins() {
        let ledger = of(&record().ledger);
        let sums: Vec<_> = ledger.sessions.iter().map(|one| (one.cumulative_usd, one.cumulative_wins)).collect();
        assert_eq!(sums, [(3.6, 0), (4.53, 2)]);
        insta::assert_snapshot!(ledger.to_markdown(), @"
        # All sessions

        2 sessions took 1 h 50 min and cost $4.53 (GPU $0.78, language models $3.75), and found 2 wins, $2.27 for each win.

        The result counts improvements over what a session began with. Measured and modelled times are never compared.

        | Session | Workload | Device | Time | Iterations | GPU | Language models | Total | Total so far | Result |
        |--:|---|---|--:|--:|--:|--:|--:|--:|---|
        | 1 | attention-fp16-d64 | NVIDIA L4 | 55 min | 5 | $0.60 | $3.00 | $3.60 | $3.60 | interrupted, 0 wins |
        | 2 | attention-fp16-d64 | NVIDIA L4 | 55 min | 5 | $0.18 | $0.75 | $0.93 | $4.53 | 2 wins, best 1.60× over what it began with (measured, not in one run) |
        | all |  |  | 1 h 50 min | 10 | $0.78 | $3.75 | $4.53 | $4.53 | 2 wins |
        ");
        let json: serde_json::Value = serde_json::from_str(&ledger.to_json().unwrap()).unwrap();
        assert_eq!((&json["sessions"][1]["session"], &json["usd_per_win"]), (&2.into(), &2.265.into()));
        assert!(ledger.to_html().unwrap().contains("Total so far"));
    }

    #[test]
    fn a_store_without_sessions_has_an_empty_ledger() {
        let ledger = of(&[]);
        assert_eq!((ledger.sessions.len(), ledger.usd_per_win), (0, None));
        assert!(ledger.to_html().unwrap().contains("0 sessions"));
    }
}
