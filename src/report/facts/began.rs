//! What a session began with on a case, and how far it came from there.

use super::contract::{self, Change};
use super::standing::{Standing, winners};
use super::{comparisons, pairs, standing};
use crate::domain::device::TimeSource;
use crate::domain::measurement::conditions::Conditions;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::record::{CaseRecord, IterationRecord, SessionRecord};
use crate::domain::statistics::timing::Timing;

/// A variant with its time on a case.
#[derive(Clone, Copy)]
pub(super) struct Timed<'a> {
    /// The iteration that measured it.
    pub(super) iteration: &'a IterationRecord,
    /// Its result on the case.
    pub(super) measurement: &'a CaseRecord,
    /// Its time.
    pub(super) timing: &'a Timing,
}

/// Returns the first correct variant of a case.
pub(super) fn first<'a>(case: &str, iterations: &'a [IterationRecord]) -> Option<Timed<'a>> {
    winners(iterations)
        .find(|(_, measurement, verdict, _)| measurement.case == case && *verdict == Verdict::Start)
        .map(|(iteration, measurement, _, timing)| Timed { iteration, measurement, timing })
}

/// Returns the committed winner of a case as it was measured again: where it has beaten the incumbent, else where it was only
/// screened.
pub(super) fn committed<'a>(case: &str, iterations: &'a [IterationRecord]) -> Option<Timed<'a>> {
    let is_rejected = |found: &CaseRecord| matches!(found.verdict, None | Some(Verdict::Rejected));
    let has_won = |timed: &Timed<'_>| matches!(timed.measurement.verdict, Some(Verdict::Start | Verdict::Improved));
    let measured = iterations.iter().filter(|iteration| iteration.rationale.origin.is_committed_winner_of(case));
    let measured = measured.flat_map(|iteration| iteration.measurements.iter().map(move |found| (iteration, found)));
    measured
        .filter(|(_, found)| found.case == case && !is_rejected(found))
        .filter_map(|(iteration, found)| Some(Timed { iteration, measurement: found, timing: found.best_timing()? }))
        .min_by(|a, b| has_won(b).cmp(&has_won(a)).then(a.timing.median_ns.total_cmp(&b.timing.median_ns)))
}

/// Returns how a case changed in a session. None without a correct variant.
pub(super) fn change(case: &str, record: &SessionRecord, conditions: Option<&Conditions>) -> Option<Change> {
    let standing = standing::of(case, record)?;
    let committed = committed(case, &record.iterations);
    let began = committed.or_else(|| first(case, &record.iterations))?;
    let ratio = ratio(began, &standing, conditions);
    let is_other = began.iteration.hash != standing.iteration.hash;
    let noise = || match record.session.time_source {
        TimeSource::Measured => pairs::noise(record).share,
        TimeSource::Modelled | TimeSource::Recorded => 0.0,
    };
    let tied = is_other && ratio.is_some_and(|ratio| is_tie(ratio, noise));
    Some(Change {
        began_with: if committed.is_some() { "committed_winner" } else { "first_variant" },
        began_us: began.timing.median_ns / 1e3,
        ratio,
        improved: is_other && !tied && ratio.is_none_or(|ratio| ratio.estimate > 1.0),
        tied,
    })
}

/// Tells whether a ratio does not tell two variants apart. In one run, its interval reaches 1. Of two runs, it is within
/// what two runs of one variant differ by.
fn is_tie(ratio: contract::Ratio, noise: impl Fn() -> f64) -> bool {
    match ratio.paired {
        true => ratio.lo.unwrap_or(ratio.estimate) <= 1.0 && ratio.hi.unwrap_or(ratio.estimate) >= 1.0,
        false => ratio.estimate.ln().abs() <= noise(),
    }
}

/// Returns a variant's time over the best one: paired if one comparison timed both, that of the figures or else the one that
/// confirmed the best variant; 1 if they are the same variant.
pub(super) fn ratio(
    timed: Timed<'_>,
    standing: &Standing<'_>,
    conditions: Option<&Conditions>,
) -> Option<contract::Ratio> {
    if timed.iteration.hash == standing.iteration.hash {
        return Some(contract::Ratio { estimate: 1.0, lo: Some(1.0), hi: Some(1.0), paired: true });
    }
    let of_variant =
        |deciding: standing::DecidingComparison<'_>| deciding.over_best(deciding.of_iteration(timed.iteration.id)?);
    let alone = standing::Alone { timing: timed.timing, regime: timed.measurement.regime };
    let paired = standing.deciding.and_then(of_variant).or_else(|| standing.confirmation().and_then(of_variant));
    let paired = paired.map(comparisons::paired);
    paired.or_else(|| {
        Some(comparisons::unpaired(standing.compared(&alone, conditions?)?, [standing.timing, timed.timing]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::proposal::origin::{Origin, Purpose};
    use crate::report::tests::record;

    #[test]
    fn a_case_without_a_committed_winner_begins_with_its_first_variant() {
        let change = change("b1h1s128", &record(), None).unwrap();
        assert_eq!((change.began_with, change.began_us, change.improved), ("first_variant", 80.0, true));
        assert_eq!(super::change("b16h8s512", &record(), None), None, "nothing was correct");
    }

    #[test]
    fn a_ratio_whose_interval_reaches_1_or_that_is_within_the_noise_of_two_runs_is_a_tie() {
        let ratio =
            |estimate, lo, paired| contract::Ratio { estimate, lo: Some(lo), hi: Some(estimate + 0.002), paired };
        let table = [(1.001, 1.0005, true), (1.001, 0.999, true), (1.001, 1.0005, false), (1.03, 1.0005, false)];
        let tied = table.map(|(estimate, lo, paired)| is_tie(ratio(estimate, lo, paired), || 0.02));
        assert_eq!(tied, [false, true, true, false]);
    }

    #[test]
    fn a_committed_winner_that_was_only_screened_is_what_the_session_began_with() {
        let mut record = record();
        record.iterations[1].rationale.origin =
            Origin::CommittedWinner { device: "an L4".to_owned(), cases: Vec::new() };
        for found in &mut record.iterations[1].measurements {
            found.verdict = Some(Verdict::Tied);
        }
        let screened_us = record.iterations[1].measurements[0].best_timing().unwrap().median_ns / 1e3;
        let change = change("b1h1s128", &record, None).unwrap();
        assert_eq!((change.began_with, change.began_us), ("committed_winner", screened_us));
    }

    #[test]
    fn a_committed_winner_that_nothing_beats_is_no_improvement() {
        let mut record = record();
        record.iterations[2].rationale.origin =
            Origin::CommittedWinner { device: "an L4".to_owned(), cases: Vec::new() };
        record.iterations[2].rationale.purpose = Purpose::Remeasurement;
        let change = change("b1h1s128", &record, None).unwrap();
        assert_eq!((change.began_with, change.began_us, change.improved), ("committed_winner", 50.0, false));
        assert_eq!(change.ratio.map(|ratio| ratio.estimate), Some(1.0));
    }
}
