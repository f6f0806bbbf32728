//! Submissions: sessions that somebody handed in to a service, which runs them one after another.

use serde::{Deserialize, Serialize};

use super::ids::SessionId;
use super::text::escape::check_line;
use crate::error::{Error, error};

/// The longest text in a request, in bytes. Names of workloads, families and branches are far shorter.
const MAX_TEXT_BYTES: usize = 200;

/// The most cases or families of a request.
const MAX_LIST: usize = 1000;

/// The number of a submission in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubmissionId(pub i64);

impl std::fmt::Display for SubmissionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for SubmissionId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The options of a session that may come from somebody else. There are no others, so none of them can name a program,
/// a path or the user's trust. A key that is left out has the default of `optloop start`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionRequest {
    /// Name of the workload.
    pub workload: Option<String>,
    /// Names of the cases. Empty: every case.
    pub cases: Vec<String>,
    /// Names of the families to search. Empty: every family.
    pub families: Vec<String>,
    /// Wall time, such as `10m`.
    pub budget: Option<String>,
    /// Money in US dollars.
    pub max_cost_usd: Option<f64>,
    /// Iterations.
    pub max_iterations: Option<u64>,
    /// Name of the proposer.
    pub proposer: Option<String>,
    /// `auto`, `cuda:N`, `virtual` or `virtual:NAME`.
    pub device: Option<String>,
    /// The branch that gets the winners.
    pub commit_to: Option<String>,
    /// Whether the winners stay in the store.
    pub no_commit: bool,
    /// Whether all of the time is used, however little it promises.
    pub no_stop: bool,
    /// Random seed.
    pub seed: Option<u64>,
}

impl SessionRequest {
    /// Refuses texts that no name can have. The rest is checked by `optloop start`.
    pub fn check(&self) -> Result<(), Error> {
        let lists = [("cases", &self.cases), ("families", &self.families)];
        if let Some((key, _)) = lists.iter().find(|(_, list)| list.len() > MAX_LIST) {
            return Err(error!("`{key}` has more than {MAX_LIST} entries"));
        }
        let single = [
            ("workload", &self.workload),
            ("budget", &self.budget),
            ("proposer", &self.proposer),
            ("device", &self.device),
            ("commit_to", &self.commit_to),
        ];
        let single = single.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?)));
        let listed = lists.into_iter().flat_map(|(key, list)| list.iter().map(move |text| (key, text)));
        for (key, text) in single.chain(listed) {
            if text.is_empty() || text.len() > MAX_TEXT_BYTES || text.starts_with('-') {
                return Err(error!("`{key}` must have 1 to {MAX_TEXT_BYTES} bytes, and must not begin with `-`"));
            }
            check_line(&format!("`{key}`"), text)?;
        }
        Ok(())
    }

    /// Returns the arguments of `optloop start`. Each value shares an argument with its option, so no value can become
    /// an option.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut push = |option: &str, value: Option<String>| {
            arguments.extend(value.map(|value| format!("--{option}={value}")));
        };
        push("workload", self.workload.clone());
        self.cases.iter().for_each(|case| push("case", Some(case.clone())));
        self.families.iter().for_each(|family| push("family", Some(family.clone())));
        push("budget", self.budget.clone());
        push("max-cost", self.max_cost_usd.map(|usd| usd.to_string()));
        push("iterations", self.max_iterations.map(|most| most.to_string()));
        push("proposer", self.proposer.clone());
        push("commit-to", self.commit_to.clone());
        push("seed", self.seed.map(|seed| seed.to_string()));
        if self.no_commit {
            arguments.push("--no-commit".to_owned());
        }
        if self.no_stop {
            arguments.push("--no-early-stop".to_owned());
        }
        arguments
    }
}

/// What becomes of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionState {
    /// It waits for its turn.
    Queued,
    /// Its session has a process, or is about to get one.
    Running,
    /// Its session has ended: its budget was used up, or it was stopped.
    Ended,
    /// Somebody cancelled it.
    Cancelled,
    /// Its session could not begin, or failed.
    Failed,
}

