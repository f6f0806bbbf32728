//! Submissions: submit, list, read, stop, cancel, resume.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::answer::{body, check_type, json, json_with};
use super::extract::{Path, Query};
use crate::domain::ids::SessionId;
use crate::domain::record::Status;
use crate::domain::submission::{SessionRequest, StopRequest, Submission, SubmissionId, SubmissionState};
use crate::service::app::App;
use crate::service::check::{self, Checked};
use crate::service::error::ApiError;
use crate::service::http::tokens::Client;
use crate::service::projects::Served;
use crate::service::schedule::places_of;
use crate::store::queue::{NewSubmission, QueueFilter};

/// The longest idempotency key, in bytes.
const MAX_KEY_BYTES: usize = 200;

/// The most rows of an answer.
const MAX_ROWS: u32 = 1000;

/// The most submissions that wait at once. More are a mistake.
const MAX_OPEN: usize = 10_000;

/// The body of a submission.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Submit {
    project: String,
    #[serde(default)]
    priority: i64,
    #[serde(default)]
    request: SessionRequest,
}

/// A submission as clients see it.
#[derive(Debug, Serialize)]
pub struct Shown<'a> {
    #[serde(flatten)]
    submission: &'a Submission,
    /// The name of the project. None if this service does not serve it.
    project_name: Option<&'a str>,
    /// The number of submissions that start before it. None if it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<usize>,
}

impl<'a> Shown<'a> {
    /// Adds the name of the project.
    pub fn of(app: &'a App, submission: &'a Submission) -> Self {
        let project_name = app.projects.at(&submission.project).map(|project| project.name.as_str());
        Self { submission, project_name, ahead: None }
    }
}

/// `POST /submissions`
pub async fn submit(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiError> {
    let Submit { project, priority, request } = body(&headers, &bytes)?;
    let project = named(&app, &project)?;
    let key = idempotency_key(&headers)?;
    let asks_for = |earlier: &Submission| {
        (earlier.project.as_str(), &earlier.request, earlier.priority) == (project.folder(), &request, priority)
    };
    // A client that repeats its request gets the same answer, even if the request would be refused by now.
    if let Some(key) = &key
        && let Some(earlier) = app.queue.with_key(&client.name, key).await?
    {
        return again(&app, &earlier, asks_for(&earlier));
    }
    let device = checked(&app, project, &request).await?;
    let new = NewSubmission {
        uid: format!("{:032x}", rand::random::<u128>()),
        project: project.folder().to_owned(),
        request: request.clone(),
        device,
        priority,
        client: client.name,
        idempotency_key: key,
    };
    let (submission, is_new) = app.queue.submit(&new).await?;
    if !is_new {
        return again(&app, &submission, asks_for(&submission));
    }
    app.note_change();
    json_with(StatusCode::CREATED, &Shown::of(&app, &submission))
}

/// Answers a request whose key was used before.
fn again(app: &App, earlier: &Submission, is_same: bool) -> Result<Response, ApiError> {
    if is_same {
        return json(&Shown::of(app, earlier));
    }
    let error = format!("submission {} has the same idempotency key and asks for something else", earlier.id);
    Err(ApiError::new(StatusCode::CONFLICT, error).hint("use a new key for each submission"))
}

/// Refuses a request that could not run. Returns its device.
async fn checked(app: &App, project: &Served, request: &SessionRequest) -> Result<String, ApiError> {
    let wrong = |error: String| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, error);
    request.check().map_err(|error| wrong(error.to_string()))?;
    if app.queue.open_ones().await?.len() >= MAX_OPEN {
        return Err(ApiError::busy(format!("{MAX_OPEN} submissions wait already")));
    }
    let device = match check::check(&app.exe, &project.root, request).await? {
        Checked::Device(device) => device,
        Checked::Wrong(sentence) => return Err(wrong(sentence)),
        Checked::Untrusted(sentence) => {
            let error = ApiError::new(StatusCode::FORBIDDEN, sentence);
            return Err(error.hint("trust is given only on the machine of the service: `optloop trust` in the project"));
        }
    };
    match places_of(&device, &app.room).is_empty() {
        true => Err(wrong(format!("this service does not use the device `{device}`"))),
        false => Ok(device),
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| !key.is_empty() && key.len() <= MAX_KEY_BYTES);
    let wrong = || ApiError::bad(format!("Idempotency-Key must have 1 to {MAX_KEY_BYTES} visible ASCII characters"));
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

/// Returns the project of a name.
pub fn named<'a>(app: &'a App, name: &str) -> Result<&'a Served, ApiError> {
    app.projects.named(name).ok_or_else(|| {
        ApiError::not_found(format!("this service has no project `{name}`")).hint("GET /api/v1/projects lists them")
    })
}

