//! Paths between two configurations of a family: the next step, which is the change that is expected to gain most, and steps
//! that turn out to be faster than all that the search has found.
//!
//! A path that takes the largest gains first shows what each parameter contributes (Fawcett and Hoos, 2016). The predictions
//! decide the order, so that a path takes as many runs as it has steps, and not the square of that.

use super::prediction::{self, Question};
use super::{SearchContext, claims};
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::origin::{Change, Origin};
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::Error;

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
) -> Result<Option<Params>, Error> {
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

/// Suggests a step that was faster than the fastest variant of its case, if it was not proposed before. Steps are experiments,
/// which cannot win. An error is a mistake in a manifest.
pub fn faster_step(context: &SearchContext<'_>, history: &History) -> Result<Option<Suggestion>, Error> {
    for step in &history.path_steps {
        let to = history.iteration(step.path.to);
        let case = context.workload.cases.iter().find(|case| case.name == step.path.case);
        let (Some(ns), Some(to), Some(case)) = (step.time_ns, to, case) else { continue };
        let is_fastest = history.fastest(&case.name).is_some_and(|(_, fastest_ns)| ns < fastest_ns);
        let Some(family) = context.family(&to.family).filter(|_| is_fastest) else { continue };
        if context.is_new(family, &step.params, case, history) {
            let changes = Change::between(&to.params, &step.params);
            let origin = Origin::PathStep { path: step.path.clone(), changes };
            let hypothesis = claims::of_change(context, history, (family, case), (to, &step.params), &origin);
            let params = step.params.clone();
            return context.suggestion(family, params, case, hypothesis, origin, Some(to.iteration)).map(Some);
        }
    }
    Ok(None)
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
