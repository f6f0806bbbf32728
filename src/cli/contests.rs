//! Contests as people read them on the command line.

use std::io::{self, Write};

use super::table::{Table, figure};
use crate::domain::contest::{Contest, Entrant, Role};
use crate::domain::machine::MachineSummary;
use crate::report::format;

/// Prints the contest of a case: a row an entrant, and what there is to know of the whole.
pub(super) fn print(contest: &Contest, out: &mut impl Write) -> io::Result<()> {
    let conditions = &contest.conditions;
    writeln!(out, "\nContest on {} ({} L2):", conditions.case, conditions.regime.name())?;
    let mut table = Table::new(&[
        "role",
        "what",
        ">iteration",
        ">µs",
        "interval",
        ">samples",
        "over the challenger",
        ">error",
        ">SM MHz",
        ">W",
        ">°C",
        ">mJ",
    ]);
    for (place, entrant) in contest.entrants.iter().enumerate() {
        // Over itself the challenger is 1, which says nothing.
        let ratio = if place == 0 { None } else { contest.over_challenger(entrant) };
        let [clock, power, heat] = machine(entrant.machine.as_ref());
        let Entrant { role, name, iteration, timing, correctness, energy_j, .. } = entrant;
        let us = |ns: f64| format::us(ns / 1000.0);
        table.row([
            role.name().to_owned(),
            name.clone(),
            figure(*iteration, |iteration| iteration.to_string()),
            us(timing.median_ns),
            format!("{} to {}", us(timing.interval_ns.lo), us(timing.interval_ns.hi)),
            timing.samples_ns.len().to_string(),
            figure(ratio, |ratio| format::ratio(ratio.estimate, ratio.interval.lo, ratio.interval.hi)),
            figure(*correctness, |found| format::relative_error(found.relative_l2)),
            clock,
            power,
            heat,
            figure(*energy_j, |joules| format::us(joules * 1000.0)),
        ]);
    }
    table.print(out)?;
    for note in notes(contest) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn machine(summary: Option<&MachineSummary>) -> [String; 3] {
    let rounded = |value: Option<f64>| figure(value, |value| format!("{value:.0}"));
    [
        rounded(summary.and_then(|summary| summary.sm_clock_mhz)),
        rounded(summary.and_then(|summary| summary.power_w)),
        figure(summary.and_then(|summary| summary.temperature_c), |celsius| celsius.to_string()),
    ]
}

/// Says what there is to know of a contest beside its rows.
fn notes(contest: &Contest) -> Vec<String> {
    let rounds = contest.challenger().map_or(0, |challenger| challenger.blocks_ns.len());
    let noise = match contest.against(Role::Twin) {
        Some(_) => format!("noise {} (the challenger over its twin)", format::percent(contest.noise())),
        None => "no A/A control".to_owned(),
    };
    let mut notes = vec![format!(
        "{rounds} rounds of {} samples each, {} more thrown away because the GPU was throttled; {noise}",
        contest.block, contest.discarded_rounds
    )];
    let change = contest.shrinkage.map(format::change);
    notes.extend(change.map(|change| format!("From screening to here the challenger's time changed by {change}")));
    let floor = contest.floor_ns.zip(contest.challenger());
    notes.extend(floor.map(|(floor_ns, challenger)| {
        let share = format::percent(floor_ns / challenger.timing.median_ns);
        format!("The floor is {} µs, {share} of the challenger's time", format::us(floor_ns / 1000.0))
    }));
    if !contest.others.is_empty() {
        notes.push(format!("Other processes were on the GPU: {}", contest.others.join(", ")));
    }
    notes
}
