//! The web pages: files of the binary that call the API as every other client does.
//!
//! They have no secrets, so everybody who can reach the service may read them. What they show comes from the API, with the
//! reader's token.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use include_dir::{Dir, include_dir};

use super::app::App;
use super::error::ApiError;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates/pages");

/// The style of the HTML report, which the pages share.
const REPORT_STYLE: &str = include_str!("../../templates/reports/html/style.css");

/// What a page may do: run the scripts of this service, show its styles, and call its API. No text becomes elements, but
/// for the pictures of a report (Trusted Types).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types report";

/// Makes the router of the pages.
pub fn router() -> Router<Arc<App>> {
    Router::new().route("/", get(index)).route("/pages/{file}", get(file))
}

async fn index(uri: Uri, headers: HeaderMap) -> Response {
    file(Path("index.html".to_owned()), uri, headers).await
}

async fn file(Path(name): Path<String>, uri: Uri, headers: HeaderMap) -> Response {
    let Some(text) = text(&name) else {
        return ApiError::not_found(format!("there is no {}", uri.path())).into_response();
    };
    let tag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..32]);
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let answered = response.headers_mut();
    answered.insert(CONTENT_TYPE, HeaderValue::from_static(media(&name)));
    answered.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answered.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Without a referrer, browsers send `Origin: null`.
    answered.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answered.insert(ETAG, tag);
    }
    response
}

fn text(name: &str) -> Option<&'static str> {
    match name {
        "report.css" => Some(REPORT_STYLE),
        _ => FILES.get_file(name)?.contents_utf8(),
    }
}

fn media(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        _ => "text/html; charset=utf-8",
    }
}
