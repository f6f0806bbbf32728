//! Pairs of parameters whose joint effect is not the product of their single effects.

use std::collections::{BTreeMap, BTreeSet};

use super::contract::{Interaction, ParameterValues};
use super::pairs::{Noise, Sample, alike};
use crate::domain::statistics::median;

/// Fewest quadruples of configurations from which an interaction is told.
const MIN_QUADRUPLES: usize = 3;

/// Four noisy times make an interaction, two make an effect: it is twice as noisy.
const NOISE_OF_FOUR: f64 = 2.0;

/// The most interactions to tell.
const MAX: usize = 10;

/// The most quadruples to look at for one pair of parameters. The median of so many does not change.
const MAX_QUADRUPLES: usize = 2000;

/// The family, and the two values of each of two parameters.
type Key<'a> = (&'a str, [(&'a str, i64, i64); 2]);

/// Returns the interactions beyond the noise, the strongest first.
pub(super) fn of(samples: &[Sample<'_>], noise: Noise) -> Vec<Interaction> {
    let mut found: BTreeMap<Key<'_>, Vec<f64>> = BTreeMap::new();
    let families: BTreeSet<&str> = samples.iter().map(|sample| sample.family).collect();
    for family in families {
        let of_family: Vec<Sample<'_>> = samples.iter().filter(|one| one.family == family).copied().collect();
        let names: BTreeSet<&str> = of_family.iter().flat_map(|one| one.params.keys().map(String::as_str)).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| varies(&of_family, name)).collect();
        for (place, first) in names.iter().enumerate() {
            for second in &names[place + 1..] {
                for group in alike(&of_family, &[first, second]).iter().filter(|group| group.len() >= 4) {
                    quadruples(family, [first, second], group, &mut found);
                }
            }
        }
    }
    let beyond = NOISE_OF_FOUR * noise.share.ln_1p();
    let told = found.into_iter().filter(|(_, logs)| logs.len() >= MIN_QUADRUPLES);
    let told = told.filter_map(|(key, logs)| Some((key, median(&logs)?, logs.len())));
    let mut told: Vec<_> = told.filter(|(_, middle, _)| middle.abs() > beyond).collect();
    told.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    // Other values of the same two parameters tell no more.
    let mut named = BTreeSet::new();
    told.retain(|((family, [first, second]), ..)| named.insert((*family, first.0, second.0)));
    told.into_iter().take(MAX).map(|(key, middle, count)| interaction(key, middle, count)).collect()
}

fn varies(samples: &[Sample<'_>], name: &str) -> bool {
    let values: BTreeSet<_> = samples.iter().map(|sample| sample.params.get(name)).collect();
    values.len() > 1
}

/// Adds all quadruples of a group of configurations that differ in two parameters only.
fn quadruples<'a>(
    family: &'a str,
    names: [&'a str; 2],
    group: &[&Sample<'_>],
    found: &mut BTreeMap<Key<'a>, Vec<f64>>,
) {
    let at: BTreeMap<(i64, i64), f64> =
        group.iter().map(|one| ((one.params[names[0]], one.params[names[1]]), one.ln_ns)).collect();
    for (&(a, b), &both_before) in &at {
        for (&(x, y), &both_after) in at.range((a + 1, i64::MIN)..).filter(|((x, y), _)| *x > a && *y > b) {
            let (Some(first), Some(second)) = (at.get(&(x, b)), at.get(&(a, y))) else { continue };
            let logs = found.entry((family, [(names[0], a, x), (names[1], b, y)])).or_default();
            if logs.len() < MAX_QUADRUPLES {
                // The joint effect over the product of the single effects.
                logs.push((both_before - both_after) - (both_before - first) - (both_before - second));
            }
        }
    }
}

fn interaction((family, parameters): Key<'_>, middle: f64, count: usize) -> Interaction {
    Interaction {
        family: family.to_owned(),
        parameters: parameters.map(|(name, from, to)| ParameterValues { parameter: name.to_owned(), from, to }),
        factor: middle.exp(),
        quadruples: count as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::variant::Params;

    fn params(a: i64, b: i64, c: i64) -> Params {
        [("A", a), ("B", b), ("C", c)].map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// A and B each double the speed, and together they make it eightfold. C only doubles.
    #[test]
    fn two_changes_that_help_each_other_are_told() {
        let configurations: Vec<Params> = (0..8).map(|bits| params(bits & 1, bits >> 1 & 1, bits >> 2)).collect();
        let cases = ["small", "large"];
        let samples: Vec<Sample<'_>> = cases
            .iter()
            .flat_map(|case| {
                configurations.iter().map(move |params| {
                    let doublings = params["A"] + params["B"] + params["C"] + params["A"] * params["B"];
                    Sample::new("f", case, params, -(doublings as f64) * 2.0_f64.ln())
                })
            })
            .collect();
        let told = of(&samples, Noise { known: Some(0.01), pairs: 9, share: 0.01 });
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(
            told[0].parameters.clone().map(|one| (one.parameter, one.from, one.to)),
            [("A".to_owned(), 0, 1), ("B".to_owned(), 0, 1)]
        );
        assert!((told[0].factor - 2.0).abs() < 1e-9);
        assert_eq!(told[0].quadruples, 4);
    }
}
