//! The events of a session for its observers, and their requests to stop.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::Instant;

use serde::{Serialize, Serializer};

use super::BUDGET;
use crate::domain::claims::hypothesis::Hypothesis;
use crate::domain::device::TimeSource;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Decision;
use crate::domain::models::call::CallPurpose;
use crate::domain::models::call_record::CallId;
use crate::domain::proposal::origin::Origin;
use crate::domain::record::Status;
use crate::domain::record::gain::CaseGain;
use crate::domain::statistics::Ratio;
use crate::runner::activity::{self, ReportInterval};

/// An event of a session. docs/events.md describes the JSON form.
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
        /// US dollars allowed. None if unlimited.
        max_cost_usd: Option<f64>,
        /// Iterations allowed. None if unlimited.
        max_iterations: Option<u64>,
    },
    /// A session that ended before it was finished continues.
    Resumed {
        /// Its number.
        session: SessionId,
        /// How often it has been resumed by now.
        resumption: u64,
        /// The workload's name.
        workload: &'a str,
        /// The device.
        device: &'a str,
        /// Whether times are measured or modelled.
        time_source: TimeSource,
        /// The wall time allowed over the whole session, in seconds.
        budget_s: f64,
        /// US dollars allowed over the whole session. None if unlimited.
        max_cost_usd: Option<f64>,
        /// Iterations allowed over the whole session. None if unlimited.
        max_iterations: Option<u64>,
        /// The wall time used so far, in seconds.
        used_s: f64,
        /// Iterations finished so far.
        finished: u64,
        /// US dollars spent so far.
        cost_usd: f64,
    },
    /// A language model is asked.
    ModelAsked {
        /// The call's number.
        call: CallId,
        /// What the call is for.
        purpose: CallPurpose,
        /// The provider's name of the model.
        model: &'a str,
    },
    /// A call of a language model has ended.
    ModelAnswered {
        /// The call's number.
        call: CallId,
        /// The provider's name of the model.
        model: &'a str,
        /// How it ended: `answered`, `failed` or `lost`.
        status: &'a str,
        /// Why it failed.
        message: Option<&'a str>,
        /// What it cost, in US dollars.
        cost_usd: f64,
        /// Whether that is known. If not, it is the most that the call could cost.
        cost_is_known: bool,
        /// What it probably cost, if that is not known. It counts as spent.
        #[serde(skip_serializing_if = "Option::is_none")]
        estimate_usd: Option<f64>,
    },
    /// A language model has written a family. It is searched from now on.
    FamilyAdded {
        /// Its name.
        family: &'a str,
        /// One sentence about it.
        about: &'a str,
    },
    /// No more language models are asked. The session goes on without them.
    ModelsStopped {
        /// Why.
        reason: &'a str,
    },
    /// A request differs from the one that a cassette recorded.
    ReplayDiffers {
        /// What the call is for.
        purpose: CallPurpose,
        /// Counts the calls for this purpose.
        ordinal: u64,
        /// The first difference.
        difference: &'a str,
    },
    /// A case's baseline is timed.
    Baseline {
        /// The case.
        case: &'a str,
        /// The name of the fastest backend.
        name: &'a str,
        /// Its median, in microseconds.
        us: f64,
        /// Whether the median is measured or modelled.
        time_source: TimeSource,
    },
    /// A backend of the baseline is not timed, though others are. Each reason is told once.
    BackendLeftOut {
        /// The first case for which it was so.
        case: &'a str,
        /// The backend.
        backend: &'a str,
        /// Why it cannot be timed.
        reason: &'a str,
    },
    /// The session does without a family, because it is broken.
    FamilyLeftOut {
        /// The family.
        family: &'a str,
        /// Its first mistake.
        reason: &'a str,
    },
    /// A device that only screens is not used any more. The session goes on without it.
    DeviceLeftOut {
        /// The device, as it was selected.
        device: &'a str,
        /// What was wrong with it.
        reason: &'a str,
    },
    /// There is no baseline.
    NoBaseline {
        /// The reason.
        reason: &'a str,
    },
    /// An iteration is on record.
    Iteration {
        /// Its number.
        iteration: IterationId,
        /// How many iterations the session has finished.
        finished: u64,
        /// How it ended.
        outcome: &'a Outcome,
        /// The claim that it tested.
        hypothesis: &'a Hypothesis,
        /// Where its configuration came from.
        #[serde(serialize_with = "kind")]
        origin: &'a Origin,
        /// The decision on each case, beside where the configuration came from.
        #[serde(serialize_with = "decided")]
        decisions: (&'a Origin, &'a [Decision]),
        /// On how many cases it is a win: an improvement that the session has found itself.
        wins: usize,
        /// Seconds since the session began.
        elapsed_s: f64,
        /// US dollars spent.
        cost_usd: f64,
    },
    /// What a session has gained on a case has changed. After a resumption, every case is told.
    Case(&'a CaseGain),
    /// A step ends early or undone, because there is no time left for it.
    CutShort {
        /// The step, such as `iteration 12`.
        what: &'a str,
        /// How many cases it has done. None if nothing of it counts.
        done: Option<usize>,
        /// How many cases it was to do.
        of: Option<usize>,
        /// The limit that ended it.
        limit: &'a str,
    },
    /// A step has run for a while, and nothing else was reported meanwhile.
    Working {
        /// What is under way, from the outermost step to the innermost, such as `iteration 12` and `timing s64`.
        steps: &'a [String],
        /// Seconds since the innermost step began.
        for_s: f64,
        /// Seconds since the outermost step began.
        all_s: f64,
        /// The limit that will end it. None if only the user can.
        limit: Option<&'a str>,
        /// Seconds from the beginning of the innermost step to that limit.
        limit_s: Option<f64>,
    },
    /// A case has a new incumbent, which the session has found.
    Improved {
        /// The case.
        case: &'a str,
        /// Its time before, in microseconds.
        from_us: f64,
        /// Its confirmed time now, in microseconds.
        to_us: f64,
        /// Its speed-up over the first correct variant: paired where one run timed both.
        over_start: f64,
        /// Whether the times are measured or modelled.
        time_source: TimeSource,
    },
    /// A case has a new incumbent that an earlier session has found and committed. It is not a win.
    Remeasured {
        /// The case.
        case: &'a str,
        /// The iteration that measured it again.
        iteration: IterationId,
        /// The device on which it was found.
        device: &'a str,
        /// Its confirmed time, in microseconds.
        us: f64,
        /// Its speed-up over the first correct variant: paired where one run timed both.
        over_start: f64,
        /// Whether the time is measured or modelled.
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
        /// The baseline that took part, if any.
        baseline: Option<&'a str>,
        /// The baseline's time over the best's, with its interval.
        over_baseline: Option<Ratio>,
        /// The distance from 1 that the ratio of two copies of the best may have.
        noise: f64,
        /// Whether the times are measured or modelled.
        time_source: TimeSource,
    },
    /// The final of a case is not held.
    NoFinal {
        /// The case.
        case: &'a str,
        /// The reason, and what stands instead.
        reason: &'a str,
    },
    /// The hardware counters of a variant on a case are on record.
    Counters {
        /// The case.
        case: &'a str,
        /// The iteration that measured the variant.
        iteration: IterationId,
    },
    /// The hardware counters of the fastest baseline on a case are on record.
    BaselineCounters {
        /// The case.
        case: &'a str,
        /// The baseline.
        name: &'a str,
    },
    /// There are no hardware counters, or no more of them.
    NoCounters {
        /// The reason.
        reason: &'a str,
    },
    /// A variant was timed without each kind of instruction.
    Ablated {
        /// The case.
        case: &'a str,
        /// The iteration that measured the variant.
        iteration: IterationId,
    },
    /// There are no ablations, or none of this variant.
    NotAblated {
        /// The case.
        case: &'a str,
        /// The iteration that measured the variant.
        iteration: IterationId,
        /// The reason.
        reason: &'a str,
    },
    /// A winner is kept in git, under a reference of the session's own, until the session ends.
    Kept {
        /// The case.
        case: &'a str,
        /// The commit that keeps it, with those before it.
        commit: &'a str,
        /// The reference.
        reference: &'a str,
    },
    /// A winner is not kept in git. It is in the store, and is tried again with the next winner.
    NotKept {
        /// The case.
        case: &'a str,
        /// The reason, and what to do.
        reason: &'a str,
    },
    /// The winners are committed.
    Committed {
        /// Whether the branch is not checked out, so that the user has yet to bring the commit in.
        elsewhere: bool,
        /// The commit.
        commit: &'a str,
        /// The branch that has it, or `HEAD` if that is detached.
        branch: &'a str,
        /// The cases whose winners it has.
        cases: &'a [CaseName],
    },
    /// A variant failed after it had been judged on the case, on inputs that were new to it. Its earlier time no longer
    /// counts, and it is not committed.
    Disqualified {
        /// The case.
        case: &'a str,
        /// The iteration that measured it.
        iteration: IterationId,
        /// The failure.
        reason: &'a str,
    },
    /// Winners are not committed. They are in the store.
    NotCommitted {
        /// The cases.
        cases: &'a [CaseName],
        /// The reason.
        reason: &'a str,
        /// The reference that still keeps them in git, if any.
        kept_under: Option<&'a str>,
    },
    /// The session has ended.
    Ended {
        /// Its number.
        session: SessionId,
        /// How it ended.
        status: Status,
        /// Why it ended.
        reason: &'a str,
        /// Iterations finished.
        iterations: u64,
        /// The devices that it was started on, by their number.
        devices: usize,
        /// The wall time that it took, in seconds.
        wall_s: f64,
        /// US dollars it cost.
        cost_usd: f64,
        /// What it has gained on each case.
        cases: &'a [CaseGain],
    },
}

