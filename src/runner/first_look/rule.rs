//! Rules that a size of a kernel may have to follow, and what is known for and against one. Pure.

use crate::domain::workload::Workload;

/// Numbers of which a size may have to be a multiple: elements of a vector, of a tensor core's tile, of a block.
const FACTORS: [i64; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

/// A rule for the sizes of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    MultipleOf(i64),
    AtMost(i64),
    AtLeast(i64),
    Only(i64),
}

impl Rule {
    /// Returns the rules that a right size follows, and a wrong one does not: the weakest first. A bound allows the sizes of
    /// all cases.
    pub fn excluding(wrong: i64, workload: &Workload, (name, own): (&str, i64)) -> Vec<Self> {
        let sizes = || workload.cases.iter().filter_map(|case| case.dims.get(name)).chain([&own]).copied();
        let (least, most) = (sizes().min().unwrap_or(own), sizes().max().unwrap_or(own));
        let bound = match wrong {
            _ if least == most => Self::Only(own),
            _ if wrong > most => Self::AtMost(most),
            _ => Self::AtLeast(least),
        };
        let rules = FACTORS.into_iter().map(Self::MultipleOf).chain([bound]);
        rules.filter(|rule| rule.allows(own) && !rule.allows(wrong)).collect()
    }

    pub fn allows(self, size: i64) -> bool {
        match self {
            Self::MultipleOf(factor) => size % factor == 0,
            Self::AtMost(most) => size <= most,
            Self::AtLeast(least) => size >= least,
            Self::Only(only) => size == only,
        }
    }

    /// Returns sizes that are right if this rule is all that matters. Those near a wrong size tell the most. Of multiples, these
    /// are of no larger power of two.
    pub fn allowed_near(self, wrong: i64) -> Vec<i64> {
        let sizes = match self {
            Self::MultipleOf(factor) => [0, 2, -2, 4].map(|step| (((wrong / factor) | 1) + step) * factor).to_vec(),
            Self::AtMost(most) => vec![most - 1, most - 2],
            Self::AtLeast(least) => vec![least + 1, least + 2],
            Self::Only(_) => Vec::new(),
        };
        sizes.into_iter().filter(|size| *size > 0).collect()
    }

    /// Returns another size that is wrong if this rule is why the first one is.
    pub fn excluded_near(self, wrong: i64) -> i64 {
        match self {
            Self::MultipleOf(factor) => wrong + 2 * factor,
            Self::AtMost(_) | Self::Only(_) => wrong + 1,
            Self::AtLeast(_) => wrong - 1,
        }
    }

    /// Returns the constraint of a family.
    pub fn constraint(self, name: &str) -> String {
        match self {
            Self::MultipleOf(factor) => format!("{name} % {factor} == 0"),
            Self::AtMost(most) => format!("{name} <= {most}"),
            Self::AtLeast(least) => format!("{name} >= {least}"),
            Self::Only(only) => format!("{name} == {only}"),
        }
    }
}

/// Sizes of a dimension on which a kernel was right, and those on which it was wrong because of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub right: Vec<i64>,
    pub wrong: Vec<i64>,
}

impl Known {
    /// Tells whether a rule allows what was right, and nothing that was wrong.
    pub fn supports(&self, rule: Rule) -> bool {
        self.right.iter().all(|size| rule.allows(*size)) && !self.wrong.iter().any(|size| rule.allows(*size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multiple_near_a_size_is_one_of_no_larger_power_of_two() {
        for (size, factor, multiples) in [
            (65537, 2, vec![65538, 65542, 65534, 65546]),
            (1023, 4, vec![1020, 1028, 1012, 1036]),
            (3, 8, vec![8, 24, 40]),
        ] {
            assert_eq!(Rule::MultipleOf(factor).allowed_near(size), multiples, "{size} {factor}");
        }
    }

    #[test]
    fn one_size_against_a_rule_is_enough() {
        let known = |right: &[i64], wrong: &[i64]| Known { right: right.to_vec(), wrong: wrong.to_vec() };
        assert!(known(&[64, 20], &[63, 22]).supports(Rule::MultipleOf(4)));
        assert!(!known(&[64, 20], &[63, 28]).supports(Rule::MultipleOf(4)));
        assert!(!known(&[64, 21], &[63]).supports(Rule::MultipleOf(4)));
    }
}
