//! The end of a session: its report, its notices and its exit code.

use anyhow::Context;

use super::notify;
use crate::catalog::Project;
use crate::cli::terminal::ending;
use crate::cli::terminal::ticker::Ticker;
use crate::cli::verbs::report::write_reports;
use crate::config::NotifyConfig;
use crate::domain::workload::Workload;
use crate::notices::say;
use crate::runner::activity;
use crate::session::End;
use crate::store::Store;

/// Writes the report of a session that has ended. The report comes before any error, so a session that failed or lost
/// its terminal has one, too.
pub async fn conclude(
    end: End,
    shown: std::io::Result<()>,
    project: &Project,
    notify: &NotifyConfig,
    store: Store,
    workload: &Workload,
) -> anyhow::Result<()> {
    let _ticker = Ticker::start();
    let session = end.session;
    let _running = activity::begin(format!("the report of session {session}"), None);
    let written = write_reports(project, &store, workload, session).await.with_context(|| {
        format!("session {session} is on record, but its report is not written: `optloop report {session}` prints it")
    });
    let mut failure = None;
    if let Ok(summary) = store.session(session).await {
        failure = ending::nothing_correct(&store, &summary).await.ok().flatten();
        notify::tell(notify, project.root(), &summary).await;
    }
    store.close().await;
    match (&written, &end.error) {
        (Ok(path), _) => say(&format!("report: {}", path.display())),
        // The session's own error is the one to end with.
        (Err(problem), Some(_)) => say(&format!("{problem:#}")),
        (Err(_), None) => {}
    }
    end.error.map_or(Ok(()), Err)?;
    written?;
    shown?;
    failure.map_or(Ok(()), |failure| Err(anyhow::Error::msg(failure)))
}
