//! Estimates the effect of each value of each parameter of a family.
//!
//! The model treats a configuration's time as a product: one factor for each parameter's value, and one for the case.
//! These are main effects in log space. Parameters do interact, so the estimates only say where to search first.

use std::collections::HashMap;

use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::variant::Params;

/// The number of a family's latest iterations to use. This is enough for about ten parameters and takes hardly any
/// time.
const LATEST: usize = 400;

/// How often each effect is re-estimated given the others.
const PASSES: usize = 6;

/// The weight of a time on another case. A value's effect depends on the shape, but mostly only a little.
const OTHER_CASE_WEIGHT: f64 = 0.25;

/// Observations of no effect that are added to those of each value, because a value tried once says little.
const PRIOR_OBSERVATIONS: f64 = 1.0;

/// The effects of values, by index of the parameter and value.
pub struct Effects {
    /// Effect of each value: the logarithm of its factor on the time.
    effects: HashMap<(usize, i64), f64>,
    /// How often each value was tried, weighted by case.
    met: HashMap<(usize, i64), f64>,
}

/// A timed configuration.
struct Row<'a> {
    values: Vec<i64>,
    case: &'a str,
    weight: f64,
    /// The residual: the logarithm of the time minus all effects.
    rest: f64,
}

impl Effects {
    /// Estimates the effects of a family's parameters from its timed configurations. Each counts on one case: the given
    /// one, if it was timed there.
    pub fn of(history: &History, family: &Family, case: &str) -> Self {
        let of_family = history.finished.iter().rev().filter(|finished| finished.family == family.name);
        let mut rows: Vec<Row<'_>> = of_family
            .take(LATEST)
            .filter_map(|finished| {
                let here = finished.times.iter().find(|time| time.case == case);
                let weight = if here.is_some() { 1.0 } else { OTHER_CASE_WEIGHT };
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
            (0..family.params.len()).for_each(|parameter| fit(&mut rows, parameter, &mut effects));
        }
        Self { effects, met }
    }

    /// Returns the unscaled exploration bonus of a value: 1 if it was never tried, less the more often it was.
    pub fn exploration_bonus(&self, family: &Family, parameter: &str, value: i64) -> f64 {
        let met = family.params.get_index_of(parameter).and_then(|parameter| self.met.get(&(parameter, value)));
        (1.0 + met.copied().unwrap_or_default()).sqrt().recip()
    }

    /// Returns the logarithm of a configuration's predicted time, up to a constant for the case.
    pub fn ln_time(&self, params: &Params) -> f64 {
        params.values().enumerate().filter_map(|(parameter, value)| self.effects.get(&(parameter, *value))).sum()
    }
}

/// Subtracts each case's mean from its residuals.
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

/// Re-estimates the effects of one parameter and updates the residuals.
fn fit(rows: &mut [Row<'_>], parameter: usize, effects: &mut HashMap<(usize, i64), f64>) {
    let mut sums: HashMap<i64, (f64, f64)> = HashMap::new();
    for row in rows.iter() {
        let effect = effects.get(&(parameter, row.values[parameter])).copied().unwrap_or_default();
        let (sum, count) = sums.entry(row.values[parameter]).or_default();
        (*sum, *count) = (*sum + row.weight * (row.rest + effect), *count + row.weight);
    }
    for row in rows {
        let (sum, count) = sums[&row.values[parameter]];
        let (effect, new) = (
            effects.get(&(parameter, row.values[parameter])).copied().unwrap_or_default(),
            sum / (count + PRIOR_OBSERVATIONS),
        );
        row.rest -= new - effect;
    }
    effects
        .extend(sums.into_iter().map(|(value, (sum, count))| ((parameter, value), sum / (count + PRIOR_OBSERVATIONS))));
}
