//! What each value of each parameter of a family seems to be worth.
//!
//! The times of a family's points are taken for products of a factor for each parameter's value and one for the case:
//! main effects, in logarithms. Parameters do depend on each other, so this says where to look first and no more.

use std::collections::HashMap;

use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::variant::Params;

/// The latest iterations of a family that are looked at: enough for some ten parameters, and no work to speak of.
const LATEST: usize = 400;

/// How often every effect is worked out anew beside the others.
const PASSES: usize = 6;

/// What a time on another case counts: what a value is worth depends on the shape, and mostly a little.
const ELSEWHERE: f64 = 0.25;

/// So many observations of no effect are added to those of each value: what was met once says little.
const SHRINKAGE: f64 = 1.0;

/// What is known of values, by parameter and value.
pub struct Effects {
    /// Logarithms of factors.
    effects: HashMap<(usize, i64), f64>,
    /// How often each was met.
    met: HashMap<(usize, i64), f64>,
}

/// A point that was timed.
struct Row<'a> {
    values: Vec<i64>,
    case: &'a str,
    weight: f64,
    /// The logarithm of its time, less all effects.
    rest: f64,
}

impl Effects {
    /// Works out the effects of a family's parameters from what was timed, each point on one case: this one, where it
    /// was timed there.
    pub fn of(history: &History, family: &Family, case: &str) -> Self {
        let of_family = history.finished.iter().rev().filter(|finished| finished.family == family.name);
        let mut rows: Vec<Row<'_>> = of_family
            .take(LATEST)
            .filter_map(|finished| {
                let here = finished.times.iter().find(|time| time.case == case);
                let weight = if here.is_some() { 1.0 } else { ELSEWHERE };
                let time = here.or(finished.times.first())?;
                let values = family
                    .params
                    .keys()
                    .map(|parameter| finished.params.get(parameter).copied())
                    .collect::<Option<_>>()?;
                Some(Row { values, case: &time.case, weight, rest: time.median_ns.ln() })
            })
            .collect();
        let mut effects = HashMap::new();
        let mut met: HashMap<(usize, i64), f64> = HashMap::new();
        for row in &rows {
            for (parameter, value) in row.values.iter().enumerate() {
                *met.entry((parameter, *value)).or_default() += row.weight;
            }
        }
        for _ in 0..PASSES {
            centre(&mut rows);
            (0..family.params.len()).for_each(|parameter| settle(&mut rows, parameter, &mut effects));
        }
        Self { effects, met }
    }

    /// Returns how little is known of a value: 1 if it was never met, and less the more often it was.
    pub fn exploration_bonus(&self, family: &Family, parameter: &str, value: i64) -> f64 {
        let met = family.params.get_index_of(parameter).and_then(|parameter| self.met.get(&(parameter, value)));
        (1.0 + met.copied().unwrap_or_default()).sqrt().recip()
    }

    /// Returns the logarithm of a point's time, up to what all points of a case have in common.
    pub fn ln_time(&self, params: &Params) -> f64 {
        params.values().enumerate().filter_map(|(parameter, value)| self.effects.get(&(parameter, *value))).sum()
    }
}

/// Takes away what the points of a case have in common.
fn centre(rows: &mut [Row<'_>]) {
    let mut sums: HashMap<&str, (f64, f64)> = HashMap::new();
    for row in rows.iter() {
        let (sum, count) = sums.entry(row.case).or_default();
        (*sum, *count) = (*sum + row.weight * row.rest, *count + row.weight);
    }
    for row in rows {
        let (sum, count) = sums[row.case];
        row.rest -= sum / count;
    }
}

/// Moves what the values of a parameter have in common from what is left to their effects.
fn settle(rows: &mut [Row<'_>], parameter: usize, effects: &mut HashMap<(usize, i64), f64>) {
    let mut sums: HashMap<i64, (f64, f64)> = HashMap::new();
    for row in rows.iter() {
        let effect = effects.get(&(parameter, row.values[parameter])).copied().unwrap_or_default();
        let (sum, count) = sums.entry(row.values[parameter]).or_default();
        (*sum, *count) = (*sum + row.weight * (row.rest + effect), *count + row.weight);
    }
    for row in rows {
        let (sum, count) = sums[&row.values[parameter]];
        let (effect, new) =
            (effects.get(&(parameter, row.values[parameter])).copied().unwrap_or_default(), sum / (count + SHRINKAGE));
        row.rest -= new - effect;
    }
    effects.extend(sums.into_iter().map(|(value, (sum, count))| ((parameter, value), sum / (count + SHRINKAGE))));
}
