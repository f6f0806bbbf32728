//! Renders a report as one page of Markdown. The words around the figures are in `templates/reports/report.md.tera`.

use tera::{Context, Kwargs, State, Tera, Value};

use super::format::{self, counted, duration, percent, usd};
use super::table::Table;
use super::{case_table, words};
use crate::domain::budget::cost::UnknownCosts;
use crate::domain::device::TimeSource;
use crate::domain::record::Status;
use crate::domain::text::escape;
use crate::report::ReportError;
use crate::report::contract::{Case, Report};

const TEMPLATE: &str = include_str!("../../../templates/reports/report.md.tera");

/// Renders a report.
pub(super) fn render(report: &Report) -> Result<String, ReportError> {
    let mut tera = Tera::new();
    tera.register_filter("md", |value: &Value, _: Kwargs, _: &State<'_>| {
        Value::from(text(value.as_str().unwrap_or_default()))
    });
    tera.register_filter("code", |value: &Value, _: Kwargs, _: &State<'_>| {
        Value::from(escape::markdown_code(value.as_str().unwrap_or_default()))
    });
    tera.add_raw_template("report.md", TEMPLATE)?;
    let mut context = page(report);
    context.insert("cases", &of_table(&case_table::short(report)));
    Ok(tera.render("report.md", &context)?)
}

/// Escapes a text that does not begin a line. A sum of money is no formula, and a dash no list. A blank at the beginning stays.
fn text(of: &str) -> String {
    if of == "-" {
        return of.to_owned();
    }
    let escaped = if of.starts_with(' ') { format!(" {}", escape::markdown(of)) } else { escape::markdown(of) };
    ('0'..='9').fold(escaped, |text, digit| text.replace(&format!("\\${digit}"), &format!("${digit}")))
}

/// Returns what the page says, the same in Markdown and in HTML: plain text.
pub(super) fn page(report: &Report) -> Context {
    let mut context = Context::new();
    context.insert("id", &report.session.id);
    context.insert("headline", &words::headline(report));
    context.insert("standing", &words::standing(report));
    context.insert("next", &words::next(report));
    context.insert("terms", &terms(report));
    context.insert("lines", &words::lines(report));
    context.insert("time", &time(report));
    context.insert("money", &money(report));
    context.insert("verified", &words::verified(report));
    context.insert("notes", &words::notes(report));
    context
}

/// Says what the columns of the table mean.
fn terms(report: &Report) -> String {
    let began =
        |with: &str| report.cases.iter().any(|case| case.change.as_ref().is_some_and(|one| one.began_with == with));
    let before = match (began("committed_winner"), began("first_variant")) {
        (true, true) => "the committed winner, else the first correct variant",
        (true, false) => "the committed winner",
        _ => "the first correct variant",
    };
    let floor = match report.session.time_source {
        TimeSource::Recorded => "",
        TimeSource::Measured | TimeSource::Modelled => " The floor is the time that no correct kernel beats.",
    };
    let tf32 = if report.session.compute.is_dtype() { "" } else { " Kernels and baselines compute in TF32." };
    let unconfirmed = |case: &&Case| case.best_us.is_some() && !case.confirmed;
    let unconfirmed: Vec<&str> = report.cases.iter().filter(unconfirmed).map(|case| case.case.as_str()).collect();
    let unconfirmed = match (report.session.time_source, unconfirmed.len()) {
        (TimeSource::Recorded, _) | (_, 0) => String::new(),
        (_, 1) => format!(" Not confirmed: {}.", unconfirmed[0]),
        (_, some) => format!(" Not confirmed: {} and {} more.", unconfirmed[0], some - 1),
    };
    let prepared = report.cases.iter().filter_map(|case| Some((&case.case, case.preparation.as_ref()?)));
    let prepared: Vec<String> =
        prepared.map(|(case, preparation)| format!(" On {case}, {}.", format::prepared(preparation))).collect();
    format!("Before is {before}.{floor}{tf32}{unconfirmed}{}", prepared.concat())
}

/// Says what the phases took, the longest first.
fn time(report: &Report) -> String {
    let Some(phases) = &report.phases else { return "The session has not ended.".to_owned() };
    let mut rows: Vec<_> = phases.rows.iter().filter(|row| row.share >= 0.005).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let told: Vec<String> = rows.iter().map(|row| format!("{} {}", phase(row.phase), percent(row.share))).collect();
    let wall = report.session.wall_s.map_or_else(String::new, duration);
    let why = report.session.stop_reason.as_ref().filter(|_| report.session.status == Status::Finished);
    let why = why.map_or_else(String::new, |why| format!(" The session ended because {why}."));
    format!("{wall}: {}.{why}", told.join(", "))
}

fn money(report: &Report) -> String {
    let spent = &report.cost.session;
    let all = report.cost.cumulative.total_usd();
    let all = if report.cost.ledger.len() > 1 { format!("; all sessions {}", usd(all)) } else { String::new() };
    let UnknownCosts { calls, usd: about_usd, at_most_usd } = report.cost.unknown;
    let unknown = match calls {
        0 => String::new(),
        _ => format!(
            " (with about {} for {} whose cost is unknown: at most {})",
            usd(about_usd),
            counted(calls as usize, "call"),
            usd(at_most_usd)
        ),
    };
    format!("GPU {}, models {}{unknown}{all}.", usd(spent.gpu_usd), usd(spent.llm_usd))
}

/// Names a phase.
pub(super) fn phase(name: &str) -> &str {
    match name {
        "initial_design" => "initial kernel and committed winners",
        "screening" => "search",
        "acceptance" => "acceptance checks",
        "waiting" => "waiting for the compiler",
        "other" => "start, records and report",
        name => name,
    }
}

/// Writes a table. No rows make no table.
pub(super) fn of_table(table: &Table) -> String {
    if table.rows.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = table.headings.iter().map(|heading| if heading.figures { "--:" } else { "---" });
    let mut lines = line(table.headings.iter().map(|heading| heading.name.clone()).collect());
    lines += &format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    for row in &table.rows {
        lines += &line(row.iter().map(|cell| text(cell)).collect());
    }
    lines
}
