//! Renders a report as Markdown. The words and tables are in `templates/reports/report.md.tera`.

use tera::{Context, Kwargs, State, Tera, Value};

use super::contract::{Case, Ratio, Win};
use super::{Report, ReportError, calibration, format, measuring, profiles};
use crate::domain::device::TimeSource;
use crate::domain::variant::{VariantHash, show_params};

const TEMPLATE: &str = include_str!("../../templates/reports/report.md.tera");

const CALIBRATION: &str = include_str!("../../templates/reports/calibration.md.tera");

/// Renders a report.
pub(super) fn render(report: &Report) -> Result<String, ReportError> {
    let mut tera = Tera::new();
    register(&mut tera, "us", format::us);
    register(&mut tera, "times", format::times);
    register(&mut tera, "percent", format::percent);
    register(&mut tera, "usd", format::usd);
    register(&mut tera, "duration", format::duration);
    register(&mut tera, "relative_error", format::relative_error);
    register(&mut tera, "gflops", format::gflops);
    tera.register_filter("cell", cell);
    tera.register_filter("short", short);
    register(&mut tera, "score", |score| format!("{score:.3}"));
    tera.add_raw_templates([("calibration.md", CALIBRATION), ("report.md", TEMPLATE)])?;

    let mut context = Context::from_serialize(report)?;
    // A template cannot keep the order of a map, so ordered data is passed as a list.
    let outcomes: Vec<_> = report.iterations.iter().filter(|(name, count)| **name != "total" && **count > 0).collect();
    context.insert("outcomes", &outcomes);
    let variants: Vec<_> = report.wins.iter().map(|win| show_params(&win.variant.params)).collect();
    context.insert("win_params", &variants);
    let again: Vec<_> = report.remeasured.iter().map(|again| show_params(&again.variant.params)).collect();
    context.insert("remeasured_params", &again);
    let best: Vec<_> = report.cases.iter().map(|case| case.variant.as_ref().map(|v| show_params(&v.params))).collect();
    context.insert("case_params", &best);
    context.insert("calibration_bands", &report.calibration.kept.iter().map(calibration::band).collect::<Vec<_>>());
    let source = report.session.time_source;
    let ratios = |of: fn(&Case) -> Option<Ratio>| -> Vec<String> {
        report.cases.iter().map(|case| measuring::ratio(of(case), source)).collect()
    };
    context.insert("over_baseline", &ratios(|case| case.ratio_to_baseline));
    context.insert("over_start", &ratios(|case| case.ratio_to_start));
    context.insert("clocks", &report.cases.iter().map(measuring::clocks).collect::<Vec<_>>());
    context.insert("win_speedups", &report.wins.iter().map(|win| win_speedup(win, source)).collect::<Vec<_>>());
    context.insert("measuring", &measuring::rows(report));
    let aligned = measuring::HEADINGS.map(|heading| match heading.strip_prefix('>') {
        Some(figures) => [figures, "--:"],
        None => [heading, "---"],
    });
    context.insert("measuring_headings", &aligned);
    context.insert("notes", &measuring::notes(report));
    let without_baseline =
        report.cases.iter().filter(|case| case.baseline.as_ref().is_some_and(|found| found.is_initial_kernel));
    context.insert("without_baseline", &without_baseline.map(|case| format!("`{}`", case.case)).collect::<Vec<_>>());
    let profiled = report.cases.iter().filter_map(|case| Some((&case.case, case.profile.as_ref()?)));
    let counted: Vec<_> = profiled.clone().map(|(case, profile)| (case, profiles::rows(profile))).collect();
    context.insert("counted", &counted);
    context.insert("counted_headings", &profiles::HEADINGS.map(|heading| heading.trim_start_matches('>')));
    let shortcuts: Vec<_> = profiled.filter_map(|(case, profile)| Some((case, profile.shortcuts()?))).collect();
    context.insert("shortcuts", &shortcuts);
    Ok(tera.render("report.md", &context)?)
}

/// Formats the speed-up of a win over the incumbent of its time.
fn win_speedup(win: &Win, source: TimeSource) -> String {
    let alone = win.speedup.map(|estimate| Ratio { estimate, lo: None, hi: None, paired: false });
    measuring::ratio(win.ratio.or(alone), source)
}

/// Registers a function on figures as a filter. A missing figure becomes a dash.
fn register(tera: &mut Tera, name: &'static str, show: fn(f64) -> String) {
    tera.register_filter(name, move |value: &Value, _: Kwargs, _: &State| {
        value.as_f64().map_or_else(|| format::NOTHING.to_owned(), show)
    });
}

/// Makes text safe in a table's cell. Accepts missing text.
fn cell(value: &Value, _: Kwargs, _: &State) -> String {
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_none() => format::NOTHING.to_owned(),
        None => value.to_string(),
    };
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// Shortens a hash.
fn short(value: &Value, _: Kwargs, _: &State) -> String {
    value.as_str().map_or_else(|| format::NOTHING.to_owned(), |hash| VariantHash(hash.to_owned()).short().to_owned())
}
