//! The loop: the only module that sees every part.

mod baselines;
mod confirmations;
mod contests;
mod disqualifications;
mod event;
mod examination;
mod finals;
mod ledger;
mod pipeline;
mod resume;
mod winners;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use tokio::task::JoinHandle;

use crate::agent::Proposer;
use crate::domain::budget::Budget;
use crate::domain::cost::{Rate, Spent};
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::measuring::Measuring;
use crate::domain::proposal::{KnownWinner, Proposal};
use crate::domain::record::{Asked, Baseline, Environment, Meaning, Status};
use crate::domain::variant::VariantHash;
use crate::domain::verdict::judge;
use crate::domain::workload::Workload;
use crate::runner::baseline::{BaselineProcess, BaselineProgram};
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::inputs;
use crate::runner::messages::EvaluateRequest;
use crate::runner::monitor::Monitor;
use crate::runner::worker::Worker;
use crate::store::{NewSession, Past, Store};
use crate::vcs::{Repo, Winner};

use confirmations::Lead;
use contests::Contender;
pub use event::{Event, Interrupt, Observer};
use pipeline::Compiled;

/// Screenings in a row that are checked and timed on the same inputs first. To draw them takes seconds where a case is large; the
/// contents after timing are each variant's own, and what is about to win is examined and contested on others.
const SAME_INPUTS: u64 = 64;

/// What a session is made of.
pub struct Parts {
    /// What to make fast, with the selected cases.
    pub workload: Workload,
    /// Every family of the project.
    pub families: Vec<Family>,
    /// The names of the families to search.
    pub searched: Vec<String>,
    /// The winners of earlier sessions, to be measured again and beaten.
    pub known: Vec<KnownWinner>,
    /// Suggests variants.
    pub proposer: Box<dyn Proposer>,
    /// Times what a user would use instead, where the workload names a program for it.
    pub baseline: Option<BaselineProgram>,
    /// Compiles them.
    pub compiler: Compiler,
    /// Evaluates them.
    pub worker: Worker,
    /// Sees what the device does meanwhile, where NVML tells.
    pub monitor: Option<Monitor>,
    /// Remembers them.
    pub store: Store,
    /// Commits the winners; or why it cannot, which is said with the first winner.
    pub repo: Result<Repo, String>,
}

impl Parts {
    fn family(&self, name: &str) -> anyhow::Result<&Family> {
        let family = self.families.iter().find(|family| family.name == name);
        family.with_context(|| format!("Failed to find the family `{name}`"))
    }
}

/// What a session was told.
#[derive(Debug, Clone)]
pub struct Order {
    /// When to end.
    pub budget: Budget,
    /// What the device costs.
    pub rate: Rate,
    /// How to measure, and when a faster time counts.
    pub measuring: Measuring,
    /// Compilations under way at once.
    pub compile_ahead: usize,
    /// Where proposals and inputs come from.
    pub seed: u64,
    /// Every setting in force, for the record.
    pub config: serde_json::Value,
}

/// How a session ended.
#[derive(Debug)]
pub struct End {
    /// The session's number.
    pub session: i64,
    /// The error that ended it, if one did. The session is on record all the same.
    pub error: Option<anyhow::Error>,
}

