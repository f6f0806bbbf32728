//! `optloop diagnose`: why a kernel is slow on a case, with the evidence, and what to change.

use std::io::Write;

use serde::Serialize;

use crate::agent::diagnosis::{self, Point};
use crate::bench::{Bench, Evidence, KernelName, Selection, Subject};
use crate::catalog::Project;
use crate::cli::terminal::ablations;
use crate::cli::verbs::bench;
use crate::cli::verbs::report;
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::code::ablation::Ablation;
use crate::domain::code::artifact::KernelResources;
use crate::domain::code::counters::Counters;
use crate::domain::code::profile::Profile;
use crate::domain::device::TimeSource;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::floor::Floor;
use crate::domain::proposal::finding::{CauseStatus, CauseTest, EvidenceSource, Finding};
use crate::domain::variant::{Params, show_params};
use crate::domain::workload::Case;
use crate::error::{usage, usage_sentence};
use crate::evaluated::{self, Part, Sources};
use crate::launch::armed;
use crate::launch::consent;
use crate::launch::devices;
use crate::launch::project_store::existing_store;
use crate::launch::replayed;
use crate::store::{IterationDetail, MOST_IN_FULL, Store};

/// The format of the JSON.
const SCHEMA: &str = "optloop.diagnosis/1";

/// The longest line of ablations.
const COLUMNS: usize = 120;

/// The most findings to print. The JSON has all.
const MAX: usize = 5;

/// Arguments of `optloop diagnose`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernel to diagnose: a .cu file next to its sidecar, a sidecar, CASE or WORKLOAD/CASE for a committed winner, the
    /// number of an iteration, or a family with its non-default parameters: attention-scalar:BR=64,BC=32
    what: String,

    /// Workload of a family or file [default: for a family, session.workload in config.toml if that has its op, else the
    /// only workload of its op; for a file, the workload of its folder]
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// Diagnose the kernel on this case; can be repeated
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

/// The result, for programs.
#[derive(Serialize)]
struct Printed<'a> {
    schema: &'static str,
    device: String,
    time_source: TimeSource,
    diagnoses: &'a [Diagnosed],
}

/// The diagnosis of a kernel on a case.
#[derive(Serialize)]
struct Diagnosed {
    workload: String,
    case: CaseName,
    family: String,
    params: Params,
    time_us: f64,
    floor_us: f64,
    /// What sets the floor.
    floor_limiter: &'static str,
    /// Why a virtual GPU could not count, if it could not.
    no_counters: Option<String>,
    /// What its kernels use; empty for an iteration that did not compile.
    kernels: Vec<KernelResources>,
    /// What its time consists of, the largest part first.
    parts: Vec<Part>,
    /// The hardware counters, where a session has read them.
    counters: Option<Counters>,
    /// What a virtual GPU counted.
    counts: Option<Profile>,
    /// Its times without each kind of instruction, the control first; empty if there are none.
    ablations: Vec<Ablation>,
    findings: Vec<Finding>,
}

/// Measures the kernel and prints its diagnosis.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let what = KernelName::parse(&args.what).map_err(usage_sentence)?;
    if let (KernelName::Iteration(id), None) = (&what, &args.device) {
        let store = existing_store(project).await?;
        let recorded = on_record(args, project, &store, *id).await?;
        if !recorded.is_empty() {
            let session = store.iteration(*id).await?.session;
            return tell(args, (session.device.as_str(), session.time_source), &recorded, out);
        }
    }
    let choice = devices::to_execute(args.device.as_deref(), &config)?;
    let mut locks = project.lock("diagnose")?;
    let mut bench = armed::bench(project, config.clone(), &choice, &mut locks).await?;
    let selection = Selection { workload: args.workload.as_deref(), cases: &args.cases };
    let what = bench::resolved(&bench, project, what, selection).map_err(usage)?;
    let subjects = bench.subjects(&what, selection).await.map_err(usage)?;
    for subject in &subjects {
        consent::admit_oracle(project, &config, args.trust.agrees(), &subject.workload)?;
    }
    let mut diagnoses = Vec::new();
    for subject in &subjects {
        let evidence = bench.evidence(subject, rand::random()).await?;
        diagnoses.push(diagnose(&bench, subject, evidence));
    }
    tell(args, (bench.device().name.as_str(), bench.device().time_source()), &diagnoses, out)
}

/// Returns the diagnoses of an iteration that its session has on record: the findings of its report. Empty if it was timed on none of
/// the cases.
async fn on_record(args: &Args, project: &Project, store: &Store, id: IterationId) -> anyhow::Result<Vec<Diagnosed>> {
    let IterationDetail { iteration, session, .. } = store.iteration(id).await?;
    let Ok(workload) = replayed::workload_of(project, &session) else { return Ok(Vec::new()) };
    let record = store.report_record(session.id, MOST_IN_FULL).await?;
    let device = &record.environment.device;
    let mut diagnoses = Vec::new();
    for (case, findings) in report::diagnosed(project, store, &iteration).await? {
        let shape = iteration.cases.iter().chain(&workload.cases).find(|one| one.name == case);
        let found = iteration.measurements.iter().find(|found| found.case == case);
        let (Some(shape), Some(found)) = (shape, found) else { continue };
        let Some(time_ns) = found.best_timing().map(|timing| timing.median_ns) else { continue };
        if !args.cases.is_empty() && !args.cases.contains(&case) {
            continue;
        }
        let floor = Floor::of(&workload, shape, device);
        diagnoses.push(Diagnosed {
            workload: workload.name.clone(),
            case,
            family: iteration.family.clone(),
            params: iteration.params.clone(),
            time_us: time_ns / 1e3,
            floor_us: floor.ns / 1e3,
            floor_limiter: floor.limiter.name(),
            no_counters: None,
            kernels: iteration.kernels.clone(),
            parts: evaluated::parts(Sources::of(found), None),
            counters: found.counters.clone(),
            counts: found.profile.clone().or_else(|| found.explanation.clone()),
            ablations: found.ablations.clone(),
            findings,
        });
    }
    Ok(diagnoses)
}