/// Observes a session.
pub trait Observer {
    /// Handles an event.
    fn event(&mut self, event: &Event<'_>);
}

/// Passes a session's events on, and reports steps that take long while the session waits for them.
pub(super) struct Channel<'a> {
    observer: RefCell<&'a mut dyn Observer>,
    last: Cell<Instant>,
}

impl<'a> Channel<'a> {
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self { observer: RefCell::new(observer), last: Cell::new(Instant::now()) }
    }

    /// Passes an event on.
    pub fn event(&self, event: &Event<'_>) {
        self.last.set(Instant::now());
        self.observer.borrow_mut().event(event);
    }

    /// Reports what is under way whenever nothing else was reported for a while. `until` is the hard end of the
    /// session's time. Never ends.
    pub async fn report_long_steps(&self, until: Instant) -> Infallible {
        let interval = ReportInterval::default();
        loop {
            tokio::time::sleep(interval.period() / 10).await;
            let now = Instant::now();
            let due = activity::under_way().filter(|steps| interval.is_due(self.last.get(), steps, now));
            if let Some(steps) = due {
                let limit = steps.limit(Some((BUDGET, until)));
                self.event(&Event::Working {
                    steps: &steps.names,
                    for_s: (now - steps.inner_since).as_secs_f64(),
                    all_s: (now - steps.outer_since).as_secs_f64(),
                    limit: limit.map(|limit| limit.key),
                    limit_s: limit.map(|limit| limit.after.as_secs_f64()),
                });
            }
        }
    }
}

