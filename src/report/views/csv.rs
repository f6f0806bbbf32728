//! Every iteration and case of a session as comma-separated values. docs/report-schema.md lists the columns.

use std::io::Write;

use crate::domain::device::TimeSource;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::record::excerpt::Used;
use crate::domain::record::{CaseRecord, IterationRecord};
use crate::domain::variant::show_params;
use crate::report::ReportError;
use crate::report::contract::Ledger;

/// The columns. Names end with their unit. A figure that does not exist is empty.
pub const COLUMNS: [&str; 32] = [
    "session",
    "iteration",
    "ordinal",
    "elapsed_s",
    "cumulative_usd",
    "started_at",
    "ended_at",
    "purpose",
    "origin",
    "family",
    "params",
    "hash",
    "parent",
    "outcome",
    "case",
    "regime",
    "verdict",
    "time_source",
    "screening_us",
    "confirmation_us",
    "ci_lo_us",
    "ci_hi_us",
    "speedup",
    "relative_l2",
    "predicted_lo",
    "predicted_median",
    "predicted_hi",
    "actual",
    "score",
    "cost_usd",
    "commit",
    "claim",
];

/// Writes iterations as they are read, oldest first, so that not all of them have to be in memory.
pub struct Rows {
    source: TimeSource,
    used: Used,
    has_begun: bool,
}

impl Rows {
    /// Begins a file. `source` is that of all times.
    pub fn new(source: TimeSource) -> Self {
        Self { source, used: Used::default(), has_begun: false }
    }

    /// Returns a row for each case that the next iterations reached, after the names of the columns at first. An iteration
    /// that reached no case has one row, too.
    pub fn of(&mut self, iterations: &[IterationRecord]) -> Result<String, ReportError> {
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        if !std::mem::replace(&mut self.has_begun, true) {
            writer.write_record(COLUMNS)?;
        }
        for iteration in iterations {
            self.used.wall_s += iteration.wall_s.unwrap_or_default();
            self.used.usd += iteration.cost.total_usd();
            let common = (iteration, [self.used.wall_s, self.used.usd], self.source.name());
            for found in &iteration.measurements {
                writer.write_record(row(common, Some(found)))?;
            }
            if iteration.measurements.is_empty() {
                writer.write_record(row(common, None))?;
            }
        }
        let rows = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&rows).into_owned())
    }
}

fn row(
    (iteration, [elapsed_s, cumulative_usd], source): (&IterationRecord, [f64; 2], &str),
    found: Option<&CaseRecord>,
) -> [String; COLUMNS.len()] {
    let figure = |figure: Option<f64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
    let us = |ns: Option<f64>| figure(ns.map(|ns| ns / 1e3));
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let screening = found.and_then(|found| found.screening.as_ref());
    let confirmation = found.and_then(|found| found.confirmation.as_ref());
    let interval = found.and_then(|found| found.best_timing()?.shown_interval_ns());
    let prediction = iteration.rationale.hypothesis.prediction.as_ref();
    [
        iteration.session.to_string(),
        iteration.id.to_string(),
        iteration.ordinal.to_string(),
        elapsed_s.to_string(),
        cumulative_usd.to_string(),
        iteration.started_at.clone(),
        text(iteration.ended_at.as_deref()),
        iteration.rationale.purpose.name().to_owned(),
        iteration.rationale.origin.name().to_owned(),
        iteration.family.clone(),
        show_params(&iteration.params),
        iteration.hash.0.clone(),
        iteration.rationale.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        text(iteration.outcome.as_ref().map(Outcome::kind)),
        text(found.map(|found| found.case.as_str())),
        text(found.map(|found| found.regime.name())),
        text(found.and_then(|found| {
            Some(found.verdict?.key(iteration.rationale.origin.is_committed_winner_of(&found.case)))
        })),
        source.to_owned(),
        us(screening.map(|timing| timing.median_ns)),
        us(confirmation.map(|timing| timing.median_ns)),
        us(interval.map(|interval| interval.lo)),
        us(interval.map(|interval| interval.hi)),
        figure(found.and_then(|found| found.speedup)),
        figure(found.and_then(|found| Some(found.checked()?.relative_l2))),
        figure(prediction.map(|prediction| prediction.lo)),
        figure(prediction.and_then(|prediction| prediction.median)),
        figure(prediction.map(|prediction| prediction.hi)),
        figure(iteration.actual),
        text(iteration.score.map(|score| score.name())),
        iteration.cost.total_usd().to_string(),
        text(found.and_then(|found| found.commit.as_deref())),
        iteration.rationale.hypothesis.claim.clone(),
    ]
}

