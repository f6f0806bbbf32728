//! Decides what becomes of a submission when its process has ended. Pure.
//!
//! The session's store says how far the session got. A process that was killed leaves a session that is resumed; one that
//! was killed earlier leaves none, and starts again. So every submission ends once, whatever was killed when.

use crate::domain::ids::SessionId;
use crate::domain::record::Status;
use crate::domain::submission::{StopRequest, SubmissionState};
use crate::store::queue::Conclusion;

/// Processes that may end without a new iteration in between. The waiting times between them add up to 100 s, in which a
/// machine may recover.
const MAX_ATTEMPTS: u32 = 10;

/// The time before the second attempt without a new iteration. It doubles with each further one.
const RETRY_MS: i64 = 100;

/// The longest wait of a submission.
pub const MAX_WAIT_MS: i64 = RETRY_MS << (MAX_ATTEMPTS - 1);

/// The time before the next try if another process uses the project, the store or the GPU.
const IN_USE_MS: i64 = 10_000;

/// How a process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// It was killed, or an earlier service started it: the reason is unknown.
    Unknown,
    /// Another process uses what the session needs.
    InUse(String),
    /// With an error.
    Failed(String),
    /// Without an error.
    Success,
}

/// The session of a submission, as its store has it after the process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub id: SessionId,
    /// Its status.
    pub status: Status,
    /// Why it ended.
    pub reason: Option<String>,
    /// Its iterations that have ended.
    pub iterations: u64,
}

/// What is known when a process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// How it ended.
    pub exit: Exit,
    /// Its session, if that has begun.
    pub session: Option<Found>,
    /// What somebody asked of it.
    pub asked: Option<StopRequest>,
    /// Processes started since an iteration last ended, including this one.
    pub attempts: u32,
    /// Iterations before this process.
    pub iterations: u64,
    /// Now, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Returns what becomes of the submission.
pub fn conclusion(facts: &Facts) -> Conclusion {
    use SubmissionState::{Cancelled, Ended, Failed};
    let (status, reason) =
        facts.session.as_ref().map_or((None, None), |session| (Some(session.status), session.reason.clone()));
    match (&facts.exit, status, facts.asked) {
        (_, Some(Status::Finished), _) => over(facts, Ended, reason),
        (_, _, Some(StopRequest::Cancel)) | (_, None, Some(StopRequest::Stop)) => over(facts, Cancelled, None),
        (_, Some(_), Some(StopRequest::Stop)) => over(facts, Ended, Some("stopped by a request".to_owned())),
        (Exit::InUse(message), _, None) => {
            again(facts, Some(message.clone()), IN_USE_MS, facts.attempts.saturating_sub(1))
        }
        (Exit::Failed(message), _, None) => {
            over(facts, Failed, reason.filter(|_| status == Some(Status::Failed)).or_else(|| Some(message.clone())))
        }
        (_, Some(Status::Failed), None) => over(facts, Failed, reason),
        // A signal that did not come from here, such as that of a shutdown, does not end a submission.
        (Exit::Unknown | Exit::Success, _, None) => retry(facts),
    }
}

/// Queues a submission whose process was killed.
fn retry(facts: &Facts) -> Conclusion {
    let has_progressed = facts.session.as_ref().is_some_and(|session| session.iterations > facts.iterations);
    let attempts = if has_progressed { 0 } else { facts.attempts };
    if attempts >= MAX_ATTEMPTS {
        let reason = format!("its process was killed {attempts} times without a new iteration");
        return over(facts, SubmissionState::Failed, Some(reason));
    }
    let wait_ms = if attempts == 0 { 0 } else { RETRY_MS << attempts };
    let is_interrupted = facts.session.as_ref().is_some_and(|session| session.status == Status::Interrupted);
    let reason = if is_interrupted { "its session was interrupted" } else { "its process was killed" };
    again(facts, Some(reason.to_owned()), wait_ms, attempts)
}

fn again(facts: &Facts, reason: Option<String>, wait_ms: i64, attempts: u32) -> Conclusion {
    let queued = over(facts, SubmissionState::Queued, reason);
    Conclusion { attempts, not_before_ms: facts.now_ms + wait_ms, ..queued }
}

