//! Renders a report as Markdown. The words and tables are in `templates/reports/`.

pub(super) mod beaten;
pub(super) mod breakdown;
pub(super) mod counted_leads;
pub(super) mod divided_leads;
mod effects;
mod explanations;
pub(super) mod first_kernel;
mod hardware;
mod hypotheses;
pub(super) mod lines;
mod not_run;
pub(super) mod paths;
mod sentences;
mod table;
mod undivided;
mod winners;

use tera::{Context, Kwargs, State, Tera, Value};

use super::baseline_kernels;
use super::contract::{Advantage, Case, Diagnosis, Ratio, Rivals, Scaling, Win};
use super::{Report, ReportError, advantage, calibration, format, measuring, profiles, roofline};
use crate::domain::device::TimeSource;
use crate::domain::regime::Regime;
use crate::domain::variant::{VariantHash, show_params};

/// The templates, by the names under which they include each other.
const TEMPLATES: [(&str, &str); 13] = [
    ("calibration.md", include_str!("../../templates/reports/calibration.md.tera")),
    ("root_causes.md", include_str!("../../templates/reports/root_causes.md.tera")),
    ("winners.md", include_str!("../../templates/reports/winners.md.tera")),
    ("evidence.md", include_str!("../../templates/reports/evidence.md.tera")),
    ("next.md", include_str!("../../templates/reports/next.md.tera")),
    ("parameters.md", include_str!("../../templates/reports/parameters.md.tera")),
    ("hypotheses.md", include_str!("../../templates/reports/hypotheses.md.tera")),
    ("cost.md", include_str!("../../templates/reports/cost.md.tera")),
    ("verified.md", include_str!("../../templates/reports/verified.md.tera")),
    ("figures.md", include_str!("../../templates/reports/figures.md.tera")),
    ("record.md", include_str!("../../templates/reports/record.md.tera")),
    ("details.md", include_str!("../../templates/reports/details.md.tera")),
    ("report.md", include_str!("../../templates/reports/report.md.tera")),
];

/// The most cases in the main table before it is folded. More would hide what the report says.
const MAX_CASES: usize = 24;

/// The most remarks on the first page.
const MAX_REMARKS: usize = 3;

/// The most cases on the first page whose winners are listed with the families that they won against.
const MAX_CONTESTS: usize = 6;

/// Renders the summary of a report.
pub(super) fn summary(report: &Report) -> Result<String, ReportError> {
    render("report.md", report)
}

/// Renders everything that the summary leaves out.
pub(super) fn details(report: &Report) -> Result<String, ReportError> {
    render("details.md", report)
}

fn render(template: &str, report: &Report) -> Result<String, ReportError> {
    let mut tera = engine();
    tera.add_raw_templates(TEMPLATES)?;
    Ok(tera.render(template, &context(report)?)?)
}

/// Returns an engine without templates, with the filters that format figures.
pub(super) fn engine() -> Tera {
    let mut tera = Tera::new();
    register(&mut tera, "us", format::us);
    register(&mut tera, "times", format::times);
    register(&mut tera, "gain", format::gain);
    register(&mut tera, "percent", format::percent);
    register(&mut tera, "usd", format::usd);
    register(&mut tera, "duration", format::duration);
    register(&mut tera, "relative_error", format::relative_error);
    register(&mut tera, "gflops", format::gflops);
    tera.register_filter("cell", cell);
    tera.register_filter("short", short);
    register(&mut tera, "score", |score| format!("{score:.3}"));
    tera
}

/// Returns the figures, sentences and tables that the templates use.
pub(super) fn context(report: &Report) -> Result<Context, ReportError> {
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
    let kept = &report.calibration.kept;
    context.insert("calibration_left", &kept.iter().map(|one| calibration::left(one.narrowed)).collect::<Vec<_>>());
    context.insert("calibration_learnt", &kept.iter().map(calibration::learnt_in_words).collect::<Vec<_>>());
    let source = report.session.time_source;
    let ratios = |of: fn(&Case) -> Option<Ratio>| -> Vec<String> {
        report.cases.iter().map(|case| measuring::ratio(of(case), source)).collect()
    };
    let kernels = report.baselines.iter().map(|baseline| baseline_kernels::named(&baseline.kernels));
    context.insert("baseline_kernels", &kernels.collect::<Vec<_>>());
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
    explain(&mut context, report);
    Ok(context)
}

