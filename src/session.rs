//! The loop: the only file that sees every part.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::agent::{Landscape, Proposer, diagnosis};
use crate::domain::artifact::Artifact;
use crate::domain::budget::Budget;
use crate::domain::cost::{Rate, Spent};
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::evaluation::{Evaluation, Outcome, Timing};
use crate::domain::family::Family;
use crate::domain::history::{History, Point};
use crate::domain::hypothesis::Hypothesis;
use crate::domain::proposal::{Idea, KnownWinner, Proposal};
use crate::domain::record::{Environment, Status};
use crate::domain::sidecar::{self, Sidecar, SidecarEnvironment, SidecarMeasurement, SidecarVariant};
use crate::domain::variant::VariantHash;
use crate::domain::verdict::{Decision, Policy, Verdict, judge};
use crate::domain::workload::{Case, Workload};
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::evaluate::{CaseRequest, EvaluateRequest};
use crate::runner::inputs;
use crate::runner::render::render;
use crate::runner::worker::Worker;
use crate::store::{Finish, NewSession, Store};
use crate::vcs::{Figures, Repo, Winner};

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
    /// Compiles them.
    pub compiler: Compiler,
    /// Evaluates them.
    pub worker: Worker,
    /// Remembers them.
    pub store: Store,
    /// Commits the winners; or why it cannot, which is said with the first winner.
    pub repo: Result<Repo, String>,
}

/// What a session was told.
#[derive(Debug, Clone)]
pub struct Order {
    /// When to end.
    pub budget: Budget,
    /// What the device costs.
    pub rate: Rate,
    /// When a faster time counts.
    pub policy: Policy,
    /// The shortest sample.
    pub min_sample_ns: f64,
    /// The most float64 work per check.
    pub oracle_flop: f64,
    /// Compilations under way at once.
    pub compile_ahead: usize,
    /// Where proposals and inputs come from.
    pub seed: u64,
    /// Every setting in force, for the record.
    pub config: serde_json::Value,
}

/// Something that a watcher of the session wants to know.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The session has begun.
    Started {
        /// Its number.
        session: i64,
        /// The workload's name.
        workload: &'a str,
        /// The device.
        device: &'a str,
        /// Whether times are measured or modelled.
        time_source: TimeSource,
        /// The wall time allowed, in seconds.
        budget_s: f64,
    },
    /// An iteration is on record.
    Iteration {
        /// Its number.
        iteration: i64,
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
    },
    /// A winner is committed.
    Committed {
        /// The case.
        case: &'a str,
        /// The commit.
        commit: &'a str,
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
        session: i64,
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

    fn requested(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Waits for the `count`th request.
    async fn reached(&mut self, count: u32) {
        if self.0.wait_for(|requests| *requests >= count).await.is_err() {
            // Nobody can ask any more.
            std::future::pending::<()>().await;
        }
    }
}

/// How a session ended.
#[derive(Debug)]
pub struct End {
    /// The session's number.
    pub session: i64,
    /// The error that ended it, if one did. The session is on record all the same.
    pub error: Option<anyhow::Error>,
}

/// A proposal on its way to the device.
struct Compiled {
    proposal: Proposal,
    cases: Result<Vec<CaseRequest>, String>,
    artifact: Result<Artifact, CompileError>,
}

struct Session<'a> {
    id: i64,
    parts: Parts,
    order: Order,
    observer: &'a mut dyn Observer,
    interrupt: Interrupt,
    started: Instant,
    last_record: Instant,
    finished: u64,
    spent: Spent,
    history: History,
    pipeline: FuturesOrdered<JoinHandle<Compiled>>,
    starts: HashMap<String, f64>,
    uncommitted: BTreeMap<String, (i64, Winner)>,
}

/// Runs a session to its end, whatever the end is. An error means that it could not even begin.
pub async fn run(parts: Parts, order: Order, interrupt: Interrupt, observer: &mut dyn Observer) -> anyhow::Result<End> {
    let started = Instant::now();
    let session = begin(&parts, &order).await?;
    let info = parts.worker.info();
    observer.event(&Event::Started {
        session,
        workload: &parts.workload.name,
        device: &info.name,
        time_source: info.time_source,
        budget_s: order.budget.wall.as_secs_f64(),
    });
    let mut session = Session {
        id: session,
        parts,
        order,
        observer,
        interrupt,
        started,
        last_record: started,
        finished: 0,
        spent: Spent::default(),
        history: History::default(),
        pipeline: FuturesOrdered::new(),
        starts: HashMap::new(),
        uncommitted: BTreeMap::new(),
    };
    let ended = session.iterate().await;
    session.commit_pending().await?;
    session.end(ended).await
}

