//! The best time of every family on each case: what the winner won against.

use std::collections::HashSet;

use super::contract::{Case, FamilyTime, Rivals};
use super::pairs::screened;
use super::standing;
use crate::domain::record::{IterationRecord, SessionRecord};

/// Returns the best times of all families on each case: that of the winner first, then the others, fastest first. Cases that only
/// one family could compute are left out, because nothing competed there.
pub(super) fn of(cases: &[Case], record: &SessionRecord) -> Vec<Rivals> {
    let rivals = cases.iter().map(|case| Rivals { case: case.case.clone(), families: families(case, record) });
    rivals.filter(|rivals| rivals.families.len() > 1).collect()
}

/// Returns the time of a variant as a ratio of one run has it: the best variant's time times the ratio, in microseconds.
/// None if the two did not take turns in the run that gave the case's figures.
pub(super) fn us_in_one_run(iteration: &IterationRecord, case: &Case, record: &SessionRecord) -> Option<f64> {
    let deciding = standing::of(&case.case, record)?.deciding?;
    let same = record.iterations.iter().filter(|one| one.hash == iteration.hash);
    let other = same.into_iter().find_map(|one| deciding.of_iteration(one.id))?;
    Some(case.best_us? * deciding.over_best(other)?.estimate)
}

/// Returns the best time of a variant in its screening runs, in microseconds.
pub(super) fn screened_us(iteration: &IterationRecord, case: &Case, record: &SessionRecord) -> Option<f64> {
    let own = screened(&record.iterations).filter(|(one, name, _)| one.hash == iteration.hash && *name == &*case.case);
    own.map(|(.., ns)| ns / 1e3).reduce(f64::min)
}

/// The fastest variant of a family on a case.
#[derive(Clone, Copy)]
pub(super) struct Fastest<'a> {
    /// An iteration that timed it.
    pub(super) iteration: &'a IterationRecord,
    /// Its time in microseconds.
    pub(super) us: f64,
    /// Whether it took turns with the winner in one run.
    pub(super) in_one_run: bool,
}

/// Returns the fastest variant of a family: of those that took turns with the winner in one run, else of all, by their
/// screening runs. The least of many screening runs is partly luck.
pub(super) fn fastest<'a>(family: &str, case: &Case, record: &'a SessionRecord) -> Option<Fastest<'a>> {
    let own = |iteration: &IterationRecord| iteration.family == family;
    let least = |a: &Fastest<'_>, b: &Fastest<'_>| a.us.total_cmp(&b.us);
    let deciding = standing::of(&case.case, record).and_then(|standing| standing.deciding);
    let turns = deciding.iter().flat_map(|deciding| &deciding.comparison.participants);
    let turns = turns.filter_map(|one| record.iterations.iter().find(|other| Some(other.id) == one.iteration));
    let in_one_run = turns.filter(|one| own(one)).filter_map(|iteration| {
        let us = us_in_one_run(iteration, case, record)?;
        Some(Fastest { iteration, us, in_one_run: true })
    });
    in_one_run.min_by(least).or_else(|| {
        let screened = screened(&record.iterations).filter(|(one, name, _)| own(one) && *name == &*case.case);
        screened.map(|(iteration, _, ns)| Fastest { iteration, us: ns / 1e3, in_one_run: false }).min_by(least)
    })
}

/// Returns the best time of every family on a case. For the winner's, that is the best variant's own time.
fn families(case: &Case, record: &SessionRecord) -> Vec<FamilyTime> {
    let mut families: Vec<FamilyTime> = Vec::new();
    let mut seen = HashSet::new();
    for (iteration, ..) in screened(&record.iterations).filter(|(_, name, _)| *name == &*case.case) {
        let family = &iteration.family;
        let new = u64::from(seen.insert(&iteration.hash));
        match families.iter_mut().find(|one| one.family == *family) {
            Some(known) => known.configurations += new,
            None => families.push(FamilyTime {
                family: family.clone(),
                us: f64::INFINITY,
                in_one_run: false,
                configurations: new,
            }),
        }
    }
    let winner = case.variant.as_ref().zip(case.best_us);
    for one in &mut families {
        let timed = || fastest(&one.family, case, record);
        (one.us, one.in_one_run) = match winner.filter(|(winner, _)| winner.family == one.family) {
            Some((_, best_us)) => (best_us, true),
            None => timed().map_or((f64::INFINITY, false), |fastest| (fastest.us, fastest.in_one_run)),
        };
    }
    // A family that ties with the winner's may seem faster by its ratio in one run.
    let is_other = |one: &FamilyTime| winner.is_none_or(|(winner, _)| winner.family != one.family);
    families.sort_by(|a, b| is_other(a).cmp(&is_other(b)).then(a.us.total_cmp(&b.us)));
    families
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, iteration, record, report};
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::verdict::Verdict;

    /// The winner takes 50 us, and a screening run of the other family took 49.9 us, which was not confirmed.
    #[test]
    fn the_family_of_the_winner_comes_first_where_another_one_ties() {
        let mut record = record();
        let other = found("b1h1s128", 49.9, Verdict::Regressed, None, None);
        let mut rival = iteration(IterationId(6), 48, None, Outcome::Measured, vec![other]);
        rival.family = "split-k".to_owned();
        record.iterations.push(rival);
        let report = report(&record);
        let families: Vec<(&str, f64)> = report.rivals[0].families.iter().map(|one| (&*one.family, one.us)).collect();
        assert_eq!(families, [("tiled", 50.0), ("split-k", 49.9)]);
        assert!(report.summary.contains("Within 2% of the winner is `split-k` on `b1h1s128`"), "{}", report.summary);
    }
}
