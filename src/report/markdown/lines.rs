//! The table of the lines of the winners' sources.

use super::table::table;
use crate::domain::ablation::Removed;
use crate::report::breakdown::WAITS;
use crate::report::contract::{Breakdown, Case, Line, Report};
use crate::report::format::{NOTHING, percent};
use crate::report::source_lines::{code, of};

/// The share of a time from which a kind of instruction is worth a row.
const MIN_SHARE: f64 = 0.03;

/// The most lines of a kind to tell.
const MAX_LINES: usize = 4;

/// Returns the lines of the winners' sources, for some cases: of each kind of instruction and of waits that take a share of the time.
/// None if no lines are known.
pub(in crate::report) fn winners<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<String> {
    let kinds = || Removed::KINDS.into_iter().chain([Removed::AllKindsAndWaits]);
    let share = |breakdown: &Breakdown, removed| match removed {
        Removed::AllKindsAndWaits => breakdown.waits(),
        kind => breakdown.share(kind),
    };
    let of_kind = |case: &'a Case, removed: Removed| {
        let breakdown = case.breakdown.as_ref()?;
        let share = share(breakdown, removed).filter(|share| *share >= MIN_SHARE)?;
        let lines = of(breakdown, removed).iter().take(MAX_LINES);
        Some(lines.map(move |line| row(case, (removed, share), line)).collect::<Vec<_>>())
    };
    let rows: Vec<Vec<String>> =
        cases.flat_map(|case| kinds().filter_map(move |kind| of_kind(case, kind))).flatten().collect();
    let headings = ["case", "kind", ">share of the time", ">line", "source", ">places", ">without this line alone"];
    (!rows.is_empty()).then(|| table(&headings, &rows))
}

fn row(case: &Case, (removed, share): (Removed, f64), line: &Line) -> Vec<String> {
    let kind = match removed {
        Removed::AllKindsAndWaits => WAITS,
        kind => kind.text(),
    };
    let alone = line.share.map_or_else(|| NOTHING.to_owned(), |share| format!("{} less", percent(share.max(0.0))));
    vec![
        case.case.to_string(),
        kind.to_owned(),
        percent(share),
        line.line.to_string(),
        code(&line.text),
        line.places.to_string(),
        alone,
    ]
}

/// Returns the case whose lines the first page shows: the first one of the recommended kernel, or else the first with lines.
pub(super) fn shown(report: &Report) -> Option<&Case> {
    let name = report.next_experiment.as_ref().map(|next| &next.case);
    let has_lines = |case: &&Case| winners(std::iter::once(*case)).is_some();
    let recommended = report.cases.iter().find(|case| Some(&case.case) == name).filter(has_lines);
    recommended.or_else(|| report.cases.iter().find(has_lines))
}
