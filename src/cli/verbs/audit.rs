//! `optloop audit`: replays the corpus of cheating, broken and odd kernels, and reports which were caught.

use std::io::Write;

use serde::Serialize;

use crate::audit::{Audit, AuditResult, EntryOutcome};
use crate::catalog::Project;
use crate::cli::terminal::table::Table;
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::corpus::{CorpusEntry, EntryKind, PASSED};
use crate::domain::text::names::did_you_mean;
use crate::error::{Error, error, usage, usage_sentence};
use crate::launch::armed::{self, ArmedDevice};
use crate::launch::consent;
use crate::launch::devices;
use crate::launch::instruments::open_sanitizer;
use crate::launch::own_executable;
use crate::locks::Locks;
use crate::notices::say;
use crate::report::format::counted;
use crate::runner::device::DeviceChoice;
use crate::runner::renderer::Renderer;

/// Arguments of `optloop audit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device: auto, cuda:N, virtual or virtual:NAME [default: session.device in config.toml]
    #[arg(short = 'd', long)]
    device: Option<String>,

    /// Replay only this kernel of the corpus; can be repeated [default: every kernel]
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,

    /// Random seed for the inputs [default: random]
    #[arg(long)]
    seed: Option<u64>,

    /// Print one JSON object per kernel
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,
}

/// The result for one kernel, for programs. docs/audit.md describes it.
#[derive(Serialize)]
struct Printed<'a> {
    kernel: &'a str,
    about: &'a str,
    kind: EntryKind,
    cheats: &'a [u32],
    device: &'a str,
    answer: Option<&'a str>,
    message: Option<&'a str>,
    left_out: Option<&'a str>,
    expected: &'a [String],
    right: bool,
}

/// Replays the corpus and prints the results. Fails if a kernel gets an answer that its file does not name.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    if project.corpus_names().map_err(usage)?.is_empty() {
        return Err(usage_sentence(
            "there is no kernel in tests/audit/: optloop audit tests optloop's own checks, so run it in a clone of its repository",
        ));
    }
    let names = chosen(project.corpus_names().map_err(usage)?, &args.only).map_err(usage_sentence)?;
    let entries = project.corpus(&names).map_err(usage)?;
    let choice = devices::to_execute(args.device.as_deref(), &config)?;
    consent::check_places(project, &config, args.trust.agrees())?;
    for entry in &entries {
        consent::admit_oracle(project, &config, args.trust.agrees(), &entry.workload)?;
    }
    let mut locks = project.lock("audit")?;
    let mut audit = open(project, &config, &choice, args.seed.unwrap_or_else(rand::random), &mut locks).await?;
    let device = audit.device().name.clone();
    say(&format!("auditing {} on the {device}", counted(entries.len(), "kernel")));

    let (shown, left_out): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.not_on(audit.device()).is_none());
    let mut findings: Vec<AuditResult> = left_out.into_iter().filter_map(|entry| without(entry, &audit)).collect();
    for compiled in audit.compile(shown).await? {
        findings.push(audit.replay(compiled).await.map_err(usage)?);
    }
    findings.sort_by(|a, b| (a.entry.kind as u8, &a.entry.name).cmp(&(b.entry.kind as u8, &b.entry.name)));
    if args.json {
        findings.iter().try_for_each(|finding| print_json(finding, &device, out))?;
    } else {
        print_table(&findings, out)?;
        writeln!(out, "\n{}", summary(&findings, &device))?;
    }
    let wrong: Vec<&str> =
        findings.iter().filter(|finding| !finding.is_right()).map(|finding| finding.entry.name.as_str()).collect();
    match wrong.as_slice() {
        [] => Ok(()),
        wrong => anyhow::bail!("kernels with answers that their files do not list: {}", wrong.join(", ")),
    }
}

/// Returns the names of the kernels to replay: the given ones, or all if none is given.
fn chosen(mut names: Vec<String>, only: &[String]) -> Result<Vec<String>, Error> {
    if let Some(name) = only.iter().find(|name| !names.contains(name)) {
        let hint = did_you_mean(name, names.iter().map(String::as_str));
        return Err(error!("there is no kernel `{name}`{hint} in tests/audit/"));
    }
    names.retain(|name| only.is_empty() || only.contains(name));
    Ok(names)
}

/// Opens and claims the device, with its measured peaks.
async fn open(
    project: &Project,
    config: &Config,
    choice: &DeviceChoice,
    seed: u64,
    locks: &mut Locks,
) -> anyhow::Result<Audit> {
    let ArmedDevice { worker, compiler, .. } = armed::arm(project, config, choice, locks).await?;
    let sanitizer = open_sanitizer(worker.info(), config).await?;
    Ok(Audit::new(config, Renderer::new(own_executable()?), compiler, worker, sanitizer, seed))
}

fn without(entry: CorpusEntry, audit: &Audit) -> Option<AuditResult> {
    let reason = entry.not_on(audit.device())?.to_owned();
    Some(AuditResult { entry, outcome: EntryOutcome::Skipped(reason) })
}

fn print_json(finding: &AuditResult, device: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let CorpusEntry { name, about, kind, cheats, caught_by, .. } = &finding.entry;
    let (answer, message, left_out) = match &finding.outcome {
        EntryOutcome::Skipped(reason) => (None, None, Some(reason.as_str())),
        EntryOutcome::Replayed { answer, message } => (Some(answer.as_str()), Some(message.as_str()), None),
    };
    let right = finding.is_right();
    let printed = Printed {
        kernel: name,
        about,
        kind: *kind,
        cheats,
        device,
        answer,
        message,
        left_out,
        expected: caught_by,
        right,
    };
    serde_json::to_writer(&mut *out, &printed)?;
    Ok(writeln!(out)?)
}

fn print_table(findings: &[AuditResult], out: &mut impl Write) -> anyhow::Result<()> {
    let mut table = Table::new(&["kernel", "kind", "answer", "said"]);
    for finding in findings {
        let (answer, said) = match &finding.outcome {
            EntryOutcome::Skipped(reason) => ("left out".to_owned(), reason.clone()),
            EntryOutcome::Replayed { answer, .. } if !finding.is_right() => {
                let expected = finding.entry.caught_by.join(", ");
                let expected = if expected.is_empty() { PASSED.to_owned() } else { expected };
                (format!("{answer} (!)"), format!("expected: {expected}"))
            }
            EntryOutcome::Replayed { answer, message } => (answer.clone(), message.clone()),
        };
        table.row([finding.entry.name.clone(), finding.entry.kind.name().to_owned(), answer, said]);
    }
    Ok(table.print(out)?)
}

/// Returns one sentence on what was caught.
fn summary(findings: &[AuditResult], device: &str) -> String {
    let replayed = |honest: bool| {
        let of_kind = findings.iter().filter(move |finding| (finding.entry.kind == EntryKind::Honest) == honest);
        of_kind.filter_map(|finding| match &finding.outcome {
            EntryOutcome::Skipped(_) => None,
            EntryOutcome::Replayed { answer, .. } => Some(answer != PASSED),
        })
    };
    let caught = |honest: bool| replayed(honest).filter(|caught| *caught).count();
    let left_out = findings.iter().filter(|finding| matches!(finding.outcome, EntryOutcome::Skipped(_))).count();
    format!(
        "{} of {} cheating or broken kernels and {} of {} honest ones were caught on the {device}; {left_out} were \
         skipped there",
        caught(false),
        replayed(false).count(),
        caught(true),
        replayed(true).count(),
    )
}
