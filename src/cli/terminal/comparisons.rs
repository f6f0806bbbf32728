//! Prints comparisons on the command line.

use std::io::{self, Write};

use crate::cli::terminal::table::{Table, figure};
use crate::domain::device::machine::MachineSummary;
use crate::domain::measurement::comparison::{Comparison, Participant, Role};
use crate::domain::measurement::conditions::{RecordedTime, compare};
use crate::domain::statistics::Ratio;
use crate::report::format;

/// Prints a comparison: a row for each participant, and notes on the whole.
pub fn print(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    table(comparison).print(out)?;
    for note in notes(comparison) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// Returns a row for each participant of a comparison.
pub fn table(comparison: &Comparison) -> Table {
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
    for participant in &comparison.participants {
        let ratio = over_challenger(comparison, participant);
        let [clock, power, heat] = machine(participant.machine.as_ref());
        let Participant { role, name, iteration, timing, correctness, energy_j, .. } = participant;
        let us = |ns: f64| format::us(ns / 1000.0);
        table.row([
            role.name().to_owned(),
            name.clone(),
            figure(*iteration, |iteration| iteration.to_string()),
            us(timing.median_ns),
            figure(timing.shown_interval_ns(), |shown| format!("{} to {}", us(shown.lo), us(shown.hi))),
            timing.samples_ns.len().to_string(),
            figure(ratio, |ratio| format::ratio(ratio.estimate, ratio.interval.lo, ratio.interval.hi)),
            figure(challenger_is(comparison, participant), str::to_owned),
            figure(comparison.floor_ns, |floor_ns| format::percent(floor_ns / timing.median_ns)),
            figure(*correctness, |found| format::relative_error(found.relative_l2)),
            clock,
            power,
            heat,
            figure(*energy_j, |joules| format::us(joules * 1000.0)),
        ]);
    }
    table
}

/// Returns a participant's time over the challenger's: paired, or the quotient of two modelled times. The challenger's
/// own ratio is always 1, so it is None.
pub fn over_challenger(comparison: &Comparison, participant: &Participant) -> Option<Ratio> {
    let challenger = comparison.challenger().filter(|_| participant.role != Role::Challenger)?;
    if !is_modelled_alone(comparison) {
        return comparison.over_challenger(participant);
    }
    let figure = |of: &Participant| RecordedTime {
        conditions: comparison.conditions.clone(),
        name: of.name.clone(),
        timing: of.timing.clone(),
    };
    compare(&figure(challenger), &figure(participant)).ok()
}

/// Returns how the challenger compares with a participant, beyond the noise: faster, tied or slower.
pub fn challenger_is(comparison: &Comparison, participant: &Participant) -> Option<&'static str> {
    let ratio = over_challenger(comparison, participant)?;
    let (beats, loses) = match is_modelled_alone(comparison) {
        true => (ratio.estimate > 1.0, ratio.estimate < 1.0),
        false => (comparison.beats(participant), comparison.loses_to(participant)),
    };
    Some(match (beats, loses) {
        (true, _) => "faster",
        (false, true) => "slower",
        (false, false) => "tied",
    })
}

/// Returns whether the times were computed one by one, rather than sampled in turns.
fn is_modelled_alone(comparison: &Comparison) -> bool {
    comparison.group_size == 0
}

fn machine(summary: Option<&MachineSummary>) -> [String; 3] {
    let rounded = |value: Option<f64>| figure(value, |value| format!("{value:.0}"));
    [
        rounded(summary.and_then(|summary| summary.sm_clock_mhz)),
        rounded(summary.and_then(|summary| summary.power_w)),
        figure(summary.and_then(|summary| summary.temperature_c), |celsius| celsius.to_string()),
    ]
}

/// Returns a sentence on the state of the graphs. None if no participant reports it.
fn control(comparison: &Comparison) -> Option<String> {
    let us = |ns: f64| format!("{:.2} µs", ns / 1e3);
    let challenger_ns = comparison.challenger()?.graph_node_ns?;
    let baseline = comparison.participants.iter().find(|one| one.role == Role::Baseline);
    let beside = baseline.map(|baseline| match baseline.graph_node_ns {
        Some(ns) => format!(" and {} in the baseline's", us(ns)),
        None => "; the baseline does not report the state of its graphs".to_owned(),
    });
    let (ns, beside) = (us(challenger_ns), beside.unwrap_or_default());
    Some(format!("An empty kernel takes {ns} as a node of a graph in the challenger's process{beside}"))
}

