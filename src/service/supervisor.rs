//! Starts the sessions of the queue, waits for their ends, and takes over those of an earlier service.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::time::sleep;

use super::app::App;
use super::conclusion::{Exit, Facts, Found, conclusion};
use super::projects::Served;
use super::schedule;
use super::session::{self, Blow};
use crate::domain::ids::SessionId;
use crate::domain::submission::{Lane, StopRequest, Submission, SubmissionId, SubmissionState};

/// How often the log of a process is looked at until its session has begun.
const POLL: Duration = Duration::from_millis(100);

/// How often a session is asked again to abandon its iteration.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The time between two tries to record an end, if the store or the queue does not answer.
const RECORD_AGAIN: Duration = Duration::from_secs(2);

/// The longest time without a look at the queue.
const IDLE: Duration = Duration::from_secs(60);

/// Runs the queue until the service stops. Sessions go on after that.
pub async fn run(app: Arc<App>) -> anyhow::Result<()> {
    let (mut changes, mut stopping) = (app.changes.subscribe(), app.stopping.subscribe());
    for submission in app.queue.open_ones().await? {
        if submission.state == SubmissionState::Running {
            tokio::spawn(follow(Arc::clone(&app), submission));
        }
    }
    while !*stopping.borrow() {
        changes.mark_unchanged();
        let (wake, failed) = match start_due(&app).await {
            Ok(wake) => (wake, false),
            Err(error) => {
                tracing::error!("sessions cannot start: {error:#}");
                (RECORD_AGAIN, true)
            }
        };
        tokio::select! {
            // While the disk is full, a change is no reason to try sooner.
            _ = changes.changed(), if !failed => {}
            _ = stopping.changed() => {}
            () = sleep(wake) => {}
        }
    }
    Ok(())
}

/// Starts what can start. Returns the time until the next look.
async fn start_due(app: &Arc<App>) -> anyhow::Result<Duration> {
    let open = app.queue.open_ones().await?;
    let is_served = |root: &str| app.projects.at(root).is_some();
    let plan = schedule::plan(&open, &app.room, &is_served, app.clock.now_ms());
    for (id, lane) in plan.starts {
        // Nobody else begins it. If the service is killed after this line, the next one finds no process and starts one.
        if let Some(submission) = app.queue.begin(id, lane).await? {
            tracing::info!(submission = id.0, %lane, "a session starts");
            let app = Arc::clone(app);
            app.note_change();
            tokio::spawn(async move {
                let exit = execute(&app, &submission, lane).await;
                conclude(&app, id, exit).await;
            });
        }
    }
    let wait_ms = plan.wake_at_ms.map(|wake| wake.saturating_sub(app.clock.now_ms()).max(0).unsigned_abs());
    Ok(wait_ms.map_or(IDLE, Duration::from_millis).min(IDLE))
}

/// Runs the process of a submission.
async fn execute(app: &App, submission: &Submission, lane: Lane) -> Exit {
    let printed = app.folder.log(submission.id).len();
    match session::start(&app.exe, &app.folder, (submission, lane), app.fleet.as_ref()) {
        Err(error) => Exit::Failed(format!("{error:#}")),
        Ok(child) => tokio::select! {
            exit = session::wait(child, &app.folder, submission) => exit,
            never = accompany(app, submission, printed) => match never {},
        },
    }
}

/// Waits for the process of a submission that an earlier service has started.
async fn follow(app: Arc<App>, submission: Submission) {
    let log = app.folder.log(submission.id);
    let free = tokio::task::spawn_blocking(move || log.wait_until_free());
    let waited = tokio::select! {
        waited = free => waited,
        never = accompany(&app, &submission, 0) => match never {},
    };
    if let Ok(Err(error)) = waited {
        tracing::warn!(submission = submission.id.0, "the log of a session cannot be locked: {error}");
    }
    conclude(&app, submission.id, Exit::Unknown).await;
}

/// Notes the number of the session as soon as it has begun, and passes requests to stop on. Never returns.
async fn accompany(app: &App, submission: &Submission, mut printed: u64) -> Infallible {
    let log = app.folder.log(submission.id);
    let (mut session, mut has_asked, mut cancelled_at) = (None, false, None);
    let mut changes = app.changes.subscribe();
    loop {
        if session.is_none() {
            if let Ok((lines, next)) = log.read(printed) {
                printed = next;
                session = lines.iter().find_map(|line| begun(&line.text));
            }
            if let Some(id) = session {
                note_session(app, submission.id, id).await;
            }
        }
        let asked = app.queue.get(submission.id).await.ok().flatten().and_then(|now| now.asked);
        // A request that comes before the session listens is lost. A second one makes it abandon its iteration.
        let again = asked == Some(StopRequest::Cancel) || session.is_none();
        if asked.is_some() && (again || !has_asked) {
            has_asked = session.is_some();
            let is_cancelled = asked == Some(StopRequest::Cancel);
            let is_late = is_cancelled && cancelled_at.get_or_insert_with(Instant::now).elapsed() >= app.cancel_timeout;
            let blow = if is_late { Blow::Kill } else { Blow::Interrupt };
            if let Err(error) = session::signal(&app.folder, submission, blow) {
                tracing::error!(submission = submission.id.0, "a session cannot be stopped: {error:#}");
            }
        }
        if session.is_some() && (asked.is_none() || asked == Some(StopRequest::Stop)) {
            // The sender lives as long as the service.
            let _ = changes.changed().await;
        } else {
            sleep(if session.is_none() { POLL } else { ASK_AGAIN }).await;
        }
    }
}