struct Session<'a> {
    id: i64,
    parts: Parts,
    order: Order,
    observer: &'a mut dyn Observer,
    interrupt: Interrupt,
    started: Instant,
    /// Wall time that was used before the session went on; none in one that has just begun.
    used: Duration,
    last_record: Instant,
    finished: u64,
    spent: Spent,
    history: History,
    pipeline: FuturesOrdered<JoinHandle<Compiled>>,
    starts: HashMap<String, f64>,
    baselines: Vec<Baseline>,
    /// By case: the backend of the baseline process that is the fastest.
    backends: HashMap<String, String>,
    /// Samples the baselines for as long as the session lives, where there is one.
    baseline_process: Option<BaselineProcess>,
    /// By case: the incumbent, and the variants that are nearly as fast.
    contenders: HashMap<String, Vec<Contender>>,
    /// By case: the reference kernel at its seed.
    references: HashMap<String, Contender>,
    /// Ideas of the opening that are under way.
    opening: usize,
    /// By case: the fastest variant that is not confirmed.
    leads: HashMap<String, Lead>,
    /// What confirmations have taken so far, and on how many cases.
    confirmed: (Duration, u32),
    /// Cases and variants whose confirmation was asked for: once is enough.
    asked: HashSet<(String, VariantHash)>,
    /// By case: what each entrant of its last contest took.
    entrant_times: HashMap<String, Duration>,
    /// Contests held, each with inputs of its own.
    contests: u64,
    uncommitted: BTreeMap<String, (i64, Winner)>,
    /// Cases whose committed winner has been measured again by now.
    remeasured: HashSet<String>,
    /// Iterations and cases whose winner an earlier session has committed.
    kept: Vec<(i64, String)>,
    /// Why a case's winner was last not committed, so that it is said once.
    refusals: HashMap<String, String>,
}

/// Puts a session on record, and returns its number.
pub async fn begin(parts: &Parts, order: &Order) -> anyhow::Result<i64> {
    let new = NewSession {
        workload: parts.workload.name.clone(),
        proposer: parts.proposer.name().to_owned(),
        seed: order.seed,
        budget: order.budget,
        asked: Asked {
            families: parts.searched.clone(),
            dtype: parts.workload.dtype,
            cases: parts.workload.cases.clone(),
            meaning: Some(Meaning::of(&parts.workload, &parts.families, &parts.searched)),
        },
        config: order.config.clone(),
        environment: environment(parts, None),
    };
    parts.store.begin_session(&new).await.context("Failed to record the session")
}

/// Runs a session that has begun to its end, whatever the end is.
pub async fn run(id: i64, parts: Parts, order: Order, interrupt: Interrupt, observer: &mut dyn Observer) -> End {
    let info = parts.worker.info();
    observer.event(&Event::Started {
        session: id,
        workload: &parts.workload.name,
        device: &info.name,
        time_source: info.time_source(),
        budget_s: order.budget.wall.as_secs_f64(),
    });
    Session::new(id, parts, order, interrupt, observer).live(None).await
}

