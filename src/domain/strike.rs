//! What a record says of variants that were looked at, confirmed and failed: two iterations or more of one variant.

use std::collections::HashSet;

use super::evaluation::Outcome;
use super::record::{CaseRecord, IterationRecord, SessionRecord};
use super::variant::VariantHash;
use super::verdict::Verdict;

impl SessionRecord {
    /// Tells whether an iteration confirms what an earlier one had looked at: it is of the same variant.
    pub fn confirms(&self, iteration: &IterationRecord) -> bool {
        let place = |id: i64| self.iterations.binary_search_by_key(&id, |other| other.id).ok();
        let looked_at = iteration.parent.and_then(place).map(|place| &self.iterations[place]);
        looked_at.is_some_and(|looked_at| looked_at.hash == iteration.hash)
    }

    /// Rejects a variant in all its iterations where it failed in a later one: there, and if its confirmation failed, wherever it
    /// was only looked at. A process may die before it has put all that down.
    pub fn strike_out(&mut self) {
        let mut failed: HashSet<(VariantHash, String)> = HashSet::new();
        let mut broken: HashSet<VariantHash> = HashSet::new();
        for iteration in &self.iterations {
            let measured = iteration.outcome == Some(Outcome::Measured);
            if measured || (iteration.outcome.is_some() && self.confirms(iteration)) {
                let rejected = iteration.measurements.iter().filter(|found| found.verdict == Some(Verdict::Rejected));
                failed.extend(rejected.map(|found| (iteration.hash.clone(), found.case.clone())));
            }
            if !measured && iteration.outcome.is_some() && self.confirms(iteration) {
                let case = iteration.outcome.as_ref().and_then(Outcome::case);
                failed.extend(case.map(|case| (iteration.hash.clone(), case.to_owned())));
                broken.insert(iteration.hash.clone());
            }
        }
        let found = || self.iterations.iter().flat_map(|one| one.measurements.iter().map(move |found| (one, found)));
        let of = |(iteration, found): (&IterationRecord, &CaseRecord)| (iteration.hash.clone(), found.case.clone());
        let more_than_a_look: HashSet<_> = found().filter(|(_, found)| !found.is_look()).map(of).collect();
        for iteration in self.iterations.iter_mut().filter(|one| one.outcome == Some(Outcome::Measured)) {
            for found in &mut iteration.measurements {
                let of = (iteration.hash.clone(), found.case.clone());
                if failed.contains(&of) || (broken.contains(&iteration.hash) && !more_than_a_look.contains(&of)) {
                    found.verdict = Some(Verdict::Rejected);
                }
            }
        }
    }
}
