//! Explains measured times in the background: a virtual GPU models the initial kernel, each incumbent and the best variant
//! of another family without each cause of lost time, on the CPU, while the session goes on.
//!
//! An explanation is evidence for the diagnosis, not a fact that decides anything. What is not explained when the session
//! ends stays unexplained.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use anyhow::Context;
use tokio::task::JoinHandle;

use super::findings::{self, Evidence};
use crate::domain::history::Finished;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::floor::floor_ns;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::proposal::finding::Finding;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::journal::{Begun, Concluded};
use crate::domain::variant::VariantHash;
use crate::runner::explainer::{Explained, Explainer};
use crate::runner::inputs;
use crate::runner::messages::CaseRequest;
use crate::runner::sanitizer::Subject;
use crate::session::Session;
use crate::session::pipeline::kernel_cache::{Kernel, Loader};
use crate::session::setup::SessionSetup;

/// How much slower than the fastest rival another family may be, so that it is counted, too.
const CLOSE: f64 = 1.1;

/// The explanations of a session.
pub(in crate::session) struct Explanations {
    /// None while it works, and where there is none.
    explainer: Option<Explainer>,
    running: Option<JoinHandle<Done>>,
    /// At most one for each case, and those that the session begins with.
    waiting: VecDeque<Job>,
    seen: HashSet<(VariantHash, CaseName)>,
    /// What the rules found, for the latest explained variant of each case.
    findings: HashMap<CaseName, Vec<Finding>>,
    /// What the rules found for the initial kernel on the case where it is furthest from the floor, and that distance as a
    /// factor.
    of_initial: Option<(f64, Vec<Finding>)>,
    /// How often a test of a cause was looked for.
    pub cause_tests: u64,
}

/// Why a variant is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It is the initial kernel. A report explains it first.
    Initial,
    /// The session begins with it. A report compares the best variant with it.
    Beginning,
    /// It has just won.
    Winner,
    /// It is the best variant of another family than the winner's. A report compares the two.
    Rival,
    /// It is a step on a path between two configurations, or the initial kernel on another case. A report says what its counts
    /// are, and no rule applies.
    Counted,
}

impl Role {
    /// Returns which roles wait for which: the lowest comes first.
    fn rank(self) -> u8 {
        match self {
            Self::Initial | Self::Beginning | Self::Winner => 0,
            Self::Rival => 1,
            Self::Counted => 2,
        }
    }
}

/// A variant on a case whose time is to be explained.
#[derive(Clone)]
struct Job {
    role: Role,
    iteration: IterationId,
    hash: VariantHash,
    case: CaseName,
    source: Source,
}

/// Where the kernel of a job comes from.
#[derive(Clone)]
enum Source {
    Compiled(Arc<Kernel>),
    /// It was compiled before, and is not kept.
    Recorded(Loader),
}

/// A job with its result.
struct Done {
    explainer: Explainer,
    job: Job,
    explained: anyhow::Result<(CandidateRequest, Explained)>,
}

/// The kernel of a job with its launch plan on the case.
type CandidateRequest = (Arc<Kernel>, CaseRequest);

impl Drop for Explanations {
    fn drop(&mut self) {
        // Its worker ends with it.
        self.running.iter().for_each(JoinHandle::abort);
    }
}

impl Explanations {
    /// Makes explanations by a virtual GPU, if there is one.
    pub fn new(explainer: Option<Explainer>) -> Self {
        let (waiting, seen, findings) = (VecDeque::new(), HashSet::new(), HashMap::new());
        Self { explainer, running: None, waiting, seen, findings, of_initial: None, cause_tests: 0 }
    }

    /// Returns what the rules found about the latest explained variants, the most important of each case first.
    pub fn findings(&self) -> Vec<Finding> {
        self.findings.values().flatten().cloned().collect()
    }

    /// Returns what the rules found about the initial kernel on the case where it is furthest from the floor, the most
    /// important first.
    pub fn of_initial(&self) -> &[Finding] {
        self.of_initial.as_ref().map_or(&[], |(_, findings)| findings)
    }

    fn learn_of_initial(&mut self, factor: f64, findings: &[Finding]) {
        if self.of_initial.as_ref().is_none_or(|(other, _)| *other < factor) {
            self.of_initial = Some((factor, findings.to_vec()));
        }
    }

    /// Asks for an explanation. A newer variant of a case replaces one that still waits in the same role, unless a report needs
    /// both. Rivals and those that are only counted wait for all others.
    fn ask(&mut self, job: Job, setup: &Arc<SessionSetup>) {
        let key = (job.hash.clone(), job.case.clone());
        if (self.explainer.is_none() && self.running.is_none()) || !self.seen.insert(key) {
            return;
        }
        let is_kept = matches!(job.role, Role::Initial | Role::Beginning | Role::Counted);
        self.waiting.retain(|other| other.case != job.case || other.role != job.role || is_kept);
        let later = self.waiting.iter().position(|other| other.role.rank() > job.role.rank());
        self.waiting.insert(later.unwrap_or(self.waiting.len()), job);
        self.start(setup);
    }

