//! Where a proposer searches next: a family on a case.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::SearchContext;
use super::diagnosis::{Diagnosis, Headroom};
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::workload::Case;

/// Exponent of the weight of a family, or of a variant to move from. The base is the best time on a case over the
/// family's or variant's own. With the cube, one that takes twice as long has an eighth of the weight. A family that is
/// a hundred times slower costs a hundred times as much, and gets almost no weight.
pub(super) const FAMILY_POWER: f64 = 3.0;

/// The weight of a family that was not timed on a case, only on others.
const UNSEEN: f64 = 0.3;

/// A family on a case.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// The family.
    pub family: &'a Family,
    /// The case.
    pub case: &'a Case,
}

/// Chooses a case. Its chance grows with the logarithm of its distance to the floor, and with `factor`. None if no case
/// is measured yet.
pub(super) fn choose_case<'a>(
    context: &SearchContext<'a>,
    diagnosis: &Diagnosis,
    factor: impl Fn(&str) -> f64,
    rng: &mut SmallRng,
) -> Option<&'a Case> {
    let weight = |headroom: &Headroom| (0.2 + headroom.factor().max(1.0).ln()) * factor(&headroom.case);
    let chosen = diagnosis.headroom.choose_weighted(rng, weight).ok()?;
    context.workload.cases.iter().find(|case| case.name == chosen.case)
}

/// Returns the weight of a family on a case, relative to the fastest family.
pub(super) fn weight(history: &History, family: &Family, case: &Case) -> f64 {
    let own_ns = history.fastest_of_family(&family.name, &case.name);
    let of_all = history.fastest(&case.name);
    own_ns.zip(of_all).map_or(UNSEEN, |(own_ns, (_, best_ns))| (best_ns / own_ns).powf(FAMILY_POWER))
}

/// Returns the timed configurations of a family on a case, with their times in nanoseconds, oldest first.
pub(super) fn timed<'h>(
    history: &'h History,
    family: &Family,
    case: &Case,
) -> impl Iterator<Item = (&'h Finished, f64)> {
    let of_family = history.finished.iter().filter(|finished| finished.family == family.name);
    of_family.filter_map(|finished| Some((finished, finished.time_ns(&case.name)?)))
}

/// Returns whether at least so many configurations of a family were timed on a case.
pub(super) fn is_timed(history: &History, place: Place<'_>, at_least: usize) -> bool {
    timed(history, place.family, place.case).take(at_least).count() == at_least
}
