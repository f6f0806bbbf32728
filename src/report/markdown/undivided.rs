//! A sentence on the leads that are missing in the table of divided ones.

use crate::report::changes::listed;
use crate::report::contract::{Report, Undivided};
use crate::report::format::{percent, times};

/// The least lead that the table divides.
const MIN_LEAD: f64 = 1.04;

/// Names the leads that are large enough for the table but missing there, with the reason. None if all are there.
pub(super) fn missing(report: &Report) -> Option<String> {
    let told = |one: &Undivided| {
        let committed = if one.over_committed { "the committed " } else { "" };
        let why = match one.ablated_factor {
            None => "not ablated".to_owned(),
            Some(again) if again < MIN_LEAD => format!("timed again beside its ablations, {}", percent(again - 1.0)),
            Some(_) => "some of its ablations have no time".to_owned(),
        };
        format!("`{}` over {committed}`{}` ({}: {why})", one.case, one.over_family, times(one.factor))
    };
    let told: Vec<String> = report.undivided_leads.iter().map(told).collect();
    Some(format!("Missing, though 4% or more: {}.", listed(&told)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, report};

    #[test]
    fn leads_that_are_missing_in_the_table_are_named_with_the_reason() {
        let mut report = report(&record());
        assert_eq!(missing(&report), None);
        let lead = |over_committed, ablated_factor| Undivided {
            case: "b1h8s512".into(),
            over_family: "split-k".to_owned(),
            over_committed,
            factor: 1.046,
            ablated_factor,
        };
        report.undivided_leads = vec![lead(true, None), lead(false, Some(1.012)), lead(false, Some(1.2))];
        insta::assert_snapshot!(missing(&report).unwrap(), @"Missing, though 4% or more: `b1h8s512` over the committed `split-k` (1.05×: not ablated), `b1h8s512` over `split-k` (1.05×: timed again beside its ablations, 1.2%) and `b1h8s512` over `split-k` (1.05×: some of its ablations have no time).");
    }
}
