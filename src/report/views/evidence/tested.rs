//! How well the claims of the session held.

use super::{Section, shown};
use crate::report::contract::{Kept, Pay, Refuted, Report};
use crate::report::views::format::{counted, percent, times};
use crate::report::views::table::Table;

pub(super) fn calibration(report: &Report) -> Section {
    let note = "A claim predicts a speed-up: a median, and a range that should hold the outcome in 80% of all cases. The score is the continuous ranked probability score of its logarithm, less that of the forecast “no change”: below 0, the predictions are better.";
    let predictions = &report.predictions;
    let scored = predictions.in_range + predictions.above + predictions.below;
    let mut section = Section::new("calibration", "How well the claims held", note)
        .with("", kept(report))
        .with("What paid", pays(report))
        .with("Changes that were slower every time", refuted(report));
    if scored > 0 {
        section.items.push(format!(
            "{} tested: {} in the predicted range, {} above, {} below; {} were faster than their reference.",
            counted(scored as usize, "claim"),
            predictions.in_range,
            predictions.above,
            predictions.below,
            predictions.faster
        ));
    }
    section
}

fn kept(report: &Report) -> Table {
    let row = |one: &Kept| {
        let few = if one.enough { "" } else { ", too few to judge" };
        let [lo, hi] = one.coverage_ci;
        let [difference, from, to] = one.crps_difference;
        vec![
            one.kind.replace('_', " "),
            band(one),
            one.claims.to_string(),
            format!("{} ({} to {}){few}", percent(one.coverage), percent(lo), percent(hi)),
            format!("{} to {}", times(one.first_width), times(one.last_width)),
            shown(one.learnt, |[left, ..]| percent(left)),
            format!("{difference:.3} ({from:.3} to {to:.3})"),
            format!("{} of {}", one.faster, one.claims),
        ]
    };
    let headings = [
        "Kind",
        "Predicted speed-up",
        ">Claims",
        "Coverage",
        "Width, first to last",
        ">Width left by learning",
        "Score",
        ">Faster",
    ];
    Table::new(&headings, report.calibration.kept.iter().map(row))
}

/// Names a band of predicted speed-ups.
fn band(kept: &Kept) -> String {
    match kept.band {
        None | Some([None, None]) => "all".to_owned(),
        Some([None, Some(hi)]) => format!("below {}", times(hi)),
        Some([Some(lo), None]) => format!("from {}", times(lo)),
        Some([Some(lo), Some(hi)]) => format!("{} to {}", times(lo), times(hi)),
    }
}

fn pays(report: &Report) -> Table {
    let row = |one: &Pay| {
        let parameter = one.parameter.as_ref().zip(one.family.as_ref());
        vec![
            one.mechanism.name().replace('_', " "),
            parameter.map_or_else(|| "all".to_owned(), |(parameter, family)| format!("{parameter} of {family}")),
            one.tries.to_string(),
            one.faster.to_string(),
            times(one.median),
            times(one.best),
        ]
    };
    let headings = ["Mechanism", "Parameter", ">Tries", ">Faster", ">Median", ">Best"];
    Table::new(&headings, report.calibration.pays.iter().map(row))
}

fn refuted(report: &Report) -> Table {
    let row = |one: &Refuted| {
        vec![
            one.family.clone(),
            format!("{} {} to {}", one.parameter, one.from, one.to),
            one.tries.to_string(),
            times(one.median),
        ]
    };
    Table::new(&["Family", "Change", ">Tries", ">Median"], report.calibration.refuted.iter().map(row))
}
