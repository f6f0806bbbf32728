//! The hypotheses that say most: those that paid, and those that promised most and were refuted.

use super::table::{shown, table};
use crate::domain::hypothesis::{Reference, Score};
use crate::report::contract::{Claim, Report};
use crate::report::format::times;

/// Rows of each kind.
const ROWS: usize = 4;

/// Returns the table: the confirmed and exceeded claims with the largest speed-ups, then the refuted ones with the
/// largest promises.
pub(super) fn hypotheses(report: &Report) -> String {
    // Every tuned kernel is many times as fast as the initial one, so claims over that say little.
    let is_new = |claim: &&Claim| claim.reference != Reference::InitialKernel.name();
    let of = |scores: &'static [Score]| {
        let claims = report.hypotheses.iter().filter(is_new);
        claims.filter(move |claim| claim.verdict.is_some_and(|score| scores.contains(&score)))
    };
    let mut held: Vec<&Claim> = of(&[Score::Confirmed, Score::Exceeded]).collect();
    held.sort_by(|a, b| b.actual.unwrap_or(0.0).total_cmp(&a.actual.unwrap_or(0.0)));
    let mut failed: Vec<&Claim> = of(&[Score::Refuted]).collect();
    failed.sort_by(|a, b| b.predicted[0].total_cmp(&a.predicted[0]));
    let row = |claim: &&Claim| {
        vec![
            claim.iteration.to_string(),
            claim.claim.clone(),
            claim.evidence.clone(),
            format!("{} to {}", times(claim.predicted[0]), times(claim.predicted[1])),
            shown(claim.actual, times),
            claim.verdict.map_or("", Score::name).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = held.iter().take(ROWS).chain(failed.iter().take(ROWS)).map(row).collect();
    table(&[">#", "claim", "evidence before", ">predicted", ">actual", "verdict"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, report};

    #[test]
    fn claims_that_held_come_before_claims_that_failed_and_those_over_the_initial_kernel_are_left_out() {
        let mut report = report(&record());
        report.hypotheses[0].verdict = Some(Score::Exceeded);
        report.hypotheses[0].reference = Reference::InitialKernel.name();
        report.hypotheses[1].verdict = Some(Score::Refuted);
        insta::assert_snapshot!(hypotheses(&report), @"");
    }
}
