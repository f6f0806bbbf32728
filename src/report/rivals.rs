//! The best time of every family on each case: what the winner won against.

use super::contract::{Case, FamilyTime, Rivals};
use super::pairs::Sample;

/// Returns the best times of all families on each case, fastest first. Cases that only one family could compute are left
/// out, because nothing competed there.
pub(super) fn of(cases: &[Case], samples: &[Sample<'_>]) -> Vec<Rivals> {
    let rivals = cases.iter().map(|case| Rivals { case: case.case.clone(), families: families(case, samples) });
    rivals.filter(|rivals| rivals.families.len() > 1).collect()
}

/// Returns the best time of every family on a case. For the winner's, that is the best variant's own time.
fn families(case: &Case, samples: &[Sample<'_>]) -> Vec<FamilyTime> {
    let mut families: Vec<FamilyTime> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.case == &*case.case) {
        let us = sample.ln_ns.exp() / 1e3;
        match families.iter_mut().find(|family| family.family == sample.family) {
            Some(family) => {
                family.us = family.us.min(us);
                family.configurations += 1;
            }
            None => families.push(FamilyTime { family: sample.family.to_owned(), us, configurations: 1 }),
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
