//! `optloop tail`: follows a submission.

use std::io::Write;
use std::time::Duration;

use reqwest::Response;
use serde_json::Value;
use tokio::time::sleep;

use crate::cli::client::{Client, ServiceArgs};
use crate::domain::submission::SubmissionId;
use crate::error::{Error, Kind};
use crate::notices::say;
use crate::report::format;

/// The time before a lost connection is tried again, and the number of tries without an event in between.
const AGAIN: Duration = Duration::from_secs(1);
const MAX_TRIES: u32 = 60;

/// Arguments of `optloop tail`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the submission
    submission: SubmissionId,

    /// Print every event as one JSON object per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    service: ServiceArgs,
}

/// Prints the events of a submission until it ends.
pub async fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    follow(&Client::new(&args.service)?, args.submission, args.json, out).await
}

/// Prints the events of a submission until it ends. A lost connection is made again, and no event is lost or printed
/// twice.
pub async fn follow(client: &Client, id: SubmissionId, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let path = format!("/submissions/{id}/events");
    let (mut last, mut tries) = (0, 0);
    // Where there is no service, none is waited for.
    let mut first = Some(client.stream(&path, last).await?);
    loop {
        let before = last;
        let response = match first.take() {
            Some(response) => Ok(response),
            None => client.stream(&path, last).await,
        };
        let listened = match response {
            Ok(response) => listen(response, &mut last, json, out).await,
            Err(error) => Err(error),
        };
        match listened {
            Ok(true) => return Ok(()),
            Err(error) if is_usage(&error) || error.is::<std::io::Error>() || tries >= MAX_TRIES => {
                return Err(error);
            }
            // The service was stopped, or the connection is lost.
            Ok(false) | Err(_) => {}
        }
        tries = if last > before { 0 } else { tries + 1 };
        if tries == 1 {
            say("the connection to the service is lost; trying again for a minute");
        }
        sleep(AGAIN).await;
    }
}

fn is_usage(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &Error| error.kind() == Kind::Usage)
}

/// Prints the events of a stream, and keeps the number of the last one. Returns whether the submission is over.
async fn listen(mut response: Response, last: &mut u64, json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let mut received = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| anyhow::anyhow!(error))? {
        received.extend_from_slice(&chunk);
        while let Some(end) = received.windows(2).position(|two| two == b"\n\n") {
            let frame: Vec<u8> = received.drain(..end + 2).collect();
            if show(&Frame::read(&String::from_utf8_lossy(&frame)), last, json, out)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// An event of a stream.
#[derive(Default)]
struct Frame {
    kind: String,
    id: Option<u64>,
    data: String,
}

impl Frame {
    fn read(text: &str) -> Self {
        let mut frame = Self::default();
        for line in text.lines() {
            match line.split_once(": ") {
                Some(("event", kind)) => frame.kind = kind.to_owned(),
                Some(("id", id)) => frame.id = id.parse().ok(),
                Some(("data", data)) => frame.data = data.to_owned(),
                _ => {}
            }
        }
        frame
    }
}

/// Prints an event. Returns whether it is the last one.
fn show(frame: &Frame, last: &mut u64, json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    *last = frame.id.unwrap_or(*last);
    let is_end = frame.kind == "end";
    if frame.data.is_empty() {
        return Ok(false);
    }
    if json {
        // The state is the service's own event. The log has only those of the session.
        if frame.kind.is_empty() {
            writeln!(out, "{}", frame.data)?;
        }
    } else {
        let event: Value = serde_json::from_str(&frame.data).unwrap_or_default();
        let line = if frame.kind.is_empty() { of_session(&event) } else { of_service(&event, is_end) };
        line.map_or(Ok(()), |line| writeln!(out, "{line}"))?;
    }
    out.flush()?;
    Ok(is_end)
}

/// Returns a line about a submission.
fn of_service(event: &Value, is_end: bool) -> Option<String> {
    let state = event["state"].as_str()?;
    let reason = event["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    let session = event["session"].as_i64().filter(|_| is_end).map(|id| format!(" (session {id})")).unwrap_or_default();
    Some(format!("{state}{session}{reason}"))
}

/// Returns a line about an event of a session. None if it is a detail.
fn of_session(event: &Value) -> Option<String> {
    let text = |key: &str| event[key].as_str().unwrap_or("?").to_owned();
    let us = |key: &str| event[key].as_f64().map_or_else(|| "?".to_owned(), format::us);
    Some(match event["event"].as_str()? {
        "started" | "resumed" => format!("session {}: {} on {}", event["session"], text("workload"), text("device")),
        "iteration" => format!(
            "iteration {}: {} after {}, {}",
            event["finished"],
            event["outcome"]["kind"].as_str().unwrap_or("?"),
            format::duration(event["elapsed_s"].as_f64().unwrap_or(0.0)),
            format::usd(event["cost_usd"].as_f64().unwrap_or(0.0))
        ),
        "improved" => {
            format!("  {} improved: {} us -> {} us ({})", text("case"), us("from_us"), us("to_us"), text("time_source"))
        }
        "committed" => format!("committed {} to {}", text("commit"), text("branch")),
        "ended" => format!("session {} {}: {}", event["session"], text("status"), text("reason")),
        _ => return None,
    })
}