/// Adds the sentences and tables that explain the figures.
fn explain(context: &mut Context, report: &Report) {
    context.insert("improved_sentence", &winners::improved(report));
    context.insert("won_sentences", &winners::others(report));
    context.insert("chain_sentence", &winners::chains(report));
    context.insert("first_counts", &first_kernel::counts(report));
    context.insert("tuned_sentence", &first_kernel::tuned_alone(report));
    context.insert("first_path_table", &paths::first_steps(report));
    context.insert("winner_path_head", &paths::winner_head(report));
    context.insert("winner_path_table", &paths::winner_steps(report));
    context.insert("excerpt_sentence", &report.excerpt.map(sentences::excerpt));
    context.insert("headline", &sentences::headline(report));
    context.insert("began", sentences::began(report));
    context.insert("terms", &sentences::terms(report));
    context.insert("most_cases", &MAX_CASES);
    context.insert("case_table", &explanations::cases(report));
    context.insert("roofline_table", &explanations::roofline(report));
    context.insert("first_reading", &roofline::first_reading(&report.cases));
    context.insert("roofline_readings", &roofline::readings(&report.cases));
    context.insert("scaling_tables", &report.scaling.iter().map(explanations::scaling).collect::<Vec<_>>());
    context.insert(
        "ladder_tables",
        &report.ladders.iter().map(|ladder| explanations::ladder(report, ladder)).collect::<Vec<_>>(),
    );
    let steps = report.ladders.first().map(|ladder| &*ladder.steps).unwrap_or_default();
    context.insert("has_effects", &steps.iter().any(|step| step.mechanism.contains(" alone")));
    contests(context, report);
    let rows = beaten::count(report);
    context.insert("beaten_rows", &rows);
    context.insert("beaten_table", &beaten::beaten(report, MAX_CONTESTS));
    context.insert("all_beaten_table", &beaten::beaten(report, rows));
    counts(context, report);
    context.insert("is_warm", &report.cases.iter().all(|case| case.regime == Some(Regime::Warm)));
    context.insert("advantage_sentences", &sentences::advantages(report));
    context.insert("all_advantages", &sentences::all_advantages(report));
    let readings = |head: &str, of: fn(&Scaling) -> &Option<String>| -> Vec<String> {
        let known = report.scaling.iter().filter_map(|one| Some((one, of(one).as_ref()?)));
        known.map(|(one, reading)| format!("{head} over {} ({}): {reading}", one.varies, one.fixed)).collect()
    };
    context.insert("first_scalings", &readings("First kernels", |scaling| &scaling.first_reading));
    context.insert("best_scalings", &readings("Best variants", |scaling| &scaling.best_reading));
    let tested = |diagnosis: &Diagnosis| -> Vec<String> {
        let of = (&*diagnosis.family, &*diagnosis.case);
        diagnosis.findings.iter().map(|finding| sentences::experiment(report, of, finding)).collect()
    };
    context.insert("tested", &report.diagnoses.iter().map(tested).collect::<Vec<_>>());
    context.insert("cause_order", sentences::CAUSE_ORDER);
    context.insert("first_breakdown_sentence", &breakdown::first_kernel(report));
    context.insert("breakdown_table", &breakdown::winners(report));
    let shown = lines::shown(report);
    context.insert("line_case", &shown.map(|case| &case.case));
    let breakdown = shown.and_then(|case| case.breakdown.as_ref());
    context.insert("line_iteration", &breakdown.map(|breakdown| breakdown.iteration));
    context.insert("line_table", &shown.and_then(lines::first));
    context.insert("all_line_table", &lines::winners(&report.cases));
    context.insert("lead_table", &divided_leads::leads(report, MAX_CONTESTS));
    context.insert("divided_leads", &divided_leads::divided(report));
    context.insert("all_lead_table", &divided_leads::leads(report, usize::MAX));
    context.insert("undivided_sentence", &undivided::missing(report));
    context.insert("lead_sentence", &divided_leads::most_of_leads(report));
    context.insert("baseline_sentence", &baseline_kernels::sentence(report));
    context.insert(
        "counted_lead_sentences",
        &report.counted_leads.iter().map(super::counted_lead_text::sentence).collect::<Vec<_>>(),
    );
    context.insert("counted_lead_table", &counted_leads::table(&report.counted_leads));
    context.insert("products_apart", &report.counted_leads.iter().all(|lead| lead.products_apart));
    context.insert("first_won", &sentences::over_first(report));
    context.insert("winner_causes", &explanations::causes(report));
    context.insert("accounted", &sentences::accounted(report));
    context.insert("model_check_sentence", &sentences::model_check(report));
    context.insert("why", &sentences::why(report));
    let has_kernels = report.options.iter().any(|option| option.kind == "new_kernel");
    let no_options = has_kernels.then(|| super::not_options::sentence(&report.cases, &report.diagnoses));
    context.insert("no_options", &no_options.flatten());
    context.insert("recommended_head", &sentences::recommended_head(report));
    let after = report.next_experiment.as_ref().and_then(|next| next.after_us);
    context.insert("expected_after", &after.map(|[lo, hi]| format::either(format::us(lo), format::us(hi))));
    context.insert("command", &sentences::command(report));
    let (first_remarks, remarks) = report.next_steps.split_at(report.next_steps.len().min(MAX_REMARKS));
    context.insert("first_remarks", first_remarks);
    context.insert("remarks", remarks);
    context.insert("option_table", &explanations::options(report));
    context.insert("effect_noise", &effects::noise(&report.parameters));
    context.insert("effect_sentences", &effects::sentences(&report.parameters));
    context.insert("effect_table", &effects::effects(&report.parameters));
    context.insert("hypothesis_table", &hypotheses::hypotheses(report));
    context.insert("phase_table", &report.phases.as_ref().map(explanations::phases));
    context.insert("verified", &sentences::verified(report));
    context.insert("not_run", &not_run::sentence(report));
}

