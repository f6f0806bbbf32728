//! What each value of each axis of a family seems to be worth.
//!
//! The times of a family's points are taken for products of a factor for each axis' value and one for the case: main effects, in
//! logarithms. Axes do depend on each other, so this says where to look first and no more.

use std::collections::HashMap;

use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::variant::Params;

/// The latest iterations of a family that are looked at: enough for some ten axes, and no work to speak of.
const LATEST: usize = 400;

/// How often every effect is worked out anew beside the others.
const PASSES: usize = 6;

/// What a time on another case counts: what a value is worth depends on the shape, and mostly a little.
const ELSEWHERE: f64 = 0.25;

/// So many observations of no effect are added to those of each value: what was met once says little.
const SHRINKAGE: f64 = 1.0;

/// What is known of values, by axis and value.
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
    /// Works out the effects of a family's axes from what was timed, each point on one case: this one, where it was timed there.
    pub fn of(history: &History, family: &Family, case: &str) -> Self {
        let of_family = history.finished.iter().rev().filter(|finished| finished.family == family.name);
        let mut rows: Vec<Row<'_>> = of_family
            .take(LATEST)
            .filter_map(|finished| {
                let here = finished.times.iter().find(|time| time.case == case);
                let weight = if here.is_some() { 1.0 } else { ELSEWHERE };
                let time = here.or(finished.times.first())?;
                let values =
                    family.params.keys().map(|axis| finished.params.get(axis).copied()).collect::<Option<_>>()?;
                Some(Row { values, case: &time.case, weight, rest: time.median_ns.ln() })
            })
            .collect();
        let mut effects = HashMap::new();
        let mut met: HashMap<(usize, i64), f64> = HashMap::new();
        for row in &rows {
            for (axis, value) in row.values.iter().enumerate() {
                *met.entry((axis, *value)).or_default() += row.weight;
            }
        }
        for _ in 0..PASSES {
            centre(&mut rows);
            (0..family.params.len()).for_each(|axis| settle(&mut rows, axis, &mut effects));
        }
        Self { effects, met }
    }

    /// Returns how little is known of a value: 1 if it was never met, and less the more often it was.
    pub fn doubt(&self, family: &Family, axis: &str, value: i64) -> f64 {
        let met = family.params.get_index_of(axis).and_then(|axis| self.met.get(&(axis, value)));
        (1.0 + met.copied().unwrap_or_default()).sqrt().recip()
    }

    /// Returns the logarithm of a point's time, up to what all points of a case have in common.
    pub fn ln_time(&self, params: &Params) -> f64 {
        params.values().enumerate().filter_map(|(axis, value)| self.effects.get(&(axis, *value))).sum()
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

/// Moves what the values of an axis have in common from what is left to their effects.
fn settle(rows: &mut [Row<'_>], axis: usize, effects: &mut HashMap<(usize, i64), f64>) {
    let mut sums: HashMap<i64, (f64, f64)> = HashMap::new();
    for row in rows.iter() {
        let effect = effects.get(&(axis, row.values[axis])).copied().unwrap_or_default();
        let (sum, count) = sums.entry(row.values[axis]).or_default();
        (*sum, *count) = (*sum + row.weight * (row.rest + effect), *count + row.weight);
    }
    for row in rows {
        let (sum, count) = sums[&row.values[axis]];
        let (effect, new) =
            (effects.get(&(axis, row.values[axis])).copied().unwrap_or_default(), sum / (count + SHRINKAGE));
        row.rest -= new - effect;
    }
    effects.extend(sums.into_iter().map(|(value, (sum, count))| ((axis, value), sum / (count + SHRINKAGE))));
}
