//! The table of cases: now, before, the gain, the baseline, the floor and one cause.

use super::format::{NOTHING, percent, times, us};
use super::table::Table;
use super::words;
use crate::domain::device::TimeSource;
use crate::domain::record::gain::SLOWER;
use crate::report::contract::{Case, Ratio, Report};

/// The most rows of the Markdown table. More would hide what the report says.
const MAX_ROWS: usize = 24;

/// Returns the table with a row for each case.
pub(super) fn all(report: &Report) -> Table {
    Table::new(&headings(report), report.cases.iter().map(|case| row(case, report)))
}

/// Returns the table with the cases that changed, and one row for the rest if there are many.
pub(super) fn short(report: &Report) -> Table {
    if report.cases.len() <= MAX_ROWS {
        return all(report);
    }
    let is_told = |case: &&Case| {
        let behind = case.ratio_to_baseline.is_some_and(|ratio| ratio.estimate < 1.0);
        behind || case.best_us.is_none() || case.change.as_ref().is_some_and(|change| change.improved)
    };
    let told: Vec<&Case> = report.cases.iter().filter(is_told).take(MAX_ROWS).collect();
    let headings = headings(report);
    let mut rest = vec![format!("{} more", report.cases.len() - told.len())];
    rest.resize(headings.len(), String::new());
    let rows = told.into_iter().map(|case| row(case, report));
    Table::new(&headings, rows.chain([rest]))
}

fn headings(report: &Report) -> [&'static str; 8] {
    let (baseline, over) = match report.session.time_source {
        TimeSource::Measured => ("Baseline", ">Faster by"),
        // Modelled times have no other baseline.
        TimeSource::Modelled | TimeSource::Recorded => ("Initial", ">Faster by"),
    };
    ["Case", ">Before, us", ">Now", ">Gain (95%)", baseline, over, ">Of floor", "Limited by"]
}

/// Returns the time of the committed winner, if it was only screened and nothing that was confirmed is as fast.
fn unconfirmed_us(case: &Case) -> Option<f64> {
    let change = case.change.as_ref().filter(|change| change.began_with == "committed_winner")?;
    change.ratio.is_some_and(|ratio| ratio.estimate < SLOWER).then_some(change.began_us)
}

fn row(case: &Case, report: &Report) -> Vec<String> {
    let shown = |time: Option<f64>| time.map_or_else(|| NOTHING.to_owned(), us);
    if let Some(us) = unconfirmed_us(case) {
        let mut cells = vec![case.case.to_string(), shown(Some(us)), shown(Some(us)), "not confirmed".to_owned()];
        cells.resize(headings(report).len(), NOTHING.to_owned());
        return cells;
    }
    let source = report.session.time_source;
    vec![
        case.case.to_string(),
        shown(before_us(case)),
        shown(case.best_us),
        gain(case, source),
        case.baseline.as_ref().map_or_else(
            || NOTHING.to_owned(),
            |one| match one.is_initial_kernel {
                true => us(one.us),
                false => format!("{} {}", one.name, us(one.us)),
            },
        ),
        case.ratio_to_baseline.map_or_else(|| NOTHING.to_owned(), |ratio| times(ratio.estimate)),
        case.share_of_floor.map_or_else(|| NOTHING.to_owned(), percent),
        words::limit(case, report),
    ]
}

/// Returns the time of what the session began with: where both took turns in one run, the time now times the ratio of that run.
fn before_us(case: &Case) -> Option<f64> {
    let change = case.change.as_ref()?;
    let paired = change.ratio.filter(|ratio| ratio.paired).zip(case.best_us);
    Some(paired.map_or(change.began_us, |(ratio, best_us)| ratio.estimate * best_us))
}

fn gain(case: &Case, source: TimeSource) -> String {
    match (&case.change, case.best_us) {
        (Some(change), Some(_)) if change.tied => "tied".to_owned(),
        (Some(change), Some(_)) if change.improved => {
            change.ratio.map_or_else(|| NOTHING.to_owned(), |one| ratio(one, source))
        }
        (Some(_), Some(_)) => "unchanged".to_owned(),
        _ => NOTHING.to_owned(),
    }
}

/// Formats a ratio with its interval. One of two runs has none: it would not cover changes of the machine in between.
pub(super) fn ratio(Ratio { estimate, lo, hi, paired }: Ratio, source: TimeSource) -> String {
    match (lo.zip(hi), paired, source) {
        (_, _, TimeSource::Modelled | TimeSource::Recorded) => times(estimate),
        (Some((lo, hi)), true, _) => format!("{estimate:.3} ({lo:.3} to {hi:.3})"),
        (None, true, _) => times(estimate),
        (_, false, _) => format!("{estimate:.2} (two runs)"),
    }
}
