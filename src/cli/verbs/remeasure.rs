//! `optloop remeasure`: measures the committed winners of a workload again, and replaces the figures in their sidecars.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use serde::Serialize;

use crate::bench::{Bench, Committed, PlannedComparison, Selection, Subject};
use crate::catalog::Project;
use crate::cli::terminal::measured::show_versions;
use crate::cli::terminal::table::{Table, figure};
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::device::gpu_state::{Graphs, Load};
use crate::domain::ids::CaseName;
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::measurement::evaluation::Measurement;
use crate::domain::sidecar::{self, Sidecar, SidecarEnvironment, SidecarMeasurement};
use crate::domain::variant::VariantHash;
use crate::domain::workload::Workload;
use crate::error::{usage, usage_sentence};
use crate::files;
use crate::launch::armed;
use crate::launch::consent;
use crate::launch::devices;
use crate::notices::say;
use crate::report::format;
use crate::vcs::{BaselineTime, Earlier, Figures, Repo, TimedBy, Winner};

/// The format of the JSON.
const SCHEMA: &str = "optloop.remeasure/1";

/// Arguments of `optloop remeasure`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workload whose winners on this device are measured again
    workload: String,

    /// Measure only this case; can be repeated
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    cases: Vec<CaseName>,

    /// Write the sidecars without committing them
    #[arg(long)]
    no_commit: bool,

    /// Device: auto or cuda:N [default: session.device in config.toml]
    #[arg(short = 'd', long)]
    device: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,
}

/// A committed winner with what its sidecar records.
struct Recorded {
    path: PathBuf,
    committed: Committed,
    subject: Subject,
}

/// A winner with its figures before and after.
#[derive(Serialize)]
struct Remeasured {
    case: CaseName,
    name: String,
    recorded_us: f64,
    recorded_graphs: Graphs,
    recorded_ratio: Option<f64>,
    us: f64,
    ci_us: Option<[f64; 2]>,
    graphs: Graphs,
    graph_node_us: Option<f64>,
    baseline: Option<String>,
    baseline_us: Option<f64>,
    /// The baseline's time over the winner's, paired.
    ratio: Option<f64>,
    ratio_ci: Option<[f64; 2]>,
    commit: Option<String>,
}

/// The result, for programs.
#[derive(Serialize)]
struct Printed<'a> {
    schema: &'static str,
    workload: &'a str,
    device: &'a str,
    winners: &'a [Remeasured],
    failed: &'a [CaseName],
}

/// Measures the winners again and replaces their figures. Fails if a winner could not be measured.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let workload = project.workload(&args.workload).map_err(usage)?;
    let workload = workload.select(&args.cases).map_err(usage_sentence)?;
    let repo = if args.no_commit { None } else { Some(Repo::discover(project.root()).map_err(usage)?) };
    let choice = devices::to_execute(args.device.as_deref(), &config)?;
    consent::check_places(project, &config, args.trust.agrees())?;
    let mut locks = project.lock("remeasure")?;
    let mut bench = armed::bench(project, config.clone(), &choice, &mut locks).await?;
    if !bench.device().replays() {
        let name = &bench.device().name;
        return Err(usage_sentence(format!(
            "the {name} models times, which do not change: choose a GPU with --device"
        )));
    }
    // Every refusal comes before anything is measured.
    let recorded = recorded(&bench, project, &workload)?;
    consent::admit_oracle(project, &config, args.trust.agrees(), &workload)?;
    if workload.baseline.is_some() {
        let items = crate::trust::of_baseline(project.root(), &config, &workload).map_err(usage)?;
        consent::admit(project, args.trust.agrees(), items)?;
        let started = bench.start_baseline(&workload, choice.number()).await;
        started.map_err(|reason| {
            anyhow!(
                "the winners of {} are recorded beside their baseline, and it does not run: {reason}",
                workload.name
            )
        })?;
    }
    let (mut winners, mut failed) = (Vec::new(), Vec::new());
    for recorded in &recorded {
        let case = recorded.subject.case().name.clone();
        match remeasured(&mut bench, project, repo.as_ref(), recorded).await {
            Ok(winner) => {
                say(&format!("{case}: {} us, recorded {} us", format::us(winner.us), format::us(winner.recorded_us)));
                winners.push(winner);
            }
            Err(reason) => {
                say(&format!("{case} keeps its figures: {reason:#}"));
                failed.push(case);
            }
        }
    }
    if args.json {
        let device = &bench.device().name;
        let printed = Printed { schema: SCHEMA, workload: &workload.name, device, winners: &winners, failed: &failed };
        writeln!(out, "{}", serde_json::to_string_pretty(&printed)?)?;
    } else {
        print(&winners, out)?;
        writeln!(out, "versions: {}", show_versions(&bench.versions()))?;
    }
    match failed.len() {
        0 => Ok(()),
        count => bail!("{count} of {} winners were not measured: {}", recorded.len(), failed.join(", ")),
    }
}

