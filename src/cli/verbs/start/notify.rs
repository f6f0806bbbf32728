//! Tells a program or a webhook that a session has ended (`[notify]` in config.toml). A failure is only a message: the
//! session is on record.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::config::NotifyConfig;
use crate::domain::record::SessionSummary;
use crate::environment;
use crate::notices::say;
use crate::secrets;

/// The longest time of each. The session's process waits for them.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Tells everybody that the configuration names.
pub async fn tell(config: &NotifyConfig, root: &Path, session: &SessionSummary) {
    let text = secrets::mask_json(&message(root, session).to_string()).into_owned();
    if !config.command.is_empty()
        && let Err(problem) = run(&config.command, root, &text).await
    {
        say(&format!("notify.command failed: {problem:#}"));
    }
    match url(config) {
        Ok(None) => {}
        Ok(Some(url)) => {
            if let Err(problem) = post(&url, text).await {
                say(&format!("the webhook failed: {problem:#}"));
            }
        }
        Err(problem) => say(&format!("the webhook failed: {problem:#}")),
    }
}

fn message(root: &Path, session: &SessionSummary) -> Value {
    json!({
        "event": "session_ended",
        "project": root.display().to_string(),
        "session": session.id,
        "workload": session.workload,
        "device": session.device,
        "time_source": session.time_source,
        "status": session.status,
        "reason": session.stop_reason,
        "iterations": session.iterations,
        "wins": session.wins,
        "best_speedup": session.best_speedup,
        "best_speedup_ci": session.best_speedup_ci,
        "wall_s": session.wall_s,
        "cost_usd": session.cost.total_usd(),
    })
}

async fn run(command: &[String], root: &Path, text: &str) -> anyhow::Result<()> {
    let mut program = std::process::Command::new(&command[0]);
    program.args(&command[1..]).current_dir(root).stdin(Stdio::piped()).stdout(Stdio::null());
    // It has no use for the user's keys.
    environment::limit(&mut program);
    let ended = async {
        let mut child = Command::from(program).kill_on_drop(true).spawn().context("it does not start")?;
        if let Some(mut input) = child.stdin.take() {
            // A program that does not read gets nothing.
            let _ = input.write_all(text.as_bytes()).await;
        }
        child.wait().await.context("it cannot be waited for")
    };
    let status = tokio::time::timeout(TIMEOUT, ended).await.context("it did not end in time")??;
    if status.success() { Ok(()) } else { bail!("it failed ({status})") }
}

fn url(config: &NotifyConfig) -> anyhow::Result<Option<String>> {
    match (config.webhook.as_str(), config.webhook_env.as_str()) {
        ("", "") => Ok(None),
        ("", name) => Ok(Some(std::env::var(name).with_context(|| format!("the variable {name} is not set"))?)),
        (url, _) => Ok(Some(url.to_owned())),
    }
}

/// Posts a text. Errors do not name the URL, which may be a secret.
async fn post(url: &str, text: String) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().timeout(TIMEOUT).redirect(Policy::none()).build();
    let request =
        client.context("HTTP cannot be set up")?.post(url).header(CONTENT_TYPE, "application/json").body(text);
    let answer = request.send().await.map_err(|error| error.without_url()).context("it cannot be reached")?;
    if answer.status().is_success() { Ok(()) } else { bail!("it answered {}", answer.status()) }
}
