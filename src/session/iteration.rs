//! One iteration: waits for a compiled variant, has it evaluated, and prepares the next ones meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{Either, select};

use super::Session;
use super::clients::requests::{Requests, answering};
use super::clients::view::View;
use super::clock::Clock;
use super::decide::{Baselines, Confirming, LoopInputs, MOST_LEFT_OUT, confirming, room_meanwhile};
use super::evaluator::{Evaluated, Evaluator};
use super::event::Interrupt;
use super::pipeline::kernel_cache::KernelCache;
use super::pipeline::suggestions::{self, SuggestionBatch};
use super::pipeline::{Assessed, Pipeline};
use super::state::SessionState;
use crate::domain::device::TimeSource;
use crate::domain::measurement::evaluation::Evaluation;
use crate::domain::proposal::finding::Finding;
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::journal::Begun;
use crate::runner::activity;

/// How long a request takes to reach the worker. An evaluation takes several times as long.
const SENDING: Duration = Duration::from_millis(1);

impl Session<'_> {
    /// Waits for a proposal to be compiled. With a number of iterations, it is the oldest one, so that the same seed tries the
    /// same variants; where times are modelled or recorded, too. Returns None if the user stops the session first, or the
    /// budget is spent.
    pub(super) async fn next_compiled(&mut self, within: Duration) -> anyhow::Result<Option<Assessed>> {
        let mut interrupt = self.deadline.interrupt();
        let _waiting = self.pipeline.waiting();
        let begun = Instant::now();
        let any_order = self.state.setup().takes_any_order();
        let view = View::of(
            self.requests.as_ref().map(Requests::tuned),
            (&self.state, &self.store, self.id),
            &self.cache,
            &self.explanations,
            self.clock,
        );
        let mut back = None;
        let next = tokio::select! {
            never = answering(self.requests.as_mut(), view.as_ref()) => match never {},
            next = self.pipeline.next(&self.state, any_order) => next,
            // What is next is decided again, once the result is known.
            ended = self.lanes.next(), if self.lanes.busy() > 0 && any_order => ended.map(|ended| {
                back = ended;
                None
            }),
            () = interrupt.reached(1) => Ok(None),
            () = tokio::time::sleep(within) => Ok(None),
        };
        self.evaluator.lock().await.steps.waiting_s += begun.elapsed().as_secs_f64();
        drop(view);
        if let Some(back) = back {
            self.take_back(back).await?;
        }
        next
    }

    /// Evaluates a variant and concludes the iteration. A request to stop at once ends it earlier, and so does the hard
    /// end of the session's time.
    pub(super) async fn iterate(&mut self, assessed: Assessed) -> anyhow::Result<()> {
        let (begun, assessed) = (Arc::new(self.begin(&assessed.compiled).await?), Arc::new(assessed));
        let _running = activity::begin(format!("iteration {}", begun.iteration), None);
        // Where comparisons are dear, a committed winner is compared at once only if nothing else of the initial design is left.
        let others_wait = begun.rationale.purpose != Purpose::Confirmation
            && self.pipeline.under_way().initial > 0
            && self.state.confirmations_are_dear();
        self.pipeline.note_evaluation();
        let of = (&begun, &assessed);
        let evaluated = match self.feeds_lanes() {
            true => Box::pin(self.at_home_beside_lanes(of, Screening::Due, others_wait)).await?,
            false => self.at_home_and_prepare((&begun, &assessed), others_wait).await?,
        };
        self.conclude_round().await?;
        match evaluated.filter(|evaluated| self.replay(&evaluated.evaluation)) {
            Some(evaluated) => self.conclude(&begun, &assessed.compiled, evaluated).await,
            None => {
                self.tell_given_up(&format!("iteration {}", begun.iteration));
                Ok(())
            }
        }
    }

    /// Evaluates a variant, and prepares the next ones meanwhile.
    async fn at_home_and_prepare(
        &mut self,
        of: (&Begun, &Assessed),
        others_wait: bool,
    ) -> anyhow::Result<Option<Evaluated>> {
        let at_home = self.at_home_now(others_wait);
        let room = room_meanwhile(&self.state, &self.inputs());
        let mut batch = SuggestionBatch::default();
        let view = View::of(
            self.requests.as_ref().map(Requests::tuned),
            (&self.state, &self.store, self.id),
            &self.cache,
            &self.explanations,
            self.clock,
        );
        let (evaluated, prepared) = {
            let (state, cache) = (&self.state, &mut self.cache);
            let (pipeline, findings) = (&mut self.pipeline, self.explanations.findings());
            let mut evaluator = self.evaluator.lock().await;
            let evaluate = at_home.work(&mut evaluator, (state, cache), of, Screening::Due);
            let prepare = prepare(pipeline, state, findings, room, &mut batch);
            tokio::select! {
                never = answering(self.requests.as_mut(), view.as_ref()) => match never {},
                done = beside(self.deadline.within(evaluate), prepare, state.setup().takes_any_order()) => done,
            }
        };
        prepared?;
        for drawn in batch.into_drawn() {
            self.pipeline.take(drawn, &mut self.state)?;
        }
        evaluated.transpose()
    }

    /// Returns the conditions of home's work, as they are now. `others_wait` if the rest of the initial design comes before a
    /// confirmation.
    pub(super) fn at_home_now(&self, others_wait: bool) -> AtHome {
        let options = &self.state.setup().options;
        AtHome {
            left: self.state.meter().left(&options.budget, &self.time(), self.state.closing_time()),
            baselines: self.baselines(),
            others_wait,
            interrupt: self.deadline.interrupt(),
            clock: self.clock,
        }
    }

    /// Advances the clock by the time that a recorded evaluation took. Returns whether the evaluation ends before the session
    /// has to. On any other device, its time has passed already.
    fn replay(&mut self, evaluation: &Evaluation) -> bool {
        if self.state.setup().device.time_source() != TimeSource::Recorded {
            return true;
        }
        let takes = Duration::try_from_secs_f64(evaluation.device_s).unwrap_or(Duration::MAX);
        let passes = takes.min(self.deadline.left());
        self.clock.replay(passes);
        self.deadline.bring_forward(passes);
        passes == takes
    }
}

