//! Turns suggestions into compiled variants. Rendering and compilation run in the background. Compilations begin in the order
//! of the suggestions.
//!
//! The queue is longer than the number of compilations at once. Behind a slow one, others may wait finished, and would
//! otherwise leave their cores idle.

pub(super) mod duplicates;
pub(super) mod kernel_cache;
mod prospects;
pub(super) mod suggestions;

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, Semaphore};
use tokio::task::{JoinError, JoinHandle};

use super::decide::UnderWay;

use self::suggestions::{Admitted, Drawn, SuggestionBatch};
use super::setup::SessionSetup;
use super::state::SessionState;
use crate::agent::diagnosis::Diagnosis;
use crate::agent::prediction::Built;
use crate::agent::{Proposer, SearchContext, claims};
use crate::domain::code::CodeFigures;
use crate::domain::code::artifact::Artifact;
use crate::domain::family::Family;
use crate::domain::history::Pending;
use crate::domain::op::{Dims, Dtype};
use crate::domain::proposal::finding::Finding;
use crate::domain::proposal::{Proposal, Suggestion};
use crate::domain::variant::{Params, Variant, VariantHash};
use crate::error::Error;
use crate::runner::activity::{self, Limit, RunningStep};
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::messages::CaseRequest;
use crate::runner::planning;
use crate::runner::renderer::Renderer;

/// A proposal on its way to the device.
pub(super) struct Compiled {
    pub proposal: Proposal,
    /// What to ask of the device, or the reason why the launch plan cannot be filled in.
    pub cases: Result<Vec<CaseRequest>, Error>,
    pub artifact: Result<Artifact, CompileError>,
    /// Whether it runs even without prospects.
    pub is_control: bool,
}

/// A compiled proposal, with what is expected of it now that its code is known.
pub(super) struct Assessed {
    pub compiled: Compiled,
    /// Why it is not worth the device's time, if it is not.
    pub without_prospects: Option<String>,
}

impl Assessed {
    /// Predicts again what a compiled variant does.
    pub fn of(mut compiled: Compiled, state: &SessionState) -> Self {
        compiled.predict_again(state);
        let without_prospects = compiled.without_prospects(state);
        Self { compiled, without_prospects }
    }
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
    fn predict_again(&mut self, state: &SessionState) {
        let (Ok(_), Ok(cases)) = (&self.artifact, &self.cases) else { return };
        let asked = cases.iter().find(|request| request.case.name == self.proposal.rationale.hypothesis.case);
        let built = self.code().zip(asked).map(|(code, request)| Built::of(code, &request.plan));
        claims::predict_again(state.history(), &state.setup().families, &mut self.proposal, built);
    }
}

/// A proposal whose variant is being compiled.
struct Compiling {
    family: String,
    is_initial: bool,
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
    /// Variants that are screened again.
    again: VecDeque<Compiled>,
    /// The next proposal for the device, if it was assessed ahead.
    ready: Option<Assessed>,
    is_dry: bool,
    /// Suggestions without prospects since the last evaluation began.
    left_out: usize,
    /// Those since the last record.
    unrecorded: u64,
}

impl Pipeline {
    /// Makes an empty queue. `parallel` is the number of compilations at once.
    pub fn new(proposer: Box<dyn Proposer>, renderer: Renderer, compiler: Compiler, parallel: usize) -> Self {
        let (turns, may_run) = (Arc::new(Semaphore::new(parallel)), Arc::default());
        Self {
            proposer,
            renderer,
            compiler,
            turns,
            may_run,
            queue: VecDeque::new(),
            again: VecDeque::new(),
            ready: None,
            is_dry: false,
            left_out: 0,
            unrecorded: 0,
        }
    }

