//! Which variants are ablated, in which order, and how much of the budget that may take. It is pure.

use std::time::Duration;

use super::counters::OnCase;
use crate::domain::code::ablation::{self, Ablated};
use crate::domain::history::Finished;
use crate::domain::ids::CaseName;
use crate::domain::measurement::floor::floor_ns;
use crate::domain::workload::Case;
use crate::session::meter::Time;
use crate::session::state::SessionState;

/// The estimated time of the ablations of one variant, until some have shown it: ten kernels, each compiled and timed.
const ABLATIONS_TIME: Duration = Duration::from_secs(2);

/// The leads of winners for which the slower kernel is ablated and profiled, too. One that takes longer is another matter.
const LEADS: std::ops::Range<f64> = 1.02..4.0;

impl SessionState {
    /// Returns the time that is kept for ablations: of the initial kernel, the incumbents and what they have beaten.
    pub(super) fn ablations_time(&self) -> Duration {
        let wanted = self.ablation_time().saturating_mul(1 + 3 * self.setup().workload.cases.len() as u32);
        if self.may_ablate() { wanted.min(self.ablations_share()) } else { Duration::ZERO }
    }

    /// Returns the next variant to ablate: the initial kernel on the case where it is furthest from the floor, then the
    /// incumbents, the one furthest from its floor first. Once the winners are settled, also what they have beaten.
    pub fn ablation(&self, time: &Time, is_settled: bool) -> Option<OnCase> {
        let (budget, takes) = (&self.setup().options.budget, self.ablation_time());
        let finals_time = if is_settled { Duration::ZERO } else { self.finals_time() };
        let left = self.meter().left(budget, time, finals_time);
        let affords = self.meter().affords(budget, time, takes + self.finals_device_time());
        if !self.may_ablate() || !affords || takes > left || takes > self.ablations_share() {
            return None;
        }
        let initial = self.furthest(|state, case| {
            let initial = state.initial_kernel(case)?;
            state.history().iteration(initial)
        });
        let initial = initial.map(|(case, initial)| OnCase { iteration: initial.iteration, case: case.clone() });
        let slower = is_settled.then(|| self.slower_by_lead()).into_iter().flatten();
        let mut all = initial.into_iter().chain(self.incumbents_by_headroom()).chain(slower);
        all.find(|one| {
            let time_ns = self.history().iteration(one.iteration).and_then(|finished| finished.time_ns(&one.case));
            let hash = self.history().iteration(one.iteration).map(|finished| &finished.hash);
            time_ns.is_some_and(|ns| self.is_near_the_best(&one.case, ns))
                && hash.is_some_and(|hash| self.history().ablations_of(hash, &one.case).is_empty())
        })
    }

    /// Returns the incumbents, the one furthest from the floor of its case first.
    fn incumbents_by_headroom(&self) -> Vec<OnCase> {
        let setup = self.setup();
        let headroom = |case: &Case| {
            let incumbent = self.incumbent(&case.name)?;
            let ns = incumbent.measurement.best_timing()?.median_ns;
            let on_case = OnCase { iteration: incumbent.iteration, case: case.name.clone() };
            Some((ns / floor_ns(&setup.workload, case, &setup.device), on_case))
        };
        ranked(setup.workload.cases.iter().filter_map(headroom))
    }

    /// Returns what the incumbents have beaten, the largest lead first: the committed winners of the cases, then the best variants
    /// of other families.
    pub(super) fn slower_by_lead(&self) -> impl Iterator<Item = OnCase> {
        let committed = |other: &Finished, incumbent: &Finished, case: &CaseName| {
            other.rationale.origin.is_committed_winner_of(case) && other.hash != incumbent.hash
        };
        let rival = |other: &Finished, incumbent: &Finished, _: &CaseName| other.family != incumbent.family;
        self.fastest_by_lead(committed).into_iter().chain(self.fastest_by_lead(rival))
    }

    /// Returns the fastest of some variants on each case, the one that is furthest behind the incumbent first.
    fn fastest_by_lead(&self, is_one: impl Fn(&Finished, &Finished, &CaseName) -> bool) -> Vec<OnCase> {
        let lead = |case: &CaseName| {
            let incumbent = self.history().iteration(self.incumbent(case)?.iteration)?;
            let others = self.history().finished.iter().filter(|other| is_one(other, incumbent, case));
            let timed = others.filter_map(|other| Some((other.time_ns(case)?, other.iteration)));
            let (ns, iteration) = timed.min_by(|a, b| a.0.total_cmp(&b.0))?;
            let lead = ns / incumbent.time_ns(case)?;
            LEADS.contains(&lead).then(|| (lead, OnCase { iteration, case: case.clone() }))
        };
        ranked(self.setup().workload.cases.iter().filter_map(|case| lead(&case.name)))
    }

    /// Returns whether variants may be ablated. If the first one cannot be, no other one can.
    pub fn may_ablate(&self) -> bool {
        let works = |ablated: &Ablated| ablation::control_ns(&ablated.ablations).is_some();
        self.setup().options.ablations_share > 0.0
            && self.setup().samples_times()
            && self.history().ablations.first().is_none_or(works)
    }

    /// Returns what is left of the ablations' share of the budget.
    fn ablations_share(&self) -> Duration {
        let share = self.setup().options.budget.wall.mul_f64(self.setup().options.ablations_share);
        share.saturating_sub(self.ablated())
    }

    /// Returns the time of all ablations so far.
    fn ablated(&self) -> Duration {
        let walls = self.history().ablations.iter().map(|ablated| ablated.wall_s);
        Duration::try_from_secs_f64(walls.sum()).unwrap_or_default()
    }

    /// Returns the estimated time of the ablations of one variant.
    pub fn ablation_time(&self) -> Duration {
        match u32::try_from(self.history().ablations.len()) {
            Ok(variants @ 1..) => self.ablated() / variants,
            _ => ABLATIONS_TIME,
        }
    }
}

/// Returns variants in decreasing order of a figure.
fn ranked(found: impl Iterator<Item = (f64, OnCase)>) -> Vec<OnCase> {
    let mut found: Vec<(f64, OnCase)> = found.collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, one)| one).collect()
}
