//! `optloop compare`: compares two recorded times, if they are comparable.

mod side;

use std::io::{self, Write};

use serde::Serialize;

use self::side::{Recorded, Side};
use crate::catalog::Project;
use crate::cli::terminal::measured::state;
use crate::cli::terminal::table::{Table, figure};
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::measurement::comparison::{Comparison, Participant, paired_ratio};
use crate::domain::measurement::conditions::{Conditions, compare};
use crate::domain::op::show_dims;
use crate::domain::statistics::Ratio;
use crate::domain::statistics::sampling::MIN_SAMPLES;
use crate::domain::statistics::timing::Timing;
use crate::error::usage_sentence;
use crate::launch::project_store::existing_store;
use crate::report::format;
use crate::store::Store;

/// Compares two recorded times, if their conditions are the same.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// First time: number of an iteration, WORKLOAD/CASE for a committed winner, path of a winner's .json or .cu file,
    /// or baseline:SESSION/CASE
    a: String,
    /// Second time, named in the same way
    b: String,
    /// Case to compare, for an iteration that was timed on several cases
    #[arg(long)]
    case: Option<CaseName>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Two times and their ratio.
#[derive(Serialize)]
struct Answer {
    conditions: Conditions,
    a: Time,
    b: Time,
    /// B's time over A's.
    ratio: Over,
    /// The distance from 1 of the comparison's A/A control, if both times are from one comparison.
    noise: Option<f64>,
}

#[derive(Serialize)]
struct Time {
    name: String,
    us: f64,
    /// Null for fewer than three samples.
    ci_us: Option<[f64; 2]>,
    samples: usize,
}

#[derive(Serialize)]
struct Over {
    estimate: f64,
    /// Null where one of the two has no interval.
    lo: Option<f64>,
    hi: Option<f64>,
    paired: bool,
}

/// Compares two recorded times. Asking for times that are not comparable is a usage error.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let (a, b) = (Side::parse(&args.a, project)?, Side::parse(&args.b, project)?);
    let store = if a.is_stored() || b.is_stored() { Some(existing_store(project).await?) } else { None };
    let case = args.case.clone().or_else(|| a.case(project)).or_else(|| b.case(project));
    let case = case.as_deref();
    let mut known = Vec::new();
    for side in [&a, &b].into_iter().filter(|side| !side.is_open()) {
        known.push(side.read(case, project, store.as_ref()).await?);
    }
    let (a, b) = (a.resolved(known.first(), project)?, b.resolved(known.first(), project)?);
    let recorded = [a.read(case, project, store.as_ref()).await?, b.read(case, project, store.as_ref()).await?];
    let answer = match in_one_run([&a, &b], &recorded[0].figure.conditions.case, store.as_ref()).await? {
        Some(answer) => answer,
        None => apart(&recorded)?,
    };
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
    } else {
        print(&answer, out)?;
    }
    Ok(())
}

/// Compares two times that were sampled in turns, by the rounds of their comparison.
async fn in_one_run(sides: [&Side; 2], case: &str, store: Option<&Store>) -> anyhow::Result<Option<Answer>> {
    let Some(store) = store else { return Ok(None) };
    let (Some(session), Some(other)) = (sides[0].session(store).await?, sides[1].session(store).await?) else {
        return Ok(None);
    };
    if session != other {
        return Ok(None);
    }
    let record = store.session_record(session).await?;
    let finals = record.finals.iter().rev().map(|last| &last.comparison);
    let measurements = record.iterations.iter().rev().flat_map(|iteration| &iteration.measurements);
    let comparisons = finals.chain(measurements.filter_map(|measurement| measurement.comparison.as_ref()));
    let mut of_case = comparisons.filter(|comparison| comparison.conditions.case == case);
    Ok(of_case.find_map(|comparison| paired(sides, comparison)))
}

fn paired([a, b]: [&Side; 2], comparison: &Comparison) -> Option<Answer> {
    let (a, b) = (a.find(comparison)?, b.find(comparison)?);
    let ratio = paired_ratio(&b.groups_ns, &a.groups_ns)?;
    let time = |participant: &Participant| {
        time(participant.name.clone(), &participant.timing, participant.timing.samples_ns.len())
    };
    let Ratio { estimate, interval } = ratio;
    Some(Answer {
        conditions: comparison.conditions.clone(),
        a: time(a),
        b: time(b),
        ratio: Over { estimate, lo: Some(interval.lo), hi: Some(interval.hi), paired: true },
        noise: Some(comparison.noise()),
    })
}

