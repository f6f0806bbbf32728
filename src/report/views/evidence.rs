//! The evidence behind a report's page, in sections that HTML folds.

mod hardware;
mod record;
mod tested;

use serde::Serialize;

use super::case_table::ratio;
use super::format::{self, NOTHING, either, gain, percent, times, us};
use super::table::Table;
use super::{profiles, words};
use crate::domain::code::ablation::Removed;
use crate::domain::proposal::finding::Remedy;
use crate::domain::variant::show_params;
use crate::report::contract::{
    Breakdown, Case, Diagnosed, Diagnosis, DiagnosisOf, Lead, Next, OverKind, ParameterEffect, Report,
};

/// The most lines of source to show for a kernel.
const MAX_LINES: usize = 8;

/// A folded section.
#[derive(Debug, Default, Serialize)]
pub(super) struct Section {
    id: &'static str,
    title: String,
    note: &'static str,
    items: Vec<String>,
    tables: Vec<Named>,
}

/// A table with its heading, which may be empty.
#[derive(Debug, Serialize)]
pub(super) struct Named {
    name: String,
    table: Table,
}

impl Section {
    fn new(id: &'static str, title: &str, note: &'static str) -> Self {
        Self { id, title: title.to_owned(), note, ..Self::default() }
    }

    /// Adds a table, unless it has no rows.
    fn with(mut self, name: &str, table: Table) -> Self {
        if !table.rows.is_empty() {
            self.tables.push(Named { name: name.to_owned(), table });
        }
        self
    }
}

/// Returns the sections that have something to show.
pub(super) fn sections(report: &Report) -> Vec<Section> {
    let all = [
        winners(report),
        causes(report),
        leads(report),
        ablations(report),
        hotspots(report),
        hardware::counters(report),
        paths(report),
        parameters(report),
        scaling(report),
        tested::calibration(report),
        record::baselines(report),
        record::measuring(report),
        record::results(report),
        record::environment(report),
    ];
    all.into_iter().filter(|section| !section.tables.is_empty() || !section.items.is_empty()).collect()
}

fn shown<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), show)
}

fn short(hash: &str) -> String {
    hash.chars().take(10).collect()
}

fn winners(report: &Report) -> Section {
    let row = |case: &Case| {
        let variant = case.variant.as_ref();
        vec![
            case.case.to_string(),
            shown(variant, |one| format!("{} {}", one.family, show_params(&one.params))),
            shown(variant, |one| short(&one.hash)),
            shown(case.iteration, |iteration| iteration.to_string()),
            shown(case.commit.as_deref(), short),
            shown(case.start_us, us),
            shown(case.ratio_to_start, |one| ratio(one, report.session.time_source)),
            shown(case.gflops, format::gflops),
            format!("{} / {}", shown(case.ctas, |ctas| ctas.to_string()), case.sms),
            shown(case.regime, |regime| regime.name().to_owned()),
        ]
    };
    let headings = [
        "Case",
        "Variant",
        "Hash",
        ">Iteration",
        "Commit",
        ">First, us",
        ">Over the first",
        ">GFLOP/s",
        ">Blocks / SMs",
        "L2",
    ];
    Section::new("winners", "The winners", "").with("", Table::new(&headings, report.cases.iter().map(row)))
}

fn causes(report: &Report) -> Section {
    let note = "Possible gains are estimates without the cause. They overlap, so they do not multiply. Confirmed: without the \
                cause, a variant that differs in one parameter gained at least half of what was expected, on a log scale. Supported: \
                several parameters changed, it gained far more, or another cause could account for it. Refuted: it gained less.";
    let section = Section::new("all-causes", "Causes of lost time, with their evidence", note);
    report.diagnoses.iter().fold(section, |section, diagnosis| {
        let of = match diagnosis.of {
            DiagnosisOf::InitialKernel => "The initial kernel",
            DiagnosisOf::BestVariant => "The winner",
        };
        let name = format!("{of} on {}: {}, iteration {}", diagnosis.case, diagnosis.family, diagnosis.iteration);
        section.with(&name, of_diagnosis(diagnosis))
    })
}

