//! Turns a suggestion into device requests, case by case: the launch plans of a configuration on cases, on scaled cases
//! and on hidden shapes.
//!
//! Sessions, the audit and `bench` all use it, so that they make the same requests. It is pure: no device is touched.

use super::messages::{CaseRequest, PlannedCase};
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::op::CheckLimits;
use crate::domain::plan::LaunchPlan;
use crate::domain::proposal::Suggestion;
use crate::domain::space::Space;
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};

/// The most hidden cases of the acceptance checks. Each costs an allocation and two oracle runs, and the op lists the
/// most telling ones first.
const MAX_HIDDEN: usize = 8;

/// The work and memory that a real GPU can spend on a hidden case, however small the case is. A naive kernel takes some
/// 50 ms for it.
const ON_A_GPU: CheckLimits = CheckLimits { flop: 2e9, bytes: 64e6 };

/// The same for a virtual GPU, where a CPU core takes some 0.1 s.
const ON_A_VIRTUAL_GPU: CheckLimits = CheckLimits { flop: 1e7, bytes: 2e6 };

/// Fills in the plans of a suggestion, the case with the least work first, so that a wrong variant fails early.
pub fn of_suggestion(
    family: &Family,
    suggestion: &Suggestion,
    workload: &Workload,
    device: &DeviceInfo,
    model_flop: f64,
) -> Result<Vec<CaseRequest>, String> {
    let request = |case: &Case| of_case(family, &suggestion.params, case, workload, device, model_flop);
    let mut cases = suggestion.cases.iter().map(request).collect::<Result<Vec<_>, String>>()?;
    cases.sort_by(|a, b| workload.op.work(&a.case.dims).total_cmp(&workload.op.work(&b.case.dims)));
    Ok(cases)
}

/// Fills in the plan of a configuration on one case.
///
/// On a device that models its times, a case of more than `model_flop` is checked on a smaller one, if there is one.
pub fn of_case(
    family: &Family,
    params: &Params,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
    model_flop: f64,
) -> Result<CaseRequest, String> {
    let too_much = device.time_source() == TimeSource::Modelled && workload.op.executed_flop(&case.dims) > model_flop;
    let scaled = if too_much { scaled(family, params, case, workload, device)? } else { None };
    let plan = plan(family, params, case, workload, device)?;
    // The incumbent is filled in when the case's turn comes, because it may change until then.
    Ok(CaseRequest { case: case.clone(), plan, incumbent_ns: None, scaled })
}

/// Fills in the plans of shapes that are in no workload. The same source must be right on them.
pub fn hidden(
    family: &Family,
    params: &Params,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
    seed: u64,
) -> Vec<PlannedCase> {
    let least = match device.time_source() {
        TimeSource::Measured => ON_A_GPU,
        TimeSource::Modelled | TimeSource::Recorded => ON_A_VIRTUAL_GPU,
    };
    let mut hidden = Vec::new();
    for dims in workload.op.hidden(&case.dims, least, seed) {
        if hidden.len() == MAX_HIDDEN {
            break;
        }
        let near = Case { name: case.name.clone(), dims, regime: case.regime };
        match same_source(family, params, &near, case, workload, device) {
            Ok(planned) => hidden.extend(planned),
            // The manifest promises correctness only on the requested shapes.
            Err(problem) => tracing::debug!("{} has an unusable hidden shape: {problem}", family.name),
        }
    }
    hidden
}

/// Fills in the plan of a variant on another case than the one it was rendered for. Returns `None` if the same source
/// is not valid there. The constants rendered into it must stay, and the family's constraints must hold.
fn same_source(
    family: &Family,
    params: &Params,
    other: &Case,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
) -> Result<Option<PlannedCase>, String> {
    if family.specialization(other) != family.specialization(case) || workload.op.check(&other.dims).is_err() {
        return Ok(None);
    }
    if !(Space { family, case: other, dtype: workload.dtype, device }).contains(params)? {
        return Ok(None);
    }
    let plan = plan(family, params, other, workload, device)?;
    Ok(Some(PlannedCase { case: other.clone(), plan }))
}

fn plan(
    family: &Family,
    params: &Params,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
) -> Result<LaunchPlan, String> {
    let plan = family.plan(params, case, workload.op, workload.dtype, device);
    plan.map_err(|error| format!("{} on {}: {error}", family.name, case.name))
}

/// Finds the smallest scaled case on which the same source is valid. Returns `None` if there is none. The case itself
/// is checked then, however long that takes.
fn scaled(
    family: &Family,
    params: &Params,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
) -> Result<Option<PlannedCase>, String> {
    for dims in workload.op.scaled(&case.dims) {
        let scaled = Case { name: case.name.clone(), dims, regime: case.regime };
        if workload.op.executed_flop(&scaled.dims) < workload.op.executed_flop(&case.dims)
            && let Some(planned) = same_source(family, params, &scaled, case, workload, device)?
        {
            return Ok(Some(planned));
        }
    }
    Ok(None)
}
