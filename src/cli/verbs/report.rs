//! `optloop report`: writes the report of a session again, of two sessions, or of all, from the store.

mod facts;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;

use crate::agent::diagnosis::{self, Best, Recorded};
use crate::agent::prediction;
use crate::alive::Killed;
use crate::catalog::Project;
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::ids::{CaseName, SessionId};
use crate::domain::op::independent_dims;
use crate::domain::proposal::finding::Finding;
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::{IterationRecord, SessionKind, SessionRecord};
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, usage_sentence};
use crate::launch::project_store::store_path;
use crate::launch::replayed;
use crate::report::two::{self, Side};
use crate::report::{CaseFacts, Report, ReportInput, beaten_winners, best_of_case, build, csv, ledger};
use crate::secrets;
use crate::store::{MOST_IN_FULL, Store};

/// Iterations that are in memory at a time, where all of a session are written.
const AT_A_TIME: u32 = 1_000;

/// Arguments of `optloop report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the session [default: the latest]
    session: Option<SessionId>,

    /// Compare the best times of two sessions: what differs in their setup, and which is faster, case by case
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["session", "all"])]
    compare: Option<Vec<SessionId>>,

    /// List all sessions with their cumulative cost and results
    #[arg(long, conflicts_with = "session")]
    all: bool,

    /// Output format: md, html, json or csv
    #[arg(long, value_parser = format, default_value = "md", value_name = "FORMAT")]
    format: Format,

    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Reads a format. An earlier release had one more, which scripts may still ask for.
fn format(name: &str) -> Result<Format, Error> {
    if name == "md-details" {
        return Err(Error::new(DETAILS_ARE_GONE));
    }
    Format::from_str(name, false).map_err(|_| Error::new("expected md, html, json or csv"))
}

/// What the command line says to those who ask for the details as Markdown.
const DETAILS_ARE_GONE: &str = "the details as Markdown are no more: `--format html` has the evidence in folded sections, and `--format json` all facts";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// One page of Markdown
    Md,
    /// One HTML file with a chart and the evidence, which loads nothing
    Html,
    /// JSON, as described in `optloop docs report-schema`
    Json,
    /// A row for each iteration and case, as described in `optloop docs report-schema`
    Csv,
}

/// Prints the report, or writes it to a file.
pub async fn run(args: &Args, project: &Project, store: &Store, out: &mut impl Write) -> anyhow::Result<()> {
    let killed = Killed::of(store, &store_path(project)?).await?;
    let is_single = !args.all && args.compare.is_none();
    let text = if is_single && matches!(args.format, Format::Csv) {
        return of_iterations(args, store, out).await;
    } else if args.all {
        of_all(args.format, store, &killed).await?
    } else if let Some([a, b]) = args.compare.as_deref().and_then(|ids| ids.first_chunk::<2>()) {
        of_two(args.format, project, store, &killed, [*a, *b]).await?
    } else {
        let session = args.session(store).await?;
        of_session(args.format, project, store, &killed, session).await?
    };
    match &args.output {
        // Standard output masks secrets.
        None => out.write_all(text.as_bytes())?,
        Some(path) => replace(path, &masked(args.format, &text))?,
    }
    Ok(())
}

impl Args {
    /// Returns the session to report.
    async fn session(&self, store: &Store) -> anyhow::Result<SessionId> {
        match self.session {
            Some(session) => Ok(session),
            None => Ok(store.latest_session().await?.id),
        }
    }
}

/// Writes every iteration of a session as CSV, some at a time: a long session's do not fit into memory.
async fn of_iterations(args: &Args, store: &Store, out: &mut impl Write) -> anyhow::Result<()> {
    let session = store.session(args.session(store).await?).await?;
    let mut file = match &args.output {
        Some(path) => Some(Staged::new(path)?),
        None => None,
    };
    let mut rows = csv::Rows::new(session.time_source);
    let mut last = None;
    loop {
        let some = store.iterations_after(session.id, last, AT_A_TIME).await?;
        let text = rows.of(&some)?;
        match &mut file {
            None => out.write_all(text.as_bytes())?,
            Some(file) => file.write(&masked(Format::Csv, &text))?,
        }
        match some.last() {
            Some(newest) => last = Some(newest.id),
            None => break,
        }
    }
    file.map_or(Ok(()), Staged::keep)
}

async fn of_session(
    format: Format,
    project: &Project,
    store: &Store,
    killed: &Killed,
    session: SessionId,
) -> anyhow::Result<String> {
    let record = searched(store, killed, session).await?;
    let workload = replayed::workload_of(project, &record.session)?;
    let Answered { report, .. } = report(project, record, workload);
    Ok(match format {
        Format::Html => report.to_html()?,
        Format::Json => report.to_json()?,
        Format::Md | Format::Csv => report.to_markdown()?,
    })
}

