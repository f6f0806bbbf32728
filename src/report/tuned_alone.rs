//! What the parameters of the first kernel gained without another family, measured on one case.

use super::contract::{Case, Diagnosis, DiagnosisOf, FamilyTime, Rivals, TunedAlone};
use super::pairs::screened;
use super::{ReportInput, began, changes};
use crate::domain::origin::Change;
use crate::domain::tested::screened_ns;

/// The share of the whole gain, as a logarithm, from which a change counts as most of it.
const MOST: f64 = 0.75;

/// Divides what the session gained on the case for which the first kernel is diagnosed: what other configurations of that
/// kernel gained, and what other families gained on top of that. None if no other family won.
pub(super) fn of(
    cases: &[Case],
    diagnoses: &[Diagnosis],
    rivals: &[Rivals],
    input: &ReportInput<'_>,
) -> Option<TunedAlone> {
    let Diagnosis { case, family, .. } = diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)?;
    let case = cases.iter().find(|one| one.case == *case)?;
    let families = &rivals.iter().find(|one| one.case == case.case)?.families;
    let own: &FamilyTime = families.iter().find(|one| one.family == *family)?;
    let (start_us, best_us) = (case.start_us?, case.best_us?);
    (own.us > best_us && own.configurations > 1).then(|| {
        let gain = start_us / own.us;
        let (changes, of_changes) = fewest_changes(case, family, gain, input).unzip();
        TunedAlone {
            case: case.case.clone(),
            family: family.clone(),
            gain,
            changes: changes.unwrap_or_default(),
            of_changes,
            of_others: own.us / best_us,
        }
    })
}

/// Returns the fewest changes of the first kernel's parameters that gained most of what all of them did, with their gain.
/// None if they are too many to say much about any.
fn fewest_changes(case: &Case, family: &str, gain: f64, input: &ReportInput<'_>) -> Option<(Vec<Change>, f64)> {
    let iterations = &input.record.iterations;
    let first = began::first(&case.case, iterations).map(|began| began.iteration).filter(|one| one.family == family)?;
    let first_ns = screened_ns(first, &case.case)?;
    let own = screened(iterations).filter(|(one, name, _)| one.family == family && *name == &*case.case);
    let changed = own.map(|(one, _, ns)| (Change::between(&first.params, &one.params), first_ns / ns));
    let most = changed.filter(|(changes, by)| !changes.is_empty() && *by > 1.0 && by.ln() >= MOST * gain.ln());
    let fewest = most.min_by(|a, b| a.0.len().cmp(&b.0.len()).then(b.1.total_cmp(&a.1)));
    fewest.filter(|(changes, _)| changes.len() <= changes::MOST)
}
