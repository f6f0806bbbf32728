//! The session: the only module that sees every part.
//!
//! It decides, acts, records and applies. `decide` says what comes next, from what the session knows and the clock.
//! The `pipeline`, the `evaluator` or the `commits` carries the action out. The result is written to the store
//! and then applied to the `state`. A resumed session applies the same records.

mod baseline_start;
mod baselines;
mod clients;
mod clock;
mod deadline;
mod decide;
mod evaluator;
mod event;
mod evidence;
mod iteration;
mod lanes;
mod llm;
mod meter;
mod pipeline;
mod record;
mod resume;
mod setup;
mod state;
#[cfg(test)]
mod synthetic;
mod winners;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::Mutex;

use crate::agent::Proposer;
use crate::domain::budget::phase::{self, PhaseTime, StepTimes};
use crate::domain::device::TimeSource;
use crate::domain::family::Family;
use crate::domain::ids::{CaseName, SessionId};
use crate::domain::proposal::KnownWinner;
use crate::domain::record::gain::CaseGain;
use crate::domain::record::{ContentHashes, Environment, FamilyLeftOut, SessionKind, SessionScope, Status};
use crate::domain::workload::Workload;
use crate::llm::Endpoint;
use crate::runner::activity;
use crate::runner::baseline::BaselineProgram;
use crate::runner::compile::Compiler;
use crate::runner::explainer::Explainer;
use crate::runner::monitor::Monitor;
use crate::runner::ncu::Profiler;
use crate::runner::renderer::Renderer;
use crate::runner::sanitizer::Sanitizer;
use crate::runner::worker::{Arrivals, Worker};
use crate::store::{NewSession, Past, Store};

use baseline_start::BaselineStart;
pub use clients::asked::{Amounts, Answer, Answered, Ask, Look, Offer, OnRecord, Standing, Versus};
pub use clients::requests::{Door, Ended, Requests};
use clock::Clock;
use deadline::Deadline;
use decide::{Action, LoopInputs, Phase, Reason, next_action};
use evaluator::checks_ahead::ChecksAhead;
use evaluator::first_looks::{FirstLooks, Passed};
use evaluator::proven::Proven;
use evaluator::{Evaluator, SharedEvaluator, SharedSanitizer};
use event::Channel;
pub use event::{Event, Interrupt, Observer};
use evidence::explanations::Explanations;
use lanes::Lanes;
use llm::Models;
use meter::Time;
use pipeline::duplicates::Duplicates;
use pipeline::kernel_cache::KernelCache;
use pipeline::{Assessed, Compiled, Pipeline};
use resume::OwnCommits;
pub use setup::Options;
use setup::SessionSetup;
use state::SessionState;
use winners::commits::Committer;
pub use winners::target::{NoCommit, Target};

/// The limit that ends a session's time, as messages name it.
const BUDGET: &str = "--budget";

/// The parts of a session.
pub struct Dependencies {
    /// What to optimize, with the selected cases.
    pub workload: Workload,
    /// Every family of the project.
    pub families: Vec<Family>,
    /// The names of the families to search.
    pub searched: Vec<String>,
    /// The families that would be searched if they were not broken.
    pub left_out: Vec<FamilyLeftOut>,
    /// The winners of earlier sessions, which are measured again and have to be beaten.
    pub known: Vec<KnownWinner>,
    /// Suggests variants.
    pub proposer: Box<dyn Proposer>,
    /// Times what a user would use instead, where the workload names a program for it.
    pub baseline: Option<BaselineProgram>,
    /// Renders variants.
    pub renderer: Renderer,
    /// Compiles variants.
    pub compiler: Compiler,
    /// Evaluate variants.
    pub devices: Devices,
    /// Checks candidates of a real GPU on a virtual one. None for other devices, or where there is no virtual GPU.
    pub sanitizer: Option<Sanitizer>,
    /// The names of the families that optloop ships. The first variants of others are looked at more closely.
    pub shipped: Vec<String>,
    /// Explains the times of a real GPU on a virtual one. None for other devices, or where there is no virtual GPU.
    pub explainer: Option<Explainer>,
    /// Answers for language models. None for a session without them.
    pub models: Option<Endpoint>,
    /// Requests of clients, which propose. None for a session that searches by itself.
    pub requests: Option<Requests>,
    /// Watches the device meanwhile, where NVML answers.
    pub monitor: Option<Monitor>,
    /// Reads hardware counters.
    pub profiler: Profiler,
    /// Records the session.
    pub store: Store,
    /// Where the winners go.
    pub target: Target,
}