/// Reads a session that has a report. One that only holds what was measured by hand decided nothing, so a report would say that
/// nothing was correct.
async fn searched(store: &Store, killed: &Killed, id: SessionId) -> anyhow::Result<SessionRecord> {
    if store.session(id).await?.kind == SessionKind::Single {
        return Err(usage_sentence(format!(
            "session {id} holds what was measured by hand: `optloop history {id}` and `optloop report {id} --format csv` list it"
        )));
    }
    let mut record = store.report_record(id, MOST_IN_FULL).await?;
    killed.mark_in(&mut record);
    Ok(record)
}

async fn of_all(format: Format, store: &Store, killed: &Killed) -> anyhow::Result<String> {
    let mut sessions = store.sessions().await?;
    sessions.iter_mut().for_each(|session| killed.mark(session));
    let ledger = ledger::of(&sessions);
    Ok(match format {
        Format::Md => ledger.to_markdown(),
        Format::Html => ledger.to_html()?,
        Format::Json => ledger.to_json()?,
        Format::Csv => {
            let mut text = Vec::new();
            csv::write_ledger(&ledger, &mut text)?;
            String::from_utf8(text)?
        }
    })
}

async fn of_two(
    format: Format,
    project: &Project,
    store: &Store,
    killed: &Killed,
    ids: [SessionId; 2],
) -> anyhow::Result<String> {
    let mut told = Vec::new();
    for id in ids {
        let record = searched(store, killed, id).await?;
        let workload = replayed::workload_of(project, &record.session)?;
        told.push(report(project, record, workload));
    }
    let side = |place: usize| Side { report: &told[place].report, facts: &told[place].facts };
    let two = two::of(side(0), side(1));
    Ok(match format {
        Format::Md => two.to_markdown(),
        Format::Html => two.to_html()?,
        Format::Json => two.to_json()?,
        Format::Csv => {
            let mut text = Vec::new();
            two.write_csv(&mut text)?;
            String::from_utf8(text)?
        }
    })
}

/// Masks secrets of the environment. Names and numbers of JSON stay the same.
fn masked(format: Format, text: &str) -> Cow<'_, str> {
    if let Format::Json = format { secrets::mask_json(text) } else { secrets::mask(text) }
}

/// A file that is written beside its place and then renamed, so that no reader sees half of it.
struct Staged<'a> {
    path: &'a Path,
    staged: PathBuf,
    file: File,
}

impl<'a> Staged<'a> {
    fn new(path: &'a Path) -> anyhow::Result<Self> {
        let mut staged = path.as_os_str().to_owned();
        staged.push(".tmp");
        let staged = PathBuf::from(staged);
        // A file here was left by a killed process, or is a link that leads elsewhere.
        let _ = std::fs::remove_file(&staged);
        let file = File::create_new(&staged).with_context(|| failed(path))?;
        Ok(Self { path, staged, file })
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.file.write_all(text.as_bytes()).with_context(|| failed(self.path))
    }

    fn keep(self) -> anyhow::Result<()> {
        std::fs::rename(&self.staged, self.path).with_context(|| failed(self.path))
    }
}

fn failed(path: &Path) -> String {
    format!("Failed to write {}", path.display())
}

fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut staged = Staged::new(path)?;
    staged.write(text)?;
    staged.keep()
}

/// Writes all forms of a session's report to `.optloop/reports/`. Returns the Markdown's path.
pub async fn write_reports(
    project: &Project,
    store: &Store,
    workload: &Workload,
    session: SessionId,
) -> anyhow::Result<PathBuf> {
    let killed = Killed::of(store, &store_path(project)?).await?;
    let mut record = store.report_record(session, MOST_IN_FULL).await?;
    killed.mark_in(&mut record);
    let Answered { report, .. } = report(project, record, workload.clone());
    let folder = project.root().join(".optloop/reports");
    std::fs::create_dir_all(&folder).with_context(|| format!("Failed to create {}", folder.display()))?;
    let path = |rest: &str| folder.join(format!("session-{session}{rest}"));
    let write = |rest: &str, format, text: String| replace(&path(rest), &masked(format, &text));
    write(".json", Format::Json, report.to_json()?)?;
    write(".md", Format::Md, report.to_markdown()?)?;
    write(".html", Format::Html, report.to_html()?)?;
    Ok(path(".md"))
}