/// Compares two times that were taken separately.
fn apart([a, b]: &[Recorded; 2]) -> anyhow::Result<Answer> {
    let ratio = compare(&a.figure, &b.figure).map_err(usage_sentence)?;
    let time = |recorded: &Recorded| time(recorded.figure.name.clone(), &recorded.figure.timing, recorded.samples);
    let (a_us, b_us) = (time(a), time(b));
    let shown = (a_us.ci_us.is_some() && b_us.ci_us.is_some()).then_some(ratio.interval);
    let (lo, hi) = (shown.map(|shown| shown.lo), shown.map(|shown| shown.hi));
    Ok(Answer {
        conditions: a.figure.conditions.clone(),
        a: a_us,
        b: b_us,
        ratio: Over { estimate: ratio.estimate, lo, hi, paired: false },
        noise: None,
    })
}

fn time(name: String, timing: &Timing, samples: usize) -> Time {
    let ci_us = (samples >= MIN_SAMPLES).then(|| [timing.interval_ns.lo / 1e3, timing.interval_ns.hi / 1e3]);
    Time { name, us: timing.median_ns / 1e3, ci_us, samples }
}

fn print(answer: &Answer, out: &mut impl Write) -> io::Result<()> {
    let Conditions { workload, case, dims, dtype, compute, device, regime, time_source, .. } = &answer.conditions;
    writeln!(
        out,
        "{workload}/{case} ({}), {} on {device}, {} L2, {}{}\n",
        show_dims(dims),
        compute.of(*dtype),
        regime.name(),
        time_source.name(),
        state(&answer.conditions)
    )?;
    let mut table = Table::new(&["", "what", ">µs", "interval", ">samples"]);
    for (letter, time) in [("A", &answer.a), ("B", &answer.b)] {
        table.row([
            letter.to_owned(),
            time.name.clone(),
            format::us(time.us),
            figure(time.ci_us, |[lo, hi]| format!("{} to {}", format::us(lo), format::us(hi))),
            time.samples.to_string(),
        ]);
    }
    table.print(out)?;
    writeln!(out, "\n{}", sentence(&answer.ratio))?;
    match (answer.ratio.paired, time_source) {
        (true, _) => writeln!(
            out,
            "Both were participants of one comparison, and the ratio is paired within its rounds. The comparison's \
             noise was {}.",
            format::percent(answer.noise.unwrap_or(0.0))
        ),
        (false, TimeSource::Measured) => writeln!(
            out,
            "The two were not measured in one run: changes of the machine in between affect the ratio, but not its \
             interval."
        ),
        (false, TimeSource::Modelled) => writeln!(out, "Both times are modelled: no GPU ran."),
        (false, TimeSource::Recorded) => writeln!(out, "Both times are recorded: nothing ran."),
    }
}

/// Says how the two times compare. The ratio is at least 1 either way: 0.0097 would have to be inverted to be understood.
fn sentence(ratio: &Over) -> String {
    let is_faster = ratio.estimate < 1.0;
    let upright = |value: f64| if is_faster { 1.0 / value } else { value };
    let (ends, estimate) = (ratio.lo.zip(ratio.hi), upright(ratio.estimate));
    let shown = match ends.map(|(lo, hi)| if is_faster { (upright(hi), upright(lo)) } else { (lo, hi) }) {
        Some((lo, hi)) => format::ratio(estimate, lo, hi),
        None => format::times(estimate),
    };
    if is_faster { format!("B is {shown} faster than A.") } else { format!("B takes {shown} as long as A.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_never_to_be_inverted_by_its_reader() {
        let said = |estimate, lo, hi| sentence(&Over { estimate, lo, hi, paired: false });
        insta::assert_snapshot!(said(0.0097, Some(0.00961), Some(0.00978)), @"B is 103.1× (102.2 to 104.1) faster than A.");
        insta::assert_snapshot!(said(0.8, None, None), @"B is 1.25× faster than A.");
        insta::assert_snapshot!(said(103.0, Some(102.0), Some(104.0)), @"B takes 103.0× (102.0 to 104.0) as long as A.");
        insta::assert_snapshot!(said(1.0, Some(0.99), Some(1.01)), @"B takes 1.000× (0.990 to 1.010) as long as A.");
    }
}
