//! One iteration: waits for a compiled variant, has it evaluated, and prepares the next ones meanwhile.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{Either, select};

use super::Session;
use super::decide::{Confirming, MOST_LEFT_OUT, Moment, confirming, room_meanwhile};
use super::draws::{self, Draws};
use super::pipeline::{Assessed, Pipeline};
use super::requests::{Requests, answering};
use super::state::SessionState;
use super::view::View;
use crate::domain::device::TimeSource;
use crate::domain::evaluation::Evaluation;
use crate::domain::finding::Finding;
use crate::domain::origin::Purpose;
use crate::runner::activity;

/// How long a request takes to reach the worker. An evaluation takes several times as long.
const SENDING: Duration = Duration::from_millis(1);

impl Session<'_> {
    /// Waits for a proposal to be compiled. With a number of iterations, it is the oldest one, so that the same seed tries the
    /// same variants; where times are modelled or recorded, too. Returns None if the user stops the session first, or the
    /// budget is spent.
    pub(super) async fn next_compiled(&mut self, within: Duration) -> anyhow::Result<Option<Assessed>> {
        let mut interrupt = self.interrupt.clone();
        let _waiting = self.pipeline.waiting();
        let begun = Instant::now();
        let any_order = self.state.setup().takes_any_order();
        let view = View::of(
            self.requests.as_ref().map(Requests::tuned),
            (&self.state, &self.store, self.id),
            &self.shelf,
            &self.explanations,
            self.clock,
        );
        let next = tokio::select! {
            never = answering(self.requests.as_mut(), view.as_ref()) => match never {},
            next = self.pipeline.next(&self.state, any_order) => next,
            () = interrupt.reached(1) => Ok(None),
            () = tokio::time::sleep(within) => Ok(None),
        };
        self.evaluator.steps.waiting_s += begun.elapsed().as_secs_f64();
        next
    }

    /// Evaluates a variant and concludes the iteration. A request to stop at once ends it earlier, and so does the hard
    /// end of the session's time.
    pub(super) async fn iterate(&mut self, assessed: Assessed) -> anyhow::Result<()> {
        let begun = self.begin(&assessed.compiled).await?;
        let _running = activity::begin(format!("iteration {}", begun.iteration), None);
        let left = self.state.meter().left(&self.state.setup().options.budget, &self.time(), self.state.closing_time());
        let room = room_meanwhile(&self.state, &self.moment());
        let baselines = self.baselines();
        // Where comparisons are dear, a committed winner is compared at once only if nothing else of the initial design is left.
        let others_wait = begun.purpose != Purpose::Confirmation
            && self.pipeline.under_way().initial > 0
            && self.state.confirmations_are_dear();
        let mut draws = Draws::default();
        self.pipeline.note_evaluation();
        let view = View::of(
            self.requests.as_ref().map(Requests::tuned),
            (&self.state, &self.store, self.id),
            &self.shelf,
            &self.explanations,
            self.clock,
        );
        let (evaluated, prepared) = {
            let (state, shelf, interrupt) = (&self.state, &mut self.shelf, &self.interrupt);
            let (pipeline, findings) = (&mut self.pipeline, self.explanations.findings());
            let clock = self.clock;
            let confirming = || {
                if others_wait {
                    return Confirming::No;
                }
                let (time, interrupts) = (clock.time(), interrupt.count());
                confirming(state, &Moment { time, interrupts, baselines, ..Moment::default() })
            };
            let evaluate = self.evaluator.evaluate(state, shelf, begun.iteration, &assessed, left, confirming);
            let prepare = prepare(pipeline, state, findings, room, &mut draws);
            tokio::select! {
                never = answering(self.requests.as_mut(), view.as_ref()) => match never {},
                done = beside(self.deadline.within(evaluate), prepare, state.setup().takes_any_order()) => done,
            }
        };
        prepared?;
        for drawn in draws.into_drawn() {
            self.pipeline.take(drawn, &mut self.state)?;
        }
        let evaluated = evaluated.transpose()?;
        self.conclude_round().await?;
        match evaluated.filter(|evaluated| self.replay(&evaluated.evaluation)) {
            Some(evaluated) => self.conclude(&begun, &assessed.compiled, evaluated).await,
            None => {
                self.tell_given_up(&format!("iteration {}", begun.iteration));
                Ok(())
            }
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

/// Draws and assesses what comes next, while the device evaluates a variant. Where variants are evaluated in order, it does
/// the same however long that takes.
async fn prepare(
    pipeline: &mut Pipeline,
    state: &SessionState,
    findings: Vec<Finding>,
    room: usize,
    draws: &mut Draws,
) -> anyhow::Result<()> {
    let diagnosis = draws::diagnosis(state, findings);
    if !state.setup().takes_any_order() {
        return draws.fill((room, MOST_LEFT_OUT), |draws| pipeline.draw(state, &diagnosis, draws)).await;
    }
    // Until then, the request is on its way to the worker.
    tokio::time::sleep(SENDING).await;
    pipeline.make_ready(state, true).now_or_never().transpose()?;
    draws.fill((room, usize::MAX), |draws| pipeline.draw(state, &diagnosis, draws)).await?;
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