impl SubmissionState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Ended, Self::Cancelled, Self::Failed];

    /// Returns the name that the queue uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Tells whether nothing more happens by itself.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// What somebody asked of a running submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopRequest {
    /// End after the iteration in flight. It can be resumed.
    Stop,
    /// Abandon the iteration in flight, and end.
    Cancel,
}

impl StopRequest {
    /// Returns the name that the queue uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Cancel => "cancel",
        }
    }
}

/// The place in which a session runs, and in which there is room for few at once: a GPU, or the virtual GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The CUDA device of a number.
    Gpu(u32),
    /// The virtual GPUs, which share the CPU.
    Virtual,
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gpu(number) => write!(f, "cuda:{number}"),
            Self::Virtual => f.write_str("virtual"),
        }
    }
}

impl std::str::FromStr for Lane {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "virtual" {
            return Ok(Self::Virtual);
        }
        let number = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        number.map(Self::Gpu).ok_or_else(|| error!("`{text}` is not a place for a session"))
    }
}

/// A session that was handed in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Submission {
    /// Its number.
    pub id: SubmissionId,
    /// The name under which the session's store knows it, unique everywhere.
    #[serde(skip)]
    pub uid: String,
    /// The folder of the project.
    pub project: String,
    /// The options of the session.
    pub request: SessionRequest,
    /// The device that the request or the project's configuration names.
    pub device: String,
    /// Submissions with a higher priority start first.
    pub priority: i64,
    /// Who handed it in.
    pub client: String,
    /// What became of it.
    pub state: SubmissionState,
    /// What somebody asked of it, if it runs.
    pub asked: Option<StopRequest>,
    /// Where it runs, or ran last.
    #[serde(serialize_with = "as_text")]
    pub lane: Option<Lane>,
    /// Number of its session, once that has begun.
    pub session: Option<SessionId>,
    /// Processes that were started for it since an iteration last ended.
    pub attempts: u32,
    /// Iterations of its session that had ended when a process last ended.
    pub iterations: u64,
    /// The time before which it is not started again, in milliseconds since 1970.
    #[serde(skip)]
    pub not_before_ms: i64,
    /// Why it ended, failed or waits, in a sentence.
    pub reason: Option<String>,
    /// When it was handed in.
    pub submitted_at: String,
    /// When its first process started.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
}

fn as_text<S: serde::Serializer>(lane: &Option<Lane>, serializer: S) -> Result<S::Ok, S::Error> {
    lane.map(|lane| lane.to_string()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_becomes_an_option() {
        let request = SessionRequest {
            workload: Some("small".to_owned()),
            cases: vec!["--trust".to_owned()],
            max_cost_usd: Some(0.5),
            seed: Some(7),
            no_commit: true,
            no_stop: true,
            ..SessionRequest::default()
        };
        assert_eq!(
            request.arguments(),
            ["--workload=small", "--case=--trust", "--max-cost=0.5", "--seed=7", "--no-commit", "--no-early-stop"]
        );
        insta::assert_snapshot!(request.check().unwrap_err(), @"`cases` must have 1 to 200 bytes, and must not begin with `-`");
        for text in ["", "a\nb", "a\u{202e}b", &"x".repeat(201)] {
            let request = SessionRequest { device: Some(text.to_owned()), ..SessionRequest::default() };
            assert!(request.check().is_err(), "{text:?}");
        }
        assert!(serde_json::from_str::<SessionRequest>(r#"{"trust": true}"#).is_err());
    }

    #[test]
    fn lanes_are_read_as_they_are_written() {
        for lane in [Lane::Gpu(0), Lane::Gpu(7), Lane::Virtual] {
            assert_eq!(lane.to_string().parse(), Ok(lane));
        }
        assert!("cuda:x".parse::<Lane>().is_err());
    }
}