/// Goes on with a session that ended without being finished. An error means that it could not even be put on record.
pub async fn resume(
    past: Past,
    parts: Parts,
    order: Order,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> anyhow::Result<End> {
    let summary = &past.record.session;
    let recorded = parts.store.resume_session(summary.id, past.used, order.budget.wall).await;
    recorded.context("Failed to record that the session goes on")?;
    observer.event(&Event::Resumed {
        session: summary.id,
        resumption: summary.resumptions + 1,
        workload: &parts.workload.name,
        device: &parts.worker.info().name,
        time_source: parts.worker.info().time_source(),
        budget_s: order.budget.wall.as_secs_f64(),
        used_s: past.used.as_secs_f64(),
        finished: summary.iterations - summary.unfinished,
        cost_usd: summary.cost.total_usd(),
    });
    Ok(Session::new(summary.id, parts, order, interrupt, observer).live(Some(past)).await)
}

/// Describes the machine and the software; PyTorch is known once the baselines are timed.
fn environment(parts: &Parts, torch: Option<String>) -> Environment {
    Environment {
        device: parts.worker.info().clone(),
        nvrtc: parts.compiler.nvrtc_version().to_owned(),
        optloop: env!("CARGO_PKG_VERSION").to_owned(),
        torch,
        host: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    }
}

impl<'a> Session<'a> {
    /// Makes a session that knows nothing yet.
    fn new(id: i64, parts: Parts, order: Order, interrupt: Interrupt, observer: &'a mut dyn Observer) -> Self {
        let started = Instant::now();
        Self {
            id,
            parts,
            order,
            observer,
            interrupt,
            started,
            used: Duration::ZERO,
            last_record: started,
            finished: 0,
            spent: Spent::default(),
            history: History::default(),
            pipeline: FuturesOrdered::new(),
            starts: HashMap::new(),
            baselines: Vec::new(),
            backends: HashMap::new(),
            baseline_process: None,
            contenders: HashMap::new(),
            references: HashMap::new(),
            opening: 0,
            leads: HashMap::new(),
            confirmed: (Duration::ZERO, 0),
            asked: HashSet::new(),
            entrant_times: HashMap::new(),
            contests: 0,
            uncommitted: BTreeMap::new(),
            remeasured: HashSet::new(),
            kept: Vec::new(),
            refusals: HashMap::new(),
        }
    }

    /// Returns the wall time that the session has used, over all its resumptions.
    fn elapsed(&self) -> Duration {
        self.used + self.started.elapsed()
    }

    /// Everything between the beginning and the end, both of which are on record whatever happens here.
    async fn live(mut self, past: Option<Past>) -> End {
        let mut interrupt = self.interrupt.clone();
        let ready = tokio::select! {
            // First: what was used and spent before is known from the first poll on.
            biased;
            ready = self.set_out(past) => ready,
            () = interrupt.reached(2) => Ok(()),
        };
        let mut ended = match ready {
            Ok(()) => self.iterate().await,
            Err(error) => Err(error),
        };
        if matches!(ended, Ok((Status::Finished, _)))
            && let Err(error) = self.hold_finals().await
        {
            ended = Err(error);
        } else if matches!(ended, Ok((Status::Finished, _))) && self.interrupt.requested() {
            ended = Ok((Status::Interrupted, "it was interrupted"));
        }
        // What was won is committed even if something failed later.
        let committed = self.commit_pending().await;
        let ended = ended.and_then(|ended| committed.map(|()| ended));
        self.end(ended).await
    }

    /// Recalls what a session that goes on has found so far, and gets its baselines while the first proposals are compiled.
    async fn set_out(&mut self, past: Option<Past>) -> anyhow::Result<()> {
        if let Some(past) = past {
            self.recall(past).await?;
        }
        // No more than the first: a baseline's eager calls are timed on the host, which compilers would load.
        self.propose_ahead(1)?;
        self.time_baselines().await
    }

    /// The loop. Compilation runs ahead on every core; the device evaluates one variant at a time.
    async fn iterate(&mut self) -> anyhow::Result<(Status, &'static str)> {
        loop {
            if self.interrupt.requested() {
                return Ok((Status::Interrupted, "it was interrupted"));
            }
            let spent = self.spent.total_usd() + self.unrecorded().total_usd();
            let elapsed = self.elapsed() + self.finals_time();
            if let Some(stop) = self.order.budget.exhausted(elapsed, spent, self.finished) {
                return Ok((Status::Finished, stop.reason()));
            }
            self.propose_ahead(self.order.compile_ahead)?;
            let mut interrupt = self.interrupt.clone();
            let left = self.order.budget.wall.saturating_sub(elapsed);
            let compiled = tokio::select! {
                compiled = self.next() => compiled?,
                () = interrupt.reached(1) => continue,
                () = tokio::time::sleep(left) => continue,
            };
            let Some(compiled) = compiled else {
                return Ok((Status::Finished, "there is nothing new left to try"));
            };
            let iteration = self.parts.store.begin(self.id, &compiled.proposal).await?;
            self.opening -= usize::from(compiled.opening);
            let begun = Instant::now();
            let evaluation = tokio::select! {
                evaluation = self.evaluate_and_confirm(iteration, &compiled) => evaluation?,
                () = interrupt.reached(2) => return Ok((Status::Interrupted, "it was interrupted twice")),
            };
            self.conclude(iteration, &compiled, &evaluation).await?;
            if compiled.is_confirmation() {
                self.confirmed.0 += begun.elapsed();
                self.confirmed.1 += compiled.proposal.cases.len() as u32;
            }
        }
    }

    /// Waits for what comes next: a confirmation that is due, or the oldest proposal when it is compiled.
    async fn next(&mut self) -> anyhow::Result<Option<Compiled>> {
        if let Some(due) = self.due_confirmation(self.pipeline.is_empty()) {
            return Ok(Some(due));
        }
        self.pipeline.next().await.transpose().context("Failed to compile in the background")
    }

    /// Judges an evaluation, puts it on record, and learns from it.
    async fn conclude(&mut self, iteration: i64, compiled: &Compiled, evaluation: &Evaluation) -> anyhow::Result<()> {
        let Proposal { variant, hypothesis, .. } = &compiled.proposal;
        let decisions = judge(&self.history.incumbents, evaluation, &self.order.measuring.policy);
        self.record(iteration, compiled, evaluation, &decisions).await?;
        self.seed_as_baseline(compiled, evaluation, &decisions).await?;
        let won = self.take_winners(iteration, compiled, evaluation, &decisions);
        self.history.learn(iteration, variant, hypothesis, evaluation, &decisions);
        if compiled.is_confirmation() {
            self.disqualify_looks(&variant.hash, &evaluation.outcome, &decisions).await?;
        }
        self.remember_contenders(iteration, compiled, evaluation, &decisions);
        self.note_leads();
        if won {
            self.commit_pending().await?;
        }
        Ok(())
    }

    async fn evaluate_and_confirm(&mut self, iteration: i64, compiled: &Compiled) -> anyhow::Result<Evaluation> {
        let mut evaluation = self.evaluate(compiled).await?;
        self.refute(&mut evaluation);
        self.confirm(iteration, compiled, &mut evaluation).await?;
        Ok(evaluation)
    }

    async fn evaluate(&mut self, compiled: &Compiled) -> anyhow::Result<Evaluation> {
        let pruned = |message: &String| Evaluation::without_device(Outcome::Pruned { message: message.clone() });
        let artifact = match &compiled.artifact {
            Ok(artifact) => artifact,
            Err(CompileError::Broken(message)) => anyhow::bail!("Failed to compile: {message}"),
            Err(rejected) => {
                let message = rejected.to_string();
                return Ok(Evaluation::without_device(Outcome::RejectedByCompiler { message }));
            }
        };
        let mut cases = match &compiled.cases {
            Ok(cases) => cases.clone(),
            Err(message) => return Ok(pruned(message)),
        };
        for case in &mut cases {
            case.incumbent_ns = self.to_beat_ns(&case.case.name, compiled.look);
        }
        let workload = &self.parts.workload;
        let request = EvaluateRequest {
            artifact: artifact.clone(),
            op: workload.op.name().to_owned(),
            dtype: workload.dtype,
            tolerance: workload.tolerance,
            cases,
            measuring: self.order.measuring,
            input_seed: inputs::mix(self.order.seed, &["screening", &(self.finished / SAME_INPUTS).to_string()]),
            own_seed: inputs::mix(self.order.seed, &["own", &self.finished.to_string()]),
        };
        self.parts.worker.evaluate(request).await.context("Failed to evaluate a variant")
    }

    /// Puts the end on record. What cannot be recorded any more is told beside what came first.
    async fn end(mut self, ended: anyhow::Result<(Status, &'static str)>) -> End {
        self.spent += self.unrecorded();
        let (status, reason, error) = match ended {
            Ok((status, reason)) => (status, reason.to_owned(), None),
            Err(error) => (Status::Failed, format!("{error:#}"), Some(error)),
        };
        let wall = self.elapsed();
        let recorded = self.parts.store.end_session(self.id, status, &reason, wall, self.spent).await;
        let error = match (error, recorded) {
            (Some(first), _) => Some(first),
            (None, Err(error)) => Some(anyhow::Error::new(error).context("Failed to record the end of the session")),
            (None, Ok(())) => None,
        };
        self.observer.event(&Event::Ended {
            session: self.id,
            status,
            reason: &reason,
            iterations: self.finished,
            wall_s: wall.as_secs_f64(),
            cost_usd: self.spent.total_usd(),
        });
        End { session: self.id, error }
    }
}
