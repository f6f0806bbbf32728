//! Where the winners of the improved cases come from: the search, the initial design before it, or the finals after it.

use std::collections::HashSet;

use super::contract::{Case, ImprovedBy};
use super::gains::Gains;
use crate::domain::record::SessionRecord;

/// Counts the improved cases by what found their winners.
pub(super) fn of(cases: &[Case], gains: &Gains<'_>, record: &SessionRecord) -> ImprovedBy {
    let design = record.iterations.iter().filter(|one| one.rationale.origin.is_initial_design());
    let design: HashSet<&str> = design.map(|one| &*one.hash.0).collect();
    let mut by = ImprovedBy { search_steps: gains.by_search().count() as u64, ..ImprovedBy::default() };
    for case in cases.iter().filter(|case| case.change.as_ref().is_some_and(|change| change.improved)) {
        let is_of_design = case.variant.as_ref().is_some_and(|variant| design.contains(&*variant.hash));
        let is_confirmed = gains.all.iter().any(|gain| gain.case == &*case.case);
        *match (is_of_design, is_confirmed) {
            (true, _) => &mut by.initial_design,
            (false, true) => &mut by.search,
            (false, false) => &mut by.finals,
        } += 1;
    }
    by
}

#[cfg(test)]
mod tests {
    use super::super::gains;
    use super::*;
    use crate::domain::proposal::origin::Origin;
    use crate::report::tests::{record, report};

    /// Iterations 2 and 3 improved the only case. The initial design had iteration 1, then all of them.
    #[test]
    fn a_winner_is_of_the_search_unless_the_initial_design_had_it() {
        let mut record = record();
        record.iterations[0].rationale.origin = Origin::InitialKernel;
        let by = |record: &SessionRecord| of(&report(record).cases, &gains::of(record), record);
        assert_eq!(by(&record), ImprovedBy { search: 1, search_steps: 2, initial_design: 0, finals: 0 });
        record.iterations[1].rationale.origin = Origin::FamilyDefault;
        record.iterations[2].rationale.origin = Origin::FamilyDefault;
        assert_eq!(by(&record), ImprovedBy { search: 0, search_steps: 0, initial_design: 1, finals: 0 });
    }
}
