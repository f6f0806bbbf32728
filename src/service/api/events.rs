//! The events of a submission, as they come: server-sent events.
//!
//! The id of each event is the offset behind it in the log. A client that comes back with `Last-Event-ID` continues
//! there, so it gets each event once, even from another service.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::extract::{Path, Query};
use super::submissions::Shown;
use crate::domain::submission::{Submission, SubmissionId};
use crate::secrets;
use crate::service::app::App;
use crate::service::error::ApiError;
use crate::service::http::places::Place;
use crate::service::http::tokens::Client;

/// How often the log is looked at. An event reaches a page within a second.
const POLL: Duration = Duration::from_millis(100);

/// The longest silence. Proxies close connections that are silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Where to begin.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    /// The id of the last event that the client has seen: for clients that cannot send `Last-Event-ID`.
    after: Option<u64>,
}

/// `GET /submissions/{id}/events`
pub async fn events(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    Path(id): Path<SubmissionId>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (changes, stopping) = (app.changes.subscribe(), app.stopping.subscribe());
    let version = *changes.borrow();
    let submission = app.queue.get(id).await?.ok_or_else(|| ApiError::no_submission(id))?;
    let offset = match headers.get("last-event-id") {
        None => from.after.unwrap_or(0),
        Some(value) => value.to_str().ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX),
    };
    if !app.folder.log(id).has_line_at(offset) {
        let error = ApiError::bad("no event of this submission has the id that the client has seen last");
        return Err(error.hint("begin again, without Last-Event-ID"));
    }
    let name = (client != Client::local()).then_some(client.name.as_str());
    let place = app.streams.take(name).ok_or_else(|| ApiError::busy("too many event streams are open"))?;
    let follower = Follower {
        app,
        id,
        offset,
        changes,
        version,
        stopping,
        frames: VecDeque::from([frame("state", None, &text_of_state(&submission))]),
        submission,
        is_over: false,
        _place: place,
    };
    let body = stream::unfold(follower, |mut follower| async {
        let frame = follower.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(frame)), follower))
    });
    let kind = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    // nginx would hold events back.
    Ok((kind, [(HeaderName::from_static("x-accel-buffering"), "no")], Body::from_stream(body)).into_response())
}

/// A client that follows a log.
struct Follower {
    app: Arc<App>,
    id: SubmissionId,
    offset: u64,
    changes: watch::Receiver<u64>,
    /// The number of the last change that was looked at.
    version: u64,
    stopping: watch::Receiver<bool>,
    submission: Submission,
    frames: VecDeque<String>,
    is_over: bool,
    _place: Place,
}

impl Follower {
    /// Returns what to send next. None at the end.
    async fn next(&mut self) -> Option<String> {
        let silent_until = Instant::now() + HEARTBEAT;
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if self.is_over || *self.stopping.borrow() {
                return None;
            }
            self.look().await;
            if self.frames.is_empty() {
                if Instant::now() >= silent_until {
                    return Some(": still here\n\n".to_owned());
                }
                tokio::select! {
                    () = sleep(POLL) => {}
                    _ = self.changes.changed() => {}
                    _ = self.stopping.changed() => {}
                }
            }
        }
    }

    /// Queues what is new. The state is read before the log: if the submission is over, its log is complete.
    async fn look(&mut self) {
        let version = *self.changes.borrow_and_update();
        let mut has_changed = false;
        if version != self.version
            // A queue that does not answer is asked again.
            && let Ok(Some(submission)) = self.app.queue.get(self.id).await
        {
            has_changed = text_of_state(&submission) != text_of_state(&self.submission);
            (self.submission, self.version) = (submission, version);
        }
        let log = self.app.folder.log(self.id);
        let (lines, next) = log.read(self.offset).unwrap_or_else(|_| (Vec::new(), self.offset));
        let is_complete = next == self.offset;
        self.offset = next;
        self.frames.extend(lines.iter().map(|line| frame("", Some(line.next), &line.text)));
        if is_complete && self.submission.state.is_over() {
            self.is_over = true;
            let text = serde_json::to_string(&Shown::of(&self.app, &self.submission)).unwrap_or_default();
            self.frames.push_back(frame("end", None, &secrets::mask_json(&text)));
        } else if has_changed {
            self.frames.push_back(frame("state", None, &text_of_state(&self.submission)));
        }
    }
}

fn text_of_state(submission: &Submission) -> String {
    serde_json::json!({
        "id": submission.id,
        "state": submission.state,
        "session": submission.session,
        "asked": submission.asked,
        "reason": submission.reason,
    })
    .to_string()
}

/// Writes an event. Its text has no line ends.
fn frame(kind: &str, id: Option<u64>, text: &str) -> String {
    let kind = if kind.is_empty() { String::new() } else { format!("event: {kind}\n") };
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{kind}{id}data: {text}\n\n")
}