/// Reads the winners of a workload on this device. Refuses one that cannot be measured here.
fn recorded(bench: &Bench, project: &Project, workload: &Workload) -> anyhow::Result<Vec<Recorded>> {
    let key = bench.device().key();
    let paths = workload.cases.iter().map(|case| project.winner(&key, &workload.name, &case.name));
    let paths: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    if paths.is_empty() {
        return Err(usage_sentence(format!(
            "no winner of {} is committed for this device: there is none in kernels/variants/{key}/{}/",
            workload.name, workload.name
        )));
    }
    let read = |path: PathBuf| {
        let shown = path.strip_prefix(project.root()).unwrap_or(&path).display().to_string();
        read(bench, project, workload, path)
            .map_err(|reason| usage_sentence(format!("{shown} cannot be measured here: {reason:#}")))
    };
    paths.into_iter().map(read).collect()
}

fn read(bench: &Bench, project: &Project, workload: &Workload, path: PathBuf) -> anyhow::Result<Recorded> {
    let text = files::read_inside(project.root(), &path)?;
    let sidecar = Sidecar::parse(&text).map_err(|problem| anyhow!("it is not a sidecar: {problem}"))?;
    let source = files::read_inside(project.root(), &sidecar.source_beside(&path))?;
    if VariantHash::of(&source) != sidecar.variant.hash {
        bail!("its source does not match it");
    }
    let (arch, here) = (&sidecar.arch, &bench.device().arch);
    if arch != here {
        bail!("it is compiled for {arch}, but this device needs {here}");
    }
    let (device, here) = (&sidecar.environment.device, &bench.device().name);
    if device != here {
        bail!("it was measured on {device}, and this is {here}");
    }
    let committed = Committed { workload: workload.name.clone(), source, sidecar };
    let subject = bench.committed(&committed, Selection { workload: None, cases: &[] })?;
    bench.check_regime(&subject, subject.case().regime).map_err(anyhow::Error::msg)?;
    Ok(Recorded { path, committed, subject })
}

/// Measures a winner beside its baseline and replaces its figures, whatever they are.
async fn remeasured(
    bench: &mut Bench,
    project: &Project,
    repo: Option<&Repo>,
    recorded: &Recorded,
) -> anyhow::Result<Remeasured> {
    let Recorded { path, committed, subject } = recorded;
    let regime = subject.case().regime;
    let wants_baseline = subject.workload.baseline.is_some();
    if wants_baseline {
        let found = bench.find_backend(subject, regime, rand::random()).await;
        found.map_err(|reason| anyhow!("its baseline does not run: {reason}"))?;
    }
    let planned = PlannedComparison {
        challenger: subject,
        others: &[],
        regime,
        input_seed: rand::random(),
        with_baseline: true,
        energy: false,
        load: Load::Bursts,
        claim: None,
    };
    let comparison = bench.measure(&planned).await?;
    if wants_baseline && comparison.against(Role::Baseline).is_none() {
        bail!("its baseline left the comparison");
    }
    let sidecar = refreshed(bench, committed, subject, &comparison)?;
    let mut found = summary(committed, subject, &sidecar, &comparison);
    match repo {
        Some(repo) => {
            let relative = path.strip_prefix(project.root()).unwrap_or(path);
            found.commit = Some(commit(repo, bench, relative, committed, sidecar, &comparison)?);
        }
        None => fs::write(path, sidecar.to_json()?).with_context(|| format!("Failed to write {}", path.display()))?,
    }
    Ok(found)
}

