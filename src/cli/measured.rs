//! A contest as people and programs read it: the same for `bench` and `reproduce`.

use std::io::{self, Write};

use serde::Serialize;

use super::table::{Table, figure};
use crate::domain::conditions::{Figure, compare};
use crate::domain::contest::{Contest, Entrant, Ratio, Role};
use crate::domain::device::TimeSource;
use crate::domain::machine::MachineSummary;
use crate::domain::regime::Regime;
use crate::report::format;

/// What a contest found, for programs. docs/bench.md describes it.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    workload: String,
    case: String,
    dims: crate::domain::op::Dims,
    dtype: &'static str,
    device: String,
    regime: Regime,
    time_source: TimeSource,
    /// Which of the repeats it is, from 1.
    repeat: usize,
    floor_us: Option<f64>,
    /// A ratio that differs from 1 by less is none. Null where there was no A/A control.
    noise: Option<f64>,
    block: usize,
    discarded_rounds: usize,
    /// Other processes on the GPU.
    others: Vec<String>,
    entrants: Vec<FoundEntrant>,
}

/// One side of a contest, for programs.
#[derive(Debug, Serialize)]
struct FoundEntrant {
    role: Role,
    name: String,
    iteration: Option<i64>,
    median_us: f64,
    ci_us: [f64; 2],
    samples: usize,
    launches_per_sample: u32,
    /// Its time over the challenger's: above 1, the challenger is the faster. Null for the challenger.
    ratio: Option<f64>,
    ratio_ci: Option<[f64; 2]>,
    /// What the challenger is beside it, beyond the noise.
    challenger_is: Option<&'static str>,
    /// Floor over time.
    share_of_floor: Option<f64>,
    machine: Option<MachineSummary>,
    energy_j: Option<f64>,
    relative_l2: Option<f64>,
    worst_row: Option<f64>,
}

impl Found {
    /// Takes over what a contest found.
    pub(super) fn of(contest: &Contest, repeat: usize) -> Self {
        let conditions = contest.conditions.clone();
        Self {
            workload: conditions.workload,
            case: conditions.case,
            dims: conditions.dims,
            dtype: conditions.dtype.name(),
            device: conditions.device,
            regime: conditions.regime,
            time_source: conditions.time_source,
            repeat,
            floor_us: contest.floor_ns.map(|ns| ns / 1e3),
            noise: contest.against(Role::Twin).map(|_| contest.noise()),
            block: contest.block,
            discarded_rounds: contest.discarded_rounds,
            others: contest.others.clone(),
            entrants: contest.entrants.iter().map(|entrant| FoundEntrant::of(contest, entrant)).collect(),
        }
    }
}

impl FoundEntrant {
    fn of(contest: &Contest, entrant: &Entrant) -> Self {
        let ratio = ratio(contest, entrant);
        let Entrant { role, name, iteration, timing, correctness, machine, energy_j, .. } = entrant;
        Self {
            role: *role,
            name: name.clone(),
            iteration: *iteration,
            median_us: timing.median_ns / 1e3,
            ci_us: [timing.interval_ns.lo / 1e3, timing.interval_ns.hi / 1e3],
            samples: timing.samples_ns.len(),
            launches_per_sample: timing.launches_per_sample,
            ratio: ratio.map(|ratio| ratio.estimate),
            ratio_ci: ratio.map(|ratio| [ratio.interval.lo, ratio.interval.hi]),
            challenger_is: challenger_is(contest, entrant),
            share_of_floor: contest.floor_ns.map(|floor_ns| floor_ns / timing.median_ns),
            machine: machine.clone(),
            energy_j: *energy_j,
            relative_l2: correctness.map(|correctness| correctness.relative_l2),
            worst_row: correctness.map(|correctness| correctness.worst_row),
        }
    }
}

