//! One iteration: waits for a compiled variant, has it evaluated, and suggests the next one meanwhile.

use std::time::{Duration, Instant};

use super::Session;
use super::decide::{Moment, confirming, may_suggest_meanwhile};
use super::pipeline::Compiled;
use crate::domain::device::TimeSource;
use crate::domain::evaluation::Evaluation;
use crate::runner::activity;

/// How long a request takes to reach the worker. An evaluation takes several times as long.
const SENDING: Duration = Duration::from_millis(1);

impl Session<'_> {
    /// Waits for a proposal to be compiled. With a number of iterations, it is the oldest one, so that the same seed tries the
    /// same variants; where times are modelled or recorded, too. Returns None if the user stops the session first, or the
    /// budget is spent.
    pub(super) async fn next_compiled(&mut self, within: Duration) -> anyhow::Result<Option<Compiled>> {
        let mut interrupt = self.interrupt.clone();
        let _waiting = self.pipeline.waiting();
        let begun = Instant::now();
        let setup = self.state.setup();
        let any_order = setup.samples_times() && setup.options.budget.max_iterations.is_none();
        let compiled = tokio::select! {
            compiled = self.pipeline.next(any_order) => compiled,
            () = interrupt.reached(1) => Ok(None),
            () = tokio::time::sleep(within) => Ok(None),
        };
        self.evaluator.steps.waiting_s += begun.elapsed().as_secs_f64();
        compiled
    }

    /// Evaluates a variant and concludes the iteration. A request to stop at once ends it earlier, and so does the hard
    /// end of the session's time.
    pub(super) async fn iterate(&mut self, mut compiled: Compiled) -> anyhow::Result<()> {
        compiled.predict_again(&self.state);
        let begun = self.begin(&compiled).await?;
        let _running = activity::begin(format!("iteration {}", begun.iteration), None);
        let left = self.state.meter().left(&self.state.setup().options.budget, &self.time(), self.state.closing_time());
        let is_due = may_suggest_meanwhile(&self.state, &self.moment());
        let baselines = self.baselines();
        let (evaluated, suggested) = {
            let (state, shelf, interrupt) = (&self.state, &mut self.shelf, &self.interrupt);
            let (pipeline, findings) = (&mut self.pipeline, self.explanations.findings());
            let clock = self.clock;
            let confirming = || {
                let (time, interrupts) = (clock.time(), interrupt.count());
                confirming(state, &Moment { time, interrupts, baselines, ..Moment::default() })
            };
            let evaluate = self.evaluator.evaluate(state, shelf, begun.iteration, &compiled, left, confirming);
            let suggest = async {
                // Until then, the request is on its way to the worker.
                tokio::time::sleep(SENDING).await;
                pipeline.suggest(state, findings)
            };
            let suggest = async { if is_due { Some(suggest.await) } else { None } };
            tokio::join!(biased; self.deadline.within(evaluate), suggest)
        };
        if let Some(suggested) = suggested {
            self.pipeline.take(suggested?, &mut self.state)?;
        }
        let evaluated = evaluated.transpose()?;
        match evaluated.filter(|evaluated| self.replay(&evaluated.evaluation)) {
            Some(evaluated) => self.conclude(&begun, &compiled, evaluated).await,
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
