//! What the command line says of a coding agent that proposes.

use crate::error::usage_sentence;

/// How a proposer begins that is an agent.
const PREFIX: &str = "agent:";

/// Arguments about an agent.
#[derive(Debug, Default, Clone, clap::Args)]
pub struct AgentArgs {
    /// With `--proposer agent:COMMAND`: a variable of your environment that the agent gets, such as the key of its model; can be
    /// repeated
    #[arg(long = "agent-env", value_name = "NAME")]
    pub env: Vec<String>,

    /// With `--proposer agent:COMMAND`: let the agent reach the internet, as its model needs
    #[arg(long)]
    pub agent_network: bool,
}

/// Returns the command of an agent that is to propose. None for any other proposer.
pub fn command(proposer: &str) -> anyhow::Result<Option<Vec<String>>> {
    let Some(command) = proposer.strip_prefix(PREFIX) else { return Ok(None) };
    match shlex::split(command) {
        Some(words) if !words.is_empty() => Ok(Some(words)),
        Some(_) => Err(usage_sentence("the agent has no command: write --proposer 'agent:claude -p'")),
        None => Err(usage_sentence(format!("`{command}` has a quote that does not end: close it"))),
    }
}

impl AgentArgs {
    /// Refuses arguments that have no effect.
    pub fn check(&self, has_agent: bool) -> anyhow::Result<()> {
        match has_agent || (self.env.is_empty() && !self.agent_network) {
            true => Ok(()),
            false => Err(usage_sentence(
                "--agent-env and --agent-network are about an agent: name it with --proposer agent:COMMAND",
            )),
        }
    }
}
