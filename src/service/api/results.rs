//! Reports, single iterations, diffs and comparisons: what the command line prints.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use super::answer::json;
use super::extract::{Path, Query};
use super::sessions::store;
use super::submissions::named;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::error::{Error, error};
use crate::service::app::App;
use crate::service::error::ApiError;
use crate::service::projects::Served;
use crate::service::verb;

/// What the HTML report may do: show its own styles and pictures. No script runs, and nothing is loaded.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                             form-action 'none'; frame-ancestors 'none'; sandbox";

/// The form of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Form {
    /// See docs/report-schema.md.
    #[default]
    Json,
    /// A page.
    Html,
    /// A page as Markdown.
    Md,
    /// A row for each iteration and case.
    Csv,
}

impl TryFrom<String> for Form {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        let known = [Self::Json, Self::Html, Self::Md, Self::Csv].into_iter().find(|form| form.name() == name);
        known.ok_or_else(|| match &*name {
            // An earlier release had it, so scripts may still ask for it.
            "md-details" => Error::new(
                "the details as Markdown are no more: format=html has the evidence, and format=json all facts",
            ),
            _ => error!("unknown format `{name}`, expected json, html, md or csv"),
        })
    }
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Html => "html",
            Self::Md => "md",
            Self::Csv => "csv",
        }
    }

    fn media(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Html => "text/html; charset=utf-8",
            Self::Md => "text/markdown; charset=utf-8",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// The query of a report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    #[serde(default)]
    format: Form,
}

/// `GET /projects/{project}/sessions/{session}/report`
pub async fn report(
    State(app): State<Arc<App>>,
    Path((project, session)): Path<(String, SessionId)>,
    Query(which): Query<Which>,
) -> Result<Response, ApiError> {
    let project = named(&app, &project)?;
    store(project).await?.require_session(session).await?;
    let arguments = vec!["report".to_owned(), session.to_string(), format!("--format={}", which.format.name())];
    printed(&app, project, arguments, which.format).await
}

/// `GET /projects/{project}/iterations/{iteration}`
pub async fn iteration(
    State(app): State<Arc<App>>,
    Path((project, iteration)): Path<(String, IterationId)>,
) -> Result<Response, ApiError> {
    let project = named(&app, &project)?;
    store(project).await?.require_iteration(iteration).await?;
    printed(&app, project, vec!["show".to_owned(), iteration.to_string(), "--json".to_owned()], Form::Json).await
}

/// What to compare.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Two {
    #[serde(default)]
    what: What,
    a: i64,
    b: i64,
    case: Option<CaseName>,
    #[serde(default)]
    format: Form,
}

/// The kind of the numbers to compare.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    #[default]
    Sessions,
    Iterations,
}

/// `GET /projects/{project}/compare`
pub async fn compare(
    State(app): State<Arc<App>>,
    Path(project): Path<String>,
    Query(two): Query<Two>,
) -> Result<Response, ApiError> {
    let project = named(&app, &project)?;
    let store = store(project).await?;
    let (a, b, mut form) = (two.a.to_string(), two.b.to_string(), two.format);
    let mut arguments = match two.what {
        What::Sessions => {
            store.require_session(SessionId(two.a)).await?;
            store.require_session(SessionId(two.b)).await?;
            vec!["report".to_owned(), format!("--format={}", form.name()), "--compare".to_owned()]
        }
        What::Iterations => {
            store.require_iteration(IterationId(two.a)).await?;
            store.require_iteration(IterationId(two.b)).await?;
            form = Form::Json;
            let case = two.case.map(|case| format!("--case={case}"));
            ["compare".to_owned(), "--json".to_owned()].into_iter().chain(case).collect()
        }
    };
    arguments.extend([a, b]);
    printed(&app, project, arguments, form).await
}

/// Answers with what a verb prints.
async fn printed(app: &App, project: &Served, arguments: Vec<String>, form: Form) -> Result<Response, ApiError> {
    let said = verb::run(&app.exe, &project.root, &arguments).await?;
    if let Some(refusal) = said.refusal {
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, refusal));
    }
    let mut response = ([(CONTENT_TYPE, form.media()), (CACHE_CONTROL, "no-store")], said.out).into_response();
    if form == Form::Html {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPORT_POLICY));
    }
    Ok(response)
}

/// How the source of an iteration differs from another one.
#[derive(Default, Serialize)]
struct Diff {
    /// The other iteration. None if there is none, such as for the parent of an initial kernel.
    against: Option<IterationId>,
    /// The cases on which both were timed, so that their times can be compared.
    cases: Vec<String>,
    /// A unified diff. Empty if nothing differs.
    diff: String,
}

/// What to hold an iteration against.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// Another iteration. None for the parent.
    against: Option<IterationId>,
}

/// `GET /projects/{project}/iterations/{iteration}/diff`
pub async fn diff(
    State(app): State<Arc<App>>,
    Path((project, iteration)): Path<(String, IterationId)>,
    Query(query): Query<Against>,
) -> Result<Response, ApiError> {
    let store = store(named(&app, &project)?).await?;
    let detail = store.iteration(iteration).await?;
    let Some(id) = query.against.or(detail.iteration.rationale.parent) else { return json(&Diff::default()) };
    let other = store.iteration(id).await?;
    let lines = TextDiff::from_lines(other.source.as_str(), detail.source.as_str());
    let (before, after) = (format!("iteration {id}"), format!("iteration {iteration}"));
    let diff = lines.unified_diff().header(&before, &after).to_string();
    let timed = other.iteration.timed_cases();
    let cases = detail.iteration.timed_cases().filter(|case| timed.clone().any(|one| one == *case));
    json(&Diff { against: Some(id), cases: cases.map(str::to_owned).collect(), diff })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_is_gone_is_answered_by_one_sentence() {
        let of = |name: &str| Form::try_from(name.to_owned());
        assert_eq!(of("csv"), Ok(Form::Csv));
        insta::assert_snapshot!([of("md-details"), of("pdf")].map(|of| of.unwrap_err().to_string()).join("\n"), @"
        the details as Markdown are no more: format=html has the evidence, and format=json all facts
        unknown format `pdf`, expected json, html, md or csv
        ");
    }
}
