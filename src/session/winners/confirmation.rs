//! Makes an iteration that confirms a candidate, on the cases where it is the fastest.

use anyhow::Context;

use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::ids::IterationId;
use crate::domain::proposal::origin::Purpose;
use crate::domain::proposal::{Proposal, Rationale};
use crate::session::Session;
use crate::session::decide::ConfirmationDue;
use crate::session::pipeline::Compiled;
use crate::session::state::case_state::Candidate;

impl Session<'_> {
    /// Prepares a confirmation that is due.
    pub(in crate::session) async fn confirmation(&mut self, due: &ConfirmationDue) -> anyhow::Result<Compiled> {
        let (iteration, case) = due.candidates.first().context("Failed to find what to confirm")?;
        let hypothesis = self.claim(*iteration, case).context("Failed to find what to confirm")?;
        let kernel = self.cache.kernel(self.state.setup(), *iteration).await?;
        let mut requests = Vec::new();
        for (iteration, case) in &due.candidates {
            let kernel = self.cache.kernel(self.state.setup(), *iteration).await?;
            requests.extend(kernel.requests.iter().find(|request| request.case.name == *case).cloned());
        }
        let proposal = Proposal {
            proposer: self.pipeline.proposer().to_owned(),
            variant: kernel.variant.clone(),
            cases: requests.iter().map(|request| request.case.clone()).collect(),
            rationale: Rationale {
                hypothesis,
                parent: Some(*iteration),
                purpose: Purpose::Confirmation,
                origin: self
                    .state
                    .history()
                    .iteration(*iteration)
                    .context("Failed to find what to confirm")?
                    .rationale
                    .origin
                    .clone(),
            },
        };
        Ok(Compiled { proposal, cases: Ok(requests), artifact: Ok(kernel.artifact.clone()), is_control: false })
    }

    /// Makes the hypothesis of a confirmation. It predicts nothing: the variant's time is known from the very screening
    /// run that the confirmation repeats.
    fn claim(&self, iteration: IterationId, case: &str) -> Option<Hypothesis> {
        let finished = self.state.history().iteration(iteration)?;
        // A modelled time leaves no candidate.
        let screened_ns = self.state.case(case)?.candidate(iteration).and_then(Candidate::screened_ns);
        let ns = screened_ns.or(finished.time_ns(case))?;
        Some(Hypothesis::without_claim(
            format!("{} is to be the fastest variant on {case}", finished.family),
            format!("it took {:.2} us in iteration {iteration}", ns / 1e3),
            case.into(),
            Reference::Incumbent,
        ))
    }
}