/// The devices of a session, all of one kind.
pub struct Devices {
    /// Screens and compares.
    pub home: Worker,
    /// Those of this machine that only screen. Most sessions have none.
    pub lanes: Vec<Worker>,
    /// Those of other machines, which only screen.
    pub arrivals: Arrivals,
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
    evaluator: SharedEvaluator,
    shared: Shared,
    lanes: Lanes,
    cache: KernelCache,
    explanations: Explanations,
    checks_ahead: ChecksAhead,
    models: Models,
    requests: Option<Requests>,
    committer: Committer,
    baselines: BaselineParts,
    profiler: Profiler,
    observer: &'a Channel<'a>,
    /// What the observer was told about each case.
    told: HashMap<CaseName, CaseGain>,
    deadline: Deadline,
    clock: Clock,
}

/// What the evaluator shares with those that prepare its work.
struct Shared {
    duplicates: Duplicates,
    passed: Passed,
    proven: Proven,
    sanitizer: Option<SharedSanitizer>,
}

impl Shared {
    fn of(evaluator: &Evaluator) -> Self {
        Self {
            duplicates: evaluator.duplicates.clone(),
            passed: evaluator.first_looks.passed.clone(),
            proven: evaluator.proven.clone(),
            sanitizer: evaluator.sanitizer.clone(),
        }
    }
}

/// The program of the baselines.
struct BaselineParts {
    program: Option<BaselineProgram>,
    /// While it starts, until the baselines are timed.
    start: Option<BaselineStart>,
}

/// Records a session and returns its number.
pub async fn begin(parts: &mut Dependencies, options: &Options) -> anyhow::Result<SessionId> {
    let new = NewSession {
        kind: SessionKind::Search,
        workload: parts.workload.name.clone(),
        proposer: parts.proposer.name().to_owned(),
        seed: options.seed,
        budget: options.budget,
        asked: SessionScope {
            families: parts.searched.clone(),
            dtype: parts.workload.dtype,
            compute: parts.workload.compute,
            cases: parts.workload.cases.clone(),
            meaning: Some(ContentHashes::of(&parts.workload, &parts.families, &parts.searched)),
            left_out: parts.left_out.clone(),
            lessons: options.llm.lessons.clone(),
        },
        config: options.config.clone(),
        environment: Environment::here(parts.devices.home.info().clone(), parts.compiler.nvrtc_version(), None),
        lanes: parts.devices.lanes.iter().map(|lane| lane.info().id.clone()).collect(),
        oracle_on: options.oracle_on.clone(),
        submission: options.submission.clone(),
    };
    let id = parts.store.begin_session(&new).await.context("Failed to record the session")?;
    parts.target.record(id, &parts.store).await.context("Failed to record where the winners go")?;
    Ok(id)
}