fn of_diagnosis(diagnosis: &Diagnosis) -> Table {
    let row = |one: &Diagnosed| {
        let found = &one.finding;
        let evidence: Vec<String> = found
            .evidence
            .iter()
            .map(|one| format!("{}{} ({})", if one.supports { "" } else { "against: " }, one.text, one.source.name()))
            .collect();
        vec![
            format!("{} ({})", found.cause, words::words_of(found.rule)),
            evidence.join("; "),
            gain(found.gain),
            found.confidence.name().to_owned(),
            words::tested(&found.tested),
            next(&one.next, found.kernel_change),
        ]
    };
    let headings = ["Cause", "Evidence", ">Possible gain", "Confidence", "Experiment", "Next"];
    Table::new(&headings, diagnosis.findings.iter().map(row))
}

fn next(next: &Next, kernel_change: &str) -> String {
    match next {
        Next::Try { remedy: Remedy { text, .. }, expected } => {
            let expected = expected.map(|expected| format!(" ({} expected)", times(expected))).unwrap_or_default();
            format!("{text}{expected}")
        }
        Next::Write { remedy } => remedy.text.clone(),
        Next::Tried { iteration, speedup: Some(by) } => format!("tried: iteration {iteration}, {}", times(*by)),
        Next::Tried { iteration, speedup: None } => format!("tried, not correct: iteration {iteration}"),
        Next::Nothing => format!("a new kernel could {kernel_change}"),
    }
}

fn leads(report: &Report) -> Section {
    let row = |lead: &Lead| {
        let over = match lead.over.kind {
            OverKind::FirstVariant => format!("first variant, {}", lead.over.name),
            OverKind::CommittedWinner => format!("committed winner, {}", lead.over.name),
            OverKind::Family => lead.over.name.clone(),
            OverKind::Baseline => format!("baseline, {}", lead.over.name),
        };
        vec![
            lead.case.to_string(),
            over,
            us(lead.over.us),
            shown(lead.ratio, |one| ratio(one, report.session.time_source)),
            shown(lead.over.configurations, |count| count.to_string()),
            shown(words::explanation(lead), |why| why),
            shown(lead.evidence.cause, words::words_of),
        ]
    };
    let headings = ["Case", "Over", ">Time, us", ">Ratio", ">Tried", "What differs", "What limited it"];
    let note = "The winner against what the session began with, the best variant of each other family and the fastest baseline. Above 1, the winner is faster.";
    Section::new("leads", "What the winners won against", note)
        .with("", Table::new(&headings, report.leads.iter().map(row)))
}

/// Returns the kernels whose time was divided: the initial one first.
fn divided(report: &Report) -> impl Iterator<Item = (String, &Breakdown)> {
    let first = report.first_breakdown.iter().map(|one| ("initial kernel".to_owned(), one));
    first.chain(report.cases.iter().filter_map(|case| Some((case.case.to_string(), case.breakdown.as_ref()?))))
}

fn ablations(report: &Report) -> Section {
    let kinds: Vec<Removed> =
        Removed::KINDS.into_iter().filter(|kind| divided(report).any(|(_, one)| one.share(*kind).is_some())).collect();
    let row = |(name, one): (String, &Breakdown)| {
        let shares = kinds.iter().map(|kind| one.share(*kind));
        let all = [one.share(Removed::AllKinds), one.waits(), one.share(Removed::Work)];
        let shares = shares.chain(all).map(|share| shown(share, percent));
        [name, one.family.clone(), us(one.us)].into_iter().chain(shares).collect()
    };
    let mut headings = vec!["Case".to_owned(), "Kernel".to_owned(), ">Time, us".to_owned()];
    headings.extend(kinds.iter().map(|kind| format!(">{}", kind.text())));
    headings.extend([">All kinds", ">Waits for asynchronous work", ">Launch"].map(str::to_owned));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let note = "How much less time a kernel takes without one kind of instruction, measured. Kinds that run at the same time hide each other. Launch is what is left without any work.";
    Section::new("ablations", "What the instructions cost (ablations)", note)
        .with("", Table::new(&headings, divided(report).map(row)))
}

