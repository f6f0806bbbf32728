//! Contests as people read them on the command line.

use std::io::{self, Write};

use super::table::{Table, figure};
use crate::domain::conditions::{Figure, compare};
use crate::domain::contest::{Contest, Entrant, Role};
use crate::domain::machine::MachineSummary;
use crate::domain::statistics::Ratio;
use crate::report::format;

/// Prints a contest: a row an entrant, and what there is to know of the whole.
pub(super) fn print(contest: &Contest, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "role",
        "what",
        ">iteration",
        ">µs",
        "interval",
        ">samples",
        "over the challenger",
        "challenger is",
        ">share of floor",
        ">error",
        ">SM MHz",
        ">W",
        ">°C",
        ">mJ",
    ]);
    for entrant in &contest.entrants {
        let ratio = over_challenger(contest, entrant);
        let [clock, power, heat] = machine(entrant.machine.as_ref());
        let Entrant { role, name, iteration, timing, correctness, energy_j, .. } = entrant;
        let us = |ns: f64| format::us(ns / 1000.0);
        table.row([
            role.name().to_owned(),
            name.clone(),
            figure(*iteration, |iteration| iteration.to_string()),
            us(timing.median_ns),
            figure(timing.shown_interval_ns(), |shown| format!("{} to {}", us(shown.lo), us(shown.hi))),
            timing.samples_ns.len().to_string(),
            figure(ratio, |ratio| format::ratio(ratio.estimate, ratio.interval.lo, ratio.interval.hi)),
            figure(challenger_is(contest, entrant), str::to_owned),
            figure(contest.floor_ns, |floor_ns| format::percent(floor_ns / timing.median_ns)),
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

/// Returns an entrant's time over the challenger's: paired, or the quotient of two modelled times. Over itself the challenger
/// is 1, which says nothing.
pub(super) fn over_challenger(contest: &Contest, entrant: &Entrant) -> Option<Ratio> {
    let challenger = contest.challenger().filter(|_| entrant.role != Role::Challenger)?;
    if !is_modelled_alone(contest) {
        return contest.over_challenger(entrant);
    }
    let figure = |of: &Entrant| Figure {
        conditions: contest.conditions.clone(),
        name: of.name.clone(),
        timing: of.timing.clone(),
    };
    compare(&figure(challenger), &figure(entrant)).ok()
}

/// Returns what the challenger is beside an entrant, beyond the noise.
pub(super) fn challenger_is(contest: &Contest, entrant: &Entrant) -> Option<&'static str> {
    let ratio = over_challenger(contest, entrant)?;
    let (beats, loses) = match is_modelled_alone(contest) {
        true => (ratio.estimate > 1.0, ratio.estimate < 1.0),
        false => (contest.beats(entrant), contest.loses_to(entrant)),
    };
    Some(match (beats, loses) {
        (true, _) => "faster",
        (false, true) => "slower",
        (false, false) => "tied",
    })
}

/// Tells whether the times were computed one by one, so that nothing was sampled in turns.
fn is_modelled_alone(contest: &Contest) -> bool {
    contest.block == 0
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
    let mut notes = vec![if is_modelled_alone(contest) {
        "These times are modelled one by one, without noise".to_owned()
    } else {
        let rounds = contest.challenger().map_or(0, |challenger| challenger.blocks_ns.len());
        let noise = match contest.against(Role::Twin) {
            Some(_) => format!("noise {} (the challenger over its twin)", format::percent(contest.noise())),
            None => "no A/A control".to_owned(),
        };
        format!(
            "{rounds} rounds, samples of a block: {}; {} more rounds thrown away because the GPU was throttled; {noise}",
            contest.block, contest.discarded_rounds
        )
    }];
    let change = contest.shrinkage.map(format::change);
    notes.extend(change.map(|change| format!("From screening to here the challenger's time changed by {change}")));
    let floor = contest.floor_ns.zip(contest.challenger());
    notes.extend(floor.map(|(floor_ns, challenger)| {
        let share = format::percent(floor_ns / challenger.timing.median_ns);
        format!("The floor is {} µs, {share} of the challenger's time", format::us(floor_ns / 1000.0))
    }));
    if contest.below_floor() {
        notes.push("The challenger is faster than its floor: an error of the measurement, and no time".to_owned());
    }
    if !contest.others.is_empty() {
        notes.push(format!("Other processes were on the GPU: {}", contest.others.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::store::testing::{contest, entrant};

    #[test]
    fn a_contest_is_shown_with_every_entrant_and_its_noise() {
        let entrants = vec![
            entrant(Role::Challenger, "tiled e2935da259", Some(IterationId(2)), 80.0),
            entrant(Role::Twin, "tiled e2935da259", Some(IterationId(2)), 80.0),
            entrant(Role::Incumbent, "tiled 9c0d3a1f22", Some(IterationId(1)), 100.0),
            entrant(Role::Baseline, "torch sdpa (flash)", None, 90.0),
        ];
        let mut out = Vec::new();
        print(&contest("b1h1s128", entrants), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"
        role        what                iteration      µs  interval          samples  over the challenger      challenger is  share of floor   error  SM MHz   W  °C      mJ
        challenger  tiled e2935da259            2   84.21  82.20 to 86.79         12  -                        -                        1.2%  1.0e-4    1980  72  64  250.00
        twin        tiled e2935da259            2   84.19  82.19 to 87.01         12  1.002× (0.996 to 1.003)  tied                     1.2%  1.0e-4    1980  72  64  250.00
        incumbent   tiled 9c0d3a1f22            1  105.48  102.25 to 108.72       12  1.256× (1.241 to 1.256)  faster                  0.95%  1.0e-4    1980  72  64  250.00
        baseline    torch sdpa (flash)          -   95.16  92.24 to 97.40         12  1.122× (1.122 to 1.136)  faster                   1.1%       -    1980  72  64       -
        12 rounds, samples of a block: 1; 2 more rounds thrown away because the GPU was throttled; noise 0.38% (the challenger over its twin)
        From screening to here the challenger's time changed by +6.2%
        The floor is 1.000 µs, 1.2% of the challenger's time
        Other processes were on the GPU: python3 (process 4242, 512 MiB)
        ");
    }
}