async fn note_session(app: &App, id: SubmissionId, session: SessionId) {
    match app.queue.note_session(id, session).await {
        Ok(()) => app.note_change(),
        // Its end is recorded with the number, too.
        Err(error) => tracing::warn!(submission = id.0, "the number of a session is not recorded: {error}"),
    }
}

/// Returns the number of the session if an event says that it begins or continues.
fn begun(event: &str) -> Option<SessionId> {
    let event: serde_json::Value = serde_json::from_str(event).ok()?;
    let is_begin = matches!(event["event"].as_str(), Some("started" | "resumed"));
    event["session"].as_i64().filter(|_| is_begin).map(SessionId)
}

/// Records what became of a submission whose process has ended, however long that takes.
async fn conclude(app: &App, id: SubmissionId, exit: Exit) {
    loop {
        match record(app, id, exit.clone()).await {
            Ok(()) => return app.note_change(),
            Err(error) => tracing::error!(submission = id.0, "the end of a session is not recorded yet: {error:#}"),
        }
        sleep(RECORD_AGAIN).await;
    }
}

async fn record(app: &App, id: SubmissionId, exit: Exit) -> anyhow::Result<()> {
    let submission = app.queue.get(id).await?.context("it is not in the queue")?;
    let is_there = Path::new(&submission.project).is_dir();
    let facts = Facts {
        exit: if is_there { exit } else { Exit::Failed("the folder of its project is gone".to_owned()) },
        session: if is_there { found(app, &submission).await? } else { None },
        asked: submission.asked,
        attempts: submission.attempts,
        iterations: submission.iterations,
        now_ms: app.clock.now_ms(),
    };
    let conclusion = conclusion(&facts);
    app.queue.conclude(id, &conclusion).await?;
    let (state, reason) = (conclusion.state.name(), conclusion.reason.unwrap_or_default());
    tracing::info!(submission = id.0, state, reason, "a process of a session has ended");
    Ok(())
}

/// Reads the session of a submission from the project's store.
async fn found(app: &App, submission: &Submission) -> anyhow::Result<Option<Found>> {
    let other;
    let project = match app.projects.at(&submission.project) {
        Some(project) => project,
        // An earlier service has served it, and its session was still running.
        None => {
            other = Served::unnamed(&submission.project);
            &other
        }
    };
    let Some(store) = project.reader().await? else { return Ok(None) };
    let session = store.session_of(&submission.uid).await?;
    Ok(session.map(|session| Found {
        id: session.id,
        status: session.status,
        reason: session.stop_reason,
        iterations: session.iterations.saturating_sub(session.unfinished),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::watch;
    use tokio::task::yield_now;

    use super::*;
    use crate::domain::submission::SessionRequest;
    use crate::service::app::Clock;
    use crate::service::folder::StateFolder;
    use crate::service::http::places::Places;
    use crate::service::metrics::Metrics;
    use crate::service::projects::Projects;
    use crate::service::schedule::Room;
    use crate::store::queue::{NewSubmission, Queue};

    async fn app(folder: &Path) -> Arc<App> {
        let (project, state) = (folder.join("p"), folder.join("s"));
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("config.toml"), "").unwrap();
        let folder = StateFolder::claim(state).unwrap();
        Arc::new(App {
            queue: Queue::open(&folder.queue()).await.unwrap(),
            folder,
            projects: Projects::find(&[project.display().to_string()]).unwrap(),
            room: Room { gpus: Vec::new(), virtual_slots: 1 },
            clock: Clock::start(),
            cancel_timeout: Duration::ZERO,
            exe: "/no/such/program".into(),
            fleet: None,
            changes: watch::Sender::new(0),
            stopping: watch::Sender::new(false),
            streams: Places::new(1),
            connections: Places::new(1),
            metrics: Arc::new(Metrics::default()),
        })
    }

    #[tokio::test]
    async fn on_a_full_disk_nothing_starts_and_no_change_is_a_reason_to_try_again() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path()).await;
        let new = NewSubmission {
            uid: "u".to_owned(),
            project: app.projects.iter().next().unwrap().folder().to_owned(),
            request: SessionRequest::default(),
            device: "virtual".to_owned(),
            priority: 0,
            client: "local".to_owned(),
            idempotency_key: None,
        };
        let (submission, _) = app.queue.submit(&new).await.unwrap();
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tries);
        app.queue.on_commit(move || counted.fetch_add(1, Ordering::Relaxed) == usize::MAX).await;

        let running = tokio::spawn(run(Arc::clone(&app)));
        while tries.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        for _ in 0..1000 {
            app.note_change();
            yield_now().await;
        }
        assert_eq!(tries.load(Ordering::Relaxed), 1);
        assert_eq!(app.queue.get(submission.id).await.unwrap(), Some(submission.clone()));
        assert!(!app.folder.log(submission.id).path().exists(), "no process was started");
        app.stopping.send_replace(true);
        running.await.unwrap().unwrap();
    }
}
