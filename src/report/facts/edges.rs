//! Parameters whose best value is at an end of the values that a session tried: beyond it may be better ones.

use std::collections::BTreeSet;

use super::contract::{Case, Edge};
use crate::domain::record::SessionRecord;

/// The fewest values of a parameter whose ends tell anything.
const MIN_VALUES: usize = 3;

/// Returns the best values at an end, those of the most cases first. There is nothing below 1, or 0 for none.
pub(super) fn of(cases: &[Case], record: &SessionRecord) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for (case, variant) in cases.iter().filter_map(|case| Some((case, case.variant.as_ref()?))) {
        for (parameter, value) in &variant.params {
            let own = record.iterations.iter().filter(|one| one.family == variant.family);
            let values: BTreeSet<i64> = own.filter_map(|one| one.params.get(parameter).copied()).collect();
            let is_largest = values.last() == Some(value);
            let is_end = is_largest || (values.first() == Some(value) && *value > 1);
            if values.len() < MIN_VALUES || !is_end {
                continue;
            }
            let same =
                |one: &&mut Edge| one.family == variant.family && one.parameter == *parameter && one.value == *value;
            match edges.iter_mut().find(same) {
                Some(edge) => edge.cases.push(case.case.clone()),
                None => edges.push(Edge {
                    family: variant.family.clone(),
                    parameter: parameter.clone(),
                    value: *value,
                    is_largest,
                    cases: vec![case.case.clone()],
                }),
            }
        }
    }
    edges.sort_by_key(|edge| std::cmp::Reverse(edge.cases.len()));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, report};

    /// The best variants have `PAD` = 8, as all others, and `BLOCK` = 256 of 64, 128, 256 and more.
    #[test]
    fn a_best_value_at_the_end_of_its_list_is_told() {
        let mut record = record();
        let cases = report(&record).cases[..1].to_vec();
        record.iterations.retain(|one| one.params["BLOCK"] <= 256);
        let told = |record: &SessionRecord| {
            of(&cases, record).into_iter().map(|edge| (edge.parameter, edge.value, edge.is_largest)).collect::<Vec<_>>()
        };
        assert_eq!(told(&record), [("BLOCK".to_owned(), 256, true)]);
        record.iterations.retain(|one| one.params["BLOCK"] == 256);
        assert_eq!(told(&record), [], "one value has no ends");
    }
}
