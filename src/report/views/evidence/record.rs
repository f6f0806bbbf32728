//! What was measured, checked and spent.

use super::{Section, short, shown};
use crate::domain::code::launched::LaunchedKernel;
use crate::domain::text::counted::counted;
use crate::domain::variant::show_params;
use crate::report::contract::{
    Case, Comparison, Exactness, Excluded, LedgerRow, NearTie, Remeasured, Report, TimedBaseline, Win,
};
use crate::report::views::case_table::ratio;
use crate::report::views::format::{self, NOTHING, duration, either, percent, relative_error, times, us, usd};
use crate::report::views::table::Table;
use crate::report::views::{ledger, markdown};

/// The most kernels of a baseline to name, and the most letters of a name.
const MAX_KERNELS: usize = 3;
const MAX_NAME: usize = 60;

fn range(ends: Option<[f64; 2]>, show: fn(f64) -> String) -> String {
    shown(ends, |[lo, hi]| either(show(lo), show(hi)))
}

pub(super) fn baselines(report: &Report) -> Section {
    let row = |one: &TimedBaseline| {
        vec![
            one.case.to_string(),
            one.name.clone(),
            us(one.us),
            range(one.ci_us, us),
            shown(one.eager_us, us),
            shown(one.relative_l2, relative_error),
            kernels(&one.kernels),
        ]
    };
    let headings = ["Case", "Baseline", ">In a graph, us", ">Interval", ">Eager", ">Error", "Kernels (blocks)"];
    Section::new("baselines", "Baselines", "").with("", Table::new(&headings, report.baselines.iter().map(row)))
}

/// Names the kernels of a call with their blocks: `flash_fwd_kernel (32)`. A dash if they are not known.
fn kernels(of: &[LaunchedKernel]) -> String {
    let one = |kernel: &LaunchedKernel| {
        let name = kernel.short_name();
        format!("{} ({})", name.chars().take(MAX_NAME).collect::<String>(), kernel.blocks())
    };
    let told: Vec<String> = of.iter().take(MAX_KERNELS).map(one).collect();
    match of.len() {
        0 => NOTHING.to_owned(),
        all if all > MAX_KERNELS => format!("{} and {} more", told.join(", "), all - MAX_KERNELS),
        _ => told.join(", "),
    }
}

pub(super) fn measuring(report: &Report) -> Section {
    let compared = report.cases.iter().filter_map(|case| Some((case, case.comparison.as_ref()?)));
    let headings = [
        "Case",
        "Held as",
        ">Rounds",
        ">Samples",
        ">Noise (A/A)",
        ">Interval, us",
        ">SM clock (MHz)",
        ">Power (W)",
        "Throttled by",
        ">Energy (mJ)",
        ">Graph node (ns), ours / baseline",
    ];
    let mut section = Section::new("measuring", "How the times were measured", "")
        .with("", Table::new(&headings, compared.clone().map(|(case, comparison)| held(case, comparison))));
    section.items.extend(report.winners_curse.map(|curse| {
        format!(
            "From screening to the comparison, the times of {} changed by {} in the median and {} at worst.",
            counted(curse.winners as usize, "winner"),
            format::change(curse.median),
            format::change(curse.worst)
        )
    }));
    section.items.extend(compared.filter_map(|(case, comparison)| by_final(case, comparison)));
    section
}

fn held(case: &Case, comparison: &Comparison) -> Vec<String> {
    let machine = comparison.machine.as_ref();
    let both = |ours: Option<f64>, theirs: Option<f64>, show: fn(f64) -> String| match (ours, theirs) {
        (None, None) => NOTHING.to_owned(),
        (ours, theirs) => format!("{} / {}", shown(ours, show), shown(theirs, show)),
    };
    let discarded = if comparison.discarded_rounds > 0 {
        format!(" ({} discarded)", comparison.discarded_rounds)
    } else {
        String::new()
    };
    vec![
        case.case.to_string(),
        comparison.kind.to_owned(),
        format!("{}{discarded}", comparison.rounds),
        comparison.samples.to_string(),
        shown(comparison.noise, percent),
        range(case.best_ci_us, us),
        shown(machine.and_then(|one| one.sm_clock_range_mhz), |[lo, hi]| either(lo.to_string(), hi.to_string())),
        shown(machine.and_then(|one| one.power_w), |power| format!("{power:.0}")),
        machine.map_or_else(
            || NOTHING.to_owned(),
            |one| {
                let reasons: Vec<_> = one.throttle.iter().map(|reason| reason.name()).collect();
                if reasons.is_empty() { "nothing".to_owned() } else { reasons.join(", ") }
            },
        ),
        both(comparison.energy_j, comparison.baseline_energy_j, |joules| us(joules * 1000.0)),
        both(comparison.graph_node_ns, comparison.baseline_graph_node_ns, |ns| format!("{ns:.0}")),
    ]
}

/// Says which near ties a final settled.
fn by_final(case: &Case, comparison: &Comparison) -> Option<String> {
    let tie = |one: &NearTie| {
        let who = one.iteration.map_or_else(|| one.name.clone(), |iteration| format!("iteration {iteration}"));
        format!("{who} {}", shown(one.ratio, |ratio| times(ratio.estimate)))
    };
    let ties: Vec<String> = comparison.near_ties.iter().map(tie).collect();
    let best = shown(case.iteration, |iteration| iteration.to_string());
    (!ties.is_empty()).then(|| {
        format!("The final of {} left iteration {best} as the best; its time over: {}.", case.case, ties.join(", "))
    })
}

