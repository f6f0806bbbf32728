//! The fastest variant of a family on a case.

use super::contract::Case;
use super::pairs::screened;
use super::standing;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::statistics::Ratio;

/// The fastest variant of a family on a case.
#[derive(Clone, Copy)]
pub(super) struct Fastest<'a> {
    /// An iteration that timed it.
    pub(super) iteration: &'a IterationRecord,
    /// Its time in microseconds.
    pub(super) us: f64,
    /// Its time over the winner's, if the two took turns in one run.
    pub(super) in_one_run: Option<Ratio>,
}

/// Returns a variant's time over the best one's, if the two took turns in the run that gave the case's figures.
pub(super) fn in_one_run(iteration: &IterationRecord, case: &Case, record: &SessionRecord) -> Option<Ratio> {
    let deciding = standing::of(&case.case, record)?.deciding?;
    let same = record.iterations.iter().filter(|one| one.hash == iteration.hash);
    let other = same.into_iter().find_map(|one| deciding.of_iteration(one.id))?;
    deciding.over_best(other)
}

/// Returns the fastest variant of a family: of those that took turns with the winner in one run, else of all, by their
/// screening runs. The least of many screening runs is partly luck.
pub(super) fn of<'a>(family: &str, case: &Case, record: &'a SessionRecord) -> Option<Fastest<'a>> {
    let own = |iteration: &IterationRecord| iteration.family == family;
    let least = |a: &Fastest<'_>, b: &Fastest<'_>| a.us.total_cmp(&b.us);
    let deciding = standing::of(&case.case, record).and_then(|standing| standing.deciding);
    let turns = deciding.iter().flat_map(|deciding| &deciding.comparison.participants);
    let turns = turns.filter_map(|one| record.iterations.iter().find(|other| Some(other.id) == one.iteration));
    let of_one_run = turns.filter(|one| own(one)).filter_map(|iteration| {
        let ratio = in_one_run(iteration, case, record)?;
        Some(Fastest { iteration, us: case.best_us? * ratio.estimate, in_one_run: Some(ratio) })
    });
    of_one_run.min_by(least).or_else(|| {
        let screened = screened(&record.iterations).filter(|(one, name, _)| own(one) && *name == &*case.case);
        screened.map(|(iteration, _, ns)| Fastest { iteration, us: ns / 1e3, in_one_run: None }).min_by(least)
    })
}
