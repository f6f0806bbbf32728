//! Calls a service from a terminal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Certificate, Method, Response, Url};
use serde_json::Value;

use crate::catalog::Project;
use crate::error::{usage, usage_sentence};

/// The default address of a service.
const DEFAULT_URL: &str = "http://127.0.0.1:7878";

/// The variables with the address and the token.
const URL_VARIABLE: &str = "OPTLOOP_SERVICE";
const TOKEN_VARIABLE: &str = "OPTLOOP_SERVICE_TOKEN";

/// The longest time to connect, and for an answer. A submission is checked by a process, which takes well under a
/// second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Arguments of every verb that calls a service. The token is in the variable OPTLOOP_SERVICE_TOKEN, because other users
/// can see arguments.
#[derive(Debug, clap::Args)]
pub struct ServiceArgs {
    /// Address of the service [default: the variable OPTLOOP_SERVICE, or http://127.0.0.1:7878]
    #[arg(long, value_name = "URL")]
    service: Option<String>,

    /// Certificate in PEM to trust, for a service with its own authority
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// A connection to a service.
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

impl Client {
    /// Prepares calls.
    pub fn new(args: &ServiceArgs) -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let address = args.service.clone().or_else(|| variable(URL_VARIABLE)).unwrap_or_else(|| DEFAULT_URL.to_owned());
        let wrong = || usage_sentence(format!("`{address}` is not the address of a service, such as {DEFAULT_URL}"));
        let base =
            Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(wrong)?;
        let mut http =
            reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(reqwest::redirect::Policy::none());
        if base.host_str().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]")) {
            http = http.no_proxy();
        }
        if let Some(path) = &args.ca {
            let pem =
                std::fs::read(path).with_context(|| format!("Failed to read {}", path.display())).map_err(usage)?;
            http = http.add_root_certificate(Certificate::from_pem(&pem).map_err(usage)?);
        }
        Ok(Self { http: http.build().context("Failed to set up HTTP")?, base, token: variable(TOKEN_VARIABLE) })
    }

    /// Reads something.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.answer(Method::GET, path, HeaderMap::new(), None).await
    }

    /// Asks for something. `headers` are further ones.
    pub async fn post(&self, path: &str, headers: HeaderMap, body: &Value) -> anyhow::Result<Value> {
        self.answer(Method::POST, path, headers, Some(body.to_string())).await
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<String>,
    ) -> anyhow::Result<Value> {
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, async {
            let response = self.send(method, path, headers, body).await?;
            response.text().await.context("Failed to receive the answer of the service")
        });
        let text = sent.await.context("The service does not answer")??;
        serde_json::from_str(&text).context("The service answered something else than JSON")
    }

    /// Opens an event stream behind an event.
    pub async fn stream(&self, path: &str, last: u64) -> anyhow::Result<Response> {
        let headers = HeaderMap::from_iter([(reqwest::header::HeaderName::from_static("last-event-id"), last.into())]);
        self.send(Method::GET, path, headers, None).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<String>,
    ) -> anyhow::Result<Response> {
        let url = self.base.join(&format!("/api/v1{path}")).map_err(usage)?;
        let mut request = self.http.request(method, url).headers(headers);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let failed = || format!("no service answers at {}: `optloop serve` starts one", self.base);
        let response = request.send().await.with_context(failed)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let hint = answer["hint"].as_str().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let said = format!("{}{hint}", answer["error"].as_str().unwrap_or(status.as_str()));
        if status.is_client_error() { Err(usage_sentence(said)) } else { bail!("the service failed: {said}") }
    }

    /// Returns the name under which the service knows a project: the given one, or the project of the current folder.
    pub async fn project(&self, given: Option<&str>, folder: Option<&Path>) -> anyhow::Result<String> {
        if let Some(name) = given {
            return Ok(name.to_owned());
        }
        let served = self.get("/projects").await?;
        let served = served.as_array().map(Vec::as_slice).unwrap_or_default();
        let name = |project: &Value| project["name"].as_str().map(str::to_owned);
        let names: Vec<String> = served.iter().filter_map(name).collect();
        let here = Project::find(folder).ok().and_then(|project| project.root().canonicalize().ok());
        let is_here = |project: &&Value| {
            here.as_deref().is_some_and(|root| project["folder"].as_str().map(Path::new) == Some(root))
        };
        match served.iter().find(is_here).and_then(name) {
            Some(name) => Ok(name),
            None if names.len() == 1 && here.is_none() => Ok(names[0].clone()),
            None => Err(usage_sentence(format!(
                "the service does not serve the project of this folder: name one of its projects with --on: {}",
                names.join(", ")
            ))),
        }
    }
}
