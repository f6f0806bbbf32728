//! The families that could win more cases if they were tried more, and how much faster other families of the session became
//! after as few configurations.

use std::collections::{BTreeSet, HashMap};

use super::contract::Case;
use super::pairs::samples;
use super::{ReportInput, excluded, fastest};

/// Share of the tried configurations below which a family counts as little tried.
const LITTLE_TRIED: f64 = 0.05;

/// How much slower than the winner the best of a little-tried family may be, to be worth more tries.
const WITHIN_REACH: f64 = 1.5;

/// The fewest searches of other families from which something is expected.
const MIN_SEARCHES: usize = 3;

/// A family that could win more cases if it were tried more.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LittleTried<'a> {
    /// The family.
    pub(super) name: &'a str,
    /// How many of its configurations were timed.
    pub(super) configurations: usize,
    /// How far it is behind the winners of the cases on which it was timed, the nearest first.
    pub(super) behind: Vec<Behind>,
}

/// How far a family is behind the winner of a case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Behind {
    /// Its best time over the winner's.
    pub(super) factor: f64,
    /// How much faster other families became after as many configurations, on each case where they were tried at least twice
    /// as often.
    pub(super) later_gains: Vec<f64>,
}

/// Returns the families that win no case, fit at least one, and were hardly tried or are close behind.
pub(super) fn of<'a>(cases: &'a [Case], input: &ReportInput<'a>) -> Vec<LittleTried<'a>> {
    let samples = samples(&input.record.iterations);
    let configurations = |family: Option<&str>| {
        let of_family = samples.iter().filter(|one| family.is_none_or(|family| family == one.family));
        of_family.map(|one| (one.family, one.params.iter().collect::<Vec<_>>())).collect::<BTreeSet<_>>().len()
    };
    let mut courses: HashMap<(&str, &str), Vec<f64>> = HashMap::new();
    for sample in &samples {
        courses.entry((sample.family, sample.case)).or_default().push(sample.ln_ns);
    }
    let all = configurations(None);
    let wins = |name: &str| cases.iter().any(|case| case.variant.as_ref().is_some_and(|one| one.family == name));
    let candidates = input.families.iter().filter(|family| {
        !wins(&family.name) && cases.iter().any(|case| excluded::can_compute(input, &family.name, &case.case))
    });
    let of = |name: &'a str| {
        let on = |case: &'a Case| behind(name, case, &courses, input);
        let mut behind: Vec<Behind> = cases.iter().filter_map(on).collect();
        behind.sort_by(|a, b| a.factor.total_cmp(&b.factor));
        LittleTried { name, configurations: configurations(Some(name)), behind }
    };
    candidates
        .map(|family| of(&family.name))
        .filter(|one| one.configurations as f64 <= LITTLE_TRIED * all as f64)
        .filter(|one| one.behind.first().is_none_or(|nearest| nearest.factor <= WITHIN_REACH))
        .collect()
}

fn behind(
    name: &str,
    case: &Case,
    courses: &HashMap<(&str, &str), Vec<f64>>,
    input: &ReportInput<'_>,
) -> Option<Behind> {
    let configurations = courses.get(&(name, &*case.case))?.len();
    let factor = fastest::of(name, case, input.record)?.us / case.best_us?;
    let others = courses.iter().filter(|((family, _), _)| *family != name);
    let mut later_gains: Vec<f64> = others.filter_map(|(_, course)| later_gain(course, configurations)).collect();
    later_gains.sort_by(f64::total_cmp);
    Some(Behind { factor, later_gains })
}

/// Returns how much faster a family became after its first configurations. None if it was not tried twice as often. The
/// times are logarithms, in the order of their measurement.
fn later_gain(course: &[f64], first: usize) -> Option<f64> {
    let best = |times: &[f64]| times.iter().copied().reduce(f64::min);
    (course.len() >= 2 * first).then(|| Some((best(&course[..first])? - best(course)?).exp()))?
}

impl LittleTried<'_> {
    /// Returns the factor over all cases that is expected of more tries, if this family gains as others did. None if that is
    /// not known.
    pub(super) fn expected(&self, cases: usize) -> Option<f64> {
        let on = |behind: &Behind| {
            let gains = behind.later_gains.iter().map(|gain| (gain / behind.factor).max(1.0));
            (behind.later_gains.len() >= MIN_SEARCHES).then(|| gains.sum::<f64>() / behind.later_gains.len() as f64)
        };
        let gains: Option<Vec<f64>> = self.behind.iter().map(on).collect();
        let gains = gains.filter(|gains| !gains.is_empty())?;
        Some((gains.iter().map(|gain| gain.ln()).sum::<f64>() / cases as f64).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of four searches, two gained more than the 1.1 by which the family is behind: 1.21 / 1.1 and 1.32 / 1.1.
    #[test]
    fn a_family_is_expected_to_gain_as_others_did() {
        let behind = Behind { factor: 1.1, later_gains: vec![1.0, 1.05, 1.21, 1.32] };
        let family = LittleTried { name: "split-k", configurations: 12, behind: vec![behind] };
        let expected = family.expected(1).unwrap();
        assert!((expected - (1.0 + 1.0 + 1.1 + 1.2) / 4.0).abs() < 1e-9, "{expected}");
        assert!((family.expected(2).unwrap() - expected.sqrt()).abs() < 1e-9);
        let few = vec![Behind { later_gains: vec![1.2], factor: 1.1 }];
        assert_eq!(LittleTried { behind: few, ..family }.expected(1), None);
    }

    #[test]
    fn a_later_gain_needs_twice_as_many_configurations() {
        let course = [8.0, 4.0, 4.0, 2.0].map(f64::ln);
        assert_eq!(later_gain(&course, 3), None);
        assert!((later_gain(&course, 2).unwrap() - 2.0).abs() < 1e-12);
        assert!((later_gain(&course, 1).unwrap() - 4.0).abs() < 1e-12);
    }
}
