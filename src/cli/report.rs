//! `optloop report`: writes the report of a session again, from the store.

mod facts;

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;

use super::alive::Killed;
use super::store_path;
use crate::agent::diagnosis::{Recorded, of_session};
use crate::catalog::Project;
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::op::independent_dims;
use crate::domain::origin::Purpose;
use crate::domain::record::SessionRecord;
use crate::domain::workload::{Case, Workload};
use crate::report::{CaseFacts, Report, ReportInput, build};
use crate::secrets;
use crate::store::Store;

/// Arguments of `optloop report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the session [default: the latest]
    session: Option<SessionId>,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Markdown
    Md,
    /// JSON, as described in docs/report-schema.md
    Json,
}

/// Prints the report.
pub async fn run(args: &Args, project: &Project, store: &Store, out: &mut impl Write) -> anyhow::Result<()> {
    let session = match args.session {
        Some(session) => session,
        None => store.latest_session().await?.id,
    };
    let killed = Killed::of(store, &store_path(project)?).await?;
    let mut record = store.session_record(session).await?;
    killed.mark_in(&mut record);
    let workload = project.workload(&record.session.workload)?;
    let report = report(project, record, workload);
    let text = match args.format {
        Format::Md => report.to_markdown()?,
        Format::Json => report.to_json()?,
    };
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// Writes both forms of a session's report to `.optloop/reports/`. Returns the Markdown's path.
pub async fn write_reports(
    project: &Project,
    store: &Store,
    workload: &Workload,
    session: SessionId,
) -> anyhow::Result<PathBuf> {
    let killed = Killed::of(store, &store_path(project)?).await?;
    let mut record = store.session_record(session).await?;
    killed.mark_in(&mut record);
    let report = report(project, record, workload.clone());
    let folder = project.root().join(".optloop/reports");
    std::fs::create_dir_all(&folder).with_context(|| format!("Failed to create {}", folder.display()))?;
    let write = |extension: &str, text: &str| -> anyhow::Result<PathBuf> {
        let path = folder.join(format!("session-{session}.{extension}"));
        // Written beside and then renamed, so that no reader sees half a report.
        let staged = path.with_extension(format!("{extension}.tmp"));
        // A file here was left by a killed process, or is a link that leads elsewhere.
        let _ = std::fs::remove_file(&staged);
        let written = std::fs::File::create_new(&staged)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| std::fs::rename(&staged, &path));
        written.with_context(|| format!("Failed to write {}", path.display()))?;
        Ok(path)
    };
    write("json", &secrets::mask_json(&report.to_json()?))?;
    write("md", &secrets::mask(&report.to_markdown()?))
}

/// Makes a report. Its shapes are those on which the session ran, even if the workload's file has changed. Families
/// that can no longer be read are left out of the next steps.
fn report(project: &Project, record: SessionRecord, mut workload: Workload) -> Report {
    let mut ran: HashMap<&str, &Case> = HashMap::new();
    let tried = record.iterations.iter().filter(|iteration| iteration.purpose != Purpose::Experiment);
    ran.extend(tried.flat_map(|iteration| &iteration.cases).map(|case| (case.name.as_str(), case)));
    workload.cases.retain(|case| !ran.contains_key(case.name.as_str()));
    workload.cases.extend(ran.into_values().cloned());
    workload.cases.sort_by_cached_key(|case| record.session.cases.iter().position(|name| *name == case.name));
    let device = &record.environment.device;
    workload.cases.retain(|case| record.session.cases.contains(&case.name));
    let facts: Vec<CaseFacts> = workload.cases.iter().map(|case| facts::of_case(&workload, case, device)).collect();
    let all = project.families().unwrap_or_default();
    let families = facts::of_families(&all, &workload, &record);
    let fitting: Vec<&Family> = all.iter().filter(|family| family.fits(&workload, device)).collect();
    let best = best(&record, &workload);
    let findings = of_session(Recorded { record: &record, workload: &workload, families: &fitting, best: &best });
    let history = History::of(&record);
    build(&ReportInput {
        record: &record,
        facts: &facts,
        families: &families,
        independent_dims: &independent_dims(workload.op, workload.dtype),
        is_valid: &|family, params, case| facts::is_valid(&all, &workload, device, (family, params, case)),
        findings: &findings,
        predict: &|finding, remedy| facts::predict(&all, &history, finding, remedy),
    })
}

/// Returns the iteration with the best variant of each case: the winner of its final, else its incumbent.
fn best<'w>(record: &SessionRecord, workload: &'w Workload) -> Vec<(&'w Case, IterationId)> {
    let history = History::of(record);
    let final_of = |case: &Case| record.finals.iter().rev().find(|one| one.comparison.conditions.case == case.name);
    let iteration = |case: &Case| match final_of(case) {
        Some(settled) => Some(settled.winner),
        None => history.incumbents.get(&case.name).map(|incumbent| incumbent.iteration),
    };
    workload.cases.iter().filter_map(|case| Some((case, iteration(case)?))).collect()
}