/// Which submissions to list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    project: Option<String>,
    state: Option<SubmissionState>,
    limit: Option<u32>,
    #[serde(default)]
    offset: u32,
}

/// `GET /submissions`
pub async fn list(State(app): State<Arc<App>>, Query(which): Query<Which>) -> Result<Response, ApiError> {
    let project = which.project.map(|name| named(&app, &name).map(|project| project.folder().to_owned()));
    let filter = QueueFilter {
        project: project.transpose()?,
        state: which.state,
        limit: which.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS),
        offset: which.offset,
    };
    let submissions = app.queue.list(&filter).await?;
    json(&submissions.iter().map(|submission| Shown::of(&app, submission)).collect::<Vec<_>>())
}

/// `GET /submissions/{id}`
pub async fn read(State(app): State<Arc<App>>, Path(id): Path<SubmissionId>) -> Result<Response, ApiError> {
    let submission = app.queue.get(id).await?.ok_or_else(|| ApiError::no_submission(id))?;
    let open = match submission.state {
        SubmissionState::Queued => app.queue.open_ones().await?,
        _ => Vec::new(),
    };
    let waiting = open.iter().filter(|other| other.state == SubmissionState::Queued);
    let ahead = waiting.clone().position(|other| other.id == id);
    json(&Shown { ahead, ..Shown::of(&app, &submission) })
}

/// `POST /submissions/{id}/stop`
pub async fn stop(app: State<Arc<App>>, id: Path<SubmissionId>, headers: HeaderMap) -> Result<Response, ApiError> {
    ask(&app, id.0, StopRequest::Stop, &headers).await
}

/// `POST /submissions/{id}/cancel`
pub async fn cancel(app: State<Arc<App>>, id: Path<SubmissionId>, headers: HeaderMap) -> Result<Response, ApiError> {
    ask(&app, id.0, StopRequest::Cancel, &headers).await
}

async fn ask(app: &App, id: SubmissionId, request: StopRequest, headers: &HeaderMap) -> Result<Response, ApiError> {
    check_type(headers)?;
    let submission = app.queue.ask(id, request).await?;
    app.note_change();
    answer(app, id, submission, "it is over already").await
}

/// `POST /submissions/{id}/resume`
pub async fn resume(
    State(app): State<Arc<App>>,
    Path(id): Path<SubmissionId>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    check_type(&headers)?;
    if let Some(finished) = finished_session(&app, id).await? {
        let error = format!("session {finished} is finished: submit another one");
        return Err(ApiError::new(StatusCode::CONFLICT, error));
    }
    let submission = app.queue.resume(id).await?;
    app.note_change();
    answer(&app, id, submission, "it is still queued or running").await
}

/// Returns the session of a submission, if its budget is used up.
async fn finished_session(app: &App, id: SubmissionId) -> Result<Option<SessionId>, ApiError> {
    let Some(submission) = app.queue.get(id).await? else { return Ok(None) };
    let Some(project) = app.projects.at(&submission.project) else { return Ok(None) };
    let Some(store) = project.reader().await? else { return Ok(None) };
    let session = store.session_of(&submission.uid).await?;
    Ok(session.filter(|session| session.status == Status::Finished).map(|session| session.id))
}

/// Answers with the changed submission, or says why it has not changed.
async fn answer(app: &App, id: SubmissionId, changed: Option<Submission>, refusal: &str) -> Result<Response, ApiError> {
    match changed {
        Some(submission) => json(&Shown::of(app, &submission)),
        None => match app.queue.get(id).await? {
            None => Err(ApiError::no_submission(id)),
            Some(found) => Err(ApiError::new(
                StatusCode::CONFLICT,
                format!("submission {id} is {}, and {refusal}", found.state.name()),
            )),
        },
    }
}