/// Returns a sentence on a rival that is wrong, or timed by other means than the challenger.
fn of_rival(comparison: &Comparison, rival: &Participant) -> Option<String> {
    let Participant { name, role, wrong, .. } = rival;
    let mut said: Vec<String> = wrong.iter().map(|why| format!("{name} is wrong: {why}")).collect();
    if *role == Role::RivalByCall {
        let how = match comparison.has(Role::ChallengerByCall) {
            true => "so its calls are compared with those of the challenger's exported op",
            false => "and the challenger was not timed by call, so the two are not compared",
        };
        said.push(format!("{name} cannot be captured in a graph, {how}"));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// Returns the notes on a comparison, beside its rows.
pub fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = vec![if is_modelled_alone(comparison) {
        "These times are modelled separately, without noise".to_owned()
    } else {
        let rounds = comparison.challenger().map_or(0, |challenger| challenger.groups_ns.len());
        let noise = match comparison.against(Role::Control) {
            Some(_) => format!("noise {} (the challenger over its A/A control)", format::percent(comparison.noise())),
            None => "no A/A control".to_owned(),
        };
        format!(
            "{rounds} rounds, group size {}; {} more rounds discarded, in which the GPU or its graphs were in another \
             state; {noise}",
            comparison.group_size, comparison.discarded_rounds
        )
    }];
    notes.extend(control(comparison));
    notes.extend(comparison.participants.iter().filter_map(|one| of_rival(comparison, one)));
    let change = comparison.winners_curse.map(format::change);
    notes.extend(
        change.map(|change| {
            format!("From its screening run to this comparison, the challenger's time changed by {change}")
        }),
    );
    let floor = comparison.floor_ns.zip(comparison.challenger());
    notes.extend(floor.map(|(floor_ns, challenger)| {
        let share = format::percent(floor_ns / challenger.timing.median_ns);
        format!("The floor is {} µs, {share} of the challenger's time", format::us(floor_ns / 1000.0))
    }));
    if comparison.below_floor() {
        notes.push("The challenger is faster than its floor, so the measurement is wrong".to_owned());
    }
    if !comparison.others.is_empty() {
        notes.push(format!("Other processes used the GPU: {}", comparison.others.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::store::testing::{comparison, participant};

    #[test]
    fn a_comparison_is_shown_with_every_participant_and_its_noise() {
        let participants = vec![
            participant(Role::Challenger, "tiled e2935da259", Some(IterationId(2)), 80.0),
            participant(Role::Control, "tiled e2935da259", Some(IterationId(2)), 80.0),
            participant(Role::Incumbent, "tiled 9c0d3a1f22", Some(IterationId(1)), 100.0),
            participant(Role::Baseline, "torch sdpa (flash)", None, 90.0),
        ];
        let mut out = Vec::new();
        print(&comparison("b1h1s128", participants), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"
        role        what                iteration      µs  interval          samples  over the challenger      challenger is  share of floor   error  SM MHz   W  °C      mJ
        challenger  tiled e2935da259            2   84.21  82.20 to 86.79         12  -                        -                        1.2%  1.0e-4    1980  72  64  250.00
        control     tiled e2935da259            2   84.19  82.19 to 87.01         12  1.002× (0.996 to 1.003)  tied                     1.2%  1.0e-4    1980  72  64  250.00
        incumbent   tiled 9c0d3a1f22            1  105.48  102.25 to 108.72       12  1.256× (1.241 to 1.256)  faster                  0.95%  1.0e-4    1980  72  64  250.00
        baseline    torch sdpa (flash)          -   95.16  92.24 to 97.40         12  1.122× (1.122 to 1.136)  faster                   1.1%       -    1980  72  64       -
        12 rounds, group size 1; 2 more rounds discarded, in which the GPU or its graphs were in another state; noise 0.38% (the challenger over its A/A control)
        An empty kernel takes 0.71 µs as a node of a graph in the challenger's process; the baseline does not report the state of its graphs
        From its screening run to this comparison, the challenger's time changed by +6.2%
        The floor is 1.000 µs, 1.2% of the challenger's time
        Other processes used the GPU: python3 (process 4242, 512 MiB)
        ");
    }
}
