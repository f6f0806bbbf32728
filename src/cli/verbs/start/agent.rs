//! `optloop start --proposer agent:COMMAND`: a session in which a coding agent proposes that optloop starts.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::agent_args::AgentArgs;
use super::args::Args;
use super::hosting::{Hosting, host, serve_http};
use crate::catalog::Project;
use crate::config::Config;
use crate::error::usage_sentence;
use crate::launch::own_executable;
use crate::mcp::{Agent, Server};
use crate::notices::say;
use crate::runner::agent_program::AgentProgram;
use crate::runner::confine::Network;
use crate::service::http::tokens::{self, Scope};

/// Runs a session with an agent, and writes its report.
pub async fn run(
    args: &Args,
    command: Vec<String>,
    project: &Project,
    config: &Config,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let AgentArgs { env, agent_network } = args.agent().clone();
    let command = from_here(command)?;
    if let Some(unset) = env.iter().find(|name| std::env::var_os(name).is_none()) {
        return Err(usage_sentence(format!("--agent-env {unset}: there is no such variable: set it, or leave it out")));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("Failed to listen for the agent")?;
    let address = listener.local_addr().context("Failed to listen for the agent")?;
    let network = if agent_network { Network::All } else { Network::Port(address.port()) };
    let hidden = hidden(project, config);
    let program = AgentProgram::new(own_executable()?, command, env, network, &hidden).map_err(usage_sentence)?;
    let (token, line) = tokens::new_token("agent", Scope::Run)?;
    // Only its hash is on the disk.
    let mut known = tempfile::NamedTempFile::new().context("Failed to write the agent's token")?;
    writeln!(known, "{line}").context("Failed to write the agent's token")?;
    let (done, recorded) = oneshot::channel();
    let agent = Agent { program, address, token, max_cost_usd: args.max_cost(), say };
    let serve = move |server: Server, stopping| async move {
        let served = serve_http(&server, listener, Some(known.path().to_owned()), stopping);
        let drive = async {
            agent.drive(&server).await;
            // Nobody waits if the session has failed.
            let _ = done.send(());
        };
        if let (Err(problem), ()) = tokio::join!(served, drive) {
            say(&format!("the agent is no longer served: {problem:#}"));
        }
    };
    // The agent would wait for an end that waits for it.
    let end = json!({ "status": "ending", "next": "the finals, the commit and the report; end now" });
    host(args, project, Hosting { end: Some(end), recorded: Some(recorded), lingers: false }, serve, out).await
}

/// Returns a command that means the same in another folder: the path of its program begins at the root.
fn from_here(mut command: Vec<String>) -> anyhow::Result<Vec<String>> {
    if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
        *program = std::path::absolute(&*program).context("Failed to find the agent")?.display().to_string();
    }
    Ok(command)
}

/// What the agent must not see: the project, and its store wherever it is.
fn hidden(project: &Project, config: &Config) -> Vec<PathBuf> {
    let store = project.root().join(&config.store.path);
    let folder = store.parent().map(PathBuf::from);
    [Some(project.root().to_owned()), folder].into_iter().flatten().collect()
}
