//! The session: the only module that sees every part.
//!
//! It decides, acts, records and applies. `decide` says what comes next, from what the session knows and the clock.
//! The `pipeline`, the `evaluator` or the `commits` carries the action out. The result is written to the store
//! and then applied to the `state`. A resumed session applies the same records.

mod acceptance;
mod baselines;
mod case_state;
mod commits;
mod comparison;
mod confirmation;
mod decide;
mod evaluator;
mod event;
mod finals;
mod meter;
mod pipeline;
mod record;
mod resume;
mod settle;
mod setup;
mod shelf;
mod standings;
mod state;
#[cfg(test)]
mod synthetic;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::agent::Proposer;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::ids::{CaseName, SessionId};
use crate::domain::proposal::KnownWinner;
use crate::domain::record::{Environment, Meaning, SessionScope, Status};
use crate::domain::workload::Workload;
use crate::runner::baseline::BaselineProgram;
use crate::runner::compile::Compiler;
use crate::runner::monitor::Monitor;
use crate::runner::worker::Worker;
use crate::store::{NewSession, Past, Store};
use crate::vcs::Repo;

use commits::Committer;
use decide::{Action, Moment, Phase, next_action};
use evaluator::Evaluator;
pub use event::{Event, Interrupt, Observer};
use meter::Time;
use pipeline::{Compiled, Pipeline};
use resume::OwnCommits;
pub use setup::Options;
use setup::SessionSetup;
use shelf::Shelf;
use state::SessionState;

/// The parts of a session.
pub struct Dependencies {
    /// What to optimize, with the selected cases.
    pub workload: Workload,
    /// Every family of the project.
    pub families: Vec<Family>,
    /// The names of the families to search.
    pub searched: Vec<String>,
    /// The winners of earlier sessions, which are measured again and have to be beaten.
    pub known: Vec<KnownWinner>,
    /// Suggests variants.
    pub proposer: Box<dyn Proposer>,
    /// Times what a user would use instead, where the workload names a program for it.
    pub baseline: Option<BaselineProgram>,
    /// Compiles variants.
    pub compiler: Compiler,
    /// Evaluates variants.
    pub worker: Worker,
    /// Watches the device meanwhile, where NVML answers.
    pub monitor: Option<Monitor>,
    /// Records the session.
    pub store: Store,
    /// Commits the winners. The error says why it cannot, and is reported with the first winner.
    pub repo: Result<Repo, String>,
}

/// How a session ended.
#[derive(Debug)]
pub struct End {
    /// The session's number.
    pub session: SessionId,
    /// The error that ended it, if any. The session is on record all the same.
    pub error: Option<anyhow::Error>,
}

/// A running session: what it knows, and the parts that act for it. Only `record` and `resume` change the state.
struct Session<'a> {
    id: SessionId,
    state: SessionState,
    store: Store,
    pipeline: Pipeline,
    evaluator: Evaluator,
    shelf: Shelf,
    committer: Committer,
    baseline_program: Option<BaselineProgram>,
    nvrtc: String,
    observer: &'a mut dyn Observer,
    interrupt: Interrupt,
    started: Instant,
    last_record: Instant,
}

/// Records a session and returns its number.
pub async fn begin(parts: &Dependencies, options: &Options) -> anyhow::Result<SessionId> {
    let new = NewSession {
        workload: parts.workload.name.clone(),
        proposer: parts.proposer.name().to_owned(),
        seed: options.seed,
        budget: options.budget,
        asked: SessionScope {
            families: parts.searched.clone(),
            dtype: parts.workload.dtype,
            cases: parts.workload.cases.clone(),
            meaning: Some(Meaning::of(&parts.workload, &parts.families, &parts.searched)),
        },
        config: options.config.clone(),
        environment: environment(parts.worker.info().clone(), parts.compiler.nvrtc_version(), None),
    };
    parts.store.begin_session(&new).await.context("Failed to record the session")
}

