//! Decides which cases get a final comparison when the search is over, in which order, and how long that takes.

use std::collections::VecDeque;
use std::time::Duration;

use super::case_state::MAX_NEAR_TIES;
use super::state::SessionState;
use crate::domain::ids::CaseName;

/// The estimated time of a comparison's participant, until comparisons have shown it. Three finals with seven
/// participants each took 7 s on an H200 (2026-11-21). Half of that was for the energy.
const PARTICIPANT_TIME: Duration = Duration::from_millis(170);

/// The time for measuring the energy of two participants, which only finals do.
const ENERGY_TIME: Duration = Duration::from_millis(1200);

/// The participants of a final beside the near ties: the challenger, its A/A control and the baseline.
const MIN_PARTICIPANTS: u32 = 3;

/// The largest share of the budget, in time and in money, that is kept for the finals.
const FINALS_SHARE: f64 = 0.2;

/// How much a case needs its final. The greatest need comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// The case has no confirmed figure, or a faster variant than the confirmed one. One such final is held even if the
    /// time is over, but not without money.
    Settle,
    /// There are near ties.
    Part,
    /// Its incumbent is confirmed, and no other variant is as fast.
    Figures,
}

impl SessionState {
    /// Returns the estimated time of the finals, which is kept for them.
    pub fn finals_time(&self) -> Duration {
        if !self.setup().samples_times() {
            return Duration::ZERO;
        }
        self.all_finals_time().min(self.setup().options.budget.wall.mul_f64(FINALS_SHARE))
    }

    /// Returns the estimated device time of the finals for which money is kept.
    pub fn finals_device_time(&self) -> Duration {
        if !self.setup().samples_times() {
            return Duration::ZERO;
        }
        let share_usd = self.setup().options.budget.max_cost_usd.map(|most| most * FINALS_SHARE);
        self.all_finals_time().min(share_usd.map_or(Duration::MAX, |usd| self.meter().device_time_for(usd)))
    }

    fn all_finals_time(&self) -> Duration {
        self.setup().workload.cases.iter().map(|case| self.final_time(&case.name)).sum()
    }

    /// Returns the estimated time of a case's final, from its last comparison.
    pub fn final_time(&self, case: &str) -> Duration {
        let ties = self.incumbent(case).and_then(|incumbent| self.near_ties(case, incumbent));
        let participants = MIN_PARTICIPANTS + ties.map_or(0, |ties| ties.count().min(MAX_NEAR_TIES)) as u32;
        let each = self.case(case).and_then(|case| case.participant_time).unwrap_or(PARTICIPANT_TIME);
        let held = each.saturating_mul(participants).saturating_add(ENERGY_TIME);
        // An unconfirmed variant must pass the acceptance checks first, or win once more.
        if self.need(case) == Some(Need::Settle) { held.saturating_mul(2) } else { held }
    }

    /// Returns the cases that get a final, by need and then in the workload's order.
    pub fn finals(&self) -> VecDeque<(Need, CaseName)> {
        let cases = self.setup().workload.cases.iter();
        let mut due: Vec<(Need, CaseName)> =
            cases.filter_map(|case| Some((self.need(&case.name)?, case.name.clone()))).collect();
        due.sort_by_key(|(need, _)| *need);
        due.into()
    }

    /// Returns the cases whose best variant is too slow for a comparison, so that no final is possible.
    pub fn too_slow_for_finals(&self) -> Vec<CaseName> {
        let is_too_slow = |case: &CaseName| {
            let screening = self.incumbent(case).and_then(|incumbent| incumbent.measurement.screening.as_ref());
            screening.is_some_and(|screening| !self.setup().policy().affordable(screening))
        };
        let cases = self.setup().workload.cases.iter().map(|case| &case.name);
        cases.filter(|case| self.setup().samples_times() && is_too_slow(case)).cloned().collect()
    }

    /// Returns how much a case needs its final. None where no final is possible.
    fn need(&self, case: &str) -> Option<Need> {
        let incumbent = self.incumbent(case)?;
        let screening = incumbent.measurement.screening.as_ref()?;
        if !self.setup().policy().affordable(screening) {
            return None;
        }
        let is_initial = self.initial_kernel(case) == Some(incumbent.iteration);
        if is_initial && !self.is_near_the_best(case, screening.median_ns) && self.unconfirmed(case).next().is_none() {
            // A comparison of a kernel that is far behind the baseline takes long, and tells nothing new.
            return None;
        }
        let confirmed = incumbent.is_compared() && self.unconfirmed(case).next().is_none();
        Some(match confirmed {
            false => Need::Settle,
            true if self.near_ties(case, incumbent)?.next().is_some() => Need::Part,
            true => Need::Figures,
        })
    }
}
