//! The final comparison of a case, held when the search is over.

use anyhow::Context;

use super::Session;
use super::case_state::Candidate;
use super::evaluator::Setback;
use super::event::Event;
use super::shelf::Participant;
use crate::domain::contest::{Contest, Role, beating};
use crate::domain::journal::Record;
use crate::domain::record::Final;

impl Session<'_> {
    /// Holds the final of a case: the incumbent, those within the noise of it, the A/A control and the baseline in one run.
    /// Near-ties are settled here, and these are the figures of the report. Returns the comparison whose figures count, with the
    /// winner; none without a final.
    pub(super) async fn settle(&mut self, case: &str) -> anyhow::Result<Option<Final>> {
        let Some((contest, incumbent, rivals)) = self.final_comparison(case).await? else { return Ok(None) };
        for index in beating(&contest) {
            let beats = |rival: &&Candidate| Some(rival.iteration) == contest.entrants[index].iteration;
            let Some(rival) = rivals.iter().find(beats) else { continue };
            // The fastest of several looks faster than it is, so it must win once more, on other inputs.
            match self.compare_again(&incumbent, rival.clone()).await? {
                Again::Won(contest) => return Ok(Some(Final { contest: *contest, winner: rival.iteration })),
                Again::Lost => break,
                Again::Disqualified => {}
            }
        }
        Ok(Some(Final { contest, winner: incumbent.candidate.iteration }))
    }

    /// Puts a final on record.
    pub(super) async fn record_final(&mut self, last: Final) -> anyhow::Result<()> {
        let Final { contest, winner } = &last;
        self.store.record_final(self.id, contest, *winner).await.context("Failed to record a final")?;
        let baseline = contest.against(Role::Baseline);
        self.observer.event(&Event::Final {
            case: &contest.conditions.case,
            iteration: *winner,
            us: contest.challenger().map_or(f64::NAN, |challenger| challenger.timing.median_ns / 1e3),
            baseline: baseline.map(|(entrant, _)| entrant.name.as_str()),
            over_baseline: baseline.map(|(_, ratio)| ratio),
            noise: contest.noise(),
            time_source: contest.conditions.time_source,
        });
        self.state.apply(&Record::Final(Box::new(last)));
        Ok(())
    }

    /// Compares the incumbent with its near-ties. One that fails there, on inputs that it had not met, gives its place to the
    /// fastest of the rest.
    async fn final_comparison(&mut self, case: &str) -> anyhow::Result<Option<(Contest, Participant, Vec<Candidate>)>> {
        let mut best = self.state.incumbent(case).cloned();
        while let Some(candidate) = best {
            let screening = candidate.measurement.screening.as_ref();
            if !screening.is_some_and(|screening| self.state.setup().policy().affordable(screening)) {
                return Ok(None);
            }
            let rivals = self.state.rivals(case, &candidate);
            let is_accepted = candidate.is_compared();
            let challenger = self.shelf.participant(self.state.setup(), candidate).await?;
            match self.compare_with(&challenger, Role::Rival, &rivals, is_accepted).await {
                Ok(contest) => return Ok(Some((contest, challenger, rivals))),
                Err(Setback::Variant(outcome)) => self.disqualify(&[challenger.disqualified(&outcome)]).await?,
                Err(Setback::Machine(error)) => return Err(error),
            }
            best = rivals.into_iter().next();
        }
        Ok(None)
    }

    /// Compares a rival with the incumbent.
    async fn compare_again(&mut self, incumbent: &Participant, rival: Candidate) -> anyhow::Result<Again> {
        let rival = self.shelf.participant(self.state.setup(), rival).await?;
        let others = [incumbent.candidate.clone()];
        match self.compare_with(&rival, Role::Incumbent, &others, false).await {
            Ok(contest) => {
                let beaten = contest.against(Role::Incumbent).is_some_and(|(incumbent, _)| contest.beats(incumbent));
                let won = beaten && !contest.below_floor();
                Ok(if won { Again::Won(Box::new(contest)) } else { Again::Lost })
            }
            Err(Setback::Variant(outcome)) => {
                self.disqualify(&[rival.disqualified(&outcome)]).await?;
                Ok(Again::Disqualified)
            }
            Err(Setback::Machine(error)) => Err(error),
        }
    }

    /// Runs the acceptance checks of a challenger, unless it has passed them, and compares it with others in one role.
    async fn compare_with(
        &mut self,
        challenger: &Participant,
        role: Role,
        others: &[Candidate],
        is_accepted: bool,
    ) -> Result<Contest, Setback> {
        if !is_accepted {
            self.evaluator.accept(&self.state, challenger).await?;
        }
        let mut entered = Vec::new();
        for other in others {
            entered.push((role, self.shelf.participant(self.state.setup(), other.clone()).await?));
        }
        let mut disqualified = Vec::new();
        let (state, shelf) = (&self.state, &mut self.shelf);
        let compared = self.evaluator.compare(state, shelf, challenger, entered, true, &mut disqualified).await;
        self.disqualify(&disqualified).await?;
        compared
    }
}

/// What became of a rival that had to win once more.
enum Again {
    /// It did, in this comparison.
    Won(Box<Contest>),
    /// It was no faster this time. No slower one is asked.
    Lost,
    /// It failed. The next one is asked.
    Disqualified,
}
