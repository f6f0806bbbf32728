//! `optloop check`: explains all that is wrong with families and workloads.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use rayon::prelude::*;
use serde::Serialize;

use super::device;
use super::error::{usage, usage_sentence};
use super::paragraph::paragraph;
use super::preflight::check_initial_kernel;
use super::start::start_worker;
use super::trust::{self, TrustArgs};
use super::{own_executable, toolchain};
use crate::catalog::{Families, Project};
use crate::check::{Finding, Level, Pair, Ran, Runnable, Stage, Tools, check_oracle, check_sources};
use crate::config::{self, Config};
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::evaluation::Measurement;
use crate::domain::ids::CaseName;
use crate::domain::names::did_you_mean;
use crate::domain::profile::Profile;
use crate::domain::workload::Workload;
use crate::report::format::counted;
use crate::runner::activity;
use crate::runner::compile::Compiler;
use crate::runner::renderer::Renderer;
use crate::runner::self_check;
use crate::runner::worker::Worker;
use crate::shipped;

/// The format of the JSON.
const SCHEMA: &str = "optloop.check/1";

/// The most cases that did not run to name.
const MOST_NAMED: usize = 4;

/// The width of the first column.
const LABEL: usize = 7;

/// The longest first look at a family, because a user waits for it.
const LONGEST_LOOK: Duration = Duration::from_secs(15);

/// Arguments of `optloop check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workload with the families of its op, or family with the workloads of its op [default: everything]
    #[arg(value_name = "WORKLOAD|FAMILY")]
    name: Option<String>,

    /// Device: auto, cuda:N, virtual or virtual:NAME [default: session.device in config.toml]
    #[arg(long)]
    device: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,
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
}

/// The result.
#[derive(Debug, Default, Serialize)]
struct Result {
    right: Vec<Right>,
    findings: Vec<Finding>,
}

/// The result, for programs.
#[derive(Serialize)]
struct Printed<'a> {
    schema: &'static str,
    device: Option<&'a str>,
    #[serde(flatten)]
    result: &'a Result,
}

/// Checks, and prints everything that was found. Fails if something is wrong.
pub(super) async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let choice = device::to_execute(args.device.as_deref(), &config)?;
    let (mut result, pairs) = selected(args.name.as_deref(), project)?;
    let mut device = None;
    if !pairs.is_empty() {
        trust::check_places(project, &config, &args.trust)?;
        let mut claims = project.claim("check")?;
        let mut worker = start_worker(&choice, &config, &mut claims).await?;
        device = Some(worker.info().name.clone());
        let (exe, arch) = (own_executable()?, worker.info().arch.clone());
        let compiler =
            Compiler::new(exe.clone(), toolchain().await?, &arch, &config.compile.options, config.compile_limits())?;
        self_check::arm(&mut worker, &compiler).await?;
        let device = worker.info().clone();
        let tools = Tools { renderer: Renderer::new(exe), compiler, device, measuring: config.measuring() };
        let checked = {
            let _running = activity::begin(format!("checking {}", counted(pairs.len(), "family")), None);
            let tools = tools.clone();
            let check = move || {
                let check = |pair: Pair| {
                    let checked = check_sources(&pair, &tools);
                    (pair, checked)
                };
                pairs.into_par_iter().map(check).collect::<Vec<_>>()
            };
            tokio::task::spawn_blocking(check).await.context("Failed to check in the background")?
        };
        let mut running = Running { args, project, config: &config, tools: &tools, oracles: Vec::new() };
        for (pair, (findings, runnable)) in checked {
            result.findings.extend(findings);
            running.pair(&mut worker, &pair, runnable, &mut result).await?;
        }
    }
    result.findings.sort_by_key(|finding| finding.level);
    if args.json {
        let printed = Printed { schema: SCHEMA, device: device.as_deref(), result: &result };
        writeln!(out, "{}", serde_json::to_string_pretty(&printed)?)?;
    } else {
        result.print(out)?;
    }
    match result.findings.iter().filter(|finding| finding.level == Level::Wrong).count() {
        0 => Ok(()),
        1 => bail!("1 thing is wrong"),
        all => bail!("{all} things are wrong"),
    }
}

