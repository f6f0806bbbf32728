//! The committed winners that were beaten, as a table.

use super::table::table;
use crate::report::advantage::lead_factor;
use crate::report::changes::{joined, named};
use crate::report::contract::{Beaten, Report};
use crate::report::format::{NOTHING, either, gain};
use crate::report::merged::{merge, shape};

/// Returns a row for the cases that share the committed winner's family, its cause, what beat it and what became of the
/// cause. At most so many rows, the largest gain first. None without a committed winner that was beaten.
pub(super) fn beaten(report: &Report, most: usize) -> Option<String> {
    let rows: Vec<Vec<String>> = groups(report).iter().take(most).map(|group| row(report, group)).collect();
    let headings = [
        "cases",
        "committed winner",
        "what limited it (possible gain, confidence)",
        "what beat it",
        ">before / now",
        "the cause in the new winner",
    ];
    (!rows.is_empty()).then(|| table(&headings, &rows))
}

/// Returns the number of rows in all.
pub(super) fn count(report: &Report) -> usize {
    groups(report).len()
}

fn groups(report: &Report) -> Vec<Vec<&Beaten>> {
    let mut groups: Vec<Vec<&Beaten>> = Vec::new();
    for one in &report.beaten {
        match groups.iter_mut().find(|group| are_alike(group[0], one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Tells whether two differ in nothing but their cases and figures.
fn are_alike(one: &Beaten, other: &Beaten) -> bool {
    let cause = |one: &Beaten| one.cause.as_ref().map(|cause| (shape(&cause.cause), cause.confidence));
    (one.family == other.family && one.by == other.by && one.changes == other.changes)
        && (one.is_gone == other.is_gone && (one.refuted > 0) == (other.refuted > 0))
        && cause(one) == cause(other)
}

fn row(report: &Report, group: &[&Beaten]) -> Vec<String> {
    let first = group[0];
    let cases: Vec<&str> = group.iter().map(|one| &*one.case).collect();
    let ratios = || group.iter().filter_map(|one| one.ratio);
    let estimates = || ratios().map(|ratio| ratio.estimate);
    let range = estimates().reduce(f64::min).zip(estimates().reduce(f64::max));
    let show = |factor: f64| lead_factor(factor, ratios().all(|ratio| ratio.paired));
    vec![
        cases.join(", "),
        format!("`{}`", first.family),
        cause(group),
        what_beat_it(report, first),
        range.map_or_else(|| NOTHING.to_owned(), |(least, most)| either(show(least), show(most))),
        match first.is_gone {
            Some(true) => "gone",
            Some(false) => "still there",
            None if first.cause.is_some() => "not counted",
            None => NOTHING,
        }
        .to_owned(),
    ]
}

fn cause(group: &[&Beaten]) -> String {
    let causes: Vec<_> = group.iter().filter_map(|one| one.cause.as_ref()).collect();
    let Some(first) = causes.first() else {
        let is_refuted = group[0].refuted > 0;
        return if is_refuted { "experiments refuted all causes found" } else { "no rule found a cause" }.to_owned();
    };
    let gains = || causes.iter().map(|cause| cause.gain);
    let (least, most) = (gains().fold(f64::INFINITY, f64::min), gains().fold(1.0, f64::max));
    let cause = merge(&causes.iter().map(|cause| &*cause.cause).collect::<Vec<_>>());
    format!("{cause} ({}, {})", either(gain(least), gain(most)), first.confidence.name())
}

/// Names the changes that made a committed winner faster, or the kernel that beat it.
pub(in crate::report) fn what_beat_it(report: &Report, Beaten { family, by, changes, .. }: &Beaten) -> String {
    if family != by {
        return format!("another kernel, `{by}`");
    }
    let about = |parameter: &str| report.parameters.about(family, parameter);
    let names: Vec<String> = changes.iter().map(|change| named(change, None, about(&change.parameter))).collect();
    joined(&names)
}
