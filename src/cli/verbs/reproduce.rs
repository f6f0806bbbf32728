//! `optloop reproduce`: measures a committed winner again and reports whether its figure holds.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{anyhow, bail};
use serde::Serialize;

use crate::bench::{Bench, Committed, PlannedComparison, Selection, Subject};
use crate::catalog::Project;
use crate::cli::terminal::measured::{self, Found, show_versions};
use crate::cli::terminal::table::{Table, figure};
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::device::DeviceInfo;
use crate::domain::device::gpu_state::Load;
use crate::domain::device::regime::Regime;
use crate::domain::ids::CaseName;
use crate::domain::measurement::comparison::Comparison;
use crate::domain::measurement::conditions::{Conditions, RecordedTime, compare};
use crate::domain::op::Dims;
use crate::domain::sidecar::Sidecar;
use crate::domain::statistics::{Interval, Ratio};
use crate::domain::variant::VariantHash;
use crate::domain::workload::Workload;
use crate::error::{usage, usage_sentence};
use crate::launch::armed;
use crate::launch::consent;
use crate::launch::devices;
use crate::ops;
use crate::report::format;
use crate::vcs::{CommitId, Repo, WinnerInCommit};

/// The format of the JSON.
const SCHEMA: &str = "optloop.reproduce/1";

/// The relative difference from the recorded median at which a figure still holds. Medians of one kernel on two
/// machines of the same model differed by up to 3% (H200, 2026-11-20).
const TOLERANCE: f64 = 0.03;

/// The relative difference that a modelled time may have from the recorded one. A sidecar's change of units rounds away
/// as much.
const ROUNDING: f64 = 1e-9;

/// Arguments of `optloop reproduce`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Commit that added or changed winners
    commit: String,

    /// Measure only this case of the commit; can be repeated [default: every case]
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    cases: Vec<CaseName>,

    /// Device: auto, cuda:N, virtual or virtual:NAME [default: session.device in config.toml]
    #[arg(short = 'd', long)]
    device: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,
}

/// A winner with its recorded figures.
struct Recorded {
    subject: Subject,
    figure: RecordedTime,
    /// The interval of its time to show, in microseconds.
    ci_us: Option<[f64; 2]>,
}

/// A winner that was measured again.
#[derive(Serialize)]
struct Reproduced {
    case: CaseName,
    name: String,
    regime: Regime,
    recorded_us: f64,
    recorded_ci_us: Option<[f64; 2]>,
    found_us: f64,
    found_ci_us: Option<[f64; 2]>,
    /// The new time over the recorded time.
    ratio: f64,
    ratio_ci: Option<[f64; 2]>,
    /// How much the ratio may differ from 1.
    tolerance: f64,
    holds: bool,
    comparison: Found,
}

/// The result, for programs.
#[derive(Serialize)]
struct Printed<'a> {
    schema: &'static str,
    commit: &'a str,
    device: &'a DeviceInfo,
    versions: BTreeMap<String, String>,
    cases: Vec<Reproduced>,
}

/// Measures every winner of a commit again. Fails if a figure does not hold.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let repo = Repo::discover(project.root()).map_err(usage)?;
    let (commit, winners) = repo.winners_of(&args.commit).map_err(usage)?;
    let winners = selected(&commit, winners, &args.cases)?;
    let choice = devices::to_execute(args.device.as_deref(), &config)?;
    consent::check_places(project, &config, args.trust.agrees())?;
    let mut locks = project.lock("reproduce")?;
    let mut bench = armed::bench(project, config.clone(), &choice, &mut locks).await?;
    // Every refusal comes before anything is measured.
    let recorded =
        winners.iter().map(|winner| recorded(&bench, project, winner).map_err(|reason| named(winner, &reason)));
    let recorded = recorded.collect::<anyhow::Result<Vec<_>>>()?;
    for Recorded { subject, .. } in &recorded {
        consent::admit_oracle(project, &config, args.trust.agrees(), &subject.workload)?;
    }
    let mut cases = Vec::new();
    for winner in &recorded {
        let Recorded { subject, figure, .. } = winner;
        let regime = figure.conditions.regime;
        let planned = PlannedComparison {
            challenger: subject,
            others: &[],
            regime,
            input_seed: rand::random(),
            with_baseline: false,
            energy: true,
            load: Load::Bursts,
            claim: None,
        };
        let comparison = bench.measure(&planned).await?;
        if !args.json {
            measured::print(&comparison, out)?;
            writeln!(out)?;
        }
        let has_noise = bench.device().replays();
        let mut found = reproduced(winner, &comparison, has_noise)?;
        if !found.holds && !has_noise {
            let other = bench.measure(&PlannedComparison { input_seed: rand::random(), ..planned }).await?;
            found = reproduced(winner, &comparison, median_ns(&other)? != median_ns(&comparison)?)?;
        }
        cases.push(found);
    }
    let versions = bench.versions();
    let failed: Vec<CaseName> = cases.iter().filter(|case| !case.holds).map(|case| case.case.clone()).collect();
    let all = cases.len();
    if args.json {
        let (device, versions) = (bench.device(), versions.into_iter().collect());
        let printed = Printed { schema: SCHEMA, commit: &commit.0, device, versions, cases };
        writeln!(out, "{}", serde_json::to_string_pretty(&printed)?)?;
    } else {
        print(&cases, out)?;
        writeln!(out, "versions: {}", show_versions(&versions))?;
    }
    match failed.len() {
        0 => Ok(()),
        count => {
            bail!("{count} of {all} recorded times of {} were not reproduced: {}", &commit.0[..10], failed.join(", "))
        }
    }
}