/// Returns the families to check, each with a workload, and what is wrong with the files around them.
fn selected(name: Option<&str>, project: &Project) -> anyhow::Result<(Result, Vec<Pair>)> {
    let (workloads, broken) = project.workloads().map_err(usage)?;
    let families = project.families().map_err(usage)?;
    let mut names: Vec<&str> = workloads.iter().map(|one| one.name.as_str()).collect();
    names.extend(broken.iter().map(|(name, _)| name.as_str()));
    names.extend(families.sound.iter().map(|one| one.name.as_str()));
    names.extend(families.broken.iter().map(|one| one.name.as_str()));
    if let Some(name) = name.filter(|name| !names.contains(name)) {
        let hint = did_you_mean(name, names.iter().copied());
        return Err(usage_sentence(format!(
            "there is no workload or family `{name}`{hint}: `optloop list` shows them"
        )));
    }
    let relative = |text: &str| text.replace(&format!("{}/", project.root().display()), "");
    let mut result = Result::default();
    let is_wanted = |workload: &str, family: &str| name.is_none_or(|name| name == workload || name == family);
    for (workload, error) in broken.iter().filter(|(workload, _)| is_wanted(workload, "")) {
        let sentence = relative(&format!("{error:#}"));
        let finding = Finding::in_file(Level::Wrong, &format!("kernels/workloads/{workload}.toml"), &sentence);
        result.findings.push(Finding { workload: Some(workload.clone()), ..finding });
    }
    let named: Vec<&Workload> = workloads.iter().filter(|workload| is_wanted(&workload.name, "")).collect();
    for family in &families.broken {
        let used = named.iter().any(|workload| family.may_compute(workload.op.name()));
        if is_wanted("", &family.name) || used {
            let file = format!("templates/kernels/{}/family.toml", family.name);
            let finding = |mistake: &String| Finding {
                family: Some(family.name.clone()),
                file: family.manifest.as_ref().map(|_| file.clone()),
                ..Finding::in_file(Level::Wrong, &file, &relative(mistake))
            };
            result.findings.extend(family.mistakes.iter().map(finding));
        }
    }
    let broken_ops = project.ops().into_iter().filter_map(|(op, found)| Some((op, found.err()?)));
    for (op, problem) in broken_ops.filter(|_| name.is_none()) {
        let file = format!("{}/{op}/op.toml", crate::ops::OPS_FOLDER);
        result.findings.push(Finding::in_file(Level::Wrong, &file, &relative(&problem)));
    }
    for workload in named {
        result.findings.extend(of_workload(workload, &families));
    }
    let mut pairs = Vec::new();
    for workload in &workloads {
        let of_op = families.sound.iter().filter(|family| family.op == workload.op.name());
        for family in of_op.filter(|family| is_wanted(&workload.name, &family.name)) {
            let places = project.places(family)?;
            pairs.push(Pair { workload: workload.clone(), family: family.clone(), places });
        }
    }
    Ok((result, pairs))
}

/// Returns what is wrong with a workload that can be read.
fn of_workload(workload: &Workload, families: &Families) -> Option<Finding> {
    let problem = match check_initial_kernel(workload, families) {
        // The family's own mistakes say more.
        Err(_) if families.broken.iter().any(|broken| broken.name == workload.initial_kernel) => return None,
        Err(problem) => problem,
        Ok(()) => return None,
    };
    let file = format!("kernels/workloads/{}.toml", workload.name);
    Some(Finding { workload: Some(workload.name.clone()), ..Finding::in_file(Level::Wrong, &file, &problem) })
}

/// What runs kernels and oracles.
struct Running<'a> {
    args: &'a Args,
    project: &'a Project,
    config: &'a Config,
    tools: &'a Tools,
    /// The workloads whose oracle was called, and whether it works.
    oracles: Vec<(String, bool)>,
}

