//! Tests of causes: a remedy of each cause that the rules found for a variant, whether or not the search wants it.

use super::SearchContext;
use super::local::of_remedy;
use crate::domain::family::Family;
use crate::domain::finding::{Finding, Remedy};
use crate::domain::history::{Finished, History};
use crate::domain::proposal::Suggestion;
use crate::domain::workload::Case;

/// The most causes that are tested: as many as a report ranks.
const MOST: usize = 4;

/// Suggests a test of the first cause that has none: its first remedy in the family of the explained variant. A cause whose
/// remedy was proposed before has one, or gets it. `findings` are about one variant, the most important first. An error is a
/// mistake in a manifest.
pub fn next(
    context: &SearchContext<'_>,
    findings: &[Finding],
    history: &History,
) -> Result<Option<Suggestion>, String> {
    for finding in findings.iter().take(MOST) {
        let explained = finding.iteration.and_then(|iteration| history.iteration(iteration));
        let case = context.workload.cases.iter().find(|case| case.name == finding.case);
        let (Some(from), Some(case)) = (explained, case) else { continue };
        let Some(family) = context.family(&from.family) else { continue };
        if let Some(remedy) = untested(context, history, (family, case), (from, finding))? {
            return of_remedy(context, history, (family, case), from, (finding, remedy)).map(Some);
        }
    }
    Ok(None)
}

/// Returns the first remedy of a finding in the variant's own family, unless one of them was proposed before.
fn untested<'f>(
    context: &SearchContext<'_>,
    history: &History,
    (family, case): (&Family, &Case),
    (from, finding): (&Finished, &'f Finding),
) -> Result<Option<&'f Remedy>, String> {
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
