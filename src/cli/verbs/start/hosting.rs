//! An interactive session that is served to its clients from its beginning to its end.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::args::Args;
use super::running::{Clients, run_with};
use crate::agent::Tuning;
use crate::catalog::Project;
use crate::check::Tools;
use crate::config::Config;
use crate::domain::ids::SessionId;
use crate::error::usage;
use crate::launch::project_store::existing_store;
use crate::mcp::{MAX_REQUEST_BYTES, Places, Server};
use crate::service::{SingleSession, serve_session};
use crate::session::{Dependencies, Door};

/// How long a client may take to read how the session ended, and to leave.
const LEAVING: Duration = Duration::from_secs(5);

/// How long a session over HTTP is served beyond its end. A client may look a tool up again to check the result of `finish`, as the
/// official client in Python does.
const LINGERING: Duration = Duration::from_secs(3);

/// A server that runs.
struct Running {
    session: SessionId,
    task: JoinHandle<()>,
}

/// How a session is hosted.
#[derive(Default)]
pub struct Hosting {
    /// What `finish` tells at once. None if it waits for the end of the session.
    pub end: Option<Value>,
    /// Ends once nothing is to be recorded any more.
    pub recorded: Option<oneshot::Receiver<()>>,
    /// Whether clients are served for a while beyond the end.
    pub lingers: bool,
}

/// Runs a session, and has it served from its beginning to its end: `serve` gets what answers its clients, and what is true once
/// it should stop.
pub async fn host<F: Future<Output = ()> + Send + 'static>(
    asked: &Args,
    project: &Project,
    hosting: Hosting,
    serve: impl FnOnce(Server, watch::Receiver<bool>) -> F,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let tuning = Tuning::default();
    let (door, requests) = Door::new(tuning.clone());
    let (tell_end, ended) = watch::channel(hosting.end);
    let (stop, stopping) = watch::channel(false);
    let running: Arc<Mutex<Option<Running>>> = Arc::default();
    let serve = {
        let (running, project) = (Arc::clone(&running), project.clone());
        move |parts: &Dependencies, session: SessionId| {
            let server = server(parts, session, (project, &config), (door, ended));
            let task = tokio::spawn(serve(server, stopping));
            *running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running { session, task });
        }
    };
    let clients = Clients { tuning, requests, serve: Box::new(serve), recorded: hosting.recorded };
    // On the heap: the future of a session is large.
    let result = Box::pin(run_with(asked, project, Some(clients), out)).await;
    let begun = running.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Running { session, task }) = begun {
        tell_end.send_replace(Some(end(project, session, result.as_ref().err()).await));
        if hosting.lingers {
            tokio::time::sleep(LINGERING).await;
        }
        // Answers that are on their way are sent before connections are closed.
        stop.send_replace(true);
        drop(tokio::time::timeout(LEAVING, task).await);
    }
    result
}

/// Serves clients over HTTP until `stopping` is true.
pub async fn serve_http(
    server: &Server,
    listener: TcpListener,
    tokens: Option<PathBuf>,
    stopping: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let (router, max_body_bytes) = (server.clone().router(), MAX_REQUEST_BYTES);
    serve_session(SingleSession { listener, tokens, router, max_body_bytes }, stopping).await
}

fn server(
    parts: &Dependencies,
    session: SessionId,
    (project, config): (Project, &Config),
    (door, ended): (Door, watch::Receiver<Option<Value>>),
) -> Server {
    let tools = Tools {
        renderer: parts.renderer.clone(),
        compiler: parts.compiler.clone(),
        device: parts.devices.home.info().clone(),
        measuring: config.measuring(),
    };
    let places = Places { project, workload: Arc::new(parts.workload.clone()), tools };
    Server { door, store: parts.store.clone(), session, places, ended, activity: Arc::default() }
}

/// Describes how a session ended, for its clients.
async fn end(project: &Project, session: SessionId, error: Option<&anyhow::Error>) -> Value {
    let problem = error.map(|error| format!("{error:#}"));
    match recorded(project, session).await {
        Ok(mut end) => {
            end["problem"] = json!(problem);
            end
        }
        Err(unread) => json!({ "problem": problem.unwrap_or_else(|| format!("{unread:#}")) }),
    }
}

async fn recorded(project: &Project, session: SessionId) -> anyhow::Result<Value> {
    let store = existing_store(project).await?;
    let summary = store.session(session).await?;
    let mut winners = Vec::new();
    for one in store.session_record(session).await?.iterations {
        winners.extend(one.measurements.iter().filter_map(|found| {
            let us = found.best_timing().map(|timing| timing.median_ns / 1e3);
            let commit = found.commit.as_ref()?;
            Some(json!({ "case": found.case, "iteration": one.id, "family": one.family, "us": us, "commit": commit }))
        }));
    }
    store.close().await;
    Ok(json!({
        "session": session,
        "status": summary.status,
        "reason": summary.stop_reason,
        "committed": winners,
        "report": format!("optloop report {session}"),
    }))
}