/// Returns the winners of some cases, or all of them.
fn selected(
    commit: &CommitId,
    mut winners: Vec<WinnerInCommit>,
    cases: &[CaseName],
) -> anyhow::Result<Vec<WinnerInCommit>> {
    if let Some(case) = cases.iter().find(|case| !winners.iter().any(|winner| winner.case == **case)) {
        let has: Vec<&str> = winners.iter().map(|winner| winner.case.as_str()).collect();
        return Err(usage_sentence(format!(
            "commit {commit} has no winner of case `{case}`; it has {}",
            has.join(", ")
        )));
    }
    winners.retain(|winner| cases.is_empty() || cases.contains(&winner.case));
    Ok(winners)
}

fn named(winner: &WinnerInCommit, reason: &anyhow::Error) -> anyhow::Error {
    usage_sentence(format!("{} cannot be reproduced here: {reason:#}", winner.path))
}

/// Reads what a winner's commit records. Refuses a record that could not be compared with the winner.
fn recorded(bench: &Bench, project: &Project, winner: &WinnerInCommit) -> anyhow::Result<Recorded> {
    let sidecar: Sidecar =
        Sidecar::parse(&winner.sidecar).map_err(|problem| anyhow!("its sidecar cannot be read: {problem}"))?;
    let Some(source) = winner.source.clone() else { bail!("its source is not in the commit") };
    if VariantHash::of(&source) != sidecar.variant.hash {
        bail!("its source does not match its sidecar");
    }
    let [lo, hi] = sidecar.measurement.ci_us;
    if !(lo..=hi).contains(&sidecar.measurement.median_us) {
        bail!("the time in its sidecar is outside its interval");
    }
    let workload = project.workload(&winner.workload)?;
    let figure = RecordedTime {
        conditions: conditions(winner, &sidecar, &workload)?,
        name: format!("{} {}", sidecar.variant.family, sidecar.variant.hash.short()),
        timing: sidecar.measurement.timing(),
    };
    let regime = figure.conditions.regime;
    let case = workload.case(&sidecar.measurement.case).map_err(anyhow::Error::msg)?;
    let here = bench.conditions(&workload, case, regime);
    here.like(&figure.conditions).map_err(|unlike| match here.graphs == figure.conditions.graphs {
        true => anyhow!(unlike),
        false => anyhow!("{unlike}; `optloop remeasure {}` replaces the recorded ones", workload.name),
    })?;
    let (arch, here) = (&sidecar.arch, &bench.device().arch);
    if arch != here {
        bail!("it is compiled for {arch}, but this device needs {here}");
    }
    let committed = Committed { workload: winner.workload.clone(), source, sidecar };
    let ci_us = committed.sidecar.measurement.shown_ci_us();
    let subject = bench.committed(&committed, Selection { workload: None, cases: &[] })?;
    bench.check_regime(&subject, regime).map_err(anyhow::Error::msg)?;
    Ok(Recorded { subject, figure, ci_us })
}

/// Returns the conditions that a commit records.
fn conditions(winner: &WinnerInCommit, sidecar: &Sidecar, now: &Workload) -> anyhow::Result<Conditions> {
    let found = &sidecar.measurement;
    let dtype = sidecar.dtype_in(Some(now));
    Ok(Conditions {
        workload: found.workload.clone().unwrap_or_else(|| winner.workload.clone()),
        case: found.case.clone(),
        dims: found.dims.clone().map_or_else(|| dims_then(winner, &found.case), Ok)?,
        dtype: dtype.ok_or_else(|| anyhow!("its sidecar has no tensors and therefore no dtype"))?,
        compute: sidecar.compute,
        device: sidecar.environment.device.clone(),
        regime: found.regime,
        time_source: found.time_source,
        graphs: found.graphs,
        load: Load::Bursts,
    })
}