/// The columns of the ledger.
pub const LEDGER_COLUMNS: [&str; 18] = [
    "session",
    "workload",
    "device",
    "time_source",
    "status",
    "started_at",
    "wall_s",
    "iterations",
    "gpu_s",
    "gpu_usd",
    "llm_usd",
    "total_usd",
    "cumulative_usd",
    "wins",
    "cumulative_wins",
    "best_speedup",
    "best_speedup_lo",
    "best_speedup_hi",
];

/// Writes a row for each session.
pub fn write_ledger(ledger: &Ledger, out: &mut impl Write) -> Result<(), ReportError> {
    let figure = |figure: Option<f64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
    let mut writer = ::csv::Writer::from_writer(out);
    writer.write_record(LEDGER_COLUMNS)?;
    for entry in &ledger.sessions {
        let row = &entry.row;
        let cells: [String; LEDGER_COLUMNS.len()] = [
            row.session.to_string(),
            row.workload.clone(),
            entry.device.clone(),
            row.time_source.name().to_owned(),
            row.status.name().to_owned(),
            entry.started_at.clone(),
            figure(row.wall_s),
            entry.iterations.to_string(),
            row.cost.gpu_s.to_string(),
            row.cost.gpu_usd.to_string(),
            row.cost.llm_usd.to_string(),
            row.cost.total_usd().to_string(),
            entry.cumulative_usd.to_string(),
            row.wins.to_string(),
            entry.cumulative_wins.to_string(),
            figure(row.best_speedup),
            figure(row.best_speedup_ci.map(|[lo, _]| lo)),
            figure(row.best_speedup_ci.map(|[_, hi]| hi)),
        ];
        writer.write_record(cells)?;
    }
    Ok(writer.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::proposal::origin::Origin;
    use crate::domain::record::SessionRecord;
    use crate::report::ledger;
    use crate::report::tests::record;

    fn rows(text: &[u8]) -> Vec<Vec<String>> {
        let mut reader = ::csv::Reader::from_reader(text);
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
    }

    fn at<'a>(row: &'a [String], columns: &[&str], name: &str) -> &'a str {
        &row[columns.iter().position(|column| *column == name).unwrap()]
    }

    #[test]
    fn every_iteration_has_a_row_for_each_case_and_text_stays_in_its_cell() {
        let mut record = record();
        record.iterations[1].rationale.hypothesis.claim = "more, \"faster\"\nwarps".to_owned();
        let mut written = Rows::new(TimeSource::Measured);
        // The sums go on from one part to the next.
        let (first, second) = record.iterations.split_at(2);
        let text = [first, second].map(|part| written.of(part).unwrap()).concat();
        let rows = rows(text.as_bytes());
        let column = |name: &str| rows.iter().map(|row| at(row, &COLUMNS, name).to_owned()).collect::<Vec<_>>();
        assert_eq!(column("iteration"), ["1", "1", "2", "3", "4", "5"]);
        assert_eq!(column("case"), ["b1h1s128", "b8h8s512", "b1h1s128", "b1h1s128", "", ""]);
        assert_eq!(column("elapsed_s"), ["3", "3", "6", "9", "12", "15"]);
        assert_eq!(column("confirmation_us"), ["", "", "64", "50", "", ""]);
        assert_eq!(column("outcome"), ["measured", "measured", "measured", "measured", "wrong", ""]);
        assert_eq!(column("claim")[2], "more, \"faster\"\nwarps");
    }

    /// Beating the initial kernel again is no improvement.
    #[test]
    fn a_committed_winner_is_measured_again() {
        let mut record = record();
        let verdicts = |record: &SessionRecord| {
            let text = Rows::new(TimeSource::Measured).of(&record.iterations).unwrap();
            rows(text.as_bytes()).iter().map(|row| at(row, &COLUMNS, "verdict").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&record)[2], "improved");
        record.iterations[1].rationale.origin =
            Origin::CommittedWinner { device: "an L4".to_owned(), cases: vec!["b1h1s128".into()] };
        assert_eq!(verdicts(&record)[2], "measured_again");
    }

    #[test]
    fn the_ledger_has_a_row_for_each_session() {
        let mut out = Vec::new();
        write_ledger(&ledger::of(&record().ledger), &mut out).unwrap();
        let rows = rows(&out);
        let column = |name: &str| rows.iter().map(|row| at(row, &LEDGER_COLUMNS, name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            (column("session"), column("cumulative_wins")),
            (vec!["1".into(), "2".into()], vec!["0".into(), "2".into()])
        );
    }
}
