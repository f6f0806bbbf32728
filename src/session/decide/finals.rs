//! Decides which cases get a final comparison when the search is over, in which order, and how long that takes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::domain::ids::CaseName;
use crate::session::state::SessionState;
use crate::session::state::case_state::MAX_NEAR_TIES;

/// The estimated time of a comparison's participant, until comparisons have shown it. Four comparisons of three took 0.69 to 0.98 s
/// each (H200, 2026-11-29, `optloop start --workload gemm-fp16 --budget 180s`).
const PARTICIPANT_TIME: Duration = Duration::from_millis(270);

/// The time for measuring the energy of two participants, which only finals do, and only if they have time for it.
const ENERGY_TIME: Duration = Duration::from_millis(1200);

/// The participants of a final beside the near ties: the challenger, its A/A control and the baseline.
const MIN_PARTICIPANTS: u32 = 3;

/// The largest share of the time so far that confirmations take while the search goes on, where one for each case would take more
/// of the budget. With large tensors, one takes as long as hundreds of screening runs, and the search finds a faster variant
/// meanwhile.
pub(super) const CONFIRMATIONS_SHARE: f64 = 0.15;

/// The largest share of the budget, in time and in money, that is kept for the finals.
const FINALS_SHARE: f64 = 0.2;

/// The same where confirmations are dear, so that most candidates have to be confirmed by their finals.
const CONFIRMING_FINALS_SHARE: f64 = 0.3;

/// The least time for the rounds of a comparison.
const MIN_ROUNDS_TIME: Duration = Duration::from_secs(1);

/// How much a case needs its final. The greatest need comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::session) enum Need {
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
        self.all_finals_time().min(self.setup().options.budget.wall.mul_f64(self.finals_share()))
    }

    /// Tells whether finals measure energy. In a session that is short for its cases, the time is for the search.
    pub fn finals_measure_energy(&self) -> bool {
        let cases = self.setup().workload.cases.iter();
        let all: Duration = cases.map(|case| self.time_of_final(&case.name, ENERGY_TIME)).sum();
        all <= self.setup().options.budget.wall.mul_f64(FINALS_SHARE)
    }

    /// Returns the time for the rounds of a comparison of a final. A final may hold two. One case whose clocks vary would otherwise
    /// take the time of the others' finals: 15 s of 43 s for ten (H200, 2026-11-29, `optloop start --workload attention-fp16-models`).
    pub fn rounds_of_final(&self) -> Duration {
        let cases = self.setup().workload.cases.len().max(1) as u32;
        let share = self.setup().options.budget.wall.mul_f64(self.finals_share());
        (share / cases / 2).max(MIN_ROUNDS_TIME)
    }

    /// Tells whether one confirmation for each case would take more than the share of the budget that confirmations have.
    pub fn confirmations_are_dear(&self) -> bool {
        let cases = self.setup().workload.cases.len() as u32;
        let once = self.meter().confirmation_time().saturating_mul(cases);
        once > self.setup().options.budget.wall.mul_f64(CONFIRMATIONS_SHARE)
    }

    fn finals_share(&self) -> f64 {
        if self.confirmations_are_dear() { CONFIRMING_FINALS_SHARE } else { FINALS_SHARE }
    }

    /// Returns the estimated device time of the finals for which money is kept.
    pub fn finals_device_time(&self) -> Duration {
        if !self.setup().samples_times() {
            return Duration::ZERO;
        }
        let share_usd = self.setup().options.budget.max_cost_usd.map(|most| most * self.finals_share());
        self.all_finals_time().min(share_usd.map_or(Duration::MAX, |usd| self.meter().device_time_for(usd)))
    }

    fn all_finals_time(&self) -> Duration {
        let energy = self.energy_time();
        self.setup().workload.cases.iter().map(|case| self.time_of_final(&case.name, energy)).sum()
    }

    fn energy_time(&self) -> Duration {
        if self.finals_measure_energy() { ENERGY_TIME } else { Duration::ZERO }
    }

    /// Returns the estimated time of a case's final, from its last comparison.
    pub fn final_time(&self, case: &str) -> Duration {
        self.time_of_final(case, self.energy_time())
    }

    fn time_of_final(&self, case: &str, energy: Duration) -> Duration {
        let ties = self.incumbent(case).and_then(|incumbent| self.near_ties(case, incumbent));
        let participants = MIN_PARTICIPANTS + ties.map_or(0, |ties| ties.count().min(MAX_NEAR_TIES)) as u32;
        let each = self.case(case).and_then(|case| case.participant_time).unwrap_or(PARTICIPANT_TIME);
        let held = each.saturating_mul(participants).min(self.rounds_of_final()).saturating_add(energy);
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
            if !self.successors(case).is_empty() {
                return false;
            }
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
        if !self.successors(case).is_empty() {
            return Some(Need::Settle);
        }
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
