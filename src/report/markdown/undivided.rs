//! A sentence on the leads that are missing in the table of divided ones.

use crate::report::breakdown::MIN_LEAD;
use crate::report::changes::listed;
use crate::report::contract::{Report, Undivided};
use crate::report::format::times;

/// The most cases to name for a reason.
const MAX_CASES: usize = 3;

/// Counts the leads that are large enough for the table but missing there, by reason. None if all are there.
pub(super) fn missing(report: &Report) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<&Undivided>)> = Vec::new();
    for one in &report.undivided_leads {
        let why = match one.ablated_factor {
            None => "whose slower kernel was not ablated",
            Some(again) if again < MIN_LEAD => {
                "that were smaller when both kernels were timed again beside their ablations"
            }
            Some(_) => "where some of the ablations have no time",
        };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, leads)) => leads.push(one),
            None => reasons.push((why, vec![one])),
        }
    }
    let told = |(why, leads): &(&str, Vec<&Undivided>)| {
        let mut largest = leads.clone();
        largest.sort_by(|a, b| b.factor.total_cmp(&a.factor));
        let named: Vec<String> =
            largest.iter().take(MAX_CASES).map(|one| format!("`{}`, {}", one.case, times(one.factor))).collect();
        let all = if named.len() == leads.len() { "" } else { "the largest: " };
        format!("{} {why} ({all}{})", leads.len(), named.join("; "))
    };
    let told: Vec<String> = reasons.iter().map(told).collect();
    Some(format!("Leads of 4% or more that are missing: {}.", listed(&told)?))
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
        insta::assert_snapshot!(missing(&report).unwrap(), @"Leads of 4% or more that are missing: 1 whose slower kernel was not ablated (`b1h8s512`, 1.05×), 1 that were smaller when both kernels were timed again beside their ablations (`b1h8s512`, 1.05×) and 1 where some of the ablations have no time (`b1h8s512`, 1.05×).");
    }
}