/// Writes decisions. A committed winner that was measured again has improved nothing.
fn decided<S: Serializer>((origin, decisions): &(&Origin, &[Decision]), serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Decided<'a> {
        case: &'a CaseName,
        verdict: &'static str,
        speedup: Option<f64>,
    }
    serializer.collect_seq(decisions.iter().map(|Decision { case, verdict, speedup }| Decided {
        case,
        verdict: verdict.key(origin.is_committed_winner_of(case)),
        speedup: *speedup,
    }))
}

/// Writes the kind of an origin.
fn kind<S: Serializer>(origin: &&Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(origin.name())
}

/// Counts the user's requests to stop. After one, the session finishes the iteration in flight. After two, it abandons
/// it.
#[derive(Clone)]
pub struct Interrupt(tokio::sync::watch::Receiver<u32>);

impl Interrupt {
    /// Makes an interrupt that counts the requests on a channel.
    pub fn new(requests: tokio::sync::watch::Receiver<u32>) -> Self {
        Self(requests)
    }

    /// Returns the number of requests.
    pub(super) fn count(&self) -> u32 {
        *self.0.borrow()
    }

    /// Waits for the `count`th request.
    pub(super) async fn reached(&mut self, count: u32) {
        if self.0.wait_for(|requests| *requests >= count).await.is_err() {
            // No request can come any more.
            std::future::pending::<()>().await;
        }
    }
}
