//! Turns suggestions into compiled variants. Rendering and compilation run in the background. Compilations begin in the order
//! of the suggestions.
//!
//! The queue is longer than the number of compilations at once. Behind a slow one, others may wait finished, and would
//! otherwise leave their cores idle.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, Semaphore};
use tokio::task::{JoinError, JoinHandle};

use super::decide::UnderWay;
use super::prospects;
use super::setup::SessionSetup;
use super::state::SessionState;
use crate::agent::diagnosis::{self, Diagnosis};
use crate::agent::prediction::Built;
use crate::agent::{Proposer, SearchContext, claims};
use crate::domain::artifact::Artifact;
use crate::domain::code::CodeFigures;
use crate::domain::family::Family;
use crate::domain::finding::Finding;
use crate::domain::history::ConfigurationId;
use crate::domain::op::{Dims, Dtype};
use crate::domain::proposal::{Proposal, Suggestion};
use crate::domain::variant::{Params, Variant, VariantHash};
use crate::runner::activity::{self, Limit, RunningStep};
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::messages::CaseRequest;
use crate::runner::planning;
use crate::runner::renderer::Renderer;

/// A proposal on its way to the device.
pub(super) struct Compiled {
    pub proposal: Proposal,
    /// What to ask of the device, or the reason why the launch plan cannot be filled in.
    pub cases: Result<Vec<CaseRequest>, String>,
    pub artifact: Result<Artifact, NotCompiled>,
    /// Whether it runs even without prospects.
    pub is_control: bool,
}

/// Why a variant has no machine code.
#[derive(Debug)]
pub(super) enum NotCompiled {
    /// The compiler failed.
    Failed(CompileError),
    /// It was not compiled, because it has no chance to be the fastest.
    WithoutProspects(String),
}

impl Compiled {
    /// Returns what the compiler reported; none if the variant did not compile.
    pub fn code(&self) -> Option<CodeFigures> {
        CodeFigures::of(&self.artifact.as_ref().ok()?.kernels)
    }

    /// Returns why the variant is not worth the device's time. None if it is, or if it runs in any case.
    pub fn without_prospects(&self, state: &SessionState) -> Option<String> {
        let (code, requests) = (self.code()?, self.cases.as_ref().ok()?);
        if self.is_control { None } else { prospects::missing_of_built(state, &self.proposal, code, requests) }
    }

    /// Predicts again what the variant does, now that its code is known and other variants have results.
    pub fn predict_again(&mut self, state: &SessionState) {
        let (Ok(_), Ok(cases)) = (&self.artifact, &self.cases) else { return };
        let asked = cases.iter().find(|request| request.case.name == self.proposal.hypothesis.case);
        let built = self.code().zip(asked).map(|(code, request)| Built { code, ctas: request.plan.ctas() });
        claims::predict_again(state.history(), &state.setup().families, &mut self.proposal, built);
    }
}

/// A proposal whose variant is being compiled.
struct Compiling {
    family: String,
    is_initial: bool,
    /// Whether a compiler works on it. One without prospects is ready at once.
    is_compiled: bool,
    compilation: JoinHandle<Result<Compiled, JoinError>>,
}

/// See the module's documentation.
pub(super) struct Pipeline {
    proposer: Box<dyn Proposer>,
    renderer: Renderer,
    compiler: Compiler,
    /// One turn for each compilation at once. Turns are given in the order of the queue.
    turns: Arc<Semaphore>,
    /// Held for reading by each compilation that runs.
    may_run: Arc<RwLock<()>>,
    queue: VecDeque<Compiling>,
    is_dry: bool,
}

impl Pipeline {
    /// Makes an empty queue. `parallel` is the number of compilations at once.
    pub fn new(proposer: Box<dyn Proposer>, renderer: Renderer, compiler: Compiler, parallel: usize) -> Self {
        let (turns, may_run) = (Arc::new(Semaphore::new(parallel)), Arc::default());
        Self { proposer, renderer, compiler, turns, may_run, queue: VecDeque::new(), is_dry: false }
    }

