//! Which variants of those that were looked at are confirmed, and when.
//!
//! A contest takes as long as many screenings, and on the way to the best variant of a case there are many that are the fastest for a
//! moment. So what a session proposes is only looked at, and the fastest of a case is confirmed, in an iteration of its own, once
//! nothing faster has come for a while, or when there is no time left to find it.

use std::collections::HashSet;
use std::time::Duration;

use super::{Compiled, Contender, Session};
use crate::domain::cost::Spent;
use crate::domain::device::TimeSource;
use crate::domain::hypothesis::Hypothesis;
use crate::domain::proposal::Proposal;
use crate::domain::statistics::Interval;
use crate::domain::variant::VariantHash;

/// The iterations without a faster variant after which one is confirmed, over those that are compiled ahead: what was proposed before
/// it was found comes to its end, and as much again that follows from it.
const SETTLED: u64 = 2;

/// What a confirmation takes on one case, about, until some have shown it: one beside a start of 0.3 s took 8 s (H200, 2026-11-21,
/// `optloop start --workload attention-fp16-long`).
const CONFIRMATION_TIME: Duration = Duration::from_secs(8);

/// How far the time of a look may be from what it is when it is confirmed.
const SCREENING_NOISE: f64 = 0.03;

/// The fastest variant of a case that is not confirmed.
pub(super) struct Lead {
    hash: VariantHash,
    /// Iterations that had finished when it took the lead.
    since: u64,
}

impl Session<'_> {
    /// Notes which variants lead their cases, and since when.
    pub(super) fn note_leads(&mut self) {
        let cases: Vec<String> = self.contenders.keys().cloned().collect();
        for case in cases {
            match self.lead(&case).map(|lead| lead.variant.hash.clone()) {
                None => drop(self.leads.remove(&case)),
                Some(hash) if self.leads.get(&case).is_some_and(|lead| lead.hash == hash) => {}
                Some(hash) => drop(self.leads.insert(case, Lead { hash, since: self.finished })),
            }
        }
    }

    /// Returns the next confirmation that is due, of one variant on all cases that it leads; or of any that leads, if nothing else is
    /// left to do.
    pub(super) fn due_confirmation(&mut self, nothing_else: bool) -> Option<Compiled> {
        let pressed = nothing_else || self.is_pressed();
        if self.opening > 0 && !pressed {
            // There may be a faster family.
            return None;
        }
        let settled = SETTLED * self.order.compile_ahead as u64;
        let cases = self.parts.workload.cases.iter().filter(|case| {
            let lead = self.leads.get(&case.name);
            lead.is_some_and(|lead| pressed || self.finished >= lead.since + settled)
        });
        let first = cases.filter_map(|case| self.lead(&case.name)).next()?;
        let hash = first.variant.hash.clone();
        let cases = self.parts.workload.cases.iter();
        let led: Vec<Contender> =
            cases.filter_map(|case| self.lead(&case.name)).filter(|lead| lead.variant.hash == hash).cloned().collect();
        let confirmed = self.confirmation_of(&led)?;
        self.asked.extend(led.into_iter().map(|lead| (lead.measurement.case, hash.clone())));
        Some(confirmed)
    }

    /// Returns the fastest variant of a case that would take the incumbent's place, of those whose confirmation was not asked for.
    fn lead(&self, case: &str) -> Option<&Contender> {
        let asked = |contender: &&Contender| self.asked.contains(&(case.to_owned(), contender.variant.hash.clone()));
        let ns = |contender: &&Contender| contender.screened_ns().unwrap_or(f64::MAX);
        self.unconfirmed(case).filter(|contender| !asked(contender)).min_by(|a, b| ns(a).total_cmp(&ns(b)))
    }

    /// Returns the variants of a case that would take the incumbent's place and have had no contest.
    pub(super) fn unconfirmed(&self, case: &str) -> impl Iterator<Item = &Contender> {
        let bar_ns = self.incumbent_screened_ns(case);
        let contenders = self.contenders.get(case).into_iter().flatten();
        contenders.filter(|contender| contender.measurement.contest.is_none()).filter(move |contender| {
            let screening = contender.measurement.screening.as_ref();
            screening.is_some_and(|screening| self.order.measuring.policy.promising(screening, bar_ns))
        })
    }

    /// Tells whether what is left of the budget is needed to confirm what leads.
    fn is_pressed(&self) -> bool {
        let (taken, cases) = self.confirmed;
        let each = if cases == 0 { CONFIRMATION_TIME } else { taken / cases };
        let needed = each.saturating_mul(self.leads.len() as u32);
        let cost = match self.parts.worker.info().time_source() {
            TimeSource::Measured => Spent::holding(needed.as_secs_f64(), self.order.rate).total_usd(),
            TimeSource::Modelled => 0.0,
        };
        let spent = self.spent.total_usd() + self.unrecorded().total_usd() + cost;
        let variants = self.leads.values().map(|lead| &lead.hash).collect::<HashSet<_>>().len() as u64;
        let elapsed = self.elapsed() + self.finals_time() + needed;
        variants > 0 && self.order.budget.exhausted(elapsed, spent, self.finished + variants).is_some()
    }

    fn confirmation_of(&self, led: &[Contender]) -> Option<Compiled> {
        let lead = led.first()?;
        let (case, ns) = (&lead.measurement.case, lead.screened_ns()?);
        let speedup = self.incumbent_screened_ns(case)? / ns;
        let hypothesis = Hypothesis {
            claim: format!("{} is the fastest so far on {case}", lead.variant.family),
            evidence: format!("in iteration {} it took {:.2} us there", lead.iteration, ns / 1e3),
            case: case.clone(),
            predicted: Interval { lo: speedup * (1.0 - SCREENING_NOISE), hi: speedup * (1.0 + SCREENING_NOISE) },
            // It predicts nothing: what is known of it comes from the very look that it repeats.
            relative_to: None,
        };
        let proposal = Proposal {
            proposer: self.parts.proposer.name().to_owned(),
            variant: lead.variant.clone(),
            cases: led.iter().map(|lead| lead.request.case.clone()).collect(),
            hypothesis,
            parent: Some(lead.iteration),
        };
        let requests = led.iter().map(|lead| lead.request.clone()).collect();
        Some(Compiled {
            proposal,
            look: false,
            opening: false,
            cases: Ok(requests),
            artifact: Ok(lead.artifact.clone()),
        })
    }
}
