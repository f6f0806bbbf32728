//! Keeps the lanes busy while home is at work, where variants may be evaluated in any order.
//!
//! Home works on a copy of the state. Meanwhile, the session proposes, hands compiled variants to lanes and concludes what they have
//! screened. Only home compares, so none of that changes what home has begun.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::domain::budget::phase::StepTimes;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::record::journal::Begun;
use crate::session::Session;
use crate::session::decide::{ForLanes, for_lanes};
use crate::session::evaluator::Evaluated;
use crate::session::iteration::Screening;
use crate::session::lanes::{Back, Underway};
use crate::session::pipeline::Assessed;
use crate::session::pipeline::kernel_cache::Kernel;

impl Session<'_> {
    /// Tells whether lanes are fed while home is at work. Otherwise, all devices work in rounds.
    pub(in crate::session) fn feeds_lanes(&self) -> bool {
        !self.lanes.are_none() && self.state.setup().takes_any_order()
    }

    /// Does with a variant what only home does, and feeds the lanes meanwhile.
    ///
    /// Home's work has a thread of its own: a comparison is many short steps, and would otherwise stand still during each draw of the
    /// proposer.
    pub(in crate::session) async fn at_home_beside_lanes(
        &mut self,
        (begun, assessed): (&Arc<Begun>, &Arc<Assessed>),
        screening: Screening,
        others_wait: bool,
    ) -> anyhow::Result<Option<Evaluated>> {
        let at_home = self.at_home_now(others_wait);
        let (evaluator, state, mut cache) = (Arc::clone(&self.evaluator), self.state.clone(), self.cache.clone());
        let (begun, assessed) = (Arc::clone(begun), Arc::clone(assessed));
        let deadline = self.deadline.clone();
        let (_awaited, dropped) = oneshot::channel::<Infallible>();
        let runtime = Handle::current();
        let home = tokio::task::spawn_blocking(move || {
            runtime.block_on(async {
                let mut evaluator = evaluator.lock().await;
                let work = at_home.work(&mut evaluator, (&state, &mut cache), (&begun, &assessed), screening);
                tokio::select! {
                    done = deadline.within(work) => done.transpose(),
                    _ = dropped => Ok(None),
                }
            })
        });
        self.beside(home).await?.context("Failed to do what home does")?
    }

    /// Feeds the lanes until home's work is done.
    async fn beside<T>(&mut self, home: impl Future<Output = T>) -> anyhow::Result<T> {
        let mut home = pin!(home);
        loop {
            if let Some(done) = home.as_mut().now_or_never() {
                return Ok(done);
            }
            if self.feed().await? {
                continue;
            }
            let is_idle = self.lanes.idle() > 0 && !self.pipeline.has_ready();
            tokio::select! {
                biased;
                done = &mut home => return Ok(done),
                back = self.lanes.next(), if self.lanes.busy() > 0 => {
                    if let Some(back) = back? {
                        self.take_back(back).await?;
                    }
                }
                ready = self.pipeline.make_ready(&self.state, true), if is_idle && self.pipeline.under_way().proposals > 0 => {
                    ready?;
                }
            }
        }
    }

    /// Concludes what has come back from lanes. Nothing is under way on home.
    pub(in crate::session) async fn take_back_all(&mut self) -> anyhow::Result<()> {
        self.tell_lost_devices();
        self.screen_again().await?;
        // In rounds, the same devices take part from beginning to end.
        if self.state.setup().takes_any_order() {
            self.lanes.take_arrivals();
        }
        if !self.feeds_lanes() {
            return Ok(());
        }
        while self.take_back_one().await? {}
        while let Some(back) = self.lanes.take_waiting() {
            self.conclude_on_lane(back).await?;
        }
        Ok(())
    }

    /// Gives lanes what is compiled, before home does something else in the search.
    pub(in crate::session) async fn hand_over_all(&mut self) -> anyhow::Result<()> {
        if self.feeds_lanes() {
            while let ForLanes::Screen { within } = self.for_lanes()
                && self.hand_over_ready(within).await?
            {}
        }
        Ok(())
    }

    /// Waits until a lane has screened its variant, as long as the session may.
    pub(in crate::session) async fn await_lane(&mut self) -> anyhow::Result<()> {
        let Some(back) = self.deadline.clone().within(self.lanes.next()).await else {
            self.tell_given_up("screening on other devices");
            self.lanes.abandon();
            return Ok(());
        };
        match back? {
            Some(back) => self.take_back(back).await,
            None => Ok(()),
        }
    }

    /// Does one thing for the lanes: a draw of the proposer comes last, because it takes the longest. Returns whether there may be more
    /// to do.
    async fn feed(&mut self) -> anyhow::Result<bool> {
        self.lanes.take_arrivals();
        let next = self.for_lanes();
        if let ForLanes::Screen { within } = next
            && self.hand_over_ready(within).await?
        {
            return Ok(true);
        }
        if self.take_back_one().await? {
            return Ok(true);
        }
        if next != ForLanes::Propose {
            return Ok(false);
        }
        self.propose()?;
        // All suggestions may be left out, so others need a turn.
        tokio::task::yield_now().await;
        Ok(true)
    }

    /// Takes a result, if a lane has one. Returns whether it had.
    async fn take_back_one(&mut self) -> anyhow::Result<bool> {
        if self.lanes.busy() == 0 {
            return Ok(false);
        }
        let back = self.lanes.next().now_or_never().transpose()?.flatten();
        match back {
            Some(back) => self.take_back(back).await.map(|()| true),
            None => Ok(false),
        }
    }

    fn for_lanes(&self) -> ForLanes {
        for_lanes(&self.state, &self.inputs(), self.lanes.idle())
    }

    /// Hands the next compiled variant to a lane. Returns false if only home may evaluate it.
    async fn hand_over_ready(&mut self, within: Duration) -> anyhow::Result<bool> {
        let ready = self.pipeline.next(&self.state, true).now_or_never().transpose()?.flatten();
        let Some(next) = ready else { return Ok(false) };
        if !self.is_for_lanes(&next) {
            self.pipeline.put_back(next);
            return Ok(false);
        }
        self.pipeline.note_evaluation();
        self.hand_over(next, within).await.map(|()| true)
    }

    /// Takes a result while home is at work. What needs home waits.
    pub(in crate::session) async fn take_back(&mut self, back: Back) -> anyhow::Result<()> {
        self.tell_lost_devices();
        match back {
            Back::Screened(underway, evaluation, lane) if !self.needs_home(&underway, &evaluation) => {
                let Underway { begun, assessed: Assessed { compiled, .. } } = *underway;
                self.shared.duplicates.note(begun.iteration, &compiled, &evaluation);
                let (steps, kernel) = (StepTimes::default(), Kernel::of(&compiled));
                let evaluated = Evaluated { evaluation, steps, disqualified: Vec::new(), kernel, lane };
                self.conclude(&begun, &compiled, evaluated).await
            }
            back => {
                self.lanes.wait(back);
                Ok(())
            }
        }
    }

    /// Tells whether more follows a screening run, which only home does: it finds out why an output is wrong, and takes first looks.
    fn needs_home(&self, Underway { assessed, .. }: &Underway, evaluation: &Evaluation) -> bool {
        let is_known = self.shared.passed.has(&assessed.compiled.proposal.variant.family);
        evaluation.outcome.is_wrong_result() || (evaluation.outcome == Outcome::Measured && !is_known)
    }
}