async fn begin(parts: &Parts, order: &Order) -> anyhow::Result<i64> {
    let new = NewSession {
        workload: parts.workload.name.clone(),
        cases: parts.workload.cases.iter().map(|case| case.name.clone()).collect(),
        proposer: parts.proposer.name().to_owned(),
        seed: order.seed,
        budget: order.budget,
        config: order.config.clone(),
        environment: Environment {
            device: parts.worker.info().clone(),
            nvrtc: parts.compiler.nvrtc_version().to_owned(),
            optloop: env!("CARGO_PKG_VERSION").to_owned(),
            torch: None,
            host: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        },
    };
    parts.store.begin_session(&new).await.context("Failed to record the session")
}

impl Session<'_> {
    /// The loop. Compilation runs ahead on every core; the device evaluates one variant at a time.
    async fn iterate(&mut self) -> anyhow::Result<(Status, &'static str)> {
        loop {
            if self.interrupt.requested() {
                return Ok((Status::Interrupted, "it was interrupted"));
            }
            let spent = self.spent.total_usd() + self.unrecorded().total_usd();
            if let Some(stop) = self.order.budget.exhausted(self.started.elapsed(), spent, self.finished) {
                return Ok((Status::Finished, stop.reason()));
            }
            self.propose_ahead()?;
            let Some(compiled) = self.pipeline.next().await else {
                return Ok((Status::Finished, "there is nothing new left to try"));
            };
            let compiled = compiled.context("Failed to compile in the background")?;
            let iteration = self.parts.store.begin(self.id, &compiled.proposal).await?;
            let mut interrupt = self.interrupt.clone();
            let evaluation = tokio::select! {
                evaluation = self.evaluate(&compiled) => evaluation?,
                () = interrupt.reached(2) => return Ok((Status::Interrupted, "it was interrupted twice")),
            };
            let decisions = judge(&self.history.incumbents, &evaluation, &self.order.policy);
            self.record(iteration, &compiled, &evaluation, &decisions).await?;
            self.take_winners(iteration, &compiled, &evaluation, &decisions);
            self.history.learn(
                iteration,
                &compiled.proposal.variant,
                &compiled.proposal.hypothesis,
                &evaluation,
                &decisions,
            );
            self.commit_pending().await?;
        }
    }

    /// Keeps the compilers busy with proposals.
    fn propose_ahead(&mut self) -> anyhow::Result<()> {
        let left = self.order.budget.max_iterations.map_or(u64::MAX, |most| most - self.finished);
        let depth = self.order.compile_ahead.min(usize::try_from(left).unwrap_or(usize::MAX));
        while self.pipeline.len() < depth {
            let Parts { workload, families, searched, known, worker, proposer, .. } = &mut self.parts;
            let landscape = Landscape::new(workload, families, searched, known, worker.info());
            let diagnosis = diagnosis::diagnose(&self.history, workload, worker.info());
            let idea = proposer.propose(&landscape, &diagnosis, &self.history);
            let Some(idea) = idea.map_err(|problem| anyhow::anyhow!("Failed to propose a variant: {problem}"))? else {
                return Ok(());
            };
            self.submit(idea)?;
        }
        Ok(())
    }

    /// Renders an idea and sends it to the compilers.
    fn submit(&mut self, idea: Idea) -> anyhow::Result<()> {
        let (workload, device) = (&self.parts.workload, self.parts.worker.info());
        let family = self.parts.families.iter().find(|family| family.name == idea.family);
        let family = family.with_context(|| format!("Failed to find the family `{}`", idea.family))?;
        let first = idea.cases.first().context("Failed to find a case for a proposal")?;
        let specialization = family.specialization(first);
        self.history.proposed.insert(Point::new(&family.name, &specialization, &idea.params));
        let variant = render(family, &specialization, workload.dtype, &idea.params).map_err(anyhow::Error::msg)?;
        let cases = plans(family, &idea, workload, device);
        let proposal = Proposal {
            proposer: self.parts.proposer.name().to_owned(),
            variant,
            cases: idea.cases,
            hypothesis: idea.hypothesis,
            parent: idea.parent,
        };
        let compiler = self.parts.compiler.clone();
        self.pipeline.push_back(tokio::task::spawn_blocking(move || {
            let artifact = compiler.compile(&proposal.variant);
            Compiled { proposal, cases, artifact }
        }));
        Ok(())
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
            case.incumbent_ns = self.history.incumbents.get(&case.case.name).map(|i| i.timing.median_ns);
        }
        let workload = &self.parts.workload;
        let request = EvaluateRequest {
            artifact: artifact.clone(),
            op: workload.op.name().to_owned(),
            dtype: workload.dtype,
            tolerance: workload.tolerance,
            cases,
            policy: self.order.policy,
            min_sample_ns: self.order.min_sample_ns,
            oracle_flop: self.order.oracle_flop,
            input_seed: inputs::mix(self.order.seed, &["iteration", &self.finished.to_string()]),
        };
        self.parts.worker.evaluate(request).await.context("Failed to evaluate a variant")
    }

    /// Writes a finished iteration down, with its share of the cost and the score of its claim.
    async fn record(
        &mut self,
        iteration: i64,
        compiled: &Compiled,
        evaluation: &Evaluation,
        decisions: &[Decision],
    ) -> anyhow::Result<()> {
        let hypothesis = &compiled.proposal.hypothesis;
        let actual = self.actual_speedup(hypothesis, evaluation, decisions);
        let spent = self.unrecorded();
        let wall_s = self.last_record.elapsed().as_secs_f64();
        self.last_record = Instant::now();
        self.spent += spent;
        self.finished += 1;
        let finish = Finish {
            artifact: compiled.artifact.as_ref().ok(),
            compile_log: match &compiled.artifact {
                Err(CompileError::Rejected { log }) => Some(log),
                _ => None,
            },
            evaluation,
            decisions,
            actual_speedup: actual,
            score: hypothesis.score(actual),
            spent,
            wall_s,
        };
        self.parts.store.finish(iteration, &finish).await.context("Failed to record an iteration")?;
        self.observer.event(&Event::Iteration {
            iteration,
            finished: self.finished,
            outcome: &evaluation.outcome,
            hypothesis,
            decisions,
            elapsed_s: self.started.elapsed().as_secs_f64(),
            cost_usd: self.spent.total_usd(),
        });
        Ok(())
    }

    /// Returns the speed-up that a claim is held against: over the iteration it refers to, else over the incumbent.
    fn actual_speedup(&self, claim: &Hypothesis, evaluation: &Evaluation, decisions: &[Decision]) -> Option<f64> {
        if evaluation.outcome != Outcome::Measured {
            return None;
        }
        let measurement = evaluation.measurements.iter().find(|m| m.case == claim.case)?;
        let reference = claim.relative_to.and_then(|iteration| self.history.iteration(iteration));
        match reference.and_then(|finished| finished.times.iter().find(|time| time.case == claim.case)) {
            Some(time) => Some(time.median_ns / measurement.best_timing()?.median_ns),
            None => decisions.iter().find(|decision| decision.case == claim.case)?.speedup,
        }
    }

    /// Queues the confirmed winners of an iteration for their commits.
    fn take_winners(&mut self, iteration: i64, compiled: &Compiled, evaluation: &Evaluation, decisions: &[Decision]) {
        for decision in decisions {
            let measurement = evaluation.measurements.iter().find(|m| m.case == decision.case);
            let Some(timing) = measurement.and_then(|m| m.best_timing()) else { continue };
            if decision.verdict == Verdict::Start {
                self.starts.insert(decision.case.clone(), timing.median_ns);
            }
            if decision.verdict != Verdict::Improved {
                continue;
            }
            let previous = self.history.incumbents.get(&decision.case).map(|incumbent| incumbent.timing.clone());
            let start_ns = self.starts.get(&decision.case).copied().unwrap_or(timing.median_ns);
            self.observer.event(&Event::Improved {
                case: &decision.case,
                from_us: previous.as_ref().map_or(timing.median_ns, |timing| timing.median_ns) / 1e3,
                to_us: timing.median_ns / 1e3,
                over_start: start_ns / timing.median_ns,
            });
            if self.committed_already(&decision.case, &compiled.proposal.variant.hash) {
                self.uncommitted.remove(&decision.case);
                continue;
            }
            if let Some(winner) = self.winner(iteration, compiled, evaluation, &decision.case, previous.as_ref()) {
                self.uncommitted.insert(decision.case.clone(), (iteration, winner));
            }
        }
    }

    /// Tells whether the committed winner of a case is this variant, or was measured where this session only models: a
    /// modelled time says nothing against a measured one.
    fn committed_already(&self, case: &str, hash: &VariantHash) -> bool {
        let known = self.parts.known.iter().find(|known| known.case == case);
        let modelled = self.parts.worker.info().time_source == TimeSource::Modelled;
        known.is_some_and(|known| known.hash == *hash || (modelled && known.time_source == TimeSource::Measured))
    }

    fn winner(
        &self,
        iteration: i64,
        compiled: &Compiled,
        evaluation: &Evaluation,
        case: &str,
        previous: Option<&Timing>,
    ) -> Option<Winner> {
        let measurement = evaluation.measurements.iter().find(|m| m.case == case)?;
        let timing = measurement.best_timing()?;
        let request = compiled.cases.as_ref().ok()?.iter().find(|request| request.case.name == case)?;
        let artifact = compiled.artifact.as_ref().ok()?;
        let (workload, info) = (&self.parts.workload, self.parts.worker.info());
        let variant = &compiled.proposal.variant;
        let sidecar = Sidecar {
            schema: sidecar::SCHEMA.to_owned(),
            arch: artifact.arch.clone(),
            compile_options: artifact.options.clone(),
            tensors: sidecar::tensors(&workload.op.tensors(&request.case.dims, workload.dtype)),
            workspaces: sidecar::workspaces(&request.plan.workspaces),
            launches: request.plan.launches.clone(),
            variant: SidecarVariant {
                family: variant.family.clone(),
                params: variant.params.clone(),
                hash: variant.hash.clone(),
            },
            measurement: SidecarMeasurement {
                case: case.to_owned(),
                median_us: timing.median_ns / 1e3,
                ci_us: [timing.interval_ns.lo / 1e3, timing.interval_ns.hi / 1e3],
                samples: timing.samples_ns.len(),
                launches_per_sample: timing.launches_per_sample,
                regime: "warm".to_owned(),
                time_source: info.time_source,
                relative_l2: measurement.correctness.relative_l2,
                worst_row: measurement.correctness.worst_row,
            },
            environment: SidecarEnvironment {
                device: info.name.clone(),
                driver: info.driver.clone(),
                nvrtc: artifact.nvrtc.clone(),
                optloop: env!("CARGO_PKG_VERSION").to_owned(),
            },
        };
        let figures = |timing: &Timing| Figures {
            median_us: timing.median_ns / 1e3,
            ci_us: [timing.interval_ns.lo / 1e3, timing.interval_ns.hi / 1e3],
            samples: timing.samples_ns.len(),
        };
        Some(Winner {
            workload: workload.name.clone(),
            source: variant.source.clone(),
            sidecar,
            previous: previous.map(figures),
            baseline: None,
            session: self.id,
            iteration,
        })
    }

    /// Commits the winners that are queued. One that cannot be committed stays queued: the index may be locked by now
    /// and free with the next winner.
    async fn commit_pending(&mut self) -> anyhow::Result<()> {
        for (case, (iteration, winner)) in std::mem::take(&mut self.uncommitted) {
            let committed = match &self.parts.repo {
                Ok(repo) => repo.commit_winner(&winner).map_err(|error| error.to_string()),
                Err(reason) => Err(reason.clone()),
            };
            match committed {
                Ok(commit) => {
                    self.parts.store.link_commit(iteration, &case, &commit.0).await?;
                    self.observer.event(&Event::Committed { case: &case, commit: &commit.0 });
                }
                Err(reason) => {
                    self.observer.event(&Event::NotCommitted { case: &case, reason: &reason });
                    self.uncommitted.insert(case, (iteration, winner));
                }
            }
        }
        Ok(())
    }

    /// Returns what has been spent since the last record. A modelled device costs nothing.
    fn unrecorded(&self) -> Spent {
        match self.parts.worker.info().time_source {
            TimeSource::Measured => Spent::holding(self.last_record.elapsed().as_secs_f64(), self.order.rate),
            TimeSource::Modelled => Spent::default(),
        }
    }

    /// Puts the end on record.
    async fn end(mut self, ended: anyhow::Result<(Status, &'static str)>) -> anyhow::Result<End> {
        self.spent += self.unrecorded();
        let (status, reason, error) = match ended {
            Ok((status, reason)) => (status, reason.to_owned(), None),
            Err(error) => (Status::Failed, format!("{error:#}"), Some(error)),
        };
        let wall: Duration = self.started.elapsed();
        self.parts
            .store
            .end_session(self.id, status, &reason, wall, self.spent)
            .await
            .context("Failed to record the end of the session")?;
        self.observer.event(&Event::Ended {
            session: self.id,
            status,
            reason: &reason,
            iterations: self.finished,
            wall_s: wall.as_secs_f64(),
            cost_usd: self.spent.total_usd(),
        });
        Ok(End { session: self.id, error })
    }
}

/// Fills in the plans of an idea, the case with the least work first, so that a wrong variant fails early.
fn plans(family: &Family, idea: &Idea, workload: &Workload, device: &DeviceInfo) -> Result<Vec<CaseRequest>, String> {
    let plan = |case: &Case| {
        let plan = family
            .plan(&idea.params, case, workload.op, workload.dtype, device)
            .map_err(|error| format!("{} on {}: {error}", family.name, case.name))?;
        // The incumbent is filled in when its turn comes: there may be another one by then.
        Ok(CaseRequest { case: case.clone(), plan, incumbent_ns: None })
    };
    let mut cases = idea.cases.iter().map(plan).collect::<Result<Vec<_>, String>>()?;
    cases.sort_by(|a, b| workload.op.flop(&a.case.dims).total_cmp(&workload.op.flop(&b.case.dims)));
    Ok(cases)
}