/// Runs a session that has begun, however it ends.
pub async fn run(
    id: SessionId,
    parts: Dependencies,
    options: Options,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> End {
    let info = parts.worker.info();
    observer.event(&Event::Started {
        session: id,
        workload: &parts.workload.name,
        device: &info.name,
        time_source: info.time_source(),
        budget_s: options.budget.wall.as_secs_f64(),
    });
    Session::new(id, parts, options, interrupt, observer).live(None).await
}

/// Continues a session that ended before it was finished. An error means that the continuation could not be recorded.
pub async fn resume(
    past: Past,
    mut parts: Dependencies,
    options: Options,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> anyhow::Result<End> {
    let summary = &past.record.session;
    let id = summary.id;
    let recorded = parts.store.resume_session(id, past.used, options.budget.wall).await;
    recorded.context("Failed to record that the session was resumed")?;
    observer.event(&Event::Resumed {
        session: id,
        resumption: summary.resumptions + 1,
        workload: &parts.workload.name,
        device: &parts.worker.info().name,
        time_source: parts.worker.info().time_source(),
        budget_s: options.budget.wall.as_secs_f64(),
        used_s: past.used.as_secs_f64(),
        finished: summary.iterations - summary.unfinished,
        cost_usd: summary.cost.total_usd(),
    });
    let own = OwnCommits::of(&parts.repo, id, &past.record);
    own.mark_replaced(&mut parts.known);
    Ok(Session::new(id, parts, options, interrupt, observer).live(Some((past, own))).await)
}

/// Describes the machine and the software. PyTorch's version is known once the baselines are timed.
fn environment(device: DeviceInfo, nvrtc: &str, torch: Option<String>) -> Environment {
    Environment {
        device,
        nvrtc: nvrtc.to_owned(),
        optloop: env!("CARGO_PKG_VERSION").to_owned(),
        torch,
        host: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    }
}

/// How a session ends.
type Ending = (Status, &'static str);

impl<'a> Session<'a> {
    /// Makes a session that knows nothing yet.
    fn new(
        id: SessionId,
        parts: Dependencies,
        options: Options,
        interrupt: Interrupt,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let Dependencies { workload, families, searched, known, proposer, compiler, worker, store, .. } = parts;
        let setup = SessionSetup { workload, families, searched, known, device: worker.info().clone(), options };
        let started = Instant::now();
        Self {
            id,
            state: SessionState::new(Arc::new(setup)),
            nvrtc: compiler.nvrtc_version().to_owned(),
            pipeline: Pipeline::new(proposer, compiler.clone()),
            evaluator: Evaluator::new(worker, parts.monitor),
            shelf: Shelf::new(compiler, store.clone()),
            committer: Committer::new(parts.repo),
            baseline_program: parts.baseline,
            store,
            observer,
            interrupt,
            started,
            last_record: started,
        }
    }

    /// Runs everything between the beginning and the end. Both are on record whatever happens here.
    async fn live(mut self, past: Option<(Past, OwnCommits)>) -> End {
        let mut interrupt = self.interrupt.clone();
        let ready = tokio::select! {
            // Polled first: after one poll, the session knows what was used and spent before.
            biased;
            ready = self.set_out(past) => ready,
            () = interrupt.reached(2) => Ok(()),
        };
        let ended = match ready {
            Ok(()) => self.act_until_the_end().await,
            Err(error) => Err(error),
        };
        // Wins are committed even if something failed later.
        let committed = self.commit_pending().await;
        let ended = ended.and_then(|ended| committed.map(|()| ended));
        self.end(ended).await
    }

    /// Restores what a resumed session has found so far. Times its baselines while the first proposal is compiled.
    async fn set_out(&mut self, past: Option<(Past, OwnCommits)>) -> anyhow::Result<()> {
        if let Some((past, own)) = past {
            self.recall(&past, &own).await?;
        }
        // Only the first one. A baseline's eager calls are timed on the host, which more compilers would load.
        self.pipeline.propose(&mut self.state)?;
        self.time_baselines().await
    }

    /// Decides and acts in a loop. Compilation runs ahead on every core. The device does one thing at a time.
    async fn act_until_the_end(&mut self) -> anyhow::Result<Ending> {
        let mut phase = Phase::Search;
        loop {
            match next_action(&self.state, &phase, &self.moment()) {
                Action::Propose => self.pipeline.propose(&mut self.state)?,
                Action::Evaluate { within } => {
                    if let Some(compiled) = self.next_compiled(within).await? {
                        self.iterate(compiled).await?;
                    }
                }
                Action::Confirm(due) => {
                    let compiled = self.confirmation(&due).await?;
                    self.iterate(compiled).await?;
                }
                Action::EndSearch(reason) => phase = Phase::Finals { queue: self.state.finals(), reason },
                Action::Final(case) => {
                    phase.take_up();
                    self.hold_final(&case).await?;
                }
                Action::SkipFinal(case) => {
                    phase.take_up();
                    let reason = "there is no time left for it, so the figures of its confirmation are used";
                    self.observer.event(&Event::NoFinal { case: &case, reason });
                }
                Action::Stop(status, reason) => return Ok((status, reason)),
            }
        }
    }

    /// Waits for the oldest proposal to be compiled. Returns None if the user stops the session first, or the budget is
    /// spent.
    async fn next_compiled(&mut self, within: Duration) -> anyhow::Result<Option<Compiled>> {
        let mut interrupt = self.interrupt.clone();
        tokio::select! {
            compiled = self.pipeline.next() => compiled,
            () = interrupt.reached(1) => Ok(None),
            () = tokio::time::sleep(within) => Ok(None),
        }
    }

    /// Evaluates a variant and concludes the iteration. A request to stop at once ends it earlier.
    async fn iterate(&mut self, compiled: Compiled) -> anyhow::Result<()> {
        let begun = self.begin(&compiled).await?;
        let mut interrupt = self.interrupt.clone();
        let evaluated = {
            let (state, shelf) = (&self.state, &mut self.shelf);
            let (started, last_record) = (self.started, self.last_record);
            let may_compare = || {
                let time = Time { running: started.elapsed(), since_record: last_record.elapsed() };
                let left = state.meter().left(&state.setup().options.budget, &time, state.finals_time());
                self.interrupt.count() == 0 && !left.is_zero()
            };
            tokio::select! {
                found = self.evaluator.evaluate(state, shelf, begun.iteration, &compiled, may_compare) => found?,
                () = interrupt.reached(2) => return Ok(()),
            }
        };
        self.conclude(&begun, &compiled, evaluated).await
    }

    /// Holds the final comparison of a case and records it. An interrupt ends comparisons only. It never cuts a record
    /// short.
    async fn hold_final(&mut self, case: &CaseName) -> anyhow::Result<()> {
        let mut interrupt = self.interrupt.clone();
        let settled = tokio::select! {
            settled = self.settle(case) => settled?,
            () = interrupt.reached(2) => return Ok(()),
        };
        match settled {
            Some(last) => self.record_final(last).await,
            None => Ok(()),
        }
    }

    /// Returns the clock's time and what is under way.
    fn moment(&self) -> Moment {
        Moment { time: self.time(), interrupts: self.interrupt.count(), under_way: self.pipeline.under_way() }
    }

    fn time(&self) -> Time {
        Time { running: self.started.elapsed(), since_record: self.last_record.elapsed() }
    }

    /// Returns what is left of the wall time.
    fn wall_left(&self) -> Duration {
        self.state.meter().left(&self.state.setup().options.budget, &self.time(), Duration::ZERO)
    }

    /// Describes the machine and the software.
    fn environment(&self, torch: Option<String>) -> Environment {
        environment(self.state.setup().device.clone(), &self.nvrtc, torch)
    }

    /// Records the end. A failure to record it is reported beside the first error.
    async fn end(self, ended: anyhow::Result<Ending>) -> End {
        let (meter, time) = (self.state.meter(), self.time());
        let (wall, spent) = (meter.elapsed(&time), meter.spent(&time));
        let (status, reason, error) = match ended {
            Ok((status, reason)) => (status, reason.to_owned(), None),
            Err(error) => (Status::Failed, format!("{error:#}"), Some(error)),
        };
        let recorded = self.store.end_session(self.id, status, &reason, wall, spent).await;
        let error = match (error, recorded) {
            (Some(first), _) => Some(first),
            (None, Err(error)) => Some(anyhow::Error::new(error).context("Failed to record the end of the session")),
            (None, Ok(())) => None,
        };
        self.observer.event(&Event::Ended {
            session: self.id,
            status,
            reason: &reason,
            iterations: meter.finished(),
            wall_s: wall.as_secs_f64(),
            cost_usd: spent.total_usd(),
        });
        End { session: self.id, error }
    }
}