/// Adds the counts of one winner and of what it leads: of a lead that they explain, and else of the largest one.
/// Without leads, a slower variant with counts is all there is.
fn counts(context: &mut Context, report: &Report) {
    let leads = advantage::leads(&report.advantages, &report.rival_advantages);
    let first = leads.iter().copied().find(|one| one.explained).or(leads.first().copied());
    let first = first.or(report.advantages.first());
    let is_shown = |one: &&Advantage| {
        Some(&one.case) == first.map(|first| &first.case) && (leads.is_empty() || one.role != "slowest")
    };
    let name = |one: &Advantage| match one.role {
        "rival" if one.is_best_of_family && one.is_next_best => "next best family",
        "rival" => "another family",
        "slowest" => "slowest with counts",
        _ => "before",
    };
    let all = report.advantages.iter().chain(&report.rival_advantages);
    let slower: Vec<(&str, &Advantage)> = all.filter(is_shown).map(|one| (name(one), one)).collect();
    context.insert("advantage_case", &first.map(|first| &first.case));
    context.insert("is_explained", &first.is_some_and(|first| first.explained));
    context.insert("advantage_table", &explanations::advantage(&slower));
}

/// Adds what the winners won against: the cases with the largest leads for the first page, and all of them.
fn contests(context: &mut Context, report: &Report) {
    let lead = |rivals: &Rivals| match &*rivals.families {
        [winner, next, ..] => next.us / winner.us,
        _ => 1.0,
    };
    let all: Vec<&Rivals> = report.rivals.iter().collect();
    let mut first = all.clone();
    first.sort_by(|a, b| lead(b).total_cmp(&lead(a)));
    first.truncate(MAX_CONTESTS);
    context.insert("rival_table", &explanations::rivals(&first));
    context.insert("contests", &all.len());
    context.insert("most_contests", &MAX_CONTESTS);
    context.insert("all_rivals_table", &explanations::rivals(&all));
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
    table::cell(&text)
}

/// Shortens a hash.
fn short(value: &Value, _: Kwargs, _: &State) -> String {
    value.as_str().map_or_else(|| format::NOTHING.to_owned(), |hash| VariantHash(hash.to_owned()).short().to_owned())
}

/// Writes a table of plain text.
pub(super) fn of_table(table: &super::table::Table) -> String {
    let mark = |heading: &super::table::Heading| format!("{}{}", if heading.figures { ">" } else { "" }, heading.name);
    let headings: Vec<String> = table.headings.iter().map(mark).collect();
    table::table(&headings.iter().map(String::as_str).collect::<Vec<_>>(), &table.rows)
}
