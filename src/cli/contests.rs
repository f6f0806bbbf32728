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
        "{rounds} rounds, samples of a block: {}; {} more rounds thrown away because the GPU was throttled; {noise}",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::{contest, entrant};

    #[test]
    fn a_contest_is_shown_with_every_entrant_and_its_noise() {
        let entrants = vec![
            entrant(Role::Challenger, "tiled e2935da259", Some(2), 80.0),
            entrant(Role::Twin, "tiled e2935da259", Some(2), 80.0),
            entrant(Role::Incumbent, "tiled 9c0d3a1f22", Some(1), 100.0),
            entrant(Role::Baseline, "torch sdpa (flash)", None, 90.0),
        ];
        let mut out = Vec::new();
        print(&contest("b1h1s128", entrants), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"

        Contest on b1h1s128 (warm L2):
        role        what                iteration      µs  interval          samples  over the challenger       error  SM MHz   W  °C      mJ
        challenger  tiled e2935da259            2   84.21  82.20 to 86.79         12  -                        1.0e-4    1980  72  64  250.00
        twin        tiled e2935da259            2   84.19  82.19 to 87.01         12  1.002× (0.996 to 1.003)  1.0e-4    1980  72  64  250.00
        incumbent   tiled 9c0d3a1f22            1  105.48  102.25 to 108.72       12  1.256× (1.241 to 1.256)  1.0e-4    1980  72  64  250.00
        baseline    torch sdpa (flash)          -   95.16  92.24 to 97.40         12  1.122× (1.122 to 1.136)       -    1980  72  64       -
        12 rounds, samples of a block: 1; 2 more rounds thrown away because the GPU was throttled; noise 0.38% (the challenger over its twin)
        From screening to here the challenger's time changed by +6.2%
        The floor is 1.000 µs, 1.2% of the challenger's time
        Other processes were on the GPU: python3 (process 4242, 512 MiB)
        ");
    }
}
