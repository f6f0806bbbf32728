//! Which cases get a final comparison when the search is over, in which order, and what that takes.

use std::collections::VecDeque;
use std::time::Duration;

use super::case_state::MOST_NEAR_TIES;
use super::state::SessionState;
use crate::domain::ids::CaseName;

/// What a participant of a comparison takes, about, until comparisons have shown it: three finals with seven participants each took
/// 7 s on an H200 (2026-11-21), of which the energy is a half.
const PARTICIPANT_TIME: Duration = Duration::from_millis(170);

/// What the energy of two participants takes, which is measured in finals only.
const ENERGY_TIME: Duration = Duration::from_millis(1200);

/// The challenger, its A/A control and the baseline: the participants of a final beside the near-ties.
const LEAST_PARTICIPANTS: u32 = 3;

/// The most of the budget that is kept for the finals.
const FINALS_SHARE: f64 = 0.2;

/// How much a case needs its final, most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// There is no confirmed figure without it, or a faster variant than that which has one. It is held even if the time is over.
    Settle,
    /// There are near-ties.
    Part,
    /// Its incumbent has a confirmation, and nothing is as fast.
    Figures,
}

impl SessionState {
    /// Returns the part of the budget that is kept for the finals: what they will take, about.
    pub fn finals_time(&self) -> Duration {
        if !self.setup().samples_times() {
            return Duration::ZERO;
        }
        let cases = self.setup().workload.cases.iter();
        let needed: Duration = cases.map(|case| self.final_time(&case.name)).sum();
        needed.min(self.setup().options.budget.wall.mul_f64(FINALS_SHARE))
    }

    /// Returns what the final of a case takes, about, going by its last comparison.
    pub fn final_time(&self, case: &str) -> Duration {
        let ties = self.incumbent(case).and_then(|incumbent| self.near_ties(case, incumbent));
        let participants = LEAST_PARTICIPANTS + ties.map_or(0, |ties| ties.count().min(MOST_NEAR_TIES)) as u32;
        let each = self.case(case).and_then(|case| case.participant_time).unwrap_or(PARTICIPANT_TIME);
        let held = each.saturating_mul(participants).saturating_add(ENERGY_TIME);
        // What is not confirmed must pass the acceptance checks first, or win once more.
        if self.need(case) == Some(Need::Settle) { held.saturating_mul(2) } else { held }
    }

    /// Returns the cases that get a final, those first that need it most, else as the workload has them.
    pub fn finals(&self) -> VecDeque<(Need, CaseName)> {
        let cases = self.setup().workload.cases.iter();
        let mut due: Vec<(Need, CaseName)> =
            cases.filter_map(|case| Some((self.need(&case.name)?, case.name.clone()))).collect();
        due.sort_by_key(|(need, _)| *need);
        due.into()
    }

    /// Returns how much a case needs its final; none where there can be no final.
    fn need(&self, case: &str) -> Option<Need> {
        let incumbent = self.incumbent(case)?;
        let screening = incumbent.measurement.screening.as_ref()?;
        if !self.setup().policy().affordable(screening) {
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