fn hotspots(report: &Report) -> Section {
    let note = "The lines of the source from which the removed instructions come. The share is that of the line's instructions alone, where it was timed.";
    divided(report).fold(Section::new("hotspots", "Hotspots in the source", note), |section, (name, one)| {
        let lines =
            one.without.iter().flat_map(|without| without.lines.iter().map(move |line| (without.removed, line)));
        let mut lines: Vec<_> = lines.filter(|(_, line)| line.share.is_some_and(|share| share > 0.0)).collect();
        lines.sort_by(|a, b| b.1.share.unwrap_or(0.0).total_cmp(&a.1.share.unwrap_or(0.0)));
        let row = |(removed, line): (Removed, &crate::report::contract::Line)| {
            vec![
                line.line.to_string(),
                line.text.clone(),
                removed.text().to_owned(),
                line.places.to_string(),
                shown(line.share, percent),
            ]
        };
        let headings = [">Line", "Source", "Kind", ">Instructions", ">Share"];
        let heading = format!("{name}: {}, iteration {}", one.family, one.iteration);
        section.with(&heading, Table::new(&headings, lines.into_iter().take(MAX_LINES).map(row)))
    })
}

fn paths(report: &Report) -> Section {
    let note = "From one configuration of a family to another, one change at a time.";
    report.paths.iter().fold(Section::new("paths", "Paths between configurations", note), |section, path| {
        let row = |step: &crate::report::contract::PathStep| {
            let changes: Vec<String> =
                step.changes.iter().map(|one| format!("{} {} to {}", one.parameter, one.from, one.to)).collect();
            vec![step.iteration.to_string(), changes.join(", "), us(step.us), times(step.gain)]
        };
        let name = format!(
            "{} on {}, from iteration {} ({} us): {} in all",
            path.family,
            path.case,
            path.from,
            us(path.from_us),
            times(path.gain())
        );
        section.with(&name, Table::new(&[">Iteration", "Change", ">Time, us", ">Gain"], path.steps.iter().map(row)))
    })
}

fn parameters(report: &Report) -> Section {
    let row = |one: &ParameterEffect| {
        vec![
            one.family.clone(),
            format!("{} {} to {}", one.parameter, one.from, one.to),
            times(one.effect),
            either(times(one.lower_quartile), times(one.upper_quartile)),
            one.pairs.to_string(),
            one.verdict.to_owned(),
            one.about.clone(),
        ]
    };
    let headings = ["Family", "Change", ">Effect", ">Middle half", ">Pairs", "Verdict", "What it does"];
    let known = report.parameters.effects.iter().filter(|one| one.verdict != "few");
    let note = "All pairs of configurations that differ in one parameter are experiments. The effect is the median of the time before over the time after. Depends: cases disagree.";
    Section::new("parameters", "What the parameters are worth", note).with("", Table::new(&headings, known.map(row)))
}

fn scaling(report: &Report) -> Section {
    let section = Section::new("scaling", "How times grow with the size", "");
    report.scaling.iter().fold(section, |section, scaling| {
        let row = |point: &crate::report::contract::ScalingPoint| {
            let time = |of: Option<crate::report::contract::ScalingTime>| shown(of, |one| us(one.us));
            vec![
                point.case.to_string(),
                point.value.to_string(),
                times(point.work),
                time(point.first),
                time(point.best),
                shown(point.best, |one| us(one.us_per_unit)),
                shown(point.best.and_then(|one| one.blocks), |blocks| blocks.to_string()),
            ]
        };
        let headings = ["Case", ">Size", ">Work", ">First, us", ">Best, us", ">Best, us per unit", ">Blocks"];
        let name = format!("{} with {}", scaling.varies, scaling.fixed);
        section.with(&name, Table::new(&headings, scaling.points.iter().map(row)))
    })
}

/// Returns the counts of a virtual GPU for the winners.
fn counted(report: &Report) -> Table {
    let profiled = report.cases.iter().filter_map(|case| Some((case, case.profile.as_ref()?)));
    let rows = profiled.flat_map(|(case, profile)| {
        profiles::rows(profile).into_iter().map(|row| [case.case.to_string()].into_iter().chain(row).collect())
    });
    let mut headings = vec!["Case"];
    headings.extend(profiles::HEADINGS);
    Table::new(&headings, rows)
}
