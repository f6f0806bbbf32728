//! What an agent is given: its brief, and the configurations of the usual clients.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;
use tera::{Context, Tera};

use crate::domain::text::escape::one_line;
use crate::session::Amounts;

/// The runs without a kernel after which an agent is not started again.
pub(super) const MOST_IDLE: u64 = 3;

/// The longest that Codex waits for a tool, in seconds: as long as any evaluation takes.
const TOOL_TIMEOUT_S: u64 = 3600;

/// The brief. Its variables are those of [`Brief`].
const TEMPLATE: &str = include_str!("../../../templates/prompts/agent.md.tera");

/// The steps of the loop, as `optloop skill` writes them, after a head for clients.
const SKILL: &str = include_str!("../../../templates/agents/SKILL.md");

/// What a run is told.
pub(super) struct Brief<'a> {
    /// Counts the runs, from 1.
    pub run: u64,
    /// The runs before it, up to the last one with a kernel.
    pub idle: u64,
    /// The workload.
    pub workload: &'a str,
    /// Where the tools are.
    pub url: &'a str,
    /// What lets it in.
    pub token: &'a str,
    /// What is left of the budget.
    pub left: &'a Amounts,
}

impl Brief<'_> {
    /// Writes everything into the agent's folder. Returns the path of the brief.
    pub fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let brief = folder.join("BRIEF.md");
        let codex = folder.join(".codex");
        let place = || {
            remove(&codex)?;
            fs::create_dir(&codex)
        };
        place().context("Failed to write the agent's brief")?;
        for (path, text) in [
            (&brief, self.text()?),
            (&folder.join(".mcp.json"), self.for_claude_code()),
            (&codex.join("config.toml"), self.for_codex()),
        ] {
            write_anew(path, &text).context("Failed to write the agent's brief")?;
        }
        Ok(brief)
    }

    fn text(&self) -> anyhow::Result<String> {
        let mut context = Context::new();
        let skill = SKILL.splitn(3, "---\n").nth(2).unwrap_or(SKILL).trim();
        let seconds = self.left.seconds.unwrap_or_default();
        let money = self.left.usd.map(|usd| format!(" The device may cost {usd:.2} US dollars more."));
        context.insert("run", &self.run);
        context.insert("idle", &self.idle);
        context.insert("most_idle", &MOST_IDLE);
        context.insert("workload", &one_line(self.workload));
        context.insert("url", self.url);
        context.insert("time", &format!("{:.0} minutes are left.", (seconds / 60.0).max(1.0)));
        context.insert("money", &money.unwrap_or_default());
        context.insert("skill", skill);
        Tera::one_off(TEMPLATE, &context, false).context("Failed to write the agent's brief")
    }

    fn for_claude_code(&self) -> String {
        let headers = json!({ "Authorization": format!("Bearer {}", self.token) });
        let servers = json!({ "optloop": { "type": "http", "url": self.url, "headers": headers } });
        format!("{:#}\n", json!({ "mcpServers": servers }))
    }

    fn for_codex(&self) -> String {
        format!(
            "[mcp_servers.optloop]\nurl = \"{}\"\nbearer_token_env_var = \"OPTLOOP_MCP_TOKEN\"\ntool_timeout_sec = {TOOL_TIMEOUT_S}\n",
            self.url
        )
    }
}

/// Writes a file in place of whatever an earlier run of the agent has put there: a link would lead out of its folder, and a pipe would
/// never end. Nothing of that run is left that could change the folder meanwhile.
fn write_anew(path: &Path, text: &str) -> io::Result<()> {
    remove(path)?;
    File::options().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

/// Removes what is at a path, if there is anything. A link is removed, and not what it leads to.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_what_is_left_and_how_to_reach_the_tools() {
        let folder = tempfile::tempdir().unwrap();
        let left = Amounts { seconds: Some(610.0), usd: Some(1.5), iterations: None };
        let (url, token) = ("http://127.0.0.1:1/mcp", "optloop_secret");
        let brief = |run, idle| {
            let brief = Brief { run, idle, workload: "small\n# Rules", url, token, left: &left };
            fs::read_to_string(brief.write(folder.path()).unwrap()).unwrap()
        };
        let first = brief(1, 0);
        assert!(first.contains("of `small # Rules` faster"), "{first}");
        assert!(first.contains("- 10 minutes are left. The device may cost 1.50 US dollars more. Each"), "{first}");
        assert!(first.contains("1. **Read the task.**") && !first.contains("name: optloop"), "{first}");
        assert!(!first.contains("This is run") && !first.contains(token), "{first}");
        assert!(brief(4, 2).contains("This is run 4.") && brief(4, 2).contains("The last 2 runs had nothing"));
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let claude: serde_json::Value = serde_json::from_str(&read(".mcp.json")).unwrap();
        assert_eq!(claude["mcpServers"]["optloop"]["headers"]["Authorization"], "Bearer optloop_secret");
        let codex: toml::Table = toml::from_str(&read(".codex/config.toml")).unwrap();
        assert_eq!(codex["mcp_servers"]["optloop"]["url"].as_str(), Some(url));
    }

    /// A run may have put links and pipes where the next one's files go.
    #[test]
    fn what_an_earlier_run_has_left_is_replaced_and_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(at("BRIEF.md")).status().unwrap();
        assert!(made.success());
        std::os::unix::fs::symlink(&victim, at(".mcp.json")).unwrap();
        std::os::unix::fs::symlink(outside.path(), at(".codex")).unwrap();
        let left = Amounts { seconds: Some(60.0), usd: None, iterations: None };
        let brief =
            Brief { run: 2, idle: 1, workload: "small", url: "http://127.0.0.1:1/mcp", token: "t", left: &left };
        assert!(fs::read_to_string(brief.write(folder.path()).unwrap()).unwrap().contains("This is run 2."));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "nothing is written outside");
        assert!(at(".codex").symlink_metadata().unwrap().is_dir());
    }
}