impl Running<'_> {
    /// Runs a family on the cases that it takes.
    async fn pair(
        &mut self,
        worker: &mut Worker,
        pair: &Pair,
        runnable: Vec<Runnable>,
        result: &mut Result,
    ) -> anyhow::Result<()> {
        if !self.has_oracle(&pair.workload, result).await? {
            return Ok(());
        }
        let (mut right, mut shortcuts, mut looked) = (Vec::new(), BTreeMap::new(), false);
        let mut left_out: Vec<CaseName> = runnable.iter().map(|one| one.case.name.clone()).collect();
        let affordable = self.affordable(pair, runnable, worker.info());
        left_out.retain(|name| affordable.iter().all(|one| one.case.name != *name));
        for one in affordable {
            let _running = activity::begin(format!("running {} on {}", pair.family.name, one.case.name), None);
            match crate::check::run(worker, pair, &one, self.tools).await? {
                Ran::Right(measured) => {
                    // The case with the least work comes first.
                    if !std::mem::replace(&mut looked, true) {
                        result.findings.extend(self.look_first(worker, pair, &one, &measured).await?);
                    }
                    let shortcut = measured.profile.as_ref().and_then(Profile::shortcuts);
                    shortcuts.extend(shortcut.map(|shortcut| (one.case.name.clone(), shortcut)));
                    right.push(one.case.name);
                }
                Ran::Wrong(finding) => result.findings.push(finding),
            }
        }
        if !right.is_empty() {
            let (workload, family) = (pair.workload.name.clone(), pair.family.name.clone());
            result.right.push(Right { workload, family, cases: right, shortcuts, left_out });
        }
        Ok(())
    }

    /// Takes a first look at a family that optloop does not ship. Returns what is wrong.
    async fn look_first(
        &self,
        worker: &mut Worker,
        pair: &Pair,
        one: &Runnable,
        measured: &Measurement,
    ) -> anyhow::Result<Option<Finding>> {
        let budget = config::duration("session.budget", &self.config.session.budget)?;
        let within = budget.mul_f64(self.config.validate.first_look_share).min(LONGEST_LOOK);
        if within.is_zero() || shipped::is_unchanged(self.project.root(), &pair.family.name) {
            return Ok(None);
        }
        let _running = activity::begin(format!("checking {} on other shapes", pair.family.name), None);
        Ok(crate::check::look_first(worker, pair, one, self.tools, (measured, within)).await?)
    }

    /// Returns the configurations to run. On a virtual GPU, and where the user names nothing, these are the lightest.
    fn affordable(&self, pair: &Pair, mut runnable: Vec<Runnable>, device: &DeviceInfo) -> Vec<Runnable> {
        let work = |one: &Runnable| pair.workload.op.work(&one.case.dims);
        runnable.sort_by(|a, b| work(a).total_cmp(&work(b)));
        if device.time_source() == TimeSource::Modelled {
            let kept = pair.workload.clone().lightest(self.config.virtual_gpu.max_gflop * 1e9).cases;
            let lightest = runnable.first().map(|one| one.case.name.clone());
            runnable.retain(|one| Some(&one.case.name) == lightest.as_ref() || kept.contains(&one.case));
        }
        if self.args.name.is_none() {
            let mut sources = Vec::new();
            runnable.retain(|one| {
                let is_new = !sources.contains(&one.artifact.key);
                sources.push(one.artifact.key.clone());
                is_new
            });
        }
        runnable
    }

    /// Calls the oracle of a workload once, with the user's consent. Returns whether it can be used.
    async fn has_oracle(&mut self, workload: &Workload, result: &mut Result) -> anyhow::Result<bool> {
        if let Some((_, works)) = self.oracles.iter().find(|(name, _)| *name == workload.name) {
            return Ok(*works);
        }
        let items = crate::trust::of_oracle(self.project.root(), self.config, workload).map_err(usage)?;
        let works = if self.args.trust.is_given() || items.iter().all(|item| trust::is_trusted(self.project, item)) {
            trust::admit(self.project, &self.args.trust, items)?;
            let _running = activity::begin(format!("calling the oracle of op `{}`", workload.op.name()), None);
            let (workload, device) = (workload.clone(), self.tools.device.clone());
            let findings = tokio::task::spawn_blocking(move || check_oracle(&workload, &device)).await?;
            let works = findings.iter().all(|finding| finding.level == Level::Note);
            result.findings.extend(findings);
            works
        } else {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            let note = format!(
                "nothing was run, because you have not trusted {}: `optloop trust` shows it and asks",
                items.join(", and ")
            );
            let workload = Some(workload.name.clone());
            result.findings.push(Finding { workload, ..Finding::new(Level::Note, Stage::Oracle, note) });
            false
        };
        self.oracles.push((workload.name.clone(), works));
        Ok(works)
    }
}

impl Right {
    /// Says on what the family is right, and what did not run.
    fn sentence(&self) -> String {
        let Self { workload, family, cases, shortcuts, left_out } = self;
        let on = |case: &CaseName| match shortcuts.get(case) {
            Some(shortcut) => format!("a part of {case} ({shortcut})"),
            None => case.to_string(),
        };
        let on: Vec<String> = cases.iter().map(on).collect();
        let not_run = match &left_out[..] {
            [] => String::new(),
            few if few.len() <= MOST_NAMED => format!("; not run: {}", names(few)),
            many => format!("; not run: {} and {} more", names(&many[..MOST_NAMED]), many.len() - MOST_NAMED),
        };
        format!("{family} on {workload}: right on {}{not_run}", on.join(", "))
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
        if self.right.is_empty() && self.findings.is_empty() {
            writeln!(out, "there is nothing to check: add a workload and a family of its op")?;
        }
        Ok(())
    }
}
