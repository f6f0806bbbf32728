//! The families that cannot compute some cases, with the constraints that exclude them.

use indexmap::IndexMap;

use super::ReportInput;
use super::contract::Excluded;
use crate::domain::ids::CaseName;

/// Returns the excluded families. Cases with the same reasons share a row.
pub(super) fn of(input: &ReportInput<'_>) -> Vec<Excluded> {
    let selected = &input.record.session.cases;
    let mut rows = Vec::new();
    for family in input.families {
        let mut by_reasons: IndexMap<&[String], Vec<CaseName>> = IndexMap::new();
        for (case, why) in family.excluded.iter().filter(|(case, _)| selected.contains(case)) {
            by_reasons.entry(why).or_default().push(case.clone());
        }
        rows.extend(by_reasons.into_iter().map(|(why, cases)| Excluded {
            family: family.name.clone(),
            all: cases.len() == selected.len(),
            cases,
            why: why.to_vec(),
        }));
    }
    rows
}

/// Tells whether a family can compute a case.
pub(super) fn can_compute(input: &ReportInput<'_>, family: &str, case: &str) -> bool {
    let facts = input.families.iter().find(|facts| facts.name == family);
    facts.is_some_and(|facts| facts.excluded.iter().all(|(excluded, _)| *excluded != *case))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{families, input, record};

    #[test]
    fn cases_with_the_same_reasons_share_a_row() {
        let record = record();
        let mut families = families();
        let why = |text: &str| vec![text.to_owned()];
        families[1].excluded = vec![
            ("b1h1s128".into(), why("D must be 64")),
            ("b8h8s512".into(), why("too long")),
            ("b16h8s512".into(), why("D must be 64")),
        ];
        let input = ReportInput { families: &families, ..input(&record) };
        let told: Vec<(usize, bool)> = of(&input).iter().map(|row| (row.cases.len(), row.all)).collect();
        assert_eq!(told, [(2, false), (1, false)]);
        assert!(!can_compute(&input, "split-k", "b8h8s512") && can_compute(&input, "tiled", "b8h8s512"));
    }
}