    /// Returns the proposer's name.
    pub fn proposer(&self) -> &'static str {
        self.proposer.name()
    }

    /// Returns what is under way.
    pub fn under_way(&self) -> UnderWay {
        let initial = self.queue.iter().filter(|one| one.is_initial).count();
        UnderWay { proposals: self.queue.len(), initial, is_dry: self.is_dry }
    }

    /// Has the proposer asked again. It may have learnt from an iteration that has ended.
    pub fn refill(&mut self) {
        self.is_dry = false;
    }

    /// Asks the proposer for a variant, and compiles it in the background. `findings` are those about explained variants.
    pub fn propose(&mut self, state: &mut SessionState, findings: Vec<Finding>) -> anyhow::Result<()> {
        let suggestion = self.suggest(state, findings)?;
        self.take(suggestion, state)
    }

    /// Asks the proposer for a variant, which [`Pipeline::take`] compiles.
    pub fn suggest(&mut self, state: &SessionState, findings: Vec<Finding>) -> anyhow::Result<Option<Assessed>> {
        let SessionSetup { workload, families, searched, known, device, .. } = state.setup();
        let context = SearchContext::new(workload, families, searched, known, device);
        let diagnosis = Diagnosis { findings, ..diagnosis::diagnose(state.history(), workload, device) };
        let suggestion = self.proposer.propose(&context, &diagnosis, state.history(), self.queue.len());
        let suggestion = suggestion.map_err(|problem| anyhow::anyhow!("Failed to propose a variant: {problem}"))?;
        suggestion.map(|suggestion| Assessed::of(suggestion, state)).transpose()
    }

    /// Has what the proposer suggested compiled in the background. With nothing to suggest, it waits for a result.
    pub fn take(&mut self, suggestion: Option<Assessed>, state: &mut SessionState) -> anyhow::Result<()> {
        match suggestion {
            Some(assessed) => self.submit_assessed(assessed, state),
            None => {
                self.is_dry = true;
                Ok(())
            }
        }
    }

    /// Has a suggestion rendered and compiled in the background.
    pub fn submit(&mut self, suggestion: Suggestion, state: &mut SessionState) -> anyhow::Result<()> {
        let assessed = Assessed::of(suggestion, state)?;
        self.submit_assessed(assessed, state)
    }

    fn submit_assessed(&mut self, assessed: Assessed, state: &mut SessionState) -> anyhow::Result<()> {
        let Assessed { suggestion, configuration, is_control, without_prospects } = assessed;
        let setup = state.setup();
        let (workload, device) = (&setup.workload, &setup.device);
        let family = setup.family(&suggestion.family)?;
        let first = suggestion.cases.first().context("Failed to find a case for a proposal")?;
        let specialization = family.specialization(first);
        let cases = planning::of_suggestion(family, &suggestion, workload, device, setup.options.measuring.model_flop);
        let family_name = family.name.clone();
        let (family, dtype) = (family.clone(), workload.dtype);
        let (renderer, compiler) = (self.renderer.clone(), self.compiler.clone());
        let is_initial = suggestion.origin.is_initial_design();
        let proposer = self.proposer.name().to_owned();
        let is_compiled = without_prospects.is_none();
        let work = move || {
            let params = &suggestion.params;
            let rendered = rendered(&renderer, &family, &specialization, dtype, params);
            let (variant, artifact) = match without_prospects {
                Some(why) => (rendered.0, Err(NotCompiled::WithoutProspects(why))),
                None => compiled(&compiler, rendered),
            };
            let Suggestion { cases: on, hypothesis, parent, purpose, origin, .. } = suggestion;
            let proposal = Proposal { proposer, variant, cases: on, hypothesis, parent, purpose, origin };
            Compiled { proposal, cases, artifact, is_control }
        };
        let (turns, may_run) = (Arc::clone(&self.turns), Arc::clone(&self.may_run));
        let compilation = tokio::spawn(async move {
            // It is closed only with the session.
            let _turn = if is_compiled { Some(turns.acquire_owned().await) } else { None };
            let _running = if is_compiled { Some(may_run.read_owned().await) } else { None };
            tokio::task::spawn_blocking(work).await
        });
        self.queue.push_back(Compiling { family: family_name, is_initial, is_compiled, compilation });
        state.note_proposed(configuration);
        Ok(())
    }

    /// Renders and compiles a configuration that was not proposed.
    pub async fn compile(
        &self,
        family: &Family,
        specialization: &Dims,
        dtype: Dtype,
        params: &Params,
    ) -> anyhow::Result<Made> {
        let (renderer, compiler) = (self.renderer.clone(), self.compiler.clone());
        let (family, specialization, params) = (family.clone(), specialization.clone(), params.clone());
        let limit = Limit::new("compile.timeout", self.compiler.limits().timeout);
        let _running = activity::begin(format!("compiling {}", family.name), limit);
        let work = move || compiled(&compiler, rendered(&renderer, &family, &specialization, dtype, &params));
        let compiled = tokio::task::spawn_blocking(work);
        compiled.await.context("Failed to compile in the background")
    }

    /// Waits until no compilation is running. None begins until the guard is dropped.
    pub async fn paused(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.may_run).write_owned().await
    }

    /// Says that the oldest proposal is waited for, until the guard is dropped.
    pub fn waiting(&self) -> Option<RunningStep> {
        let oldest = self.queue.front()?;
        let limit = Limit::new("compile.timeout", self.compiler.limits().timeout);
        Some(activity::begin(format!("compiling {}", oldest.family), limit))
    }

    /// Waits for a proposal to be compiled, and returns it: the oldest one, or the oldest that is ready if they may come in
    /// `any_order`. The initial design always comes first. One that is not compiled waits for its turn in any case: otherwise
    /// a session would go through thousands of them while the compilers work. If this future is dropped, the queue stays as it
    /// is.
    pub async fn next(&mut self, any_order: bool) -> anyhow::Result<Option<Compiled>> {
        let is_bound = !any_order || self.queue.front().is_some_and(|oldest| oldest.is_initial);
        let may_be_next = |place: usize, one: &Compiling| place == 0 || (!is_bound && one.is_compiled);
        let waiting = self.queue.iter_mut().enumerate().filter(|(place, one)| may_be_next(*place, one));
        let (places, waiting): (Vec<usize>, Vec<_>) = waiting.map(|(place, one)| (place, &mut one.compilation)).unzip();
        if waiting.is_empty() {
            return Ok(None);
        }
        // It asks them in order, so that the oldest of those that are ready comes first.
        let (compiled, which, _) = futures::future::select_all(waiting).await;
        let compiled = compiled.and_then(|compiled| compiled).context("Failed to compile in the background")?;
        self.queue.remove(places[which]);
        Ok(Some(compiled))
    }
}

