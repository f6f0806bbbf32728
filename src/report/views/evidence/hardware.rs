//! What hardware counters and a virtual GPU counted.

use super::{Section, counted, shown};
use crate::domain::code::counters::LaunchCounters;
use crate::report::contract::{Case, Lead, OverKind, Report};
use crate::report::views::format::us;
use crate::report::views::table::Table;
use crate::report::views::words;

pub(super) fn counters(report: &Report) -> Section {
    let section = Section::new("counters", "Counters", "");
    let shortcuts = report.cases.iter().filter_map(|case| Some((&case.case, case.profile.as_ref()?.shortcuts()?)));
    let items = shortcuts.map(|(case, shortcuts)| format!("{case} was not executed in full: {shortcuts}.")).collect();
    Section { items, ..section }
        .with("Hardware counters of the winners", winners(report))
        .with("Where the cycles of slower and faster kernels go, theirs then ours", leads(report))
        .with("What a virtual GPU counted for the winners", counted(report))
}

fn winners(report: &Report) -> Table {
    let pct = |value: Option<f64>| shown(value, |value| format!("{value:.0}%"));
    let row = |case: &Case, launch: &LaunchCounters| {
        vec![
            case.case.to_string(),
            launch.kernel.clone(),
            shown(launch.time_ns, |ns| us(ns / 1e3)),
            pct(launch.tensor_pct),
            pct(launch.fma_pct),
            pct(launch.issue_pct),
            pct(launch.l2_pct),
            pct(launch.dram_pct),
            shown(launch.first_stall(), |(state, _)| state.to_owned()),
        ]
    };
    let counted = report.cases.iter().filter_map(|case| Some((case, case.counters.as_ref()?)));
    let rows = counted.flat_map(|(case, counters)| counters.launches.iter().map(move |launch| row(case, launch)));
    let headings =
        ["Case", "Kernel", ">Profiled, us", ">Tensor", ">FMA", ">Issue", ">L2", ">Memory", "Warps wait most for"];
    Table::new(&headings, rows)
}

fn leads(report: &Report) -> Table {
    let rows = report.leads.iter().filter_map(|lead| Some((lead, lead.evidence.cycles.as_ref()?)));
    let rows = rows.flat_map(|(lead, cycles)| {
        cycles.parts.iter().map(move |part| {
            vec![
                lead.case.to_string(),
                named(lead),
                words::doing(part).to_owned(),
                format!("{:.0}", part.other),
                format!("{:.0}", part.winner),
            ]
        })
    });
    Table::new(&["Case", "Over", "Cycles", ">Theirs", ">Ours"], rows)
}

fn named(lead: &Lead) -> String {
    match lead.over.kind {
        OverKind::Baseline => lead.over.name.clone(),
        _ => format!("{}, iteration {}", lead.over.name, shown(lead.over.iteration, |id| id.to_string())),
    }
}