/// Returns an entrant's time over the challenger's: paired, or the quotient of two modelled times.
fn ratio(contest: &Contest, entrant: &Entrant) -> Option<Ratio> {
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

/// Tells whether times were computed one by one, so that nothing was paired.
fn is_modelled_alone(contest: &Contest) -> bool {
    contest.block == 0
}

/// Returns what the challenger is beside an entrant.
pub(super) fn challenger_is(contest: &Contest, entrant: &Entrant) -> Option<&'static str> {
    let ratio = ratio(contest, entrant)?;
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

/// Prints a contest as a table, with what must be known to read it.
pub(super) fn print(contest: &Contest, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", title(contest))?;
    let time = format!(">µs, {}", contest.conditions.time_source.name());
    let mut table = Table::new(&[
        "role",
        "kernel",
        &time,
        "interval",
        ">ratio",
        "interval",
        "challenger is",
        ">of floor",
        ">SM MHz",
        ">W",
        ">mJ",
        ">error",
    ]);
    for entrant in &contest.entrants {
        table.row(cells(contest, entrant));
    }
    table.print(out)?;
    notes(contest, out)
}

/// Says what was measured and under which conditions.
pub(super) fn title(contest: &Contest) -> String {
    let conditions = &contest.conditions;
    let floor = contest.floor_ns.map(|ns| format!("; floor {} µs", format::us(ns / 1e3))).unwrap_or_default();
    format!(
        "{}/{} on {}, {}, {}{floor}",
        conditions.workload,
        conditions.case,
        conditions.device,
        conditions.regime.name(),
        conditions.time_source.name()
    )
}

fn cells(contest: &Contest, entrant: &Entrant) -> [String; 12] {
    let us = |ns: f64| format::us(ns / 1e3);
    let (timing, ratio) = (&entrant.timing, ratio(contest, entrant));
    let machine = entrant.machine.as_ref();
    [
        entrant.role.name().to_owned(),
        entrant.name.clone(),
        us(timing.median_ns),
        format!("{} to {}", us(timing.interval_ns.lo), us(timing.interval_ns.hi)),
        figure(ratio, |ratio| format!("{:.4}", ratio.estimate)),
        figure(ratio, |ratio| format!("{:.4} to {:.4}", ratio.interval.lo, ratio.interval.hi)),
        figure(challenger_is(contest, entrant), str::to_owned),
        figure(contest.floor_ns, |floor_ns| format::percent(floor_ns / timing.median_ns)),
        figure(machine.and_then(|machine| machine.sm_clock_mhz), |mhz| format!("{mhz:.0}")),
        figure(machine.and_then(|machine| machine.power_w), |watts| format!("{watts:.0}")),
        figure(entrant.energy_j, |joules| format!("{:.3}", joules * 1e3)),
        figure(entrant.correctness, |correctness| format::relative_error(correctness.relative_l2)),
    ]
}

fn notes(contest: &Contest, out: &mut impl Write) -> io::Result<()> {
    match contest.against(Role::Twin) {
        Some(_) => writeln!(
            out,
            "ratio: time over the challenger's, above 1 the challenger is faster; within {:.2}% of 1 is noise, says the twin, \
             which is the challenger again",
            contest.noise() * 100.0
        )?,
        None if is_modelled_alone(contest) => {
            writeln!(
                out,
                "ratio: time over the challenger's, above 1 the challenger is faster; modelled times have no noise"
            )?;
        }
        None => writeln!(out, "there were too few rounds for a ratio: take more --samples")?,
    }
    if contest.below_floor() {
        writeln!(out, "the challenger is faster than the floor: this is an error of the measurement, not a time")?;
    }
    if contest.discarded_rounds > 0 {
        let rounds = contest.discarded_rounds;
        writeln!(out, "{rounds} rounds were thrown away: the GPU was held back by heat or a power brake")?;
    }
    if !contest.others.is_empty() {
        writeln!(out, "also on the GPU: {}", contest.others.join(", "))?;
    }
    Ok(())
}

/// Returns versions for people.
pub(super) fn show_versions(versions: &[(String, String)]) -> String {
    versions.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
}
