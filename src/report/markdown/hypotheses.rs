//! The hypotheses that say most: those that paid, and those that promised most and were refuted.

use super::table::table;
use crate::domain::hypothesis::Score;
use crate::report::contract::{Claim, Report};
use crate::report::format::times;

/// Rows of each kind.
const ROWS: usize = 4;

/// Returns the table: the claims whose variants were fastest, then those that promised most and were slower.
pub(super) fn hypotheses(report: &Report) -> String {
    // Every tuned kernel is many times as fast as the initial one, so only claims over another variant say much.
    let tested = report.hypotheses.iter().filter(|claim| claim.relative_to.is_some());
    let tested: Vec<(&Claim, [f64; 2], f64)> =
        tested.filter_map(|claim| Some((claim, claim.predicted?, claim.actual?))).collect();
    let mut paid: Vec<_> = tested.iter().filter(|(.., actual)| *actual > 1.0).collect();
    paid.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut failed: Vec<_> = tested.iter().filter(|(.., actual)| *actual <= 1.0).collect();
    failed.sort_by(|a, b| b.0.predicted_median.unwrap_or(b.1[0]).total_cmp(&a.0.predicted_median.unwrap_or(a.1[0])));
    let row = |(claim, [lo, hi], actual): &&(&Claim, [f64; 2], f64)| {
        vec![
            claim.iteration.to_string(),
            claim.claim.clone(),
            claim.evidence.clone(),
            format!("{} to {}", times(*lo), times(*hi)),
            times(*actual),
            claim.score.map_or("", Score::name).replace('_', " "),
        ]
    };
    let rows: Vec<Vec<String>> = paid.iter().take(ROWS).chain(failed.iter().take(ROWS)).map(row).collect();
    table(&[">#", "claim", "evidence before", ">predicted", ">actual", "score"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, report};

    #[test]
    fn claims_that_paid_come_before_claims_that_did_not_and_those_over_the_initial_kernel_are_left_out() {
        let mut report = report(&record());
        report.hypotheses[1].actual = Some(0.8);
        insta::assert_snapshot!(hypotheses(&report), @r"
        | # | claim | evidence before | predicted | actual | score |
        |--:|---|---|--:|--:|---|
        | 3 | 256 threads \| more warps hide latency | 2 blocks on 58 SMs | 1.10× to 1.50× | 1.28× | in range |
        | 2 | 128 threads \| more warps hide latency | 2 blocks on 58 SMs | 1.10× to 1.50× | 0.80× | in range |
        ");
    }
}
