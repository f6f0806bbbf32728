//! The table of the lines of the winners' sources.

use super::table::table;
use crate::domain::ablation::Removed;
use crate::report::breakdown::WAITS;
use crate::report::contract::{Case, Line, Report};
use crate::report::format::{NOTHING, percent};
use crate::report::source_lines::{code, of};

/// The share of a time from which a kind of instruction is worth a row.
const MIN_SHARE: f64 = 0.03;

/// The most lines of a kind to tell, of all winners and of a single one.
const MAX_LINES: usize = 4;
const MAX_LINES_OF_ONE: usize = 3;

/// The most kinds to tell of a single winner.
const MAX_KINDS_OF_ONE: usize = 3;

const HEADINGS: [&str; 6] = ["kind", ">share of the time", ">line", "source", ">places", ">without this line alone"];

/// Returns the lines of the winners' sources: of each kind of instruction and of waits that take a share of the time. None if no lines
/// are known.
pub(in crate::report) fn winners(cases: &[Case]) -> Option<String> {
    let rows = cases.iter().flat_map(|case| {
        let rows = kinds(case).into_iter().flat_map(|kind| kind.rows(MAX_LINES));
        rows.map(|row| std::iter::once(case.case.to_string()).chain(row).collect())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let headings: Vec<&str> = std::iter::once("case").chain(HEADINGS).collect();
    (!rows.is_empty()).then(|| table(&headings, &rows))
}

/// Returns the lines of the most expensive kinds of one winner.
pub(super) fn first(case: &Case) -> Option<String> {
    let mut kinds = kinds(case);
    kinds.sort_by(|a, b| b.share.total_cmp(&a.share));
    let rows = kinds.into_iter().take(MAX_KINDS_OF_ONE).flat_map(|kind| kind.rows(MAX_LINES_OF_ONE));
    let rows: Vec<Vec<String>> = rows.map(Vec::from).collect();
    (!rows.is_empty()).then(|| table(&HEADINGS, &rows))
}

/// A kind of instruction, or waits, with its share of the time and its lines.
struct Kind<'a> {
    removed: Removed,
    share: f64,
    lines: &'a [Line],
}

/// Returns what takes a share of a winner's time, as far as its lines are known.
fn kinds(case: &Case) -> Vec<Kind<'_>> {
    let Some(breakdown) = &case.breakdown else { return Vec::new() };
    let kind = |removed| {
        let share = match removed {
            Removed::AllKindsAndWaits => breakdown.waits(),
            kind => breakdown.share(kind),
        };
        Some(Kind { removed, share: share.filter(|share| *share >= MIN_SHARE)?, lines: of(breakdown, removed) })
    };
    Removed::KINDS.into_iter().chain([Removed::AllKindsAndWaits]).filter_map(kind).collect()
}

impl Kind<'_> {
    fn rows(&self, most: usize) -> Vec<[String; 6]> {
        let name = if self.removed == Removed::AllKindsAndWaits { WAITS } else { self.removed.text() };
        let alone = |share: f64| format!("{} less", percent(share.max(0.0)));
        let row = |line: &Line| {
            [
                name.to_owned(),
                percent(self.share),
                line.line.to_string(),
                code(&line.text),
                line.places.to_string(),
                line.share.map_or_else(|| NOTHING.to_owned(), alone),
            ]
        };
        self.lines.iter().take(most).map(row).collect()
    }
}

/// Returns the case whose lines the first page shows: the first one of the recommended kernel, or else the first with lines.
pub(super) fn shown(report: &Report) -> Option<&Case> {
    let name = report.next_experiment.as_ref().map(|next| &next.case);
    let has_lines = |case: &&Case| first(case).is_some();
    let recommended = report.cases.iter().find(|case| Some(&case.case) == name).filter(has_lines);
    recommended.or_else(|| report.cases.iter().find(has_lines))
}