/// How far the screening of a variant is that home takes on.
pub(super) enum Screening {
    /// Home has to screen it.
    Due,
    /// A lane has screened it.
    Done(Evaluation),
}

/// The conditions under which home evaluates a variant.
pub(super) struct AtHome {
    /// The time that is left.
    left: Duration,
    baselines: Baselines,
    /// Whether the rest of the initial design comes before a confirmation.
    others_wait: bool,
    interrupt: Interrupt,
    clock: Clock,
}

impl AtHome {
    /// Evaluates a variant, with what follows its screening.
    pub async fn work(
        &self,
        evaluator: &mut Evaluator,
        (state, cache): (&SessionState, &mut KernelCache),
        (begun, assessed): (&Begun, &Assessed),
        screening: Screening,
    ) -> anyhow::Result<Evaluated> {
        let confirming = || {
            if self.others_wait {
                return Confirming::No;
            }
            let (time, interrupts) = (self.clock.time(), self.interrupt.count());
            confirming(state, &LoopInputs { time, interrupts, baselines: self.baselines, ..LoopInputs::default() })
        };
        let iteration = begun.iteration;
        match screening {
            Screening::Due => evaluator.evaluate(state, cache, iteration, assessed, self.left, confirming).await,
            Screening::Done(evaluation) => {
                evaluator.finish(state, cache, (iteration, &assessed.compiled), evaluation, confirming).await
            }
        }
    }
}

/// SuggestionBatch and assesses what comes next, while the device evaluates a variant. Where variants are evaluated in order, it does
/// the same however long that takes.
async fn prepare(
    pipeline: &mut Pipeline,
    state: &SessionState,
    findings: Vec<Finding>,
    room: usize,
    batch: &mut SuggestionBatch,
) -> anyhow::Result<()> {
    let diagnosis = suggestions::diagnosis(state, findings);
    if !state.setup().takes_any_order() {
        return batch.fill((room, MOST_LEFT_OUT), |batch| pipeline.draw(state, &diagnosis, batch)).await;
    }
    // Until then, the request is on its way to the worker.
    tokio::time::sleep(SENDING).await;
    pipeline.make_ready(state, true).now_or_never().transpose()?;
    batch.fill((room, usize::MAX), |batch| pipeline.draw(state, &diagnosis, batch)).await?;
    pipeline.make_ready(state, true).await
}

/// Evaluates and prepares at once. Where variants come in any order, what is not prepared by the end of the evaluation is left.
async fn beside<E>(
    evaluate: impl Future<Output = E>,
    prepare: impl Future<Output = anyhow::Result<()>>,
    any_order: bool,
) -> (E, anyhow::Result<()>) {
    let (evaluate, prepare) = (pin!(evaluate), pin!(prepare));
    match select(evaluate, prepare).await {
        Either::Left((evaluated, _)) if any_order => (evaluated, Ok(())),
        Either::Left((evaluated, prepare)) => (evaluated, prepare.await),
        Either::Right((prepared, evaluate)) => (evaluate.await, prepared),
    }
}
