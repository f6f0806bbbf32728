//! Every route of the API.

use std::sync::Arc;

use axum::routing::{MethodRouter, get, post};

use super::{events, operations, results, sessions, submissions};
use crate::service::app::App;
use crate::service::http::tokens::Scope;

/// A route of the API.
pub(super) struct Route {
    /// `get` or `post`.
    pub method: &'static str,
    /// Its path below the prefix, with parameters in braces.
    pub path: &'static str,
    /// Whether it lies below `/api/v1`. Operators expect the others at the top.
    pub is_versioned: bool,
    /// What a client must be allowed to do. None: everybody may call it.
    pub scope: Option<Scope>,
    /// What it does.
    pub summary: &'static str,
    /// The parameters of its query.
    pub query: &'static [&'static str],
    /// The name of the schema of its answer, with `[]` behind it for a list. Empty: it is described by its type.
    pub answer: &'static str,
    /// The media type of its answer.
    pub media: &'static str,
    /// The function that answers.
    pub handler: MethodRouter<Arc<App>>,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const FILTERS: [&str; 11] =
    ["case", "family", "outcome", "verdict", "origin", "proposer", "since", "sort", "reverse", "limit", "offset"];

impl Route {
    /// Returns the whole path.
    pub fn full_path(&self) -> String {
        format!("{}{}", if self.is_versioned { "/api/v1" } else { "" }, self.path)
    }

    fn read(path: &'static str, summary: &'static str, answer: &'static str, handler: MethodRouter<Arc<App>>) -> Self {
        let (scope, query) = (Some(Scope::Read), &[][..]);
        Self { method: "get", path, is_versioned: true, scope, summary, query, answer, media: JSON, handler }
    }

    fn run(path: &'static str, summary: &'static str, handler: MethodRouter<Arc<App>>) -> Self {
        let scope = Some(Scope::Run);
        Self { method: "post", scope, ..Self::read(path, summary, "Submission", handler) }
    }

    fn top(path: &'static str, summary: &'static str, handler: MethodRouter<Arc<App>>) -> Self {
        Self { is_versioned: false, media: TEXT, ..Self::read(path, summary, "", handler) }
    }

    fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }
}

/// Returns every route.
pub(super) fn all() -> Vec<Route> {
    vec![
        Route::read("/projects", "List the projects", "Project[]", get(sessions::projects)),
        Route::read("/workers", "List the workers on other machines", "Worker[]", get(operations::workers)),
        Route::run("/submissions", "Submit a session", post(submissions::submit)),
        Route::read("/submissions", "List submissions, the latest first", "Submission[]", get(submissions::list))
            .query(&["project", "state", "limit", "offset"]),
        Route::read("/submissions/{id}", "Read a submission", "Submission", get(submissions::read)),
        Route {
            media: "text/event-stream",
            ..Route::read("/submissions/{id}/events", "Follow the events of a session", "", get(events::events))
                .query(&["after"])
        },
        Route::run("/submissions/{id}/stop", "End a session after its iteration", post(submissions::stop)),
        Route::run("/submissions/{id}/cancel", "Drop a submission, or end its session now", post(submissions::cancel)),
        Route::run("/submissions/{id}/resume", "Queue a stopped session again", post(submissions::resume)),
        Route::read(
            "/projects/{project}/sessions",
            "List sessions, the latest first",
            "Session[]",
            get(sessions::list),
        )
        .query(&["workload", "status", "all", "limit", "offset"]),
        Route::read("/projects/{project}/sessions/{session}", "Read a session", "Session", get(sessions::read)),
        Route::read(
            "/projects/{project}/sessions/{session}/iterations",
            "List the iterations of a session",
            "Iteration[]",
            get(sessions::iterations),
        )
        .query(&FILTERS),
        Route::read(
            "/projects/{project}/iterations",
            "List all iterations",
            "Iteration[]",
            get(sessions::all_iterations),
        )
        .query(&FILTERS),
        Route::read("/projects/{project}/iterations/{iteration}", "Read an iteration", "", get(results::iteration)),
        Route::read(
            "/projects/{project}/iterations/{iteration}/diff",
            "Compare a source with that of its parent, or of another iteration",
            "Diff",
            get(results::diff),
        )
        .query(&["against"]),
        Route::read(
            "/projects/{project}/sessions/{session}/report",
            "Read the report of a session as json, html, md or csv",
            "",
            get(results::report),
        )
        .query(&["format"]),
        Route::read("/projects/{project}/compare", "Compare two sessions or iterations", "", get(results::compare))
            .query(&["what", "a", "b", "case", "format"]),
        Route::read("/openapi.json", "Describe this API", "", get(operations::document)),
        Route { scope: None, ..Route::top("/healthz", "Tell whether the process answers", get(operations::healthz)) },
        Route::top("/readyz", "Tell whether the service can work", get(operations::readyz)),
        Route::top("/metrics", "Read figures for Prometheus", get(operations::metrics)),
    ]
}
