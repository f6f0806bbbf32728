//! Which variants are likely to fail the acceptance checks, by what those that failed have in common.
//!
//! A parameter may be fast because it is wrong: sums without promotion, a barrier too few. Then the fastest variants fail one after
//! the other, and each check takes seconds. So the next one to be checked is one that has little in common with them.

use std::collections::HashMap;

use crate::domain::variant::Params;

/// The variants that must have failed before others are suspected. One may have a fault of its own.
const FEWEST_FAILED: u32 = 2;

/// How likely a variant is to fail. The least suspected are checked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::session) enum Suspicion {
    /// It has at most half of what the failed ones have in common, or nothing is known.
    None,
    /// It has more than half of that.
    Some,
    /// It has all of that.
    Full,
}

/// What is known about each family.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Suspects(HashMap<String, Failed>);

/// The variants of a family that have failed.
#[derive(Debug, Clone, Default, PartialEq)]
struct Failed {
    count: u32,
    /// The parameters on which all of them agree, and no variant that has passed.
    common: Params,
    passed: Vec<Params>,
}

impl Suspects {
    /// Notes that a variant has failed.
    pub fn note_failed(&mut self, family: &str, params: &Params) {
        let failed = self.0.entry(family.to_owned()).or_default();
        failed.count += 1;
        if failed.count == 1 {
            failed.common = params.clone();
            let passed = std::mem::take(&mut failed.passed);
            passed.iter().for_each(|passed| failed.clear(passed));
            failed.passed = passed;
        }
        failed.common.retain(|name, value| params.get(name) == Some(value));
    }

    /// Notes that a variant has passed all checks.
    pub fn note_passed(&mut self, family: &str, params: &Params) {
        let failed = self.0.entry(family.to_owned()).or_default();
        if failed.count > 0 {
            failed.clear(params);
        } else if !failed.passed.contains(params) {
            failed.passed.push(params.clone());
        }
    }

    /// Returns how likely a variant is to fail. A parameter of the arithmetic is as likely to be the reason as all others together.
    pub fn suspicion(&self, family: &str, params: &Params, is_arithmetic: impl Fn(&str) -> bool) -> Suspicion {
        let Some(failed) = self.0.get(family).filter(|failed| failed.count >= FEWEST_FAILED) else {
            return Suspicion::None;
        };
        let others = failed.common.keys().filter(|name| !is_arithmetic(name)).count().max(1);
        let weight = |name: &String| if is_arithmetic(name) { others } else { 1 };
        let shared = failed.common.iter().filter(|(name, value)| params.get(*name) == Some(value));
        let shared: usize = shared.map(|(name, _)| weight(name)).sum();
        match failed.common.keys().map(weight).sum() {
            0 => Suspicion::None,
            all if shared == all => Suspicion::Full,
            all if shared * 2 > all => Suspicion::Some,
            _ => Suspicion::None,
        }
    }
}

impl Failed {
    /// Removes what cannot be the reason, because a variant has passed with it.
    fn clear(&mut self, passed: &Params) {
        self.common.retain(|name, value| passed.get(name) != Some(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(promote: i64, stages: i64, columns: i64, group: i64) -> Params {
        let named = [("PROMOTE", promote), ("STAGES", stages), ("BN", columns), ("GROUP", group)];
        named.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }

    /// All without promotion are wrong.
    #[test]
    fn the_reason_is_found_by_variants_that_differ() {
        let mut suspects = Suspects::default();
        let is = |suspects: &Suspects, params| suspects.suspicion("f", &params, |_| false);
        suspects.note_failed("f", &params(0, 4, 256, 8));
        assert_eq!(is(&suspects, params(0, 4, 256, 8)), Suspicion::None, "it may have a fault of its own");
        suspects.note_failed("f", &params(0, 4, 256, 16));
        assert_eq!(is(&suspects, params(0, 4, 256, 2)), Suspicion::Full);
        assert_eq!(is(&suspects, params(0, 5, 256, 8)), Suspicion::Some);
        assert_eq!(is(&suspects, params(2, 5, 256, 8)), Suspicion::None);
        assert_eq!(suspects.suspicion("other", &params(0, 4, 256, 2), |_| false), Suspicion::None);
        suspects.note_passed("f", &params(2, 4, 256, 8));
        assert_eq!(is(&suspects, params(0, 7, 128, 1)), Suspicion::Full, "only PROMOTE is left");
        assert_eq!(is(&suspects, params(1, 4, 256, 8)), Suspicion::None);
        suspects.note_passed("f", &params(0, 6, 128, 8));
        assert_eq!(is(&suspects, params(0, 7, 128, 1)), Suspicion::None, "nothing is left");
    }

    #[test]
    fn what_passed_before_anything_failed_counts() {
        let mut suspects = Suspects::default();
        suspects.note_passed("f", &params(2, 4, 256, 8));
        suspects.note_failed("f", &params(0, 4, 256, 8));
        suspects.note_failed("f", &params(0, 4, 256, 16));
        assert_eq!(suspects.suspicion("f", &params(0, 5, 128, 1), |_| false), Suspicion::Full);
        assert_eq!(suspects.suspicion("f", &params(1, 4, 256, 8), |_| false), Suspicion::None);
    }

    /// In a session, a variant that was 40% slower was taken for one that differed in its promotion only.
    #[test]
    fn the_arithmetic_is_suspected_before_the_rest() {
        let mut suspects = Suspects::default();
        suspects.note_failed("f", &params(0, 4, 256, 8));
        suspects.note_failed("f", &params(0, 4, 256, 16));
        let is = |params, of: fn(&str) -> bool| suspects.suspicion("f", &params, of);
        assert_eq!(is(params(2, 4, 256, 8), |_| false), Suspicion::Some);
        assert_eq!(is(params(2, 4, 256, 8), |name| name == "PROMOTE"), Suspicion::None);
        assert_eq!(is(params(0, 5, 256, 8), |name| name == "PROMOTE"), Suspicion::Some);
    }
}
