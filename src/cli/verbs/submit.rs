//! `optloop submit`: submits a session to a service.

use std::io::Write;
use std::path::Path;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use crate::cli::client::{Client, ServiceArgs};
use crate::cli::verbs::tail;
use crate::domain::submission::{SessionRequest, SubmissionId};
use crate::error::usage_sentence;

/// Arguments of `optloop submit`. Those of the session are the ones of `optloop start`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workload to make faster [default: session.workload in config.toml]
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// Run only this case of the workload; can be repeated
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    cases: Vec<String>,

    /// Search only this family; can be repeated
    #[arg(short = 'f', long = "family", value_name = "FAMILY")]
    families: Vec<String>,

    /// Maximum wall time, such as 10m or 4h [default: session.budget in config.toml]
    #[arg(short = 'b', long)]
    budget: Option<String>,

    /// Maximum cost in US dollars [default: no limit]
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,

    /// Maximum number of iterations [default: no limit]
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,

    /// Use all of the time, however little it promises
    #[arg(long = "no-early-stop", alias = "no-stop")]
    no_early_stop: bool,

    /// Random seed of the proposals and inputs [default: random]
    #[arg(long)]
    seed: Option<u64>,

    /// Device: auto (any GPU of the service), cuda:N, virtual or virtual:NAME [default: session.device in config.toml]
    #[arg(short = 'd', long)]
    device: Option<String>,

    /// Proposer [default: session.proposer in config.toml]
    #[arg(long)]
    proposer: Option<String>,

    /// Commit the winners to this branch [default: git.branch in config.toml]
    #[arg(long, value_name = "BRANCH", conflicts_with = "no_commit")]
    commit_to: Option<String>,

    /// Commit nothing: the winners stay in the store
    #[arg(long)]
    no_commit: bool,

    /// Start before submissions with a lower priority
    #[arg(long, value_name = "N", default_value_t = 0)]
    priority: i64,

    /// Project of the service [default: the one in the current folder]
    #[arg(long, value_name = "NAME")]
    on: Option<String>,

    /// Name of this submission: a second one with the same name is the first one [default: a new name]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Follow the session until it ends
    #[arg(long)]
    follow: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    service: ServiceArgs,
}

/// Submits a session.
pub async fn run(args: &Args, folder: Option<&Path>, out: &mut impl Write) -> anyhow::Result<()> {
    let client = Client::new(&args.service)?;
    let project = client.project(args.on.as_deref(), folder).await?;
    let body = json!({ "project": project, "priority": args.priority, "request": request(args) });
    let key = args.key.clone().unwrap_or_else(|| format!("{:032x}", rand::random::<u128>()));
    let key = HeaderValue::from_str(&key).map_err(|_| usage_sentence("--key must be visible ASCII characters"))?;
    let headers = HeaderMap::from_iter([(HeaderName::from_static("idempotency-key"), key)]);
    let answer = client.post("/submissions", headers, &body).await?;
    let id = SubmissionId(answer["id"].as_i64().unwrap_or_default());
    if args.json {
        writeln!(out, "{answer}")?;
    } else if !args.follow {
        writeln!(
            out,
            "submission {id} is {}: `optloop tail {id}` follows it",
            answer["state"].as_str().unwrap_or("?")
        )?;
    }
    out.flush()?;
    if args.follow { tail::follow(&client, id, args.json, out).await } else { Ok(()) }
}

fn request(args: &Args) -> SessionRequest {
    SessionRequest {
        workload: args.workload.clone(),
        cases: args.cases.clone(),
        families: args.families.clone(),
        budget: args.budget.clone(),
        max_cost_usd: args.max_cost,
        max_iterations: args.iterations,
        proposer: args.proposer.clone(),
        device: args.device.clone(),
        commit_to: args.commit_to.clone(),
        no_commit: args.no_commit,
        no_stop: args.no_early_stop,
        seed: args.seed,
    }
}
