//! `optloop check`: explains all that is wrong with families and workloads.

mod changed;
mod running;
mod selection;

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, bail};
use rayon::prelude::*;
use serde::Serialize;

use self::changed::Known;
use self::running::Running;
use self::selection::selected;
use crate::catalog::Project;
use crate::check::{Checked, Finding, Level, Pair, Tools, check_sources};
use crate::cli::terminal::paragraph::paragraph;
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::code::profile::Profile;
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::measurement::evaluation::Measurement;
use crate::domain::variant::{Params, show_params};
use crate::error::usage;
use crate::evaluate::Evaluator;
use crate::evaluated::Evaluated;
use crate::launch::compiler::toolchain;
use crate::launch::consent;
use crate::launch::devices;
use crate::launch::devices::start_worker;
use crate::launch::own_executable;
use crate::launch::project_store::locked_store;
use crate::notices::say;
use crate::report::format::{self, counted};
use crate::runner::activity;
use crate::runner::compile::Compiler;
use crate::runner::renderer::Renderer;
use crate::runner::self_check;
use crate::runner::worker::Worker;

/// The format of the JSON.
const SCHEMA: &str = "optloop.check/1";

/// The most cases that did not run to name.
const MOST_NAMED: usize = 4;

/// The width of the first column.
const LABEL: usize = 7;

/// Arguments of `optloop check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workload with the families of its op, family with the workloads of its op, or a family with its non-default parameters:
    /// attention-scalar:BR=64,BC=32 [default: what has changed since it was right]
    #[arg(value_name = "WORKLOAD|FAMILY")]
    name: Option<String>,

    /// Check only on this workload
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// Check only on this case; can be repeated
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    cases: Vec<CaseName>,

    /// Check everything, also what optloop ships and what has not changed since it was right
    #[arg(long, conflicts_with_all = ["name", "workload", "cases"])]
    all: bool,

    /// Device: auto, cuda:N, virtual or virtual:NAME [default: session.device in config.toml]
    #[arg(short = 'd', long)]
    device: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,
}

impl Args {
    /// Returns whether the user names what to check.
    fn names_something(&self) -> bool {
        self.name.is_some() || self.workload.is_some() || !self.cases.is_empty()
    }
}

/// A family that is right on cases of a workload.
#[derive(Debug, Serialize)]
struct Right {
    workload: String,
    family: String,
    cases: Vec<CaseName>,
    /// What ran in place of a case that is too much work for a virtual GPU.
    shortcuts: BTreeMap<CaseName, String>,
    /// The cases that did not run.
    left_out: Vec<CaseName>,
    /// The configuration that the user named, and its time on each case in microseconds.
    named: Option<Named>,
}

/// A configuration that the user named, where it is right.
#[derive(Debug, Serialize)]
struct Named {
    params: Params,
    us: BTreeMap<CaseName, f64>,
    time_source: TimeSource,
}

/// The result.
#[derive(Debug, Default, Serialize)]
struct Result {
    right: Vec<Right>,
    findings: Vec<Finding>,
    /// How many families on workloads were left out, because they have not changed since they were right.
    unchanged: usize,
}

/// The result, for programs.
#[derive(Serialize)]
struct Printed<'a> {
    schema: &'static str,
    device: Option<&'a str>,
    #[serde(flatten)]
    result: &'a Result,
    /// Each configuration that was tried, as it is on record.
    evaluations: Vec<Evaluated>,
}

/// Checks, and prints everything that was found. Fails if something is wrong.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let choice = devices::to_execute(args.device.as_deref(), &config)?;
    let (mut result, mut pairs) = selected(args, project)?;
    let mut known = Known::of(project, &config, &choice.to_string());
    if !args.all && !args.names_something() {
        let all = pairs.len();
        pairs.retain(|pair| !known.has(project, pair));
        result.unchanged = all - pairs.len();
    }
    let (mut device, mut evaluations) = (None, Vec::new());
    if !pairs.is_empty() {
        consent::check_places(project, &config, args.trust.agrees())?;
        let mut locks = project.lock("check")?;
        let mut worker = start_worker(&choice, &config, &mut locks).await?;
        device = Some(worker.info().name.clone());
        let tools = tools(&mut worker, &config).await?;
        let store = locked_store(project, &config, &mut locks).await?;
        let mut evaluator = Evaluator::new(worker, tools.measuring);
        evaluator.record_all_in(store, &config, tools.compiler.nvrtc_version())?;
        let checked = all_sources(pairs.clone(), &tools).await?;
        let mut running = Running { args, project, config: &config, tools: &tools, oracles: Vec::new(), evaluator };
        let ran = running.all(checked, &mut result).await;
        running.evaluator.end_record(ran.as_ref().err()).await?;
        ran?;
        if args.cases.is_empty() {
            known.note(project, &pairs, &result.findings)?;
        }
        if args.json {
            evaluations = running.evaluator.evaluated().await?;
        }
    }
    result.findings.sort_by_key(|finding| finding.level);
    if args.json {
        let printed = Printed { schema: SCHEMA, device: device.as_deref(), result: &result, evaluations };
        writeln!(out, "{}", serde_json::to_string_pretty(&printed)?)?;
    } else {
        result.print(out)?;
    }
    match result.findings.iter().filter(|finding| finding.level == Level::Wrong).count() {
        0 if result.right.is_empty() && result.unchanged == 0 => bail!("no case was checked"),
        0 => Ok(()),
        1 => bail!("1 thing is wrong"),
        all => bail!("{all} things are wrong"),
    }
}

