//! Screens variants on several devices at once.
//!
//! Where variants are evaluated in the order of the proposals, a session with several devices works in rounds. Each takes the next
//! proposals in order, one for each device, and concludes them in order. So the same seed still tries the same variants.

use std::sync::Arc;
use std::time::Duration;

use super::home_times::{Job, Reference};
use crate::domain::claims::hypothesis::{Hypothesis, Reference as Beside};
use crate::domain::proposal::origin::Purpose;
use crate::domain::proposal::{Proposal, Rationale};
use crate::runner::messages::{CaseRequest, EvaluateRequest};
use crate::session::Session;
use crate::session::decide::iterations_left;
use crate::session::evaluator::Evaluated;
use crate::session::evaluator::screening::{self, Prepared};
use crate::session::event::Event;
use crate::session::iteration::Screening;
use crate::session::lanes::{Back, LostLane, Underway};
use crate::session::pipeline::{Assessed, Compiled};

impl Session<'_> {
    /// Evaluates the next proposals, one on each device.
    pub(in crate::session) async fn next_round(&mut self, within: Duration) -> anyhow::Result<()> {
        if self.feeds_lanes() {
            return match self.next_compiled(within).await? {
                Some(next) => self.iterate(next).await,
                None => Ok(()),
            };
        }
        let mut round = Vec::new();
        let most = iterations_left(&self.state).min(1 + self.lanes.idle() as u64);
        while (round.len() as u64) < most
            && (round.is_empty() || self.pipeline.under_way().proposals > 0)
            && let Some(next) = self.next_compiled(within).await?
        {
            let is_alone = !self.is_for_lanes(&next);
            if is_alone && !round.is_empty() {
                self.pipeline.put_back(next);
                break;
            }
            round.push(next);
            if is_alone {
                break;
            }
        }
        let Some(last) = round.pop() else { return Ok(()) };
        for assessed in round {
            self.hand_over(assessed, within).await?;
        }
        self.iterate(last).await
    }

    /// Tells whether a device that is not home may screen a variant: it is not to be confirmed at once, and each of its cases has an
    /// incumbent to which its times are compared.
    pub(super) fn is_for_lanes(&self, Assessed { compiled, .. }: &Assessed) -> bool {
        let has_incumbent = |case: &str| match self.state.setup().samples_times() {
            true => self.state.incumbent(case).is_some(),
            false => self.state.history().incumbents.contains_key(case),
        };
        compiled.proposal.rationale.purpose == Purpose::Screening
            && compiled.proposal.cases.iter().all(|case| has_incumbent(&case.name))
    }

    /// Begins an iteration on a lane.
    pub(super) async fn hand_over(&mut self, assessed: Assessed, within: Duration) -> anyhow::Result<()> {
        let begun = self.begin(&assessed.compiled).await?;
        let prepared = match screening::prepare(&self.state, &self.shared.duplicates, &assessed, within)? {
            Prepared::Known(evaluation) => Err(evaluation),
            Prepared::Trial(trial) => Ok(trial.request()),
        };
        let underway = Underway { begun, assessed };
        match prepared {
            Err(evaluation) => self.lanes.put_known(underway, evaluation),
            Ok(request) => {
                let references = self.references(&request).await?;
                self.lanes.begin(underway, Job { setup: self.state.shared_setup(), request, references })?;
            }
        }
        Ok(())
    }

    /// Returns the incumbents that the next lane has to time before it screens a variant. Modelled times are the same everywhere.
    async fn references(&mut self, request: &EvaluateRequest) -> anyhow::Result<Vec<Reference>> {
        let mut references = Vec::new();
        if !self.state.setup().samples_times() {
            return Ok(references);
        }
        for case in &request.cases {
            let name = &case.case.name;
            let (Some(incumbent), Some(home_ns)) = (self.state.incumbent(name), self.state.incumbent_screened_ns(name))
            else {
                continue;
            };
            let (iteration, hash) = (incumbent.iteration, incumbent.hash.clone());
            if !self.lanes.is_reference_due(name, &hash) {
                continue;
            }
            let kernel = self.cache.kernel(self.state.setup(), iteration).await?;
            let Some(own) = kernel.requests.iter().find(|request| request.case.name == *name) else { continue };
            let case = CaseRequest { incumbent_ns: None, ..own.clone() };
            let request = EvaluateRequest {
                artifact: kernel.artifact.clone(),
                cases: vec![case],
                drops_slow: false,
                ..request.clone()
            };
            references.push(Reference { hash, case: name.clone(), home_ns, request });
        }
        Ok(references)
    }

    /// Concludes the iterations on lanes, in the order in which they began.
    pub(in crate::session) async fn conclude_round(&mut self) -> anyhow::Result<()> {
        if self.feeds_lanes() {
            return Ok(());
        }
        let mut back = Vec::new();
        while let Some(next) = self.deadline.clone().within(self.lanes.next()).await {
            let Some(next) = next? else { break };
            back.push(next);
        }
        if self.lanes.busy() > 0 {
            self.tell_given_up("screening on other devices");
        }
        self.tell_lost_devices();
        self.screen_again().await?;
        back.sort_by_key(Back::iteration);
        for one in back {
            self.conclude_on_lane(one).await?;
        }
        Ok(())
    }

    /// Tells the observer which devices are not used any more.
    pub(super) fn tell_lost_devices(&mut self) {
        for LostLane { device, reason } in self.lanes.take_lost() {
            self.observer.event(&Event::DeviceLeftOut { device: &device, reason: &reason });
        }
    }

    /// Has variants screened again that a machine has screened which is not trusted any more.
    pub(in crate::session) async fn screen_again(&mut self) -> anyhow::Result<()> {
        let iterations = self.lanes.take_reopened();
        self.shared.duplicates.forget(&iterations);
        for iteration in iterations {
            let Some(finished) = self.state.history().iteration(iteration).cloned() else { continue };
            let kernel = self.cache.kernel(self.state.setup(), iteration).await?;
            let case = finished.rationale.hypothesis.case.clone();
            let (claim, evidence) = (
                format!("{} is screened again", finished.family),
                format!("another machine has screened it in iteration {iteration}, and was wrong about others"),
            );
            let proposal = Proposal {
                proposer: self.pipeline.proposer().to_owned(),
                variant: kernel.variant.clone(),
                cases: kernel.requests.iter().map(|request| request.case.clone()).collect(),
                rationale: Rationale {
                    hypothesis: Hypothesis::without_claim(claim, evidence, case, Beside::Incumbent),
                    parent: Some(iteration),
                    purpose: Purpose::Screening,
                    origin: finished.rationale.origin,
                },
            };
            let (cases, artifact) = (Ok(kernel.requests.clone()), Ok(kernel.artifact.clone()));
            // A wrong time makes it look without prospects.
            self.pipeline.screen_again(Compiled { proposal, cases, artifact, is_control: true });
        }
        Ok(())
    }

    /// Concludes an iteration that has begun on a lane. Home does what follows its screening, and screens it again if the lane was lost.
    pub(super) async fn conclude_on_lane(&mut self, back: Back) -> anyhow::Result<()> {
        let mut doubted = None;
        let (underway, evaluation, lane) = match back {
            Back::Screened(underway, evaluation, lane) => (*underway, Some(evaluation), lane),
            Back::Doubted(underway, evaluation, card) => {
                doubted = Some((card, evaluation));
                (*underway, None, None)
            }
            Back::Lost(underway) => (*underway, None, None),
        };
        let (begun, assessed) = (Arc::new(underway.begun), Arc::new(underway.assessed));
        let screening = evaluation.map_or(Screening::Due, Screening::Done);
        let of = (&begun, &assessed);
        let evaluated = if self.feeds_lanes() {
            Box::pin(self.at_home_beside_lanes(of, screening, false)).await?
        } else {
            let at_home = self.at_home_now(false);
            let mut evaluator = self.evaluator.lock().await;
            let work = at_home.work(&mut evaluator, (&self.state, &mut self.cache), (&begun, &assessed), screening);
            self.deadline.within(work).await.transpose()?
        };
        if let (Some((card, theirs)), Some(homes)) = (doubted, &evaluated) {
            self.lanes.compare(&card, &theirs, &homes.evaluation);
            self.tell_lost_devices();
            self.screen_again().await?;
        }
        match evaluated {
            Some(evaluated) => self.conclude(&begun, &assessed.compiled, Evaluated { lane, ..evaluated }).await,
            None => {
                self.tell_given_up(&format!("iteration {}", begun.iteration));
                Ok(())
            }
        }
    }
}