/// Runs a session that has begun, however it ends.
pub async fn run(
    id: SessionId,
    parts: Dependencies,
    options: Options,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> End {
    let info = parts.devices.home.info();
    observer.event(&Event::Started {
        session: id,
        workload: &parts.workload.name,
        device: &info.name,
        time_source: info.time_source(),
        budget_s: options.budget.wall.as_secs_f64(),
        max_cost_usd: options.budget.max_cost_usd,
        max_iterations: options.budget.max_iterations,
    });
    for FamilyLeftOut { family, reason } in &parts.left_out {
        observer.event(&Event::FamilyLeftOut { family, reason });
    }
    let channel = Channel::new(observer);
    let session = Session::new(id, parts, options, Duration::ZERO, interrupt, &channel);
    session.live_aloud(None).await
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
    parts.target.record(id, &parts.store).await.context("Failed to record where the winners go")?;
    observer.event(&Event::Resumed {
        session: id,
        resumption: summary.resumptions + 1,
        workload: &parts.workload.name,
        device: &parts.devices.home.info().name,
        time_source: parts.devices.home.info().time_source(),
        budget_s: options.budget.wall.as_secs_f64(),
        max_cost_usd: options.budget.max_cost_usd,
        max_iterations: options.budget.max_iterations,
        used_s: past.used.as_secs_f64(),
        finished: summary.iterations - summary.unfinished,
        cost_usd: summary.cost.total_usd(),
    });
    let own = OwnCommits::of(&parts.target, &past);
    own.mark_replaced(&mut parts.known);
    let channel = Channel::new(observer);
    let session = Session::new(id, parts, options, past.used, interrupt, &channel);
    Ok(session.live_aloud(Some((past, own))).await)
}

/// How a session ends.
type Ending = (Status, Reason);

impl<'a> Session<'a> {
    /// Makes a session that knows nothing yet, and has used some of its time before.
    fn new(
        id: SessionId,
        parts: Dependencies,
        options: Options,
        used: Duration,
        interrupt: Interrupt,
        observer: &'a Channel<'a>,
    ) -> Self {
        let deadline = Deadline::new(interrupt, options.budget.wall.saturating_sub(used) + options.grace);
        let Dependencies { workload, families, searched, known, proposer, renderer, compiler, store, .. } = parts;
        let Devices { home, lanes, arrivals } = parts.devices;
        let (generated, device) = (Vec::new(), home.info().clone());
        let compilations = options.compilations;
        let counts_baselines = parts.baseline.as_ref().is_some_and(BaselineProgram::may_be_profiled);
        let first_looks = FirstLooks::new(parts.shipped, options.first_look);
        let seed = options.seed;
        let gpus = 1 + lanes.len() + arrivals.most;
        let mut options = options;
        if gpus > 1 {
            // While each device screens one, the next one for it is compiled.
            options.compile_ahead = options.compile_ahead.max(2 * gpus);
        }
        let setup =
            SessionSetup { workload, families, searched, generated, known, device, gpus, counts_baselines, options };
        let evaluator = Evaluator::new(home, parts.sanitizer, parts.monitor, store.clone(), first_looks);
        Self {
            id,
            state: SessionState::new(Arc::new(setup)),
            pipeline: Pipeline::new(proposer, renderer, compiler.clone(), compilations),
            shared: Shared::of(&evaluator),
            evaluator: Arc::new(Mutex::new(evaluator)),
            lanes: Lanes::new(lanes, arrivals, seed),
            cache: KernelCache::new(compiler, store.clone()),
            explanations: Explanations::new(parts.explainer),
            checks_ahead: ChecksAhead::default(),
            models: Models::new(parts.models),
            requests: parts.requests,
            committer: Committer::new(parts.target),
            baselines: BaselineParts { program: parts.baseline, start: None },
            profiler: parts.profiler,
            store,
            observer,
            told: HashMap::new(),
            deadline,
            clock: Clock::start(),
        }
    }

    /// Runs the session, reports steps that take long while they run, and notes the time used.
    async fn live_aloud(self, past: Option<(Past, OwnCommits)>) -> End {
        let (channel, until) = (self.observer, self.deadline.at());
        let used = past.as_ref().map_or(Duration::ZERO, |(past, _)| past.used);
        let noting = clock::note_time(self.store.clone(), self.id, used);
        // A recording is replayed in no time.
        let is_noted = self.state.setup().device.time_source() != TimeSource::Recorded;
        tokio::select! {
            end = self.live(past) => end,
            never = channel.report_long_steps(until) => match never {},
            never = noting, if is_noted => match never {},
        }
    }

    /// Runs everything between the beginning and the end. Both are on record whatever happens here.
    async fn live(mut self, past: Option<(Past, OwnCommits)>) -> End {
        let ended = self.work(past).await;
        let lost = self.lose_open_calls().await;
        let ended = ended.and_then(|ended| lost.map(|()| ended));
        // Winners are committed even if something failed later.
        let committed = self.commit_winners().await;
        let ended = ended.and_then(|ended| committed.map(|()| self.unless_pending(ended)));
        self.end(ended).await
    }

    /// Returns how the session ends. One that had no time for the last commits is not finished.
    fn unless_pending(&self, ended: Ending) -> Ending {
        if self.committer.is_cut_short() {
            let reason =
                "its time budget was spent before every winner was committed: `optloop resume` commits the rest";
            return (Status::Interrupted, reason.into());
        }
        ended
    }

    /// Restores what a resumed session knows, and works until the end.
    async fn work(&mut self, past: Option<(Past, OwnCommits)>) -> anyhow::Result<Ending> {
        if let Some((past, own)) = &past {
            self.recall(past, own).await?;
        }
        self.deadline.clone().within(self.set_out(past.is_some())).await.unwrap_or(Ok(()))?;
        self.act_until_the_end().await
    }

    /// Has the first variants compiled, and starts the program of the baselines.
    async fn set_out(&mut self, is_resumed: bool) -> anyhow::Result<()> {
        if is_resumed {
            self.catch_up().await?;
        }
        while next_action(&self.state, &Phase::Search, &self.inputs()) == Action::Propose {
            self.propose()?;
        }
        self.begin_baselines(is_resumed).await
    }

    /// Decides and acts in a loop. Compilation runs ahead on every core. The device does one thing at a time.
    async fn act_until_the_end(&mut self) -> anyhow::Result<Ending> {
        let mut phase = Phase::Search;
        loop {
            self.learn_why().await?;
            self.check_ahead().await?;
            self.take_answers().await?;
            Box::pin(self.take_requests()).await?;
            Box::pin(self.take_back_all()).await?;
            let action = next_action(&self.state, &phase, &self.inputs());
            if phase == Phase::Search && action.leaves_lanes_at_work() {
                Box::pin(self.hand_over_all()).await?;
            }
            match action {
                // What lanes screen may change what is left to do. The CPU is idle while a baseline is timed.
                Action::EndSearch(_) | Action::AwaitAnswer { .. } | Action::TimeBaselines | Action::Stop(..)
                    if self.lanes.busy() > 0 =>
                {
                    Box::pin(self.await_lane()).await?;
                }
                Action::Propose => self.propose()?,
                Action::Ask(due) => self.ask_model(due).await?,
                Action::AwaitAnswer { within } => self.await_answer(within).await?,
                Action::AwaitRequest { within } => Box::pin(self.await_request(within)).await?,
                Action::ConfirmSubmitted => Box::pin(self.confirm_submitted()).await?,
                Action::Evaluate { within } => {
                    self.test_a_cause()?;
                    self.next_round(within).await?;
                }
                // What comes back from the store may have to be compiled again.
                Action::Confirm(due) => {
                    let prepared = self.deadline.clone().within(self.confirmation(&due)).await;
                    self.iterate_prepared(prepared).await?;
                }
                Action::Experiment(due) => {
                    let prepared = self.deadline.clone().within(self.experiment(&due)).await;
                    self.iterate_prepared(prepared).await?;
                }
                Action::WalkPath(due) => {
                    let prepared = self.deadline.clone().within(self.path_step(&due)).await;
                    self.iterate_prepared(prepared).await?;
                    self.try_faster_step()?;
                }
                Action::Profile(due) => self.profile(&due).await?,
                Action::ProfileBaselines(due) => self.profile_baselines(&due).await?,
                Action::Ablate(due) => self.ablate(&due).await?,
                Action::TimeBaselines => {
                    if let Some(timed) = self.deadline.clone().within(self.time_baselines()).await {
                        timed?;
                    }
                }
                Action::EndSearch(reason) => {
                    // In the finals, nothing can be tried any more. Clients that wait learn it at once.
                    self.requests = None;
                    self.tell_too_slow();
                    self.ask_about_compared();
                    phase = Phase::Finals { queue: self.state.finals(), held: false, reason };
                }
                Action::Final(case) => {
                    phase.take_up(true);
                    self.hold_final(&case).await?;
                    self.ask_about_winner(&case);
                }
                Action::SkipFinal(case, reason) => {
                    phase.take_up(false);
                    self.observer.event(&Event::NoFinal { case: &case, reason });
                }
                Action::Stop(status, reason) => return Ok((status, reason)),
            }
        }
    }

    /// Evaluates what was prepared, unless the session has to end.
    async fn iterate_prepared(&mut self, prepared: Option<anyhow::Result<Compiled>>) -> anyhow::Result<()> {
        match prepared {
            Some(compiled) => self.iterate(Assessed::of(compiled?, &self.state)).await,
            None => Ok(()),
        }
    }

    /// Tells the observer for which cases no final is possible.
    fn tell_too_slow(&self) {
        for case in self.state.too_slow_for_finals() {
            let reason = "its best variant is too slow for a comparison (benchmark.max_confirmation)";
            self.observer.event(&Event::NoFinal { case: &case, reason });
        }
    }

    /// Tells the observer that a step in flight was given up for want of time. Users know what they have interrupted.
    fn tell_given_up(&self, what: &str) {
        if self.deadline.interrupt().count() < 2 {
            self.observer.event(&Event::CutShort { what, done: None, of: None, limit: BUDGET });
        }
    }

    /// Holds the final comparison of a case and records it. An interrupt ends comparisons only. It never cuts a record
    /// short.
    async fn hold_final(&mut self, case: &CaseName) -> anyhow::Result<()> {
        let _running = activity::begin(format!("the final of {case}"), None);
        let begun = Instant::now();
        match self.deadline.clone().within(self.run_final(case)).await {
            Some(settled) => {
                if let Some(last) = settled? {
                    self.record_final(last).await?;
                }
            }
            None => self.tell_given_up(&format!("the final of {case}")),
        }
        let (wall_s, steps) = (begun.elapsed().as_secs_f64(), self.take_steps().await);
        self.record_phase(&PhaseTime { phase: phase::Phase::Final, case: Some(case.clone()), wall_s, steps }).await
    }

    /// Returns how long each kind of step on the device took since this was last asked.
    async fn take_steps(&self) -> StepTimes {
        std::mem::take(&mut self.evaluator.lock().await.steps)
    }

    /// Returns the clock's time and what is under way.
    fn inputs(&self) -> LoopInputs {
        LoopInputs {
            time: self.time(),
            interrupts: self.deadline.interrupt().count(),
            under_way: self.pipeline.under_way(),
            may_ask: self.models.may_ask(),
            baselines: self.baselines(),
            clients: self.clients(),
        }
    }

    fn time(&self) -> Time {
        self.clock.time()
    }

    /// Returns what is left of the wall time.
    fn wall_left(&self) -> Duration {
        self.state.meter().left(&self.state.setup().options.budget, &self.time(), Duration::ZERO)
    }

    /// Describes the machine and the software.
    fn environment(&self, torch: Option<String>) -> Environment {
        Environment::here(self.state.setup().device.clone(), self.cache.compiler().nvrtc_version(), torch)
    }

    /// Records the end. A failure to record it is reported beside the first error.
    async fn end(self, ended: anyhow::Result<Ending>) -> End {
        let (meter, time) = (self.state.meter(), self.time());
        let (wall, spent) = (meter.elapsed(&time), meter.spent(&time));
        let (status, reason, early_end, error) = match ended {
            Ok((status, Reason { text, early })) => (status, text.into_owned(), early, None),
            Err(error) => (Status::Failed, format!("{error:#}"), None, Some(error)),
        };
        let recorded = self.store.end_session(self.id, status, (&reason, early_end), wall, spent).await;
        let error = match (error, recorded) {
            (Some(first), _) => Some(first),
            (None, Err(error)) => Some(anyhow::Error::new(error).context("Failed to record the end of the session")),
            (None, Ok(())) => None,
        };
        let cases = self.state.gains();
        self.observer.event(&Event::Ended {
            session: self.id,
            status,
            reason: &reason,
            iterations: meter.finished(),
            devices: self.state.setup().gpus,
            wall_s: wall.as_secs_f64(),
            cost_usd: spent.total_usd(),
            cases: &cases,
        });
        End { session: self.id, error }
    }
}