/// Starts the compiler and checks the device.
async fn tools(worker: &mut Worker, config: &Config) -> anyhow::Result<Tools> {
    let (exe, arch) = (own_executable()?, worker.info().arch.clone());
    let compiler =
        Compiler::new(exe.clone(), toolchain().await?, &arch, &config.compile.options, config.compile_limits())?
            .for_device(worker.info());
    self_check::arm(worker, &compiler).await?;
    let device = worker.info().clone();
    Ok(Tools { renderer: Renderer::new(exe), compiler, device, measuring: config.measuring() })
}

/// Checks the sources of all families at once, in the background.
async fn all_sources(pairs: Vec<Pair>, tools: &Tools) -> anyhow::Result<Vec<(Pair, Checked)>> {
    let _running = activity::begin(format!("checking {}", counted(pairs.len(), "family")), None);
    let tools = tools.clone();
    let check = move || {
        let check = |pair: Pair| {
            let checked = check_sources(&pair, &tools);
            (pair, checked)
        };
        pairs.into_par_iter().map(check).collect::<Vec<_>>()
    };
    tokio::task::spawn_blocking(check).await.context("Failed to check in the background")
}

impl Right {
    /// Adds a case on which the family is right.
    fn add(&mut self, case: &CaseName, measured: &Measurement) {
        let shortcut = measured.profile.as_ref().and_then(Profile::shortcuts);
        self.shortcuts.extend(shortcut.map(|shortcut| (case.clone(), shortcut)));
        self.cases.push(case.clone());
        if let (Some(named), Some(timing)) = (&mut self.named, measured.best_timing()) {
            named.us.insert(case.clone(), timing.median_ns / 1e3);
        }
    }

    /// Says on what the family is right, and what did not run.
    fn sentence(&self) -> String {
        let Self { workload, family, cases, shortcuts, left_out, named } = self;
        let time = |case: &CaseName| {
            let (named, us) = named.as_ref().and_then(|named| Some((named, named.us.get(case)?)))?;
            Some(format!(", {} us ({})", format::us(*us), named.time_source.name()))
        };
        let on = |case: &CaseName| {
            let time = time(case).unwrap_or_default();
            match shortcuts.get(case) {
                Some(shortcut) => format!("a part of {case} ({shortcut}){time}"),
                None => format!("{case}{time}"),
            }
        };
        let on: Vec<String> = cases.iter().map(on).collect();
        let not_run = match &left_out[..] {
            [] => String::new(),
            few if few.len() <= MOST_NAMED => format!("; not run: {}", names(few)),
            many => format!("; not run: {} and {} more", names(&many[..MOST_NAMED]), many.len() - MOST_NAMED),
        };
        let params = named.as_ref().map(|named| format!(" {}", show_params(&named.params))).unwrap_or_default();
        format!("{family}{params} on {workload}: right on {}{not_run}", on.join(", "))
    }
}

fn names(cases: &[CaseName]) -> String {
    cases.iter().map(CaseName::as_str).collect::<Vec<_>>().join(", ")
}

impl Result {
    fn print(&self, out: &mut impl Write) -> anyhow::Result<()> {
        for right in &self.right {
            write!(out, "{}", paragraph("ok", LABEL, &right.sentence()))?;
        }
        for finding in &self.findings {
            let label = match finding.level {
                Level::Wrong => "wrong",
                Level::Note => "note",
            };
            let subject = match (&finding.family, &finding.workload) {
                (Some(family), Some(workload)) => format!("{family} on {workload}: "),
                (Some(name), None) | (None, Some(name)) => format!("{name}: "),
                (None, None) => String::new(),
            };
            write!(out, "{}", paragraph(label, LABEL, &format!("{subject}{}", finding.sentence())))?;
        }
        let unchanged = format!("{} on workloads", counted(self.unchanged, "family"));
        match self.unchanged {
            0 => {}
            _ if self.right.is_empty() && self.findings.is_empty() => writeln!(
                out,
                "nothing has changed: {unchanged} were right before (`optloop check --all` checks everything)"
            )?,
            _ => {
                say(&format!("not checked again, because nothing of them has changed: {unchanged} (--all checks them)"))
            }
        }
        if self.right.is_empty() && self.findings.is_empty() && self.unchanged == 0 {
            writeln!(out, "there is nothing to check: add a workload and a family of its op")?;
        }
        Ok(())
    }
}