    /// Returns the proposer's name.
    pub fn proposer(&self) -> &'static str {
        self.proposer.name()
    }

    /// Returns what is under way.
    pub fn under_way(&self) -> UnderWay {
        let is_ready_initial =
            self.ready.as_ref().is_some_and(|ready| ready.compiled.proposal.rationale.origin.is_initial_design());
        let initial = self.queue.iter().filter(|one| one.is_initial).count() + usize::from(is_ready_initial);
        let proposals = self.queue.len() + self.again.len() + usize::from(self.ready.is_some());
        let is_compiled = self.queue.iter().any(|one| one.compilation.is_finished());
        UnderWay {
            proposals,
            initial,
            is_dry: self.is_dry,
            left_out: self.left_out,
            is_ready: self.ready.is_some() || !self.again.is_empty() || is_compiled,
        }
    }

    /// Has the proposer asked again. It may have learnt from an iteration that has ended.
    pub fn refill(&mut self) {
        self.is_dry = false;
    }

    /// Takes note of an evaluation that begins.
    pub fn note_evaluation(&mut self) {
        self.left_out = 0;
    }

    /// Returns the number of suggestions that were left out since this was last asked.
    pub fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.unrecorded)
    }

    /// Asks the proposer for a variant, and compiles it in the background if it has prospects. `findings` are those about
    /// explained variants.
    pub fn propose(&mut self, state: &mut SessionState, findings: Vec<Finding>) -> anyhow::Result<()> {
        let drawn = self.draw(state, &suggestions::diagnosis(state, findings), &SuggestionBatch::default())?;
        self.take(drawn, state)
    }

    /// Asks the proposer for a variant, in addition to what was drawn before. [`Pipeline::take`] compiles it.
    pub fn draw(
        &mut self,
        state: &SessionState,
        diagnosis: &Diagnosis,
        before: &SuggestionBatch,
    ) -> anyhow::Result<Drawn> {
        let SessionSetup { workload, families, searched, known, device, .. } = state.setup();
        let context = SearchContext::new(workload, families, searched, known, device);
        let context = context.with_drawn(before.configurations());
        // Those on other devices have no results yet, either.
        let elsewhere = state.in_flight().saturating_sub(1) as usize;
        let under_way = self.under_way().proposals + before.admitted() + elsewhere;
        let suggestion = self.proposer.propose(&context, diagnosis, state.history(), under_way);
        let suggestion = suggestion.map_err(|problem| anyhow::anyhow!("Failed to propose a variant: {problem}"))?;
        suggestion.map_or(Ok(Drawn::Nothing), |suggestion| Drawn::of(suggestion, state))
    }

    /// Has what was drawn compiled in the background, if it has prospects. With nothing to suggest, the proposer waits for a
    /// result.
    pub fn take(&mut self, drawn: Drawn, state: &mut SessionState) -> anyhow::Result<()> {
        match drawn {
            Drawn::Admitted(admitted) => self.submit_admitted(*admitted, state),
            Drawn::Pruned(configuration, attempt) => {
                self.left_out += 1;
                self.unrecorded += 1;
                state.note_left_out(configuration, attempt);
                Ok(())
            }
            Drawn::Nothing => {
                self.is_dry = true;
                Ok(())
            }
        }
    }

    /// Has a suggestion rendered and compiled in the background, whatever its prospects are.
    pub fn submit(&mut self, suggestion: Suggestion, state: &mut SessionState) -> anyhow::Result<()> {
        let admitted = Admitted::of(suggestion, state)?;
        self.submit_admitted(admitted, state)
    }

    fn submit_admitted(&mut self, admitted: Admitted, state: &mut SessionState) -> anyhow::Result<()> {
        let Admitted { suggestion, configuration } = admitted;
        let setup = state.setup();
        let (workload, device) = (&setup.workload, &setup.device);
        let family = setup.family(&suggestion.family)?;
        let first = suggestion.cases.first().context("Failed to find a case for a proposal")?;
        let specialization = family.specialization(first);
        let cases = planning::of_suggestion(family, &suggestion, workload, device, setup.options.measuring.model_flop);
        let family_name = family.name.clone();
        let pending = Pending {
            family: family_name.clone(),
            params: suggestion.params.clone(),
            cases: suggestion.cases.iter().map(|case| case.name.clone()).collect(),
        };
        let (family, dtype) = (family.clone(), workload.dtype);
        let (renderer, compiler) = (self.renderer.clone(), self.compiler.clone());
        let is_initial = suggestion.rationale.origin.is_initial_design();
        let is_control = prospects::is_control(&configuration);
        let proposer = self.proposer.name().to_owned();
        let work = move || {
            let (variant, artifact) =
                compiled(&compiler, rendered(&renderer, &family, &specialization, dtype, &suggestion.params));
            let Suggestion { cases: on, rationale, .. } = suggestion;
            let proposal = Proposal { proposer, variant, cases: on, rationale };
            Compiled { proposal, cases, artifact, is_control }
        };
        let (turns, may_run) = (Arc::clone(&self.turns), Arc::clone(&self.may_run));
        let compilation = tokio::spawn(async move {
            // It is closed only with the session.
            let _turn = turns.acquire_owned().await;
            let _running = may_run.read_owned().await;
            tokio::task::spawn_blocking(work).await
        });
        self.queue.push_back(Compiling { family: family_name, is_initial, compilation });
        state.note_proposed(configuration);
        state.note_pending(pending);
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
    /// `any_order`. The initial design always comes first. If this future is dropped, nothing is lost.
    pub async fn next(&mut self, state: &SessionState, any_order: bool) -> anyhow::Result<Option<Assessed>> {
        self.make_ready(state, any_order).await?;
        Ok(self.ready.take())
    }

    /// Tells whether a compiled proposal was assessed ahead.
    pub fn has_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Puts back the proposal that [`Self::next`] has returned.
    pub fn put_back(&mut self, next: Assessed) {
        self.ready = Some(next);
    }

    /// Waits for a proposal to be compiled, and assesses it.
    pub async fn make_ready(&mut self, state: &SessionState, any_order: bool) -> anyhow::Result<()> {
        if self.ready.is_none() {
            let compiled = self.next_compiled(any_order).await?;
            self.ready = compiled.map(|compiled| Assessed::of(compiled, state));
        }
        Ok(())
    }

    /// Takes a variant that has to be screened again. It comes before the proposals.
    pub fn screen_again(&mut self, compiled: Compiled) {
        self.again.push_back(compiled);
    }

    async fn next_compiled(&mut self, any_order: bool) -> anyhow::Result<Option<Compiled>> {
        if let Some(again) = self.again.pop_front() {
            return Ok(Some(again));
        }
        let is_bound = !any_order || self.queue.front().is_some_and(|oldest| oldest.is_initial);
        let may_be_next = if is_bound { 1 } else { self.queue.len() };
        let waiting: Vec<_> = self.queue.iter_mut().take(may_be_next).map(|one| &mut one.compilation).collect();
        if waiting.is_empty() {
            return Ok(None);
        }
        // It asks them in order, so that the oldest of those that are ready comes first.
        let (compiled, place, _) = futures::future::select_all(waiting).await;
        let compiled = compiled.and_then(|compiled| compiled).context("Failed to compile in the background")?;
        self.queue.remove(place);
        Ok(Some(compiled))
    }
}

/// A rendered variant, with what became of its compilation.
type Made = (Variant, Result<Artifact, CompileError>);

/// Renders a configuration. A template may fail for some configurations only. Such a variant has no source, and is named by
/// the error.
fn rendered(
    renderer: &Renderer,
    family: &Family,
    specialization: &Dims,
    dtype: Dtype,
    params: &Params,
) -> (Variant, Result<(), Error>) {
    match renderer.render(family, specialization, dtype, params) {
        Ok(variant) => (variant, Ok(())),
        Err(log) => {
            let (family, params) = (family.name.clone(), params.clone());
            (Variant { family, params, hash: VariantHash::of(&log.to_string()), source: String::new() }, Err(log))
        }
    }
}

/// Compiles a rendered variant.
fn compiled(compiler: &Compiler, (variant, rendered): (Variant, Result<(), Error>)) -> Made {
    let artifact = match rendered {
        Ok(()) => compiler.compile(&variant),
        Err(log) => Err(CompileError::Rejected { log: log.to_string() }),
    };
    (variant, artifact)
}
