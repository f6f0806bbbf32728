//! `optloop start`: runs a session.

mod agent;
mod agent_args;
mod args;
pub mod conclusion;
pub mod hosting;
mod notify;
mod running;

use std::io::Write;

pub use self::args::{Args, Interacting};
use crate::catalog::Project;
use crate::config::Config;
use crate::error::{usage, usage_sentence};

/// Runs a session, with an agent if one is to propose.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let command = agent_args::command(args.named_proposer(&config))?;
    args.agent().check(command.is_some())?;
    match command {
        // A service has many users, and runs no program that one of them names.
        Some(_) if args.is_asked_by_a_service() => Err(usage_sentence(
            "a service starts no agent: use `optloop start`, or `optloop mcp` for an agent that runs already",
        )),
        Some(command) if args.runs() => Box::pin(agent::run(args, command, project, &config, out)).await,
        _ => running::run_with(args, project, None, out).await,
    }
}
