//! All sessions, as text: Markdown and tables.

use super::format::{NOTHING, duration, times, usd};
use super::markdown;
use super::table::Table;
use crate::domain::device::TimeSource;
use crate::domain::record::Status;
use crate::domain::text::counted::counted;
use crate::report::ReportError;
use crate::report::contract::{Entry, Ledger, LedgerRow};

/// Says what came of a session.
pub(super) fn result(row: &LedgerRow) -> String {
    let status = if row.status == Status::Finished { String::new() } else { format!("{}, ", row.status.name()) };
    let wins = counted(row.wins as usize, "win");
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
        format!(
            "{} took {} and cost {} (GPU {}, language models {}), and found {}{each}.",
            counted(self.sessions.len(), "session"),
            duration(self.wall_s),
            usd(self.total.total_usd()),
            usd(self.total.gpu_usd),
            usd(self.total.llm_usd),
            counted(self.wins as usize, "win")
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
                row.wall_s.map_or_else(|| NOTHING.to_owned(), duration),
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
            counted(self.wins as usize, "win"),
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
    use crate::report::ledger::of;
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
