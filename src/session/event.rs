//! What a session tells those who watch it, and how they tell it to stop.

use serde::Serialize;

use crate::domain::device::TimeSource;
use crate::domain::evaluation::Outcome;
use crate::domain::hypothesis::Hypothesis;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::record::Status;
use crate::domain::statistics::Ratio;
use crate::domain::verdict::Decision;

/// Something that a watcher of the session wants to know. docs/events.md describes the JSON form.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The session has begun.
    Started {
        /// Its number.
        session: SessionId,
        /// The workload's name.
        workload: &'a str,
        /// The device.
        device: &'a str,
        /// Whether times are measured or modelled.
        time_source: TimeSource,
        /// The wall time allowed, in seconds.
        budget_s: f64,
    },
    /// A session that ended without being finished goes on.
    Resumed {
        /// Its number.
        session: SessionId,
        /// How often it has gone on by now.
        resumption: u64,
        /// The workload's name.
        workload: &'a str,
        /// The device.
        device: &'a str,
        /// Whether times are measured or modelled.
        time_source: TimeSource,
        /// The wall time allowed, in seconds, over the whole session.
        budget_s: f64,
        /// The wall time used so far, in seconds.
        used_s: f64,
        /// Iterations finished so far.
        finished: u64,
        /// US dollars spent so far.
        cost_usd: f64,
    },
    /// A case's baseline is timed.
    Baseline {
        /// The case.
        case: &'a str,
        /// The fastest of what runs.
        name: &'a str,
        /// Its median, in microseconds.
        us: f64,
        /// Whether that is measured or modelled.
        time_source: TimeSource,
    },
    /// There is no baseline.
    NoBaseline {
        /// Why.
        reason: &'a str,
    },
    /// An iteration is on record.
    Iteration {
        /// Its number.
        iteration: IterationId,
        /// How many iterations the session has finished.
        finished: u64,
        /// What became of it.
        outcome: &'a Outcome,
        /// The claim that it tested.
        hypothesis: &'a Hypothesis,
        /// What was decided, case by case.
        decisions: &'a [Decision],
        /// Seconds since the session began.
        elapsed_s: f64,
        /// US dollars spent.
        cost_usd: f64,
    },
    /// A case has a new incumbent.
    Improved {
        /// The case.
        case: &'a str,
        /// Its time before, in microseconds.
        from_us: f64,
        /// Its confirmed time now, in microseconds.
        to_us: f64,
        /// Its speed-up over the session's start.
        over_start: f64,
        /// Whether the times are measured or modelled.
        time_source: TimeSource,
    },
    /// The final of a case was held.
    Final {
        /// The case.
        case: &'a str,
        /// The iteration that is the best of the case.
        iteration: IterationId,
        /// Its median in the final, in microseconds.
        us: f64,
        /// The baseline that took part, if one did.
        baseline: Option<&'a str>,
        /// The baseline's time over the best's, with its interval.
        over_baseline: Option<Ratio>,
        /// How far from 1 the ratio of two copies of the best may be.
        noise: f64,
        /// Whether the times are measured or modelled.
        time_source: TimeSource,
    },
    /// The final of a case is not held.
    NoFinal {
        /// The case.
        case: &'a str,
        /// Why, and what stands instead.
        reason: &'a str,
    },
    /// A winner is committed.
    Committed {
        /// The case.
        case: &'a str,
        /// The commit.
        commit: &'a str,
    },
    /// A variant failed on a case after it had been judged there, on inputs that it had not met. It is out of the running; a commit
    /// of it stays in the history until another winner replaces it.
    Disqualified {
        /// The case.
        case: &'a str,
        /// The iteration that brought it.
        iteration: IterationId,
        /// What it failed with.
        reason: &'a str,
    },
    /// A winner is not committed. It is in the store, and is tried again with the next one.
    NotCommitted {
        /// The case.
        case: &'a str,
        /// Why, and what to do.
        reason: &'a str,
    },
    /// The session has ended.
    Ended {
        /// Its number.
        session: SessionId,
        /// How.
        status: Status,
        /// Why.
        reason: &'a str,
        /// Iterations finished.
        iterations: u64,
        /// Seconds it took.
        wall_s: f64,
        /// US dollars it cost.
        cost_usd: f64,
    },
}

/// Watches a session.
pub trait Observer {
    /// Takes note of an event.
    fn event(&mut self, event: &Event<'_>);
}

/// How often a person has asked the session to stop: once, and it finishes the iteration in flight; twice, and it
/// abandons it.
#[derive(Clone)]
pub struct Interrupt(tokio::sync::watch::Receiver<u32>);

impl Interrupt {
    /// Makes an interrupt that counts the requests on a channel.
    pub fn new(requests: tokio::sync::watch::Receiver<u32>) -> Self {
        Self(requests)
    }

    /// Returns how often a stop was asked for.
    pub(super) fn count(&self) -> u32 {
        *self.0.borrow()
    }

    /// Waits for the `count`th request.
    pub(super) async fn reached(&mut self, count: u32) {
        if self.0.wait_for(|requests| *requests >= count).await.is_err() {
            // Nobody can ask any more.
            std::future::pending::<()>().await;
        }
    }
}
