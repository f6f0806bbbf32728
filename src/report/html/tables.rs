//! The tables of the details. Cells are plain text, which the templates escape.

use crate::domain::variant::{Params, show_params};
use crate::report::baseline_kernels;
use crate::report::contract::{Case, Ratio, Report, Win};
use crate::report::format::{self, NOTHING, duration, either, percent, relative_error, times, us, usd};
use crate::report::table::Table;
use crate::report::{calibration, ledger, measuring, profiles};

/// Returns the tables of a report by the names that the templates use.
pub(super) fn all(report: &Report) -> Vec<(&'static str, Table)> {
    vec![
        ("interval_table", intervals(report)),
        ("variant_table", variants(report)),
        ("measuring_table", Table::new(&measuring::HEADINGS, measuring::rows(report).into_iter().map(Vec::from))),
        ("baseline_table", baselines(report)),
        ("counted_table", counted(report)),
        ("calibration_table", kept(report)),
        ("pays_table", pays(report)),
        ("win_table", wins(report)),
        ("remeasured_table", remeasured(report)),
        ("correctness_table", correctness(report)),
        ("environment_table", environment(report)),
        ("ledger_table", sessions(report)),
    ]
}

fn shown<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), show)
}

fn range(ends: Option<[f64; 2]>, show: fn(f64) -> String) -> String {
    shown(ends, |[lo, hi]| format!("{} to {}", show(lo), show(hi)))
}

fn named(family: &str, params: &Params) -> String {
    format!("{family} {}", show_params(params))
}

fn short(hash: &str) -> String {
    hash.chars().take(10).collect()
}

fn intervals(report: &Report) -> Table {
    let source = report.session.time_source;
    let row = |case: &Case| {
        let unconfirmed = if case.best_us.is_some() && !case.confirmed { " (not confirmed)" } else { "" };
        vec![
            case.case.to_string(),
            shown(case.regime, |regime| regime.name().to_owned()),
            format!("{}{unconfirmed}", shown(case.best_us, us)),
            range(case.best_ci_us, us),
            shown(case.baseline.as_ref(), |baseline| format!("{} ({})", us(baseline.us), baseline.name)),
            measuring::ratio(case.ratio_to_baseline, source),
            shown(case.floor_us, us),
            shown(case.share_of_floor, percent),
            measuring::clocks(case),
        ]
    };
    let headings = [
        "Case",
        "Regime",
        ">Ours",
        ">Interval",
        ">Baseline",
        ">Over baseline",
        ">Floor",
        ">Share of floor",
        ">SM clock (MHz), ours / baseline",
    ];
    Table::new(&headings, report.cases.iter().map(row))
}

fn variants(report: &Report) -> Table {
    let source = report.session.time_source;
    let row = |case: &Case| {
        let variant = case.variant.as_ref();
        vec![
            case.case.to_string(),
            shown(case.start_us, us),
            measuring::ratio(case.ratio_to_start, source),
            shown(case.gflops, format::gflops),
            shown(case.share_of_peak, percent),
            format!("{} / {}", shown(case.ctas, |ctas| ctas.to_string()), case.sms),
            shown(variant, |one| format!("{} ({})", named(&one.family, &one.params), short(&one.hash))),
        ]
    };
    let headings = ["Case", ">Start", ">Over start", ">GFLOP/s", ">Share of peak", ">Blocks / SMs", "Variant"];
    Table::new(&headings, report.cases.iter().map(row))
}

fn baselines(report: &Report) -> Table {
    let rows = report.baselines.iter().map(|one| {
        vec![
            one.case.to_string(),
            one.name.clone(),
            one.regime.name().to_owned(),
            us(one.us),
            range(one.ci_us, us),
            shown(one.eager_us, us),
            shown(one.relative_l2, relative_error),
            baseline_kernels::named(&one.kernels),
        ]
    });
    Table::new(&["Case", "Baseline", "Regime", ">Graph", ">Interval", ">Eager", ">Error", "Kernels"], rows)
}

fn counted(report: &Report) -> Table {
    let profiled = report.cases.iter().filter_map(|case| Some((case, case.profile.as_ref()?)));
    let rows = profiled.flat_map(|(case, profile)| {
        profiles::rows(profile).into_iter().map(|row| {
            let mut cells = vec![case.case.to_string()];
            cells.extend(row);
            cells
        })
    });
    let mut headings = vec!["Case"];
    headings.extend(profiles::HEADINGS);
    Table::new(&headings, rows)
}

