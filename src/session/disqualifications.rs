//! What takes a variant out of the running.

use std::collections::BTreeMap;

use anyhow::Context;

use super::event::Event;
use super::{Contender, Session};
use crate::domain::evaluation::Outcome;
use crate::domain::variant::VariantHash;
use crate::domain::verdict::{Decision, Verdict};

/// What a variant is put out for whose contest was held and counts for nothing.
const BELOW_FLOOR: &str = "its time in its contest is below the floor";

impl Session<'_> {
    /// Takes a variant out of the running on its case, for it failed there on inputs that it had not met.
    pub(super) async fn disqualify(&mut self, failed: &Contender, outcome: &Outcome) -> anyhow::Result<()> {
        let reason = outcome.message().unwrap_or(outcome.kind());
        self.put_out(failed.iteration, &failed.variant.hash, &failed.measurement.case, reason).await
    }

    /// Takes a variant that was timed in an iteration out of the running on a case: all that is known of it there.
    pub(super) async fn put_out(
        &mut self,
        iteration: i64,
        hash: &VariantHash,
        case: &str,
        reason: &str,
    ) -> anyhow::Result<()> {
        self.parts.store.disqualify(iteration, case, reason).await.context("Failed to record a disqualification")?;
        self.history.forget(hash, case);
        if let Some(contenders) = self.contenders.get_mut(case) {
            contenders.retain(|contender| contender.variant.hash != *hash);
        }
        if self.uncommitted.get(case).is_some_and(|(_, queued)| queued.sidecar.variant.hash == *hash) {
            self.uncommitted.remove(case);
        }
        self.observer.event(&Event::Disqualified { case, iteration, reason });
        Ok(())
    }

    /// Takes a variant that was rejected in its confirmation out of the running on those cases; if it failed, also wherever it was
    /// only looked at. Where it was confirmed before, its win stands.
    pub(super) async fn disqualify_looks(
        &mut self,
        hash: &VariantHash,
        outcome: &Outcome,
        decisions: &[Decision],
    ) -> anyhow::Result<()> {
        let failed = *outcome != Outcome::Measured;
        let rejected = |case: &str| decisions.iter().any(|d| d.case == case && d.verdict == Verdict::Rejected);
        let confirmed = |case: &str| self.history.times_of(hash).any(|(_, time)| time.case == case && !time.look);
        let times = self.history.times_of(hash);
        let out = times.filter(|(_, time)| rejected(&time.case) || (failed && !confirmed(&time.case)));
        let out: BTreeMap<String, i64> = out.map(|(iteration, time)| (time.case.clone(), iteration)).collect();
        let reason = if failed { outcome.message().unwrap_or(outcome.kind()) } else { BELOW_FLOOR };
        for (case, iteration) in out {
            self.put_out(iteration, hash, &case, reason).await?;
        }
        Ok(())
    }
}
