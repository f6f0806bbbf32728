//! Parameters whose best value is at an end of the values that a session tried: beyond it may be better ones.

use std::collections::BTreeSet;

use super::contract::Case;
use crate::domain::ids::CaseName;
use crate::domain::record::SessionRecord;

/// The fewest values of a parameter whose ends tell anything.
const MIN_VALUES: usize = 3;

/// A best value at an end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edge<'a> {
    /// The family.
    pub(super) family: &'a str,
    /// The parameter.
    parameter: &'a str,
    /// Its best value.
    value: i64,
    /// Whether that is the largest one. Otherwise it is the smallest.
    is_largest: bool,
    /// Whether all values of the parameter were suggested. Otherwise only those that were are known.
    is_whole_list: bool,
    /// The cases whose best variants have it.
    cases: Vec<&'a CaseName>,
}

/// Returns the best values at an end, those of the most cases first. There is nothing below 1, or 0 for none.
pub(super) fn of<'a>(cases: &'a [Case], record: &SessionRecord) -> Vec<Edge<'a>> {
    let mut edges: Vec<Edge<'_>> = Vec::new();
    let is_whole_list = record.suggestions_left_out == 0 && record.excerpt.is_none();
    for (case, variant) in cases.iter().filter_map(|case| Some((case, case.variant.as_ref()?))) {
        for (parameter, value) in &variant.params {
            let own = record.iterations.iter().filter(|one| one.family == variant.family);
            let values: BTreeSet<i64> = own.filter_map(|one| one.params.get(parameter).copied()).collect();
            let is_largest = values.last() == Some(value);
            let is_end = is_largest || (values.first() == Some(value) && *value > 1);
            if values.len() < MIN_VALUES || !is_end {
                continue;
            }
            let same = |one: &&mut Edge<'_>| {
                (one.family, one.parameter, one.value) == (&*variant.family, &**parameter, *value)
            };
            match edges.iter_mut().find(same) {
                Some(edge) => edge.cases.push(&case.case),
                None => edges.push(Edge {
                    family: &variant.family,
                    parameter,
                    value: *value,
                    is_largest,
                    is_whole_list,
                    cases: vec![&case.case],
                }),
            }
        }
    }
    edges.sort_by_key(|edge| std::cmp::Reverse(edge.cases.len()));
    edges
}

impl Edge<'_> {
    /// Says what the best value is, and what to add. `all` is the number of cases.
    pub(super) fn text(&self, all: usize) -> String {
        let Self { parameter, value, is_largest, is_whole_list, cases, .. } = self;
        let (end, more) = if *is_largest { ("largest", "larger") } else { ("smallest", "smaller") };
        let of = if *is_whole_list { "of its list" } else { "that was tried" };
        let on = match &**cases {
            _ if cases.len() == all => String::new(),
            [only] => format!(" on `{only}`"),
            [first, others @ ..] => format!(" on `{first}` and {} more", others.len()),
            [] => String::new(),
        };
        format!("the best value of `{parameter}`{on}, {value}, is the {end} {of}: add {more} ones")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record, report};
    use super::*;

    /// The best variants have `PAD` = 8, as all others, and `BLOCK` = 256 of 64, 128, 256 and more.
    #[test]
    fn a_best_value_at_the_end_of_its_list_is_told() {
        let mut record = record();
        let cases = report(&record).cases[..1].to_vec();
        record.iterations.retain(|one| one.params["BLOCK"] <= 256);
        let told = |record: &SessionRecord| of(&cases, record).iter().map(|edge| edge.text(1)).collect::<Vec<_>>();
        assert_eq!(told(&record), ["the best value of `BLOCK`, 256, is the largest of its list: add larger ones"]);
        record.suggestions_left_out = 3;
        assert_eq!(told(&record), ["the best value of `BLOCK`, 256, is the largest that was tried: add larger ones"]);
        record.iterations.retain(|one| one.params["BLOCK"] == 256);
        assert_eq!(told(&record), [""; 0], "one value has no ends");
    }
}