fn kept(report: &Report) -> Table {
    let score = |score: f64| format!("{score:.3}");
    let rows = report.calibration.kept.iter().map(|one| {
        let few = if one.enough { "" } else { ", too few to judge" };
        let [lo, hi] = one.coverage_ci;
        let [difference, from, to] = one.crps_difference;
        vec![
            one.kind.replace('_', " "),
            calibration::band(one),
            one.claims.to_string(),
            format!("{} ({} to {}){few}", percent(one.coverage), percent(lo), percent(hi)),
            format!("{} to {}{}", times(one.first_width), times(one.last_width), calibration::left(one.narrowed)),
            calibration::learnt_in_words(one),
            score(one.crps),
            score(one.crps_no_change),
            format!("{} ({} to {})", score(difference), score(from), score(to)),
            format!("{} of {}", one.faster, one.claims),
        ]
    });
    let headings = [
        "Kind",
        "Predicted speed-up",
        ">Claims",
        "Coverage",
        "Width, first to last",
        "Last claims, known after the first",
        ">CRPS",
        ">“No change”",
        "Difference",
        ">Faster",
    ];
    Table::new(&headings, rows)
}

fn pays(report: &Report) -> Table {
    let rows = report.calibration.pays.iter().map(|one| {
        let parameter = one.parameter.as_ref().zip(one.family.as_ref());
        vec![
            one.mechanism.name().replace('_', " "),
            parameter.map_or_else(|| "all".to_owned(), |(parameter, family)| format!("{parameter} of {family}")),
            one.tries.to_string(),
            one.faster.to_string(),
            times(one.median),
            times(one.best),
        ]
    });
    Table::new(&["Mechanism", "Parameter", ">Tries", ">Faster", ">Median", ">Best"], rows)
}

fn wins(report: &Report) -> Table {
    let source = report.session.time_source;
    let speedup = |win: &Win| {
        let alone = win.speedup.map(|estimate| Ratio { estimate, lo: None, hi: None, paired: false });
        measuring::ratio(win.ratio.or(alone), source)
    };
    let rows = report.wins.iter().map(|win| {
        vec![
            win.iteration.to_string(),
            win.case.to_string(),
            win.verdict.name().to_owned(),
            us(win.us),
            speedup(win),
            shown(win.predicted, |[lo, hi]| either(times(lo), times(hi))),
            shown(win.score, |score| score.name().replace('_', " ")),
            named(&win.variant.family, &win.variant.params),
            win.claim.clone(),
        ]
    });
    let headings =
        [">Iteration", "Case", "Verdict", ">Time", ">Speed-up", ">Predicted", "Prediction", "Variant", "Claim"];
    Table::new(&headings, rows)
}

fn remeasured(report: &Report) -> Table {
    let rows = report.remeasured.iter().map(|one| {
        let session = one.session.map(|session| format!(", session {session}")).unwrap_or_default();
        vec![
            one.iteration.to_string(),
            one.case.to_string(),
            us(one.us),
            format!("{}{session}", one.device),
            shown(one.commit.as_deref(), short),
            named(&one.variant.family, &one.variant.params),
        ]
    });
    Table::new(&[">Iteration", "Case", ">Time", "Found on", "Commit", "Variant"], rows)
}

fn correctness(report: &Report) -> Table {
    let rows = report.correctness.iter().map(|one| {
        let smaller = if one.checked_on.is_some() { " (of a smaller case: virtual.launch_gflop)" } else { "" };
        let checked = one.rows_checked.zip(one.rows);
        vec![
            one.case.to_string(),
            shown(one.relative_l2, relative_error),
            shown(one.worst_row, relative_error),
            shown(checked, |(checked, rows)| format!("{checked} of {rows}{smaller}")),
        ]
    });
    Table::new(&["Case", ">Whole output", ">Worst row", ">Rows checked"], rows)
}

fn environment(report: &Report) -> Table {
    let (found, session) = (&report.environment, &report.session);
    let or_nothing = |text: &Option<String>| text.clone().unwrap_or_else(|| NOTHING.to_owned());
    let rows = [
        ("Device", format!("{} ({}, {} SMs)", found.device, found.arch, found.sms)),
        ("Driver, NVRTC", format!("{}, {}", or_nothing(&found.driver), found.nvrtc)),
        ("PyTorch", or_nothing(&found.torch)),
        ("Host", found.host.clone()),
        ("optloop", format!("{}, proposer {}, seed {}", found.optloop, session.proposer, session.seed)),
        ("Ceilings", found.peaks_source.clone()),
    ];
    Table::new(&["What", "Which"], rows.map(|(what, which)| vec![what.to_owned(), which]))
}

fn sessions(report: &Report) -> Table {
    let mut rows: Vec<Vec<String>> = report
        .cost
        .ledger
        .iter()
        .map(|row| {
            vec![
                row.session.to_string(),
                row.workload.clone(),
                shown(row.wall_s, duration),
                usd(row.cost.gpu_usd),
                usd(row.cost.llm_usd),
                usd(row.cost.total_usd()),
                ledger::result(row),
            ]
        })
        .collect();
    let all = report.cost.cumulative;
    let total =
        [String::new(), "all".to_owned(), String::new(), usd(all.gpu_usd), usd(all.llm_usd), usd(all.total_usd())];
    rows.push(total.into_iter().chain([String::new()]).collect());
    let headings = [">Session", "Workload", ">Time", ">GPU", ">Language models", ">Total", "Result"];
    Table::new(&headings, rows)
}
