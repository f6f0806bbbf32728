//! Whether a configuration divides a case into fewer blocks than the best variant does.

use std::collections::HashMap;

use super::contract::{Case, NextExperiment};
use crate::domain::proposal::origin::Change;
use crate::domain::record::IterationRecord;
use crate::domain::statistics::median;
use crate::domain::variant::Params;

/// Tells whether a configuration has a smaller grid on a case than the best variant, by the launch plans of the session.
/// False if they do not show it.
pub(super) fn is_smaller(case: &Case, experiment: &NextExperiment, iterations: &[IterationRecord]) -> bool {
    let Some(own) = case.ctas.map(|own| own as f64) else { return false };
    let NextExperiment { family, params, .. } = experiment;
    let grids: Vec<(&Params, f64)> = iterations
        .iter()
        .filter(|one| one.family == *family)
        .flat_map(|one| one.measurements.iter().map(move |found| (one, found)))
        .filter(|(_, found)| found.case == case.case)
        .filter_map(|(one, found)| Some((&one.params, found.ctas? as f64)))
        .collect();
    let known = grids.iter().find(|(timed, _)| *timed == params).map(|(_, blocks)| *blocks);
    let variant = case.variant.as_ref().filter(|variant| variant.family == *family);
    let derived = || {
        let changes = Change::between(&variant?.params, params);
        changes.iter().try_fold(own, |blocks, change| Some(blocks * factor(&grids, change)?))
    };
    known.or_else(derived).is_some_and(|blocks| blocks < own)
}

/// Returns the factor of a change on the blocks of a grid: the median of the pairs that differ in nothing else.
fn factor(grids: &[(&Params, f64)], change: &Change) -> Option<f64> {
    let of = |value: i64| {
        let has_value = move |grid: &&(&Params, f64)| grid.0.get(&change.parameter) == Some(&value);
        grids.iter().filter(has_value).map(|(params, blocks)| (others(params, &change.parameter), *blocks))
    };
    let before: HashMap<Vec<(&String, &i64)>, f64> = of(change.from).collect();
    let factors = of(change.to).filter_map(|(others, blocks)| Some(blocks / before.get(&others)?));
    median(&factors.collect::<Vec<_>>())
}

fn others<'a>(params: &'a Params, left_out: &str) -> Vec<(&'a String, &'a i64)> {
    params.iter().filter(|(name, _)| *name != left_out).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, report};

    /// The best variant has `BLOCK` = 256 and `PAD` = 8. Its grid has 2 blocks, as all grids of the record.
    #[test]
    fn a_grid_is_known_from_the_configuration_or_follows_from_pairs() {
        let mut record = record();
        let case = report(&record).cases[0].clone();
        let set = |block: i64, pad: i64| NextExperiment {
            source: "parameter",
            case: case.case.clone(),
            against: None,
            family: "tiled".to_owned(),
            params: Params::from([("BLOCK".to_owned(), block), ("PAD".to_owned(), pad)]),
            changes: Vec::new(),
            rule: None,
            of_case: None,
            before_us: 1.0,
            expected: 1.0,
        };
        let add = |record: &mut crate::domain::record::SessionRecord, block, pad, ctas| {
            let mut one = record.iterations[2].clone();
            one.params = set(block, pad).params;
            one.measurements[0].ctas = Some(ctas);
            record.iterations.push(one);
        };
        assert!(!is_smaller(&case, &set(512, 8), &record.iterations), "nothing shows it");
        add(&mut record, 256, 16, 6);
        add(&mut record, 512, 16, 3);
        assert!(is_smaller(&case, &set(512, 8), &record.iterations), "half as many blocks in a pair");
        assert!(!is_smaller(&case, &set(256, 16), &record.iterations), "6 blocks");
        add(&mut record, 512, 8, 2);
        assert!(!is_smaller(&case, &set(512, 8), &record.iterations), "as many blocks, by its own plan");
    }
}
