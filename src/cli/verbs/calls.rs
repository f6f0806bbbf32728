//! `optloop calls`: the calls to language models, their cost, their requests and answers.

use std::io::Write;

use crate::cli::terminal::listing::Format;
use crate::cli::terminal::screen::Screen;
use crate::cli::terminal::table::{Table, figure};
use crate::domain::ids::SessionId;
use crate::domain::models::agent_run::AgentRun;
use crate::domain::models::call::Usage;
use crate::domain::models::call_record::{CallId, CallSummary, Transcript};
use crate::domain::models::money::MicroUsd;
use crate::domain::text::escape::{is_unsafe, one_line};
use crate::error::{Error, usage, usage_sentence};
use crate::report::format::counted;
use crate::secrets;
use crate::store::Store;

/// Arguments of `optloop calls`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the call to print, with its request and answer
    call: Option<i64>,

    /// Number of the session [default: the latest]
    #[arg(long)]
    session: Option<SessionId>,

    /// List the runs of the coding agent that proposed in the session instead
    #[arg(long, conflicts_with = "call")]
    agent: bool,

    #[command(flatten)]
    format: Format,
}

/// Lists calls, or prints one.
pub async fn run(args: &Args, store: &Store, screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
    if let Some(call) = args.call {
        let Some(transcript) = store.transcript(CallId(call)).await? else {
            return Err(usage_sentence(format!("there is no call {call}: `optloop calls` lists those of a session")));
        };
        return print(&transcript, args.format, out);
    }
    let session = match args.session {
        Some(id) => store.session(id).await?,
        None => store.latest_session().await?,
    };
    if args.agent {
        return list_runs(&store.agent_runs(session.id).await?, session.id, (args.format, screen), out);
    }
    let calls = store.calls(session.id).await?;
    let calls: Vec<CallSummary> = calls.iter().map(|(begun, ended)| CallSummary::of(begun, ended.as_ref())).collect();
    if args.format.write(&calls, out)? {
        return Ok(());
    }
    if calls.is_empty() {
        writeln!(out, "session {} has asked no language model", session.id)?;
        return Ok(());
    }
    list(&calls, screen, out)
}

fn list(calls: &[CallSummary], screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
    let mut table =
        Table::new(&[">call", "purpose", "?model", "status", ">input", "?>cached", ">output", ">cost", "?>s", "about"]);
    for call in calls {
        let tokens = |of: fn(&Usage) -> u64| figure(call.usage.as_ref().map(of), |n| n.to_string());
        let cost = match call.estimate_micro_usd {
            _ if call.cost_is_known => call.cost_micro_usd.to_string(),
            Some(estimate) => format!("about {estimate}"),
            None => format!("at most {}", call.cost_micro_usd),
        };
        table.row([
            call.call.to_string(),
            call.purpose.to_string(),
            call.model.clone(),
            call.error_kind.clone().unwrap_or_else(|| call.status.unwrap_or("unanswered").to_owned()),
            tokens(|usage| usage.input_tokens + usage.cache_write_tokens),
            tokens(|usage| usage.cached_tokens),
            tokens(|usage| usage.output_tokens),
            cost,
            figure(call.latency_ms, |ms| format!("{:.1}", ms as f64 / 1e3)),
            call.claim.clone().unwrap_or_default(),
        ]);
    }
    let mut text = Vec::new();
    table.print_on(screen, &mut text)?;
    let (known, unknown): (Vec<_>, Vec<_>) = calls.iter().partition(|call| call.cost_is_known);
    let sum = |calls: &[&CallSummary]| calls.iter().map(|call| call.cost_micro_usd).sum::<MicroUsd>();
    writeln!(text, "\n{}: {}", counted(calls.len(), "call"), sum(&known))?;
    if !unknown.is_empty() {
        let about = unknown.iter().map(|call| call.estimate_micro_usd.unwrap_or(call.cost_micro_usd)).sum::<MicroUsd>();
        let (most, count) = (sum(&unknown), unknown.len());
        writeln!(text, "and about {about} for {count} whose cost is unknown: at most {most}")?;
    }
    screen.show(&text, out)?;
    Ok(())
}

/// Lists the runs of a coding agent.
fn list_runs(
    runs: &[AgentRun],
    session: SessionId,
    (format, screen): (Format, Screen),
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if format.write(runs, out)? {
        return Ok(());
    }
    if runs.is_empty() {
        writeln!(out, "session {session} has started no agent")?;
        return Ok(());
    }
    let mut table = Table::new(&[">run", "ended", ">s", ">kernels", ">input", ">output", ">cost", "said"]);
    for run in runs {
        let tokens = |of: fn(&Usage) -> u64| figure(run.usage.as_ref().map(of), |n| n.to_string());
        table.row([
            run.run.to_string(),
            run.exit_code.map_or_else(|| "by optloop".to_owned(), |code| format!("exit code {code}")),
            format!("{:.0}", run.wall_s),
            run.evaluations.to_string(),
            tokens(Usage::prompt_tokens),
            tokens(|usage| usage.output_tokens),
            run.cost.map_or_else(|| "unknown".to_owned(), |cost| cost.to_string()),
            run.said.lines().rfind(|line| !line.trim().is_empty()).map(one_line).unwrap_or_default(),
        ]);
    }
    let mut text = Vec::new();
    table.print_on(screen, &mut text)?;
    screen.show(&text, out)?;
    Ok(())
}

fn print(transcript: &Transcript, format: Format, out: &mut impl Write) -> anyhow::Result<()> {
    let Transcript { request, text } = transcript;
    if format.csv {
        return Err(usage(Error::new("a call is no list").hint("use --json, or leave the number out")));
    }
    if format.json {
        let json = serde_json::json!({ "request": request, "text": text });
        writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?;
        return Ok(());
    }
    let parts = [
        ("system", request.system.as_str()),
        ("task", &request.cached),
        ("request", &request.prompt),
        ("answer", text.as_deref().unwrap_or("(none)")),
    ];
    for (name, part) in parts {
        writeln!(out, "--- {name}\n{}\n", visible(part))?;
    }
    Ok(())
}

/// Returns a text without characters that a terminal would obey.
fn visible(text: &str) -> String {
    let masked = secrets::mask(text);
    masked.chars().filter(|c| !is_unsafe(*c) || matches!(c, '\n' | '\t')).collect()
}