/// A report with the facts that it was made from.
struct Answered {
    report: Report,
    facts: Vec<CaseFacts>,
}

/// Makes a report. Families that can no longer be read are left out of the next steps.
fn report(project: &Project, record: SessionRecord, workload: Workload) -> Answered {
    let workload = as_run(workload, &record);
    let device = &record.environment.device;
    let facts: Vec<CaseFacts> = workload.cases.iter().map(|case| facts::of_case(&workload, case, device)).collect();
    let all = project.families().unwrap_or_default().sound;
    let families = facts::of_families(&all, &workload, &record);
    let fitting: Vec<&Family> = all.iter().filter(|family| family.fits(&workload, device)).collect();
    let best = best(&record, &workload);
    let recorded = Recorded { record: &record, workload: &workload, families: &fitting, best: &best };
    let findings = diagnosis::of_session(recorded);
    let began = began(recorded);
    let history = History::of(&record);
    let report = build(&ReportInput {
        record: &record,
        facts: &facts,
        families: &families,
        dims: workload.op.dims(),
        independent_dims: &independent_dims(workload.op, workload.dtype),
        is_valid: &|family, params, case| facts::is_valid(&all, &workload, device, (family, params, case)),
        findings: &findings,
        began: &began,
        predict: &|finding, remedy| facts::predict(&all, &history, finding, remedy),
        known_after: &|earlier, claims| prediction::known_after(&record, &all, &history, earlier, claims),
    });
    Answered { report, facts }
}

/// Returns a workload with the shapes and the compute mode of a session, even if its file has changed since.
fn as_run(mut workload: Workload, record: &SessionRecord) -> Workload {
    workload.compute = record.compute;
    let mut ran: HashMap<&str, &Case> = HashMap::new();
    let tried = record.iterations.iter().filter(|iteration| iteration.rationale.purpose != Purpose::Experiment);
    ran.extend(tried.flat_map(|iteration| &iteration.cases).map(|case| (case.name.as_str(), case)));
    workload.cases.retain(|case| !ran.contains_key(case.name.as_str()));
    workload.cases.extend(ran.into_values().cloned());
    workload.cases.sort_by_cached_key(|case| record.session.cases.iter().position(|name| *name == case.name));
    workload.cases.retain(|case| record.session.cases.contains(&case.name));
    workload
}

/// Diagnoses an iteration on each case that it was timed on, from what its session has on record: as its report does. Empty without
/// the workload or the family.
pub async fn diagnosed(
    project: &Project,
    store: &Store,
    iteration: &IterationRecord,
) -> anyhow::Result<Vec<(CaseName, Vec<Finding>)>> {
    let record = store.report_record(iteration.session, MOST_IN_FULL).await?;
    let Ok(workload) = replayed::workload_of(project, &record.session) else { return Ok(Vec::new()) };
    let workload = as_run(workload, &record);
    let all = project.families().unwrap_or_default().sound;
    let fitting: Vec<&Family> =
        all.iter().filter(|family| family.fits(&workload, &record.environment.device)).collect();
    let best = best(&record, &workload);
    let recorded = Recorded { record: &record, workload: &workload, families: &fitting, best: &best };
    let timed = workload.cases.iter().filter(|case| iteration.timed_cases().any(|timed| case.name == *timed));
    let findings = timed.filter_map(|case| Some((case, diagnosis::of_variant(recorded, iteration.id, case)?)));
    Ok(findings.map(|(case, findings)| (case.name.clone(), findings)).collect())
}

/// Diagnoses the committed winners that the session began with and beat.
fn began(recorded: Recorded<'_>) -> Vec<Finding> {
    let cases = &recorded.workload.cases;
    let winner = |(name, iteration, time_ns)| {
        let case = cases.iter().find(|case| case.name == name)?;
        Some(Best { case, iteration, time_ns })
    };
    let best: Vec<Best<'_>> = beaten_winners(recorded.record).into_iter().filter_map(winner).collect();
    let mut findings = diagnosis::of_session(Recorded { best: &best, ..recorded });
    // The diagnosis begins with the initial kernel.
    findings.retain(|found| best.iter().any(|best| Some(best.iteration) == found.iteration));
    findings
}

/// Returns the best variant of each case, with the time that the report gives for it.
fn best<'w>(record: &SessionRecord, workload: &'w Workload) -> Vec<Best<'w>> {
    let best = |case: &'w Case| {
        let (iteration, time_ns) = best_of_case(&case.name, record)?;
        Some(Best { case, iteration, time_ns })
    };
    workload.cases.iter().filter_map(best).collect()
}
