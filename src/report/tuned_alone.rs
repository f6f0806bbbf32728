//! What the parameters of the first kernel gained without another family, measured on one case.

use super::changes::meaning;
use super::contract::{Case, Report};
use super::format::times;
use super::pairs::screened;
use super::{FamilyFacts, ReportInput, began};
use crate::domain::origin::Change;
use crate::domain::tested::screened_ns;

/// The share of the whole gain, as a logarithm, from which a change counts as most of it.
const MOST: f64 = 0.75;

/// The most changed parameters to name. More of them say little about any.
const MAX_CHANGES: usize = 3;

/// Divides what the session gained on a case: what other configurations of the first kernel gained, with the fewest
/// changes that gained most of it, and what other families (`others`) gained on top of that. None if no other family
/// won.
pub(super) fn told(
    report: &Report,
    (case, family): (&Case, &str),
    others: &str,
    input: &ReportInput<'_>,
) -> Option<String> {
    let families = &report.rivals.iter().find(|one| one.case == case.case)?.families;
    let own = families.iter().find(|one| one.family == family)?;
    let (start_us, best_us) = (case.start_us?, case.best_us?);
    (own.us > best_us && own.configurations > 1).then(|| {
        let (alone, rest) = (start_us / own.us, times(own.us / best_us));
        let fewest = fewest_changes(case, family, alone, input);
        let fewest = fewest.map(|fewest| format!(", and {fewest}")).unwrap_or_default();
        format!(
            " Measured: other values of its own parameters made it {} as fast{fewest}; {others} made it {rest} as fast \
             again.",
            times(alone)
        )
    })
}

/// Names the fewest changes of the first kernel's parameters that gained most of what all of them did, with their gain.
fn fewest_changes(case: &Case, family: &str, gain: f64, input: &ReportInput<'_>) -> Option<String> {
    let iterations = &input.record.iterations;
    let first = began::first(&case.case, iterations).map(|began| began.iteration).filter(|one| one.family == family)?;
    let first_ns = screened_ns(first, &case.case)?;
    let own = screened(iterations).filter(|(one, name, _)| one.family == family && *name == &*case.case);
    let changed = own.map(|(one, _, ns)| (Change::between(&first.params, &one.params), first_ns / ns));
    let most = changed.filter(|(changes, by)| !changes.is_empty() && *by > 1.0 && by.ln() >= MOST * gain.ln());
    let (changes, by) = most.min_by(|a, b| a.0.len().cmp(&b.0.len()).then(b.1.total_cmp(&a.1)))?;
    let facts = input.families.iter().find(|facts| facts.name == family);
    let named: Vec<String> = changes.iter().map(|change| named(change, facts)).collect();
    (named.len() <= MAX_CHANGES).then(|| format!("{} with nothing but {}", times(by), named.join(" and ")))
}

/// Names a change and what the parameter does.
fn named(Change { parameter, from, to }: &Change, facts: Option<&FamilyFacts>) -> String {
    let about = facts.and_then(|facts| facts.parameters.get(parameter)).map(|about| meaning(about));
    format!("`{parameter}` {from} → {to}{}", about.map(|about| format!(" ({about})")).unwrap_or_default())
}
