//! The final comparison of a case, held when the search is over.

use anyhow::Context;

use crate::domain::measurement::comparison::{Comparison, Role, beating};
use crate::domain::measurement::verdict::{Verdict, judge_final};
use crate::domain::record::Final;
use crate::domain::record::journal::Record;
use crate::runner::comparison::Extent;
use crate::session::Session;
use crate::session::evaluator::Setback;
use crate::session::event::Event;
use crate::session::pipeline::kernel_cache::CandidateKernel;
use crate::session::state::case_state::Candidate;

impl Session<'_> {
    /// Holds the final of a case in one run: the incumbent, its near ties, the A/A control and the baseline. It settles
    /// between near ties, and its figures are those of the report. Returns the comparison whose figures count, with the
    /// winner. None without a final.
    pub(in crate::session) async fn run_final(&mut self, case: &str) -> anyhow::Result<Option<Final>> {
        if let Some(last) = self.confirm_successor(case).await? {
            return Ok(Some(last));
        }
        let Some((comparison, incumbent, near_ties)) = self.final_comparison(case).await? else { return Ok(None) };
        for index in beating(&comparison) {
            let beats = |near_tie: &&Candidate| Some(near_tie.iteration) == comparison.participants[index].iteration;
            let Some(near_tie) = near_ties.iter().find(beats) else { continue };
            // The fastest of several looks faster than it is (the winner's curse). So it must win once more, on other
            // inputs.
            match self.compare_again(&incumbent, near_tie.clone()).await? {
                Again::Won(comparison) => {
                    return Ok(Some(Final { comparison: *comparison, winner: near_tie.iteration }));
                }
                Again::Lost => break,
                Again::Disqualified => {}
            }
        }
        Ok(Some(Final { comparison, winner: incumbent.candidate.iteration }))
    }

    /// Confirms a candidate directly where the incumbent is far behind: the incumbent takes hundreds of samples as the challenger of
    /// a final, and few as the one to beat. None if there is no such candidate.
    async fn confirm_successor(&mut self, case: &str) -> anyhow::Result<Option<Final>> {
        let is_due = !self.state.successors(case).is_empty();
        let Some(incumbent) = self.state.incumbent(case).filter(|_| is_due).cloned() else {
            return Ok(None);
        };
        let incumbent = self.cache.candidate_kernel(self.state.setup(), incumbent).await?;
        // What fails says which one to try next.
        while let Some(candidate) = self.state.successors(case).into_iter().next() {
            let winner = candidate.iteration;
            match self.compare_again(&incumbent, candidate).await? {
                Again::Won(comparison) => return Ok(Some(Final { comparison: *comparison, winner })),
                Again::Lost => break,
                Again::Disqualified => {}
            }
        }
        Ok(None)
    }

    /// Records a final.
    pub(in crate::session) async fn record_final(&mut self, last: Final) -> anyhow::Result<()> {
        let Final { comparison, winner } = &last;
        self.store.record_final(self.id, comparison, *winner).await.context("Failed to record a final")?;
        let baseline = comparison.against(Role::Baseline);
        self.observer.event(&Event::Final {
            case: &comparison.conditions.case,
            iteration: *winner,
            us: comparison.challenger().map_or(f64::NAN, |challenger| challenger.timing.median_ns / 1e3),
            baseline: baseline.map(|(participant, _)| participant.name.as_str()),
            over_baseline: baseline.map(|(_, ratio)| ratio),
            noise: comparison.noise(),
            time_source: comparison.conditions.time_source,
        });
        let case = comparison.conditions.case.clone();
        self.state.apply(&Record::Final(Box::new(last)));
        self.tell_gains([&case]);
        Ok(())
    }

    /// Compares the incumbent with its near ties. If the incumbent fails there, on inputs that are new to it, the
    /// fastest of the rest replaces it.
    async fn final_comparison(
        &mut self,
        case: &str,
    ) -> anyhow::Result<Option<(Comparison, CandidateKernel, Vec<Candidate>)>> {
        let mut best = self.state.incumbent(case).cloned();
        while let Some(candidate) = best {
            let screening = candidate.measurement.screening.as_ref();
            if !screening.is_some_and(|screening| self.state.setup().policy().affordable(screening)) {
                return Ok(None);
            }
            let near_ties = self.state.finalists(case, &candidate);
            let is_accepted = candidate.is_compared();
            let challenger = self.cache.candidate_kernel(self.state.setup(), candidate).await?;
            match self.compare_with(&challenger, Role::NearTie, &near_ties, is_accepted).await {
                Ok(comparison) => return Ok(Some((comparison, challenger, near_ties))),
                Err(Setback::Variant(outcome)) => self.disqualify(&[challenger.disqualified(&outcome)]).await?,
                Err(Setback::Machine(error)) => return Err(error),
            }
            best = near_ties.into_iter().min_by_key(|one| self.state.suspicion(one));
        }
        Ok(None)
    }

    /// Compares a candidate with the incumbent.
    async fn compare_again(&mut self, incumbent: &CandidateKernel, candidate: Candidate) -> anyhow::Result<Again> {
        let challenger = self.cache.candidate_kernel(self.state.setup(), candidate).await?;
        let incumbent = &incumbent.candidate;
        let is_far = challenger.candidate.is_far_ahead_of(incumbent);
        let others = if is_far { Vec::new() } else { vec![incumbent.clone()] };
        match self.compare_with(&challenger, Role::Incumbent, &others, false).await {
            Ok(comparison) => {
                let incumbent_ns = incumbent.screened_ns().unwrap_or(f64::NAN);
                let verdict = judge_final(&comparison, incumbent_ns, self.state.setup().policy());
                Ok(if verdict == Verdict::Improved { Again::Won(Box::new(comparison)) } else { Again::Lost })
            }
            Err(Setback::Variant(outcome)) => {
                self.disqualify(&[challenger.disqualified(&outcome)]).await?;
                Ok(Again::Disqualified)
            }
            Err(Setback::Machine(error)) => Err(error),
        }
    }

    /// Runs the acceptance checks of a challenger, unless it has passed them. Then compares it with others in one role.
    async fn compare_with(
        &mut self,
        challenger: &CandidateKernel,
        role: Role,
        others: &[Candidate],
        is_accepted: bool,
    ) -> Result<Comparison, Setback> {
        if !is_accepted {
            self.evaluator.lock().await.accept_and_sanitize(&self.state, challenger).await?;
        }
        let mut entered = Vec::new();
        for other in others {
            entered.push((role, self.cache.candidate_kernel(self.state.setup(), other.clone()).await?));
        }
        let rounds_within = Some(self.state.rounds_of_final());
        let extent = Extent { energy: self.state.finals_measure_energy(), rounds_within };
        let mut disqualified = Vec::new();
        let (state, cache) = (&self.state, &mut self.cache);
        let mut evaluator = self.evaluator.lock().await;
        let compared = evaluator.compare(state, cache, challenger, entered, extent, &mut disqualified).await;
        drop(evaluator);
        self.disqualify(&disqualified).await?;
        compared
    }
}

/// The result for a near tie that had to win once more.
enum Again {
    /// It won, in this comparison.
    Won(Box<Comparison>),
    /// It was no faster this time. Slower near ties are not tried.
    Lost,
    /// It failed. The next near tie is tried.
    Disqualified,
}