/// Returns the sidecar with the figures of a comparison. Its source and its launch are the same.
fn refreshed(
    bench: &Bench,
    committed: &Committed,
    subject: &Subject,
    comparison: &Comparison,
) -> anyhow::Result<Sidecar> {
    let challenger = comparison.challenger().context("Failed to get a time")?;
    let then = &committed.sidecar;
    let measurement = Measurement {
        case: subject.case().name.clone(),
        regime: comparison.conditions.regime,
        correctness: challenger.correctness.context("Failed to get the error of the output")?,
        screening: None,
        confirmation: Some(challenger.timing.clone()),
        comparison: Some(comparison.clone()),
        ctas: subject.request.plan.ctas(),
        shape: None,
        preparation: subject.request.plan.preparation(then.measurement.preparation_us.map(|us| us * 1e3)),
        profile: None,
    };
    let device = bench.device();
    Ok(Sidecar {
        schema: sidecar::SCHEMA.to_owned(),
        source: Some(then.source.clone().unwrap_or_else(|| then.variant.source_name())),
        dtype: Some(subject.workload.dtype),
        measurement: SidecarMeasurement::of(&comparison.conditions, &measurement, &challenger.timing),
        environment: SidecarEnvironment {
            device: device.name.clone(),
            driver: device.driver.clone(),
            nvrtc: bench.nvrtc_version(),
            optloop: env!("CARGO_PKG_VERSION").to_owned(),
        },
        ..then.clone()
    })
}

fn commit(
    repo: &Repo,
    bench: &Bench,
    path: &Path,
    committed: &Committed,
    sidecar: Sidecar,
    comparison: &Comparison,
) -> anyhow::Result<String> {
    let then = &committed.sidecar;
    let introduced = repo.introduced(path, &then.variant.hash, None)?;
    let winner = Winner {
        device: bench.device().key(),
        workload: committed.workload.clone(),
        source: committed.source.clone(),
        previous: Some(Figures {
            median_us: then.measurement.median_us,
            ci_us: then.measurement.ci_us,
            samples: then.measurement.samples,
        }),
        speedup: None,
        baseline: BaselineTime::of(Some(comparison), None),
        timed_by: TimedBy::Remeasure,
        earlier: Some(Earlier { device: then.environment.device.clone(), commit: introduced }),
        family: None,
        sidecar,
    };
    Ok(repo.commit_winner(&winner)?.0)
}

fn summary(committed: &Committed, subject: &Subject, sidecar: &Sidecar, comparison: &Comparison) -> Remeasured {
    let (then, now) = (&committed.sidecar.measurement, &sidecar.measurement);
    let ratio = now.ratio_to_baseline.as_ref();
    let baseline = comparison.against(Role::Baseline).map(|(participant, _)| participant);
    Remeasured {
        case: now.case.clone(),
        name: subject.name.clone(),
        recorded_us: then.median_us,
        recorded_graphs: then.graphs,
        recorded_ratio: then.ratio_to_baseline.as_ref().map(|ratio| ratio.estimate),
        us: now.median_us,
        ci_us: now.shown_ci_us(),
        graphs: now.graphs,
        graph_node_us: now.graph_node_ns.map(|ns| ns / 1e3),
        baseline: ratio.map(|ratio| ratio.name.clone()),
        baseline_us: baseline.map(|baseline| baseline.timing.median_ns / 1e3),
        ratio: ratio.map(|ratio| ratio.estimate),
        ratio_ci: ratio.map(|ratio| [ratio.lo, ratio.hi]),
        commit: None,
    }
}

fn print(winners: &[Remeasured], out: &mut impl Write) -> anyhow::Result<()> {
    let headings = [
        "case",
        "kernel",
        ">µs, recorded",
        "graphs",
        ">over baseline",
        ">µs, now",
        "graphs",
        "baseline",
        ">µs, baseline",
        "over baseline",
    ];
    let mut table = Table::new(&headings);
    for winner in winners {
        let ratio = winner.ratio.zip(winner.ratio_ci);
        table.row([
            winner.case.to_string(),
            winner.name.clone(),
            format::us(winner.recorded_us),
            winner.recorded_graphs.name().to_owned(),
            figure(winner.recorded_ratio, |ratio| format!("{ratio:.3}")),
            format::us(winner.us),
            winner.graphs.name().to_owned(),
            figure(winner.baseline.clone(), |name| name),
            figure(winner.baseline_us, format::us),
            figure(ratio, |(ratio, [lo, hi])| format::ratio(ratio, lo, hi)),
        ]);
    }
    Ok(table.print(out)?)
}
