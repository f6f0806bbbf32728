//! Which parameters that decide what overlaps are as good as they get: no other value of them is faster than the winner's.

use super::FamilyFacts;
use super::contract::{Case, ParameterEffect};

/// Returns the parameters of a winner's family that decide how much is in flight at once, of which other values were timed with
/// all else equal on its case, and none was faster beyond the noise.
pub(super) fn of(case: &Case, effects: &[ParameterEffect], families: &[FamilyFacts]) -> Vec<String> {
    let Some(winner) = &case.variant else { return Vec::new() };
    let Some(facts) = families.iter().find(|facts| facts.name == winner.family) else { return Vec::new() };
    let is_exhausted = |parameter: &&String| {
        let Some(own) = winner.params.get(*parameter) else { return false };
        let of_parameter = effects.iter().filter(|one| one.family == winner.family && one.parameter == **parameter);
        let verdicts: Vec<bool> = of_parameter.filter_map(|effect| helps_to_leave(effect, *own, case)).collect();
        !verdicts.is_empty() && !verdicts.contains(&true)
    };
    facts.pipelining.iter().filter(is_exhausted).cloned().collect()
}

/// Tells whether a change from a value, or back to another one, made a case faster. None if it was not timed there.
fn helps_to_leave(effect: &ParameterEffect, own: i64, case: &Case) -> Option<bool> {
    let verdict = effect.by_case.iter().find(|one| one.case == case.case)?.verdict;
    match own {
        own if own == effect.from => Some(verdict == "helps"),
        own if own == effect.to => Some(verdict == "hurts"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::CaseEffect;
    use super::*;
    use crate::report::tests;
    use crate::report::tests::{families, record, report};

    /// The winner has BLOCK = 64.
    #[test]
    fn a_parameter_is_exhausted_if_no_other_value_is_faster() {
        let case = report(&record()).cases.remove(0);
        let mut facts = families();
        facts.iter_mut().for_each(|one| one.pipelining = vec!["BLOCK".to_owned()]);
        let effect = |from: i64, to: i64, verdict: &'static str| {
            let by_case = vec![CaseEffect { case: case.case.clone(), effect: 1.0, pairs: 3, verdict }];
            let family = case.variant.as_ref().unwrap().family.clone();
            ParameterEffect { family, verdict: "mixed", by_case, ..tests::effect("BLOCK", [from, to], 1.0) }
        };
        let own = case.variant.as_ref().unwrap().params["BLOCK"];
        let told = |effects: &[ParameterEffect]| of(&case, effects, &facts);
        assert_eq!(told(&[effect(own, 2 * own, "hurts"), effect(own, own / 2, "tied")]), ["BLOCK"]);
        assert_eq!(told(&[effect(own / 2, own, "helps")]), ["BLOCK"], "the change back hurts");
        assert!(told(&[effect(own, 2 * own, "helps"), effect(own, own / 2, "tied")]).is_empty());
        assert!(told(&[effect(own / 2, own, "hurts")]).is_empty(), "the change back helps");
        assert!(told(&[effect(own / 2, 2 * own, "hurts")]).is_empty(), "nothing is known of this value");
    }
}
