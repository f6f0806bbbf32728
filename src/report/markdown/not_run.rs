//! How many variants a session did not run, and why.

use crate::report::contract::Report;

/// Says which variants were compiled and not run, and how many suggestions were not even compiled. None if there are none.
pub(super) fn sentence(report: &Report) -> Option<String> {
    let pruned = match report.iterations.get("pruned").copied().unwrap_or_default() {
        0 => None,
        1 => Some("1 of the variants was not run: a duplicate, or without a chance to be the fastest.".to_owned()),
        some => {
            Some(format!("{some} of the variants were not run: duplicates, or without a chance to be the fastest."))
        }
    };
    let left_out = match report.suggestions_left_out {
        0 => None,
        1 => Some("1 suggestion was left out without a run, because it had no chance to be the fastest.".to_owned()),
        some => Some(format!(
            "{some} suggestions were left out without a run, because they had no chance to be the fastest."
        )),
    };
    let told: Vec<String> = [pruned, left_out].into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, report};

    #[test]
    fn what_was_not_run_is_counted() {
        let mut record = record();
        assert_eq!(sentence(&report(&record)), None);
        record.suggestions_left_out = 40;
        let mut report = report(&record);
        report.iterations.insert("pruned", 1);
        insta::assert_snapshot!(sentence(&report).unwrap(), @"1 of the variants was not run: a duplicate, or without a chance to be the fastest. 40 suggestions were left out without a run, because they had no chance to be the fastest.");
    }
}