/// Prints diagnoses of kernels on a device.
fn tell(
    args: &Args,
    (device, time_source): (&str, TimeSource),
    diagnoses: &[Diagnosed],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if !args.json {
        return diagnoses.iter().try_for_each(|diagnosed| print(diagnosed, (device, time_source), out));
    }
    let printed = Printed { schema: SCHEMA, device: device.to_owned(), time_source, diagnoses };
    writeln!(out, "{}", serde_json::to_string_pretty(&printed)?)?;
    Ok(())
}

fn diagnose(bench: &Bench, subject: &Subject, evidence: Evidence) -> Diagnosed {
    let Evidence { time_ns, kernels, profile, ablations, others } = evidence;
    let families = bench.families_for(subject);
    let (variant, request) = (&subject.variant, &subject.request);
    let family = families.iter().find(|family| family.name == variant.family);
    let point = |(case, time_ns, ctas): &(Case, f64, u64)| Point {
        case: case.name.to_string(),
        dims: case.dims.clone(),
        time_ns: *time_ns,
        ctas: *ctas,
        source: EvidenceSource::Times,
    };
    let scaling: Vec<Point> = others.iter().map(point).collect();
    let about = diagnosis::Subject {
        iteration: subject.iteration,
        family: &variant.family,
        configuration: family.map(|family| (*family, &variant.params)),
        workload: &subject.workload,
        case: &request.case,
        device: bench.device(),
        time_ns,
        plan: &request.plan,
        kernels: &kernels,
        profile: profile.as_ref().ok(),
        counters: None,
        ablations: &ablations,
        scaling: &scaling,
        trials: &[],
        families: &families,
        fast: &bench.winning_families(subject),
    };
    let floor = about.floor();
    let counts = profile.as_ref().ok().cloned();
    let findings = diagnosis::findings(&about);
    Diagnosed {
        workload: subject.workload.name.clone(),
        case: request.case.name.clone(),
        family: variant.family.clone(),
        params: variant.params.clone(),
        time_us: time_ns / 1e3,
        floor_us: floor.ns / 1e3,
        floor_limiter: floor.limiter.name(),
        findings,
        no_counters: profile.err().map(String::from),
        kernels,
        parts: evaluated::parts(Sources { ablations: &ablations, profile: counts.as_ref() }, None),
        counters: None,
        counts,
        ablations,
    }
}

/// Says what the session's own times have shown of a cause.
pub fn tested(test: &CauseTest) -> String {
    let word = match test.status {
        CauseStatus::Confirmed => "confirmed",
        CauseStatus::Supported => "supported",
        CauseStatus::Inconclusive => "inconclusive",
        CauseStatus::NotConfirmed => "refuted",
        CauseStatus::NotTested | CauseStatus::NoExperiment => return "not tested".to_owned(),
    };
    let changed: Vec<String> =
        test.changes.iter().map(|one| format!("{} {} to {}", one.parameter, one.from, one.to)).collect();
    let by = if changed.is_empty() { "another family".to_owned() } else { changed.join(", ") };
    format!("{word} by {by}")
}

fn print(diagnosed: &Diagnosed, (device, times): (&str, TimeSource), out: &mut impl Write) -> anyhow::Result<()> {
    let Diagnosed { workload, case, family, params, time_us, floor_us, floor_limiter, .. } = diagnosed;
    writeln!(out, "{workload}/{case} on {device}, times are {}", times.name())?;
    writeln!(out, "{family} {}", show_params(params))?;
    let factor = time_us / floor_us;
    writeln!(out, "{time_us:.2} us, {factor:.1} times the floor of {floor_us:.2} us ({floor_limiter})")?;
    if let Some(reason) = &diagnosed.no_counters {
        writeln!(out, "no counts of a virtual GPU: {reason}")?;
    }
    if diagnosed.findings.is_empty() {
        writeln!(out, "no rule explains its time")?;
    }
    for (finding, number) in diagnosed.findings.iter().take(MAX).zip(1..) {
        let Finding { rule, cause, mechanism, kernel_change, gain, confidence, evidence, remedies, .. } = finding;
        writeln!(out, "\n{number}. {cause}")?;
        writeln!(
            out,
            "   {rule}: gain up to {gain:.2}x, confidence {}; {}",
            confidence.name(),
            tested(&finding.tested)
        )?;
        writeln!(out, "   why: {mechanism}")?;
        for one in evidence {
            let sign = if one.supports { "for" } else { "against" };
            writeln!(out, "   {sign}: {} ({})", one.text, one.source.name())?;
        }
        for remedy in remedies {
            writeln!(out, "   next: {}", remedy.text)?;
        }
        if remedies.is_empty() && *gain > 1.0 && !kernel_change.is_empty() {
            writeln!(out, "   next: a new kernel could {kernel_change}")?;
        }
    }
    ablations::print(case, &diagnosed.ablations, COLUMNS, out)?;
    writeln!(out)?;
    Ok(())
}
