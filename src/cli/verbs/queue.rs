//! `optloop queue`: lists what a service has to do and has done.

use std::io::Write;

use serde_json::Value;

use crate::cli::client::{Client, ServiceArgs};
use crate::cli::terminal::screen::Screen;
use crate::cli::terminal::table::Table;

/// Arguments of `optloop queue`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only submissions that wait or run
    #[arg(long)]
    open: bool,

    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    service: ServiceArgs,
}

/// Lists the submissions of a service, the latest first.
pub async fn run(args: &Args, screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
    let client = Client::new(&args.service)?;
    let mut rows = Vec::new();
    let states: &[&str] = if args.open { &["&state=running", "&state=queued"] } else { &[""] };
    for state in states {
        let answer = client.get(&format!("/submissions?limit={}{state}", args.limit)).await?;
        rows.extend(answer.as_array().cloned().unwrap_or_default());
    }
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?);
    }
    let mut text = Vec::new();
    table(&rows).print_on(screen, &mut text)?;
    screen.show(&text, out)?;
    Ok(())
}

fn table(rows: &[Value]) -> Table {
    let mut table =
        Table::new(&[">#", "state", "project", "workload", "device", ">session", "?>priority", "?by", "why"]);
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for row in rows {
        let project = if row["project_name"].is_null() { &row["project"] } else { &row["project_name"] };
        let device = if row["lane"].is_null() { &row["device"] } else { &row["lane"] };
        let workload = &row["request"]["workload"];
        let cells = [&row["id"], &row["state"], project, workload, device, &row["session"], &row["priority"]];
        let cells = cells.into_iter().chain([&row["client"], &row["reason"]]).map(text).collect::<Vec<_>>();
        table.row(cells);
    }
    table
}
