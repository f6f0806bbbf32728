//! What the parameters of the first kernel gained without another family, measured on one case.

use super::contract::{Case, Diagnosis, DiagnosisOf, FamilyTime, Rivals, TunedAlone};
use super::{ReportInput, began, rivals};
use crate::domain::origin::Change;

/// Divides what the session gained on the case for which the first kernel is diagnosed: what the best configuration of that
/// kernel gained, and what other families gained on top of that. None if no other family won.
pub(super) fn of(
    cases: &[Case],
    diagnoses: &[Diagnosis],
    all_rivals: &[Rivals],
    input: &ReportInput<'_>,
) -> Option<TunedAlone> {
    let Diagnosis { case, family, .. } = diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)?;
    let case = cases.iter().find(|one| one.case == *case)?;
    let families = &all_rivals.iter().find(|one| one.case == case.case)?.families;
    let own: &FamilyTime = families.iter().find(|one| one.family == *family)?;
    let (start_us, best_us) = (case.start_us?, case.best_us?);
    let best = rivals::fastest(family, case, input.record)?.iteration;
    let first = began::first(&case.case, &input.record.iterations)?.iteration;
    (own.us > best_us && own.configurations > 1 && first.family == *family).then(|| TunedAlone {
        case: case.case.clone(),
        family: family.clone(),
        gain: start_us / own.us,
        iteration: best.id,
        changes: Change::between(&first.params, &best.params),
        of_others: own.us / best_us,
    })
}
