//! `optloop cancel`: drops a submission, or ends its session.

use std::io::Write;

use reqwest::header::HeaderMap;
use serde_json::json;

use crate::cli::client::{Client, ServiceArgs};
use crate::domain::submission::SubmissionId;

/// Arguments of `optloop cancel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the submission
    submission: SubmissionId,

    /// Let the iteration in flight end first; `--resume` continues the session later
    #[arg(long, conflicts_with = "resume")]
    stop: bool,

    /// Queue a submission again that was stopped, cancelled or failed
    #[arg(long)]
    resume: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    service: ServiceArgs,
}

/// Cancels, stops or resumes a submission.
pub async fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let (id, client) = (args.submission, Client::new(&args.service)?);
    let what = match (args.stop, args.resume) {
        (true, _) => "stop",
        (_, true) => "resume",
        _ => "cancel",
    };
    let answer = client.post(&format!("/submissions/{id}/{what}"), HeaderMap::new(), &json!({})).await?;
    if args.json {
        return Ok(writeln!(out, "{answer}")?);
    }
    let state = match (answer["state"].as_str().unwrap_or("?"), answer["asked"].as_str()) {
        ("running", Some("stop")) => "ends after its iteration",
        ("running", Some(_)) => "is about to end",
        ("queued", _) => "is queued again",
        (state, _) => state,
    };
    Ok(writeln!(out, "submission {id} {state}")?)
}
