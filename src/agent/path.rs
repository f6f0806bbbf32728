//! The next step on a path between two configurations of a family: the change that is expected to gain most.
//!
//! A path that takes the largest gains first shows what each parameter contributes (Fawcett and Hoos, 2016). The predictions
//! decide the order, so that a path takes as many runs as it has steps, and not the square of that.

use super::SearchContext;
use super::prediction::{self, Question};
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::origin::{Change, Origin};
use crate::domain::variant::Params;
use crate::domain::workload::Case;

/// The most parameters that change in a step, where constraints allow no fewer. Only the last step may change more.
const MOST: usize = 2;

/// A path that was begun.
pub struct Begun<'a> {
    /// The iteration where it begins.
    pub from: &'a Finished,
    /// The configuration where it ends.
    pub to: &'a Params,
    /// The last configuration that was timed: at first, the one where it begins.
    pub at: &'a Params,
    /// The configurations that could not be timed.
    pub failed: &'a [&'a Params],
}

/// Returns the configuration of the next step on a case. None at the end, or where every step fails. An error is a mistake in a
/// manifest.
pub fn next(
    context: &SearchContext<'_>,
    history: &History,
    (family, case): (&Family, &Case),
    begun: &Begun<'_>,
) -> Result<Option<Params>, String> {
    let Begun { from, to, at, failed } = begun;
    let changes = Change::between(at, to);
    let space = context.space(family, case);
    for count in 1..=MOST.min(changes.len()) {
        let mut best: Option<(f64, Params)> = None;
        for params in changed(at, &changes, count) {
            if failed.contains(&&params) || !space.contains(&params)? {
                continue;
            }
            let origin = Origin::Move { changes: Change::between(&from.params, &params) };
            let question =
                Question { family, params: &params, case: &case.name, reference: from, origin: &origin, built: None };
            let expected = prediction::predict(history, context.all, &question).and_then(|expected| expected.median);
            let gain = expected.unwrap_or(1.0);
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, params));
            }
        }
        if let Some((_, params)) = best {
            return Ok(Some(params));
        }
    }
    let is_left = !changes.is_empty() && !failed.contains(to) && space.contains(to)?;
    Ok(is_left.then(|| (*to).clone()))
}

/// Returns a configuration with each selection of so many of the changes: one or two.
fn changed(at: &Params, changes: &[Change], count: usize) -> Vec<Params> {
    let with = |params: &Params, change: &Change| {
        let mut params = params.clone();
        params.insert(change.parameter.clone(), change.to);
        params
    };
    let single = changes.iter().enumerate().map(|(place, change)| (place, with(at, change)));
    match count {
        1 => single.map(|(_, params)| params).collect(),
        _ => single
            .flat_map(|(place, params)| changes[place + 1..].iter().map(move |other| with(&params, other)))
            .collect(),
    }
}
