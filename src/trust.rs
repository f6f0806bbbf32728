//! Choices of a project that need the user's consent: programs that run, paths outside the project, and models.
//!
//! A project may be untrusted. So consent covers a program's exact command line and the contents of its files. A change
//! of any of these needs the user's consent again. Programs that optloop ships need none.

mod files;
mod items;
mod known;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use items::{
    of_agent, of_baseline, of_fleet, of_interpreter, of_models, of_notify, of_oracle, of_project, of_python,
    of_recording, of_store,
};
pub use known::{Consents, Edited};

/// One choice of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// The workload that names it; empty for a key of `config.toml`.
    #[serde(default)]
    pub workload: String,
    /// The program and its arguments, or the path.
    pub command: Vec<String>,
    /// The SHA-256 of each file of the project that the command names, by its path in the project.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// The key with which a project chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The baseline program of a workload.
    #[serde(rename = "baseline")]
    Baseline,
    /// The oracle of a workload's op.
    #[serde(rename = "oracle")]
    Oracle,
    /// An interpreter other than the user's `python3`.
    #[serde(rename = "baseline.python")]
    Interpreter,
    /// Variables of the user's environment for baselines.
    #[serde(rename = "baseline.env")]
    Environment,
    /// Files and folders that baselines may read outside the project.
    #[serde(rename = "baseline.read")]
    Read,
    /// Files and folders that baselines may write.
    #[serde(rename = "baseline.write")]
    Write,
    /// A store outside the project.
    #[serde(rename = "store.path")]
    Store,
    /// A recorded search space outside the project, in place of a device.
    #[serde(rename = "session.device")]
    Recording,
    /// Language models: the endpoint, the variable with the key, and the data sent to them.
    #[serde(rename = "llm")]
    Models,
    /// Cassettes outside the project.
    #[serde(rename = "llm.record")]
    Cassettes,
    /// The coding agent that proposes.
    #[serde(rename = "session.proposer")]
    Agent,
    /// Machines that screen: the server, and the keys of the workers.
    #[serde(rename = "fleet")]
    Fleet,
    /// The program that is told the end of a session.
    #[serde(rename = "notify.command")]
    NotifyCommand,
    /// The address that is told the end of a session.
    #[serde(rename = "notify.webhook")]
    NotifyWebhook,
}

/// How an item compares with what the user has agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentState {
    /// The user has agreed to exactly this.
    Trusted,
    /// The user has not agreed to anything of this kind.
    New,
    /// The user has agreed to something else. Lists the differences.
    Changed(Vec<String>),
}

/// Compares an item with those that the user has agreed to in its project.
pub fn standing<'a>(item: &Item, trusted: impl Iterator<Item = &'a Item>) -> ConsentState {
    let alike: Vec<&Item> =
        trusted.filter(|other| (other.kind, &other.workload) == (item.kind, &item.workload)).collect();
    match alike.last() {
        _ if alike.contains(&item) => ConsentState::Trusted,
        Some(then) => ConsentState::Changed(changes(then, item)),
        None => ConsentState::New,
    }
}

fn changes(then: &Item, now: &Item) -> Vec<String> {
    let mut changes = Vec::new();
    if then.command != now.command {
        changes.push(format!("it was {}", show(&then.command)));
    }
    for (file, hash) in &now.files {
        match then.files.get(file) {
            None => changes.push(format!("{} is new", word(file))),
            Some(before) if before != hash => changes.push(format!("{} has changed", word(file))),
            Some(_) => {}
        }
    }
    let gone = then.files.keys().filter(|file| !now.files.contains_key(*file));
    changes.extend(gone.map(|file| format!("{} is gone", word(file))));
    changes
}

/// Writes a command on one line, with every character visible.
pub fn show(command: &[String]) -> String {
    command.iter().map(|text| word(text)).collect::<Vec<_>>().join(" ")
}

fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { format!("{text:?}") }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Baseline => write!(f, "the baseline of workload `{}`, `{}`", self.workload, show(&self.command)),
            Kind::Oracle => {
                write!(f, "the oracle of workload `{}`'s op, `{}`", self.workload, show(&self.command))
            }
            Kind::Interpreter => {
                write!(f, "the interpreter `{}` (baseline.python in config.toml)", show(&self.command))
            }
            Kind::Environment => {
                write!(f, "your variables {} for baselines (baseline.env in config.toml)", show(&self.command))
            }
            Kind::Read => write!(f, "reading {} by baselines (baseline.read in config.toml)", show(&self.command)),
            Kind::Write => write!(f, "writing {} by baselines (baseline.write in config.toml)", show(&self.command)),
            Kind::Models => {
                write!(
                    f,
                    "language models (endpoint, key, what is sent): {} ([llm] in config.toml)",
                    show(&self.command)
                )
            }
            Kind::Cassettes => {
                write!(f, "cassettes outside the project, {} (llm.record or llm.replay)", show(&self.command))
            }
            Kind::Agent => write!(f, "the agent `{}` (session.proposer in config.toml)", show(&self.command)),
            Kind::Fleet => {
                write!(f, "other machines (server, keys of workers): {} ([fleet] in config.toml)", show(&self.command))
            }
            Kind::NotifyCommand => {
                write!(
                    f,
                    "the program `{}` at the end of a session (notify.command in config.toml)",
                    show(&self.command)
                )
            }
            Kind::NotifyWebhook => {
                write!(f, "telling {} the end of a session (notify.webhook in config.toml)", show(&self.command))
            }
            Kind::Recording => {
                write!(f, "a recording outside the project, {} (session.device)", show(&self.command))
            }
            Kind::Store => {
                write!(f, "a store outside the project, {} (store.path in config.toml)", show(&self.command))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(command: &[&str], files: &[(&str, &str)]) -> Item {
        Item {
            kind: Kind::Baseline,
            workload: "small".to_owned(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            files: files.iter().map(|&(file, hash)| (file.to_owned(), hash.to_owned())).collect(),
        }
    }

    #[test]
    fn any_difference_is_a_change_that_is_named() {
        let then = item(&["sh", "a.sh"], &[("a.sh", "1"), ("b.sh", "2")]);
        let standing = |now: &Item| match standing(now, [&then].into_iter()) {
            ConsentState::Changed(what) => what.join("; "),
            other => format!("{other:?}"),
        };
        assert_eq!(standing(&then), "Trusted");
        assert_eq!(standing(&Item { workload: "other".to_owned(), ..then.clone() }), "New");
        assert_eq!(standing(&Item { kind: Kind::Interpreter, ..then.clone() }), "New");
        let now = item(&["sh", "a.sh", "-c", "\u{202e}x\n"], &[("a.sh", "3"), ("c.sh", "2")]);
        insta::assert_snapshot!(standing(&now), @"it was sh a.sh; a.sh has changed; c.sh is new; b.sh is gone");
        insta::assert_snapshot!(now, @r#"the baseline of workload `small`, `sh a.sh -c "\u{202e}x\n"`"#);
    }

    #[test]
    fn an_earlier_consent_remains_beside_a_new_one() {
        let (one, two) = (item(&["a"], &[]), item(&["b"], &[]));
        assert_eq!(standing(&one, [&one, &two].into_iter()), ConsentState::Trusted);
        assert_eq!(standing(&two, [&one, &two].into_iter()), ConsentState::Trusted);
        assert_eq!(standing(&one, [].into_iter()), ConsentState::New);
    }
}