pub(super) fn results(report: &Report) -> Section {
    let source = report.session.time_source;
    let win = |one: &Win| {
        let speedup = one.ratio.map(|found| ratio(found, source)).or_else(|| one.speedup.map(times));
        vec![
            one.iteration.to_string(),
            one.case.to_string(),
            one.verdict.name().to_owned(),
            us(one.us),
            shown(speedup, |text| text),
            shown(one.predicted, |[lo, hi]| either(times(lo), times(hi))),
            format!("{} {}", one.variant.family, show_params(&one.variant.params)),
            one.claim.clone(),
        ]
    };
    let again = |one: &Remeasured| {
        vec![
            one.iteration.to_string(),
            one.case.to_string(),
            us(one.us),
            one.device.clone(),
            shown(one.commit.as_deref(), short),
            format!("{} {}", one.variant.family, show_params(&one.variant.params)),
        ]
    };
    let exact = |one: &Exactness| {
        let smaller = if one.checked_on.is_some() { " (of a smaller case: virtual.launch_gflop)" } else { "" };
        let rows = one.rows_checked.zip(one.rows);
        vec![
            one.case.to_string(),
            shown(one.relative_l2, relative_error),
            shown(one.worst_row, relative_error),
            shown(rows, |(checked, rows)| format!("{checked} of {rows}{smaller}")),
        ]
    };
    let excluded = |one: &Excluded| {
        let cases: Vec<&str> = one.cases.iter().map(|case| case.as_str()).collect();
        let cases = if one.all { "all cases".to_owned() } else { cases.join(", ") };
        vec![one.family.clone(), cases, one.why.join("; ")]
    };
    let left_out = report.left_out.iter().map(|one| vec![one.family.clone(), one.reason.clone()]);
    Section::new("results", "Wins, checks and families", "")
        .with(
            "Wins",
            Table::new(
                &[">Iteration", "Case", "Verdict", ">Time, us", ">Speed-up", ">Predicted", "Variant", "Claim"],
                report.wins.iter().map(win),
            ),
        )
        .with(
            "Committed winners that were measured again",
            Table::new(
                &[">Iteration", "Case", ">Time, us", "Found on", "Commit", "Variant"],
                report.remeasured.iter().map(again),
            ),
        )
        .with(
            "Errors against float64",
            Table::new(
                &["Case", ">Whole output", ">Worst row", ">Rows checked"],
                report.correctness.iter().filter(|one| one.relative_l2.is_some()).map(exact),
            ),
        )
        .with("Wrong or cheating variants, by the check that caught them", counts(report))
        .with(
            "Families that cannot compute cases",
            Table::new(&["Family", "Cases", "Why"], report.excluded.iter().map(excluded)),
        )
        .with("Families that were left out because they are broken", Table::new(&["Family", "Why"], left_out))
}

fn counts(report: &Report) -> Table {
    let rows = report.caught.iter().map(|(check, count)| vec![(*check).to_owned(), count.to_string()]);
    Table::new(&["Check", ">Variants"], rows)
}

pub(super) fn environment(report: &Report) -> Section {
    let (found, session) = (&report.environment, &report.session);
    let or_nothing = |text: &Option<String>| text.clone().unwrap_or_else(|| NOTHING.to_owned());
    let outcomes: Vec<String> = report
        .iterations
        .iter()
        .filter(|(name, count)| **name != "total" && **count > 0)
        .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
        .collect();
    let rows = [
        (
            "Session",
            format!(
                "started {}, budget {}, resumed {} times",
                session.started_at,
                duration(session.budget_s),
                session.resumptions
            ),
        ),
        ("Iterations", outcomes.join(", ")),
        ("Left out before compilation", report.suggestions_left_out.to_string()),
        ("Device", format!("{} ({}, {} SMs)", found.device, found.arch, found.sms)),
        ("Driver, NVRTC", format!("{}, {}", or_nothing(&found.driver), found.nvrtc)),
        ("PyTorch", or_nothing(&found.torch)),
        ("Host", found.host.clone()),
        ("optloop", format!("{}, proposer {}, seed {}", found.optloop, session.proposer, session.seed)),
        ("Peaks", found.peaks_source.clone()),
    ];
    let rows = rows.into_iter().chain(found.oracle_on.clone().map(|place| ("Oracle on", place)));
    let phases = report.phases.iter().flat_map(|phases| &phases.rows).map(|row| {
        vec![markdown::phase(row.phase).to_owned(), duration(row.seconds), percent(row.share), usd(row.usd)]
    });
    let spent = |row: &LedgerRow| {
        vec![
            row.session.to_string(),
            row.workload.clone(),
            shown(row.wall_s, duration),
            usd(row.cost.total_usd()),
            ledger::result(row),
        ]
    };
    Section::new("record", "Environment, phases and ledger", "")
        .with("", Table::new(&["What", "Which"], rows.map(|(what, which)| vec![what.to_owned(), which])))
        .with("Phases", Table::new(&["Phase", ">Time", ">Share", ">Cost of the GPU"], phases))
        .with(
            "All sessions so far",
            Table::new(&[">Session", "Workload", ">Time", ">Cost", "Result"], report.cost.ledger.iter().map(spent)),
        )
}