/// Returns the dimensions that a case had in the commit. Sidecars of the first release do not record them.
fn dims_then(winner: &WinnerInCommit, case: &str) -> anyhow::Result<Dims> {
    let text = winner.workload_file.as_ref();
    let text = text.ok_or_else(|| anyhow!("its commit has no kernels/workloads/{}.toml", winner.workload))?;
    let workload = Workload::parse(text, ops::find);
    let workload = workload.map_err(|problem| anyhow!("its commit's {}.toml: {problem}", winner.workload))?;
    Ok(workload.case(case).map_err(|problem| anyhow!("in its commit, {problem}"))?.dims.clone())
}

/// Returns the time of the measured winner. A modelled one has no noise, but that of a kernel such as a histogram depends on
/// its inputs, which are random.
fn median_ns(comparison: &Comparison) -> anyhow::Result<f64> {
    Ok(comparison.challenger().ok_or_else(|| anyhow!("nothing was measured"))?.timing.median_ns)
}

fn reproduced(winner: &Recorded, comparison: &Comparison, may_vary: bool) -> anyhow::Result<Reproduced> {
    let challenger = comparison.challenger().ok_or_else(|| anyhow!("nothing was measured"))?;
    let found = RecordedTime {
        conditions: comparison.conditions.clone(),
        name: challenger.name.clone(),
        timing: challenger.timing.clone(),
    };
    let recorded = &winner.figure;
    let ratio = compare(recorded, &found)?;
    let tolerance = tolerance(&ratio, may_vary);
    let us = |ns: f64| ns / 1e3;
    let found_ci_us = found.timing.shown_ci_us();
    let shown = winner.ci_us.is_some() && found_ci_us.is_some();
    Ok(Reproduced {
        case: recorded.conditions.case.clone(),
        name: recorded.name.clone(),
        regime: recorded.conditions.regime,
        recorded_us: us(recorded.timing.median_ns),
        recorded_ci_us: winner.ci_us,
        found_us: us(found.timing.median_ns),
        found_ci_us,
        ratio: ratio.estimate,
        ratio_ci: shown.then_some([ratio.interval.lo, ratio.interval.hi]),
        tolerance,
        holds: (ratio.estimate - 1.0).abs() <= tolerance,
        comparison: Found::of(comparison, 1),
    })
}

/// Returns how much a ratio may differ from 1: the difference between machines, or more if its own interval is wider. A
/// modelled time that does not depend on the inputs must be the same.
fn tolerance(ratio: &Ratio, may_vary: bool) -> f64 {
    let Interval { lo, hi } = ratio.interval;
    if may_vary { TOLERANCE.max(hi - ratio.estimate).max(ratio.estimate - lo) } else { ROUNDING }
}

fn print(cases: &[Reproduced], out: &mut impl Write) -> anyhow::Result<()> {
    let mut table = Table::new(&[
        "case",
        "kernel",
        "regime",
        ">µs, recorded",
        ">µs, found",
        ">ratio",
        "interval",
        "may differ by",
        "",
    ]);
    for case in cases {
        let tolerance = if case.tolerance <= ROUNDING { "nothing".to_owned() } else { format::percent(case.tolerance) };
        table.row([
            case.case.to_string(),
            case.name.clone(),
            case.regime.name().to_owned(),
            format::us(case.recorded_us),
            format::us(case.found_us),
            format!("{:.4}", case.ratio),
            figure(case.ratio_ci, |[lo, hi]| format!("{lo:.4} to {hi:.4}")),
            tolerance,
            if case.holds { "holds" } else { "does not hold" }.to_owned(),
        ]);
    }
    Ok(table.print(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(estimate: f64, half: f64) -> Ratio {
        Ratio { estimate, interval: Interval { lo: estimate - half, hi: estimate + half } }
    }

    #[test]
    fn machines_of_a_model_may_differ_by_three_percent_or_by_what_the_interval_leaves_open() {
        assert_eq!(tolerance(&ratio(1.02, 0.001), true), 0.03);
        assert!((tolerance(&ratio(1.02, 0.05), true) - 0.05).abs() < 1e-12);
        assert_eq!(tolerance(&ratio(1.02, 0.05), false), ROUNDING);
    }
}