    /// Starts the next job, unless one is running.
    fn start(&mut self, setup: &Arc<SessionSetup>) {
        let Some(mut explainer) = self.explainer.take_if(|_| !self.waiting.is_empty()) else { return };
        let Some(job) = self.waiting.pop_front() else { return };
        let setup = Arc::clone(setup);
        self.running = Some(tokio::spawn(async move {
            let explained = explain(&mut explainer, &job, &setup).await;
            Done { explainer, job, explained }
        }));
    }

    /// Returns the job that has ended with its result, if one has, and starts the next one. A failure of the machine ends
    /// the explanations, not the session.
    async fn finished(&mut self, setup: &Arc<SessionSetup>) -> Option<(Job, CandidateRequest, Explained)> {
        let running = self.running.take_if(|running| running.is_finished())?;
        let ended = running.await.context("Failed to explain a time in the background");
        match ended.and_then(|Done { explainer, job, explained }| Ok((explainer, job, explained?))) {
            Ok((explainer, job, (kernel, explained))) => {
                self.explainer = Some(explainer);
                self.start(setup);
                Some((job, kernel, explained))
            }
            Err(error) => {
                tracing::warn!("times are no longer explained: {error:#}");
                None
            }
        }
    }
}

impl Session<'_> {
    /// Asks why the variant of an iteration takes its time: the initial kernel on the case where it has the most to gain,
    /// a step on a path on its case, and any other variant on the cases that it has just won.
    pub(in crate::session) fn ask_why(&mut self, begun: &Begun, concluded: &Concluded, kernel: &Arc<Kernel>) {
        let setup = self.state.shared_setup();
        let headroom = |request: &CaseRequest| {
            let found = concluded.case_results.iter().find(|found| found.case == request.case.name)?;
            let ns = found.best_timing()?.median_ns;
            Some(ns / floor_ns(&setup.workload, &request.case, &setup.device))
        };
        let won = |request: &&CaseRequest| {
            let mut found = concluded.case_results.iter().filter(|found| found.case == request.case.name);
            found.any(|found| found.verdict == Some(Verdict::Improved))
        };
        let wanted: Vec<&CaseRequest> = match begun.rationale.purpose {
            Purpose::Initial => {
                let timed = kernel.requests.iter().filter_map(|request| Some((headroom(request)?, request)));
                timed.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, request)| request).into_iter().collect()
            }
            Purpose::Experiment => {
                let is_step = matches!(begun.rationale.origin, Origin::PathStep { .. });
                kernel.requests.iter().filter(|_| is_step).collect()
            }
            _ => kernel.requests.iter().filter(won).collect(),
        };
        let role = match begun.rationale.purpose {
            Purpose::Initial => Role::Initial,
            Purpose::Remeasurement => Role::Beginning,
            Purpose::Experiment => Role::Counted,
            _ => Role::Winner,
        };
        if let (Purpose::Experiment, Origin::PathStep { path, .. }) = (begun.rationale.purpose, &begun.rationale.origin)
        {
            self.ask_about_counts(path.from, &path.case);
        }
        for request in wanted {
            let (hash, source) = (kernel.variant.hash.clone(), Source::Compiled(Arc::clone(kernel)));
            let job = Job { role, iteration: begun.iteration, hash, case: request.case.name.clone(), source };
            self.explanations.ask(job, &setup);
        }
    }

    /// Asks why the winner of a case takes its time. A final may have chosen one that has never been explained.
    pub(in crate::session) fn ask_about_winner(&mut self, case: &CaseName) {
        let Some(winner) = self.state.incumbent(case) else { return };
        let (iteration, hash, case) = (winner.iteration, winner.hash.clone(), case.clone());
        let job = Job { role: Role::Winner, iteration, hash, case, source: Source::Recorded(self.cache.loader()) };
        self.explanations.ask(job, &self.state.shared_setup());
    }

    /// Asks why the variants take their time with which a report compares the incumbents: the best ones of other families, and
    /// the initial kernel on each case.
    pub(in crate::session) fn ask_about_compared(&mut self) {
        let cases: Vec<CaseName> = self.state.cases().map(|(name, _)| name.clone()).collect();
        for case in &cases {
            self.ask_about_rival(case);
            self.ask_about_close_rivals(case);
            self.ask_about_initial(case);
        }
    }

    /// Asks why the initial kernel takes its time on a case.
    fn ask_about_initial(&mut self, case: &CaseName) {
        if let Some(initial) = self.state.initial_kernel(case) {
            self.ask_about_counts(initial, case);
        }
    }

    /// Asks for the counts of the variant of an earlier iteration on a case.
    fn ask_about_counts(&mut self, iteration: IterationId, case: &CaseName) {
        let Some(hash) = self.state.history().iteration(iteration).map(|one| one.hash.clone()) else { return };
        let source = Source::Recorded(self.cache.loader());
        let job = Job { role: Role::Counted, iteration, hash, case: case.clone(), source };
        self.explanations.ask(job, &self.state.shared_setup());
    }

    /// Asks why the best variant of another family than the incumbent's takes its time on a case.
    fn ask_about_rival(&mut self, case: &CaseName) {
        let Some((_, rival)) = self.rivals(case).into_iter().next() else { return };
        let (iteration, hash, source) = (rival.iteration, rival.hash.clone(), Source::Recorded(self.cache.loader()));
        let job = Job { role: Role::Rival, iteration, hash, case: case.clone(), source };
        self.explanations.ask(job, &self.state.shared_setup());
    }

    /// Returns the best variant of each other family than the incumbent's on a case with its time, the fastest first.
    fn rivals(&self, case: &CaseName) -> Vec<(f64, &Finished)> {
        let Some(incumbent) = self.state.incumbent(case) else { return Vec::new() };
        let mut best: HashMap<&str, (f64, &Finished)> = HashMap::new();
        for one in self.state.history().finished.iter().filter(|one| one.family != incumbent.family) {
            let Some(ns) = one.time_ns(case) else { continue };
            let known = best.entry(&one.family).or_insert((ns, one));
            if ns < known.0 {
                *known = (ns, one);
            }
        }
        let mut rivals: Vec<(f64, &Finished)> = best.into_values().collect();
        rivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        rivals
    }

    /// Asks for the counts of the families that are close behind the fastest rival of a case: a comparison may rank them
    /// otherwise than their screening runs.
    fn ask_about_close_rivals(&mut self, case: &CaseName) {
        let rivals = self.rivals(case);
        let Some(first_ns) = rivals.first().map(|(ns, _)| *ns) else { return };
        let close = rivals.iter().skip(1).take_while(|(ns, _)| *ns < CLOSE * first_ns);
        let close: Vec<IterationId> = close.map(|(_, one)| one.iteration).collect();
        for iteration in close {
            self.ask_about_counts(iteration, case);
        }
    }

    /// Records the explanations that have arrived, and applies the rules of the diagnosis to them.
    pub(in crate::session) async fn learn_why(&mut self) -> anyhow::Result<()> {
        let setup = self.state.shared_setup();
        while let Some((job, kernel, explained)) = self.explanations.finished(&setup).await {
            let Job { case, iteration, role, .. } = &job;
            match explained {
                Explained::Profile(profile) => {
                    let recorded = self.store.explain(*iteration, case, &profile).await;
                    recorded.context("Failed to record an explanation")?;
                    if role.rank() == 0 {
                        let evidence = Evidence {
                            plan: &kernel.1.plan,
                            kernels: &kernel.0.artifact.kernels,
                            profile: Some(&profile),
                        };
                        let findings = findings::of_variant(&self.state, *iteration, &kernel.1.case, evidence);
                        if *role == Role::Initial {
                            let factor = self.distance_to_floor(*iteration, case).unwrap_or(0.0);
                            self.explanations.learn_of_initial(factor, &findings);
                        }
                        self.explanations.findings.insert(case.clone(), findings);
                    }
                }
                Explained::Skipped(reason) => {
                    tracing::debug!("iteration {iteration} is not explained on {case}: {reason}");
                }
            }
            if *role == Role::Winner {
                self.ask_about_rival(case);
            }
        }
        Ok(())
    }

    /// Returns the time of an iteration on a case as a multiple of the floor.
    fn distance_to_floor(&self, iteration: IterationId, case: &CaseName) -> Option<f64> {
        let setup = self.state.setup();
        let ns = self.state.history().iteration(iteration)?.time_ns(case)?;
        Some(ns / floor_ns(&setup.workload, setup.workload.case(case).ok()?, &setup.device))
    }
}

async fn explain(
    explainer: &mut Explainer,
    job: &Job,
    setup: &SessionSetup,
) -> anyhow::Result<(CandidateRequest, Explained)> {
    let kernel = match &job.source {
        Source::Compiled(kernel) => Arc::clone(kernel),
        Source::Recorded(loader) => Arc::new(loader.load(setup, job.iteration).await?),
    };
    let request = kernel.requests.iter().find(|request| request.case.name == job.case).cloned();
    let request = request.with_context(|| format!("Failed to find the launch plan of a variant on {}", job.case))?;
    let variant = &kernel.variant;
    let (family, params, hash) = (setup.family(&variant.family)?, &variant.params, &variant.hash);
    let (artifact, workload, case) = (&kernel.artifact, &setup.workload, &request.case);
    let subject = Subject { family, params, hash, artifact, workload, case };
    let seed = inputs::mix(setup.options.seed, &["explain", hash.short()]);
    let explained = explainer.explain(subject, setup.options.measuring, seed).await;
    let explained = explained.context("Failed to explain a time")?;
    Ok(((kernel, request), explained))
}
