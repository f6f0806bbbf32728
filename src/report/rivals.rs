//! The best time of every family on each case: what the winner won against.

use std::collections::HashSet;

use super::contract::{Case, FamilyTime, Rivals};
use super::pairs::screened;
use crate::domain::record::IterationRecord;

/// Returns the best times of all families on each case, fastest first. Cases that only one family could compute are left
/// out, because nothing competed there.
pub(super) fn of(cases: &[Case], iterations: &[IterationRecord]) -> Vec<Rivals> {
    let rivals = cases.iter().map(|case| Rivals { case: case.case.clone(), families: families(case, iterations) });
    rivals.filter(|rivals| rivals.families.len() > 1).collect()
}

/// Returns the best time of every family on a case. For the winner's, that is the best variant's own time.
fn families(case: &Case, iterations: &[IterationRecord]) -> Vec<FamilyTime> {
    let mut families: Vec<FamilyTime> = Vec::new();
    let mut seen = HashSet::new();
    for (iteration, _, ns) in screened(iterations).filter(|(_, name, _)| *name == &*case.case) {
        let (family, us) = (&iteration.family, ns / 1e3);
        let new = u64::from(seen.insert(&iteration.hash));
        match families.iter_mut().find(|one| one.family == *family) {
            Some(known) => {
                known.us = known.us.min(us);
                known.configurations += new;
            }
            None => families.push(FamilyTime { family: family.clone(), us, configurations: new }),
        }
    }
    let winner = case.variant.as_ref().zip(case.best_us);
    if let Some((own, (_, best_us))) =
        winner.and_then(|winner| Some((families.iter_mut().find(|one| one.family == winner.0.family)?, winner)))
    {
        own.us = best_us;
    }
    families.sort_by(|a, b| a.us.total_cmp(&b.us));
    families
}
