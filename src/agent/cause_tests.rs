//! Tests of causes: a remedy of each cause that the rules found for a variant, whether or not the search wants it, and then what
//! gained, all at once.

use super::local::of_remedy;
use super::{SearchContext, claims};
use crate::domain::claims::hypothesis::Hypothesis;
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::finding::{Finding, Remedy};
use crate::domain::proposal::origin::{Change, Origin};
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::Error;

/// The most causes that are tested: as many as a report ranks.
const MOST: usize = 4;

/// The least gain of a remedy that is tried together with others. Two screening runs differ by nearly as much.
const MIN_GAIN: f64 = 1.03;

/// Suggests a test of the first cause that has none: its first remedy in the family of the explained variant. A cause whose
/// remedy was proposed before has one, or gets it. Once all have one, suggests the remedies together that gained. `findings` are
/// about one variant, the most important first. An error is a mistake in a manifest.
pub fn next(context: &SearchContext<'_>, findings: &[Finding], history: &History) -> Result<Option<Suggestion>, Error> {
    for finding in findings.iter().take(MOST) {
        let explained = finding.iteration.and_then(|iteration| history.iteration(iteration));
        let case = context.workload.cases.iter().find(|case| case.name == finding.case);
        let (Some(from), Some(case)) = (explained, case) else { continue };
        if history.is_far_behind(from, &case.name) {
            continue;
        }
        let Some(family) = context.family(&from.family) else { continue };
        if let Some(remedy) = untested(context, history, (family, case), (from, finding))? {
            return of_remedy(context, history, (family, case), from, (finding, remedy)).map(Some);
        }
    }
    findings.first().map_or(Ok(None), |first| together(context, first, history))
}

/// Suggests the explained variant with the changes of all remedies that gained, unless that was proposed before. Of two changes
/// of one parameter, the one of the remedy that gained more counts. Where a constraint forbids it, those that gained least are
/// left out.
fn together(context: &SearchContext<'_>, first: &Finding, history: &History) -> Result<Option<Suggestion>, Error> {
    let from = first.iteration.and_then(|iteration| history.iteration(iteration));
    let case = context.workload.cases.iter().find(|case| case.name == first.case);
    let (Some(from), Some(case)) = (from, case) else { return Ok(None) };
    if history.is_far_behind(from, &case.name) {
        return Ok(None);
    }
    let Some(family) = context.family(&from.family) else { return Ok(None) };
    let mut remedies = gained(from, &case.name, history);
    while remedies.len() > 1 {
        let mut params = from.params.clone();
        for change in remedies.iter().rev().flat_map(|one| Change::between(&from.params, &one.params)) {
            params.insert(change.parameter, change.to);
        }
        if context.space(family, case).contains(&params)? {
            let is_new = context.is_new(family, &params, case, history);
            return is_new.then(|| of_all(context, history, (family, case), (from, params))).transpose();
        }
        remedies.pop();
    }
    Ok(None)
}

/// Returns the remedies of a variant in its own family that made a case faster, the largest gain first.
fn gained<'h>(from: &Finished, case: &str, history: &'h History) -> Vec<&'h Finished> {
    let Some(from_ns) = from.time_ns(case) else { return Vec::new() };
    let is_of_one_cause = |one: &Finished| match &one.rationale.origin {
        Origin::Remedy { rule, .. } => rule != Origin::ALL_CAUSES,
        _ => false,
    };
    let remedies = history.finished.iter().filter(|one| {
        let is_own =
            one.family == from.family && one.rationale.hypothesis.reference.iteration() == Some(from.iteration);
        is_own && is_of_one_cause(one)
    });
    let timed = remedies.filter_map(|one| Some((from_ns / one.time_ns(case)?, one)));
    let mut faster: Vec<(f64, &Finished)> = timed.filter(|(gain, _)| *gain >= MIN_GAIN).collect();
    faster.sort_by(|a, b| b.0.total_cmp(&a.0));
    faster.into_iter().map(|(_, one)| one).collect()
}

fn of_all<'a>(
    context: &SearchContext<'a>,
    history: &History,
    (family, case): (&'a Family, &Case),
    (from, params): (&Finished, Params),
) -> Result<Suggestion, Error> {
    let changes = Change::between(&from.params, &params);
    let origin = Origin::Remedy { rule: Origin::ALL_CAUSES.to_owned(), changes };
    let hypothesis = claims::of_change(context, history, (family, case), (from, &params), &origin);
    let claim = format!("against all causes whose remedies gained: {}", hypothesis.claim);
    let hypothesis = Hypothesis { claim, ..hypothesis };
    context.suggestion(family, params, case, hypothesis, origin, Some(from.iteration))
}

/// Returns the first remedy of a finding in the variant's own family, unless one of them was proposed before.
fn untested<'f>(
    context: &SearchContext<'_>,
    history: &History,
    (family, case): (&Family, &Case),
    (from, finding): (&Finished, &'f Finding),
) -> Result<Option<&'f Remedy>, Error> {
    let space = context.space(family, case);
    let mut first = None;
    for remedy in finding.remedies.iter().filter(|remedy| remedy.family == from.family) {
        let Some(params) = &remedy.params else { continue };
        if !space.contains(params)? {
            continue;
        }
        if !context.is_new(family, params, case, history) {
            return Ok(None);
        }
        first = first.or(Some(remedy));
    }
    Ok(first)
}
