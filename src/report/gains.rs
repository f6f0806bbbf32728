//! The improvements of a session in the order of their time.

use super::standing::{self, winners};
use crate::domain::origin::Purpose;
use crate::domain::record::SessionRecord;
use crate::domain::record::excerpt::Used;
use crate::domain::verdict::Verdict;

/// An improvement that the session has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Gain<'a> {
    /// Seconds of the session until it was on record.
    pub(super) at_s: f64,
    /// The case.
    pub(super) case: &'a str,
    /// The incumbent's time over its own.
    pub(super) factor: f64,
}

/// The improvements of a session, and when it began to search. All times are wall time since the session began, without
/// the time between an interruption and its resumption.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gains<'a> {
    /// The improvements, oldest first.
    pub(super) all: Vec<Gain<'a>>,
    /// Seconds until the initial design was on record.
    pub(super) search_from_s: f64,
    /// Seconds until the last iteration was on record.
    pub(super) search_to_s: f64,
}

/// Returns the improvements of a session.
pub(super) fn of(record: &SessionRecord) -> Gains<'_> {
    let mut gains = Gains { all: Vec::new(), search_from_s: 0.0, search_to_s: 0.0 };
    for (iteration, Used { wall_s: at_s, .. }) in record.with_used() {
        gains.search_to_s = at_s;
        if iteration.origin.is_initial_design() && iteration.purpose != Purpose::Confirmation {
            gains.search_from_s = at_s;
        }
        for (_, found, verdict, _) in winners(std::slice::from_ref(iteration)) {
            let is_win = verdict == Verdict::Improved && standing::is_win(iteration, &found.case, &record.iterations);
            if let Some(factor) = found.speedup.filter(|_| is_win) {
                gains.all.push(Gain { at_s, case: &found.case, factor });
            }
        }
    }
    gains
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;
    use crate::domain::origin::Origin;

    #[test]
    fn improvements_have_the_time_at_which_they_were_recorded() {
        let mut record = record();
        record.iterations[0].origin = Origin::InitialKernel;
        let gains = of(&record);
        let told: Vec<(f64, f64)> = gains.all.iter().map(|gain| (gain.at_s, gain.factor)).collect();
        assert_eq!(told, [(6.0, 1.25), (9.0, 1.28)], "each iteration took 3 s");
        assert_eq!((gains.search_from_s, gains.search_to_s), (3.0, 15.0));
    }
}
