//! The improvements of a session in the order of their time.

use std::collections::HashSet;

use super::standing::{self, winners};
use crate::domain::history::tested::screened_ns;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::excerpt::Used;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::variant::VariantHash;

/// An improvement that the session has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Gain<'a> {
    /// Seconds of the session until it was on record.
    pub(super) at_s: f64,
    /// The case.
    pub(super) case: &'a str,
    /// The incumbent's time over its own. For the first improvement of a case by the search: the best time of the initial
    /// design over its own, if that is less.
    pub(super) factor: f64,
    /// Whether the search found the variant. The others belong to the initial design, which was only confirmed later.
    pub(super) by_search: bool,
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

impl Gains<'_> {
    /// Returns the improvements that the search found, oldest first.
    pub(super) fn by_search(&self) -> impl DoubleEndedIterator<Item = &Gain<'_>> {
        self.all.iter().filter(|gain| gain.by_search)
    }
}

/// Returns the improvements of a session.
pub(super) fn of(record: &SessionRecord) -> Gains<'_> {
    let mut gains = Gains { all: Vec::new(), search_from_s: 0.0, search_to_s: 0.0 };
    let initial = record.iterations.iter().filter(|one| one.rationale.origin.is_initial_design());
    let initial: HashSet<&VariantHash> = initial.map(|one| &one.hash).collect();
    for (iteration, Used { wall_s: at_s, .. }) in record.with_used() {
        gains.search_to_s = at_s;
        if iteration.rationale.origin.is_initial_design() && iteration.rationale.purpose != Purpose::Confirmation {
            gains.search_from_s = at_s;
        }
        for (_, found, verdict, _) in winners(std::slice::from_ref(iteration)) {
            let is_win = verdict == Verdict::Improved && standing::is_win(iteration, &found.case, &record.iterations);
            if let Some(speedup) = found.speedup.filter(|_| is_win) {
                let is_first = gains.all.iter().all(|gain| gain.case != &*found.case);
                let over_design = if is_first { over_initial_design(record, iteration, &found.case) } else { None };
                let factor = over_design.map_or(speedup, |over| over.min(speedup));
                let by_search = factor > 1.0 && !initial.contains(&iteration.hash);
                let factor = if by_search { factor } else { speedup };
                gains.all.push(Gain { at_s, case: &found.case, factor, by_search });
            }
        }
    }
    gains
}

/// Returns the best time of the initial design on a case over that of a variant. The first variant of a case that is
/// confirmed replaces the initial kernel, but the initial design had screened faster ones.
fn over_initial_design(record: &SessionRecord, iteration: &IterationRecord, case: &str) -> Option<f64> {
    let design = record.iterations.iter().filter(|one| one.rationale.origin.is_initial_design());
    let best = design.filter_map(|one| screened_ns(one, case)).reduce(f64::min)?;
    let same = record.iterations.iter().filter(|one| one.hash == iteration.hash);
    Some(best / same.filter_map(|one| screened_ns(one, case)).reduce(f64::min)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::proposal::origin::Origin;
    use crate::report::tests::record;

    #[test]
    fn improvements_have_the_time_at_which_they_were_recorded() {
        let mut record = record();
        record.iterations[0].rationale.origin = Origin::InitialKernel;
        let gains = of(&record);
        let told: Vec<(f64, f64)> = gains.all.iter().map(|gain| (gain.at_s, gain.factor)).collect();
        assert_eq!(told, [(6.0, 1.25), (9.0, 1.28)], "each iteration took 3 s");
        assert_eq!((gains.search_from_s, gains.search_to_s), (3.0, 15.0));
    }
}
