//! Checks candidates on a virtual GPU in the background, so that a confirmation need not wait for it. A check takes seconds on
//! the CPU.

use std::collections::HashSet;

use tokio::task::JoinHandle;

use super::acceptance::sanitize;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::variant::VariantHash;
use crate::session::Session;
use crate::session::state::SessionState;

/// The checks of a session that were begun ahead of a confirmation.
#[derive(Default)]
pub(in crate::session) struct ChecksAhead {
    running: Option<JoinHandle<()>>,
    begun: HashSet<VariantHash>,
}

impl Drop for ChecksAhead {
    fn drop(&mut self) {
        // Its worker ends with the session.
        self.running.iter().for_each(JoinHandle::abort);
    }
}

impl ChecksAhead {
    /// Returns a candidate that has stood for a while and was not checked, with its case. None while a check runs.
    fn next(&self, state: &SessionState) -> Option<(IterationId, CaseName)> {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return None;
        }
        let stood = state.setup().options.compile_ahead as u64;
        state.cases().find_map(|(case, of)| {
            let best = of.best_candidate.as_ref()?;
            let is_due = state.meter().finished() >= best.since + stood && !self.begun.contains(&best.hash);
            let candidate = state.best_candidate(case).filter(|candidate| is_due && candidate.hash == best.hash)?;
            Some((candidate.iteration, case.clone()))
        })
    }
}

impl Session<'_> {
    /// Begins the check of a candidate that is likely to be confirmed soon. The sanitizer keeps what it finds for the
    /// confirmation.
    pub(in crate::session) async fn check_ahead(&mut self) -> anyhow::Result<()> {
        let Some(sanitizer) = self.shared.sanitizer.clone() else { return Ok(()) };
        let Some((iteration, case)) = self.checks_ahead.next(&self.state) else { return Ok(()) };
        let setup = self.state.shared_setup();
        let kernel = self.cache.kernel(&setup, iteration).await?;
        self.checks_ahead.begun.insert(kernel.variant.hash.clone());
        self.checks_ahead.running = Some(tokio::spawn(async move {
            let Ok(case) = setup.workload.case(&case) else { return };
            if let Err(error) = sanitize(Some(sanitizer), &setup, &kernel, case).await {
                // The confirmation asks again, and its failure ends the session.
                tracing::debug!("iteration {iteration} was not checked ahead on a virtual GPU: {error:#}");
            }
        }));
        Ok(())
    }
}