/// A suggestion with what is known of it before it is compiled.
pub(super) struct Assessed {
    suggestion: Suggestion,
    configuration: ConfigurationId,
    /// Whether it runs even without prospects.
    is_control: bool,
    /// Why it is not worth compiling.
    without_prospects: Option<String>,
}

impl Assessed {
    fn of(suggestion: Suggestion, state: &SessionState) -> anyhow::Result<Self> {
        let family = state.setup().family(&suggestion.family)?;
        let first = suggestion.cases.first().context("Failed to find a case for a proposal")?;
        let configuration = ConfigurationId::new(&family.name, &family.specialization(first), &suggestion.params);
        let is_control = prospects::is_control(&configuration);
        let without_prospects = if is_control { None } else { prospects::missing(state, &suggestion) };
        Ok(Self { suggestion, configuration, is_control, without_prospects })
    }
}

/// A rendered variant, with what became of its compilation.
type Made = (Variant, Result<Artifact, NotCompiled>);

/// Renders a configuration. A template may fail for some configurations only. Such a variant has no source, and is named by
/// the error.
fn rendered(
    renderer: &Renderer,
    family: &Family,
    specialization: &Dims,
    dtype: Dtype,
    params: &Params,
) -> (Variant, Result<(), String>) {
    match renderer.render(family, specialization, dtype, params) {
        Ok(variant) => (variant, Ok(())),
        Err(log) => {
            let (family, params) = (family.name.clone(), params.clone());
            (Variant { family, params, hash: VariantHash::of(&log), source: String::new() }, Err(log))
        }
    }
}

/// Compiles a rendered variant.
fn compiled(compiler: &Compiler, (variant, rendered): (Variant, Result<(), String>)) -> Made {
    let artifact = match rendered {
        Ok(()) => compiler.compile(&variant),
        Err(log) => Err(CompileError::Rejected { log }),
    };
    (variant, artifact.map_err(NotCompiled::Failed))
}
