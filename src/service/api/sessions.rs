//! Projects, sessions and iterations, read from the projects' stores.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::answer::json;
use super::extract::{Path, Query};
use super::submissions::named;
use crate::alive::Killed;
use crate::domain::ids::{CaseName, SessionId};
use crate::domain::measurement::verdict::Verdict;
use crate::domain::record::{SessionSummary, Status};
use crate::domain::submission::SubmissionId;
use crate::service::app::App;
use crate::service::error::ApiError;
use crate::service::projects::Served;
use crate::service::readers::Reader;
use crate::store::{Filter, SessionFilter, Sort, StoreError};

/// The most rows of an answer, and their number if the client does not say.
const MAX_ROWS: u32 = 1000;
const ROWS: u32 = 100;

/// A project as clients see it.
#[derive(Serialize)]
struct Project<'a> {
    name: &'a str,
    /// Its folder on the machine of the service.
    folder: &'a str,
    workloads: Vec<String>,
    /// Why its workloads cannot be listed.
    problem: Option<String>,
}

/// `GET /projects`
pub async fn projects(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let row = |served| {
        let workloads = Served::project(served).and_then(|project| project.workload_names());
        let problem = workloads.as_ref().err().map(|error| format!("{error:#}"));
        Project { name: &served.name, folder: served.folder(), workloads: workloads.unwrap_or_default(), problem }
    };
    json(&app.projects.iter().map(row).collect::<Vec<_>>())
}

/// Which sessions to list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhichSessions {
    workload: Option<String>,
    /// Also those that hold what was measured by hand.
    #[serde(default)]
    all: bool,
    status: Option<Status>,
    limit: Option<u32>,
    #[serde(default)]
    offset: u32,
}

/// `GET /projects/{project}/sessions`, the latest first
pub async fn list(
    State(app): State<Arc<App>>,
    Path(project): Path<String>,
    Query(which): Query<WhichSessions>,
) -> Result<Response, ApiError> {
    let project = named(&app, &project)?;
    let Some(store) = project.reader().await? else { return json(&[(); 0]) };
    let killed = Killed::of(&store, &project.store_path()?).await?;
    let filter = SessionFilter {
        workload: which.workload,
        all: which.all,
        status: which.status,
        killed: killed.ids(),
        limit: which.limit.unwrap_or(ROWS).min(MAX_ROWS),
        offset: which.offset,
    };
    let mut sessions = store.session_page(&filter).await?;
    sessions.iter_mut().for_each(|session| killed.mark(session));
    json(&sessions)
}

/// A session with its submission.
#[derive(Serialize)]
struct Session<'a> {
    #[serde(flatten)]
    summary: &'a SessionSummary,
    /// The submission that it came from, if this service has started it.
    submission: Option<SubmissionId>,
}

/// `GET /projects/{project}/sessions/{session}`
pub async fn read(
    State(app): State<Arc<App>>,
    Path((project, session)): Path<(String, SessionId)>,
) -> Result<Response, ApiError> {
    let project = named(&app, &project)?;
    let store = store(project).await?;
    let mut summary = store.session(session).await?;
    Killed::of(&store, &project.store_path()?).await?.mark(&mut summary);
    let submission = app.queue.of_session(project.folder(), session).await?;
    json(&Session { summary: &summary, submission: submission.map(|submission| submission.id) })
}

/// Opens the store of a project, which must exist.
pub async fn store(project: &Served) -> Result<Reader<'_>, ApiError> {
    project.reader().await?.ok_or_else(|| StoreError::NoSessions.into())
}

/// Which iterations to list: as `optloop history`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhichIterations {
    case: Option<String>,
    family: Option<String>,
    outcome: Option<String>,
    verdict: Option<Verdict>,
    origin: Option<String>,
    proposer: Option<String>,
    since: Option<String>,
    sort: Option<Sort>,
    #[serde(default)]
    reverse: bool,
    limit: Option<u32>,
    #[serde(default)]
    offset: u32,
}

/// `GET /projects/{project}/sessions/{session}/iterations`
pub async fn iterations(
    State(app): State<Arc<App>>,
    Path((project, session)): Path<(String, SessionId)>,
    Query(which): Query<WhichIterations>,
) -> Result<Response, ApiError> {
    history(named(&app, &project)?, Some(session), which).await
}

/// `GET /projects/{project}/iterations`: those of all sessions
pub async fn all_iterations(
    State(app): State<Arc<App>>,
    Path(project): Path<String>,
    Query(which): Query<WhichIterations>,
) -> Result<Response, ApiError> {
    history(named(&app, &project)?, None, which).await
}

async fn history(project: &Served, session: Option<SessionId>, which: WhichIterations) -> Result<Response, ApiError> {
    let store = store(project).await?;
    if let Some(session) = session {
        store.require_session(session).await?;
    }
    let filter = Filter {
        session,
        case: which.case.map(|case| CaseName::from(case.as_str())),
        family: which.family,
        outcome: which.outcome,
        verdict: which.verdict,
        origin: which.origin,
        proposer: which.proposer,
        since: which.since,
        sort: which.sort.unwrap_or(Sort::Number),
        reverse: which.reverse,
        limit: Some(which.limit.unwrap_or(ROWS).min(MAX_ROWS)),
        offset: which.offset,
    };
    json(&store.history(&filter).await?)
}
