//! Runs a coding agent as the proposer of a session: starts it, starts it again while the session goes on, ends it with the session,
//! and records what it did.

mod brief;
mod usage;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;

use self::brief::{Brief, MOST_IDLE};
use self::usage::Reported;
use super::Server;
use crate::domain::models::agent_run::AgentRun;
use crate::domain::models::money::MicroUsd;
use crate::domain::text::counted::counted;
use crate::runner::agent_program::{AgentEnd, AgentProgram};
use crate::session::{Ask, Look, Standing};

/// How long an agent that has ended the session may take for its last words. The report of what it has used is among them.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// The most of its words that are recorded, in characters.
const MOST_SAID: usize = 4000;

/// An agent that is to propose.
pub struct Agent {
    /// What runs it.
    pub program: AgentProgram,
    /// Where the session is served.
    pub address: SocketAddr,
    /// What lets it in.
    pub token: String,
    /// The most that the session may cost, with the agent, as far as the agent tells.
    pub max_cost_usd: Option<f64>,
    /// Tells the user something.
    pub say: fn(&str),
}

impl Agent {
    /// Runs the agent until the session's search ends, or until it has ended several times without proposing anything. Then the
    /// search ends, too.
    pub async fn drive(&self, server: &Server) {
        if let Err(problem) = self.run_again_and_again(server).await {
            (self.say)(&format!("the agent is not run any more: {problem:#}"));
        }
        // It may have ended already.
        drop(server.door.ask(Ask::Finish).await);
    }

    async fn run_again_and_again(&self, server: &Server) -> anyhow::Result<()> {
        let (mut idle, mut cost) = (0, MicroUsd::default());
        for run in 1.. {
            // The search is over.
            let Ok(answer) = server.door.ask(Ask::Look(Look::Standing)).await else { return Ok(()) };
            if self.max_cost_usd.is_some_and(|most| answer.standing.spent.usd.unwrap_or_default() + cost.usd() >= most)
            {
                (self.say)("the agent is not started again: its costs have reached --max-cost");
                return Ok(());
            }
            let ran = self.run(server, (run, idle), &answer.standing).await?;
            (self.say)(&in_words(&ran));
            server.store.record_agent_run(server.session, &ran).await.context("Failed to record a run of the agent")?;
            cost = MicroUsd(cost.0.saturating_add(ran.cost.unwrap_or_default().0));
            idle = if ran.evaluations > 0 { 0 } else { idle + 1 };
            if ran.exit_code.is_none() || server.door.is_closed() {
                return Ok(());
            }
            if idle == MOST_IDLE {
                (self.say)(&format!("the agent has ended {MOST_IDLE} times without a kernel: the session ends"));
                return Ok(());
            }
        }
        Ok(())
    }

    async fn run(&self, server: &Server, (run, idle): (u64, u64), standing: &Standing) -> anyhow::Result<AgentRun> {
        let workload = &server.places.workload.name;
        let brief = Brief { run, idle, workload, url: &self.url(), token: &self.token, left: &standing.left };
        let input = brief.write(self.program.folder())?;
        let before = server.activity.evaluated.load(Ordering::Relaxed);
        let given = [
            ("OPTLOOP_MCP_URL", self.url()),
            ("OPTLOOP_MCP_TOKEN", self.token.clone()),
            ("OPTLOOP_BRIEF", input.display().to_string()),
        ];
        let end = self.program.run(&given, &input, over(server)).await?;
        let evaluations = server.activity.evaluated.load(Ordering::Relaxed) - before;
        Ok(record(run, &self.program, evaluations, end))
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

/// Waits until the search is over, and the agent has had time to say so if it has ended it.
async fn over(server: &Server) {
    server.door.closed().await;
    if server.activity.has_finished.load(Ordering::Relaxed) {
        tokio::time::sleep(LAST_WORDS).await;
    }
}

fn record(run: u64, program: &AgentProgram, evaluations: u64, end: AgentEnd) -> AgentRun {
    let AgentEnd { exit_code, wall, output, last_line } = end;
    let Reported { cost, usage, said } = usage::reported(&output);
    let said = if said.trim().is_empty() { last_line } else { said };
    let skipped = said.chars().count().saturating_sub(MOST_SAID);
    AgentRun {
        run,
        command: program.command().to_vec(),
        wall_s: wall.as_secs_f64(),
        exit_code,
        evaluations,
        cost,
        usage,
        said: said.chars().skip(skipped).collect(),
    }
}

/// Describes a run in a sentence.
fn in_words(ran: &AgentRun) -> String {
    let how = match ran.exit_code {
        None => "was ended with the session".to_owned(),
        Some(0) => "has ended".to_owned(),
        Some(code) => format!("has failed (exit code {code})"),
    };
    let cost = ran.cost.map_or_else(|| "its cost is unknown".to_owned(), |cost| format!("it reports a cost of {cost}"));
    let said = ran.said.lines().rfind(|line| !line.trim().is_empty());
    let said = said.filter(|_| ran.exit_code.is_some_and(|code| code != 0)).map(|line| format!("; it says: {line}"));
    let kernels = counted(ran.evaluations as usize, "kernel");
    let (run, said) = (ran.run, said.unwrap_or_default());
    format!("run {run} of the agent {how} after {:.0} s and {kernels}; {cost}{said}", ran.wall_s)
}