fn over(facts: &Facts, state: SubmissionState, reason: Option<String>) -> Conclusion {
    Conclusion {
        state,
        reason,
        session: facts.session.as_ref().map(|session| session.id),
        iterations: facts.session.as_ref().map_or(facts.iterations, |session| session.iterations),
        attempts: facts.attempts,
        not_before_ms: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(exit: Exit, status: Option<Status>, asked: Option<StopRequest>) -> Facts {
        let session = status.map(|status| Found {
            id: SessionId(4),
            status,
            reason: Some("its own reason".to_owned()),
            iterations: 3,
        });
        Facts { exit, session, asked, attempts: 1, iterations: 0, now_ms: 1000 }
    }

    fn outcome(exit: Exit, status: Option<Status>, asked: Option<StopRequest>) -> String {
        let Conclusion { state, reason, not_before_ms, attempts, .. } = conclusion(&facts(exit, status, asked));
        let wait = if not_before_ms > 0 { format!(", wait {}", not_before_ms - 1000) } else { String::new() };
        format!("{}: {}{wait} [{attempts}]", state.name(), reason.unwrap_or_default())
    }

    #[test]
    fn every_end_of_a_process_has_one_outcome() {
        use StopRequest::{Cancel, Stop};
        let failed = || Exit::Failed("refused".to_owned());
        let in_use = || Exit::InUse("it is in use".to_owned());
        let rows = [
            outcome(Exit::Success, Some(Status::Finished), None),
            outcome(Exit::Unknown, Some(Status::Finished), Some(Cancel)),
            outcome(failed(), Some(Status::Finished), None),
            outcome(Exit::Unknown, None, None),
            outcome(Exit::Unknown, Some(Status::Running), None),
            outcome(Exit::Success, Some(Status::Interrupted), None),
            outcome(Exit::Success, Some(Status::Interrupted), Some(Stop)),
            outcome(Exit::Unknown, Some(Status::Running), Some(Stop)),
            outcome(Exit::Success, Some(Status::Interrupted), Some(Cancel)),
            outcome(Exit::Unknown, None, Some(Stop)),
            outcome(failed(), None, None),
            outcome(failed(), Some(Status::Running), None),
            outcome(failed(), Some(Status::Failed), None),
            outcome(Exit::Unknown, Some(Status::Failed), None),
            outcome(in_use(), None, None),
            outcome(in_use(), Some(Status::Running), None),
            outcome(in_use(), Some(Status::Running), Some(Cancel)),
        ];
        insta::assert_snapshot!(rows.join("\n"), @"
        ended: its own reason [1]
        ended: its own reason [1]
        ended: its own reason [1]
        queued: its process was killed, wait 200 [1]
        queued: its process was killed, wait 0 [0]
        queued: its session was interrupted, wait 0 [0]
        ended: stopped by a request [1]
        ended: stopped by a request [1]
        cancelled:  [1]
        cancelled:  [1]
        failed: refused [1]
        failed: refused [1]
        failed: its own reason [1]
        failed: its own reason [1]
        queued: it is in use, wait 10000 [0]
        queued: it is in use, wait 10000 [0]
        cancelled:  [1]
        ");
    }

    #[test]
    fn a_process_that_is_killed_again_and_again_fails_unless_it_gets_further() {
        let mut stuck = facts(Exit::Unknown, None, None);
        let mut waits = Vec::new();
        loop {
            let conclusion = conclusion(&stuck);
            if conclusion.state != SubmissionState::Queued {
                assert_eq!(
                    conclusion.reason.as_deref(),
                    Some("its process was killed 10 times without a new iteration")
                );
                break;
            }
            waits.push(conclusion.not_before_ms - stuck.now_ms);
            stuck.attempts = conclusion.attempts + 1;
        }
        assert_eq!(waits.last(), Some(&MAX_WAIT_MS));
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200]);
        let moving = Facts { attempts: 10, ..facts(Exit::Unknown, Some(Status::Running), None) };
        assert_eq!((conclusion(&moving).state, conclusion(&moving).attempts), (SubmissionState::Queued, 0));
    }
}
