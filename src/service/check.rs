//! Refuses a submission that `optloop start` would refuse, in the same words.
//!
//! The check is a process of its own, `optloop start --check`: it reads the files of a project, which may come from
//! strangers.

use std::path::Path;

use anyhow::bail;
use serde::{Deserialize, Serialize};

use super::verb;
use crate::domain::submission::SessionRequest;

/// What a request has passed. The check prints a line for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "passed", rename_all = "snake_case")]
pub enum Stage {
    /// Workload, cases, families, budget and branch.
    Options {
        /// The device that the request or the project's configuration names.
        device: String,
    },
    /// The user trusts what the session would run.
    Trust,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// The session could start on this device.
    Device(String),
    /// The request is wrong: a sentence.
    Wrong(String),
    /// The user has not trusted what the session would run: a sentence.
    Untrusted(String),
}

/// Checks a request for a project.
pub async fn check(exe: &Path, root: &Path, request: &SessionRequest) -> anyhow::Result<Checked> {
    let mut arguments = vec!["start".to_owned(), "--check".to_owned()];
    arguments.extend(request.device.iter().map(|device| format!("--device={device}")));
    arguments.extend(request.arguments());
    let said = verb::run(exe, root, &arguments).await?;
    let stages: Vec<Stage> = said.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let device = stages.iter().find_map(|stage| match stage {
        Stage::Options { device } => Some(device.clone()),
        Stage::Trust => None,
    });
    match (said.refusal, device) {
        (None, Some(device)) if stages.contains(&Stage::Trust) => Ok(Checked::Device(device)),
        (Some(sentence), Some(_)) => Ok(Checked::Untrusted(sentence)),
        (Some(sentence), None) => Ok(Checked::Wrong(sentence)),
        (None, _) => bail!("the check of the request was not completed"),
    }
}
