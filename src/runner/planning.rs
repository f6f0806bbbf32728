//! Turns a suggestion into device requests, case by case: the launch plans of a configuration on cases, on scaled cases
//! and on hidden shapes.
//!
//! Sessions, the audit and `bench` all use it, so that they make the same requests. It is pure: no device is touched.

use super::messages::{CaseRequest, FarCase, PlannedCase};
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::op::{CheckLimits, Dims, FarShape, independent_dims};
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

/// The most threads of a launch on a hidden shape that a virtual GPU executes, in some seconds of a CPU core. So many rows of a few
/// numbers may each have a block.
const MAX_VIRTUAL_THREADS: u64 = 9_000_000;

/// Fills in the plans of a suggestion. The first two cases may show that it is slow everywhere
/// ([`Policy::is_dropped`](crate::domain::verdict::Policy::is_dropped)): the one that it is meant for, and the one whose work differs
/// most from that. The others follow with the least work first, so that a wrong variant fails early.
pub fn of_suggestion(
    family: &Family,
    suggestion: &Suggestion,
    workload: &Workload,
    device: &DeviceInfo,
    model_flop: f64,
) -> Result<Vec<CaseRequest>, String> {
    let request = |case: &Case| of_case(family, &suggestion.params, case, workload, device, model_flop);
    let mut cases = suggestion.cases.iter().map(request).collect::<Result<Vec<_>, String>>()?;
    let ln_work = |request: &CaseRequest| workload.op.work(&request.case.dims).max(1.0).ln();
    cases.sort_by(|a, b| ln_work(a).total_cmp(&ln_work(b)));
    if let Some(meant) = cases.iter().position(|request| request.case.name == suggestion.hypothesis.case) {
        cases[..=meant].rotate_right(1);
        let of_meant = ln_work(&cases[0]);
        let distance = |request: &CaseRequest| (ln_work(request) - of_meant).abs();
        // The others are in order, so the first or the last of them differs most.
        if let [least, .., most] = &cases[1..]
            && distance(most) > distance(least)
        {
            cases[1..].rotate_right(1);
        }
    }
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
        match on_shape(family, params, dims, case, workload, device) {
            Ok(planned) => hidden.extend(planned.filter(|planned| is_affordable(planned, device))),
            // The manifest promises correctness only on the requested shapes.
            Err(problem) => tracing::debug!("{} has an unusable hidden shape: {problem}", family.name),
        }
    }
    hidden
}

fn is_affordable(planned: &PlannedCase, device: &DeviceInfo) -> bool {
    device.time_source() == TimeSource::Measured || planned.plan.threads() <= MAX_VIRTUAL_THREADS
}

/// Fills in the plan of a shape with more elements than a float counts. Returns `None` if the op has none, if the same source is
/// not valid there, or if the device is no real GPU.
pub fn huge(
    family: &Family,
    params: &Params,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
    seed: u64,
) -> Option<PlannedCase> {
    let is_real = device.time_source() == TimeSource::Measured;
    let dims = workload.op.huge(&case.dims, seed).filter(|_| is_real)?;
    on_shape(family, params, dims, case, workload, device).ok().flatten()
}

/// Fills in the plan of a shape with offsets beyond 32 bits. Returns `None` if the op has none, if the same source is not valid
/// there, or if the device does not model its times: a real one would need the memory, and its candidates are executed on a
/// virtual one, too.
pub fn far(family: &Family, params: &Params, case: &Case, workload: &Workload, device: &DeviceInfo) -> Option<FarCase> {
    if device.time_source() != TimeSource::Modelled || workload.op.is_in_place(&case.dims, workload.dtype) {
        return None;
    }
    let FarShape { dims, dim, window, is_in_order, is_assumed } = workload.op.far(&case.dims, workload.dtype)?;
    let on = |dims: Dims| on_shape(family, params, dims, case, workload, device).ok().flatten();
    let planned = on(dims.clone())?;
    let grid = |planned: &PlannedCase| planned.plan.launches.last().map_or([1; 3], |launch| launch.grid);
    // Along which axes a grid changes with a dimension.
    let changes = |name: &str, size: i64| -> Option<[bool; 3]> {
        let mut dims = dims.clone();
        dims.insert(name.to_owned(), size);
        let (own, other) = (grid(&planned), grid(&on(dims)?));
        Some(std::array::from_fn(|axis| own[axis] != other[axis]))
    };
    let along = changes(dim, dims[dim] / 2).unwrap_or_default();
    let independent = independent_dims(workload.op, workload.dtype);
    let others = dims.iter().filter(|(name, _)| *name != dim && !independent.contains(&name.as_str()));
    let by_others: Vec<[bool; 3]> = others.filter_map(|(name, size)| changes(name, size * 2)).collect();
    let has_own_axis = (0..3).any(|axis| along[axis] && by_others.iter().all(|changed| !changed[axis]));
    let has_one_axis = grid(&planned)[1..] == [1, 1];
    // Parts of a sum may be put together by any block.
    let has_workspaces = !planned.plan.workspaces.is_empty();
    let ends_last = !has_workspaces && along.contains(&true) && (has_own_axis || has_one_axis && is_in_order);
    Some(FarCase { planned, dim: dim.to_owned(), window, ends_last, is_assumed })
}

/// Fills in the plan of a variant on another shape than that of a case. Returns `None` if the same source is not valid
/// there.
pub fn on_shape(
    family: &Family,
    params: &Params,
    dims: Dims,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
) -> Result<Option<PlannedCase>, String> {
    let other = Case { name: case.name.clone(), dims, regime: case.regime };
    same_source(family, params, &other, case, workload, device)
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
        if workload.op.executed_flop(&dims) < workload.op.executed_flop(&case.dims)
            && let Some(planned) = on_shape(family, params, dims, case, workload, device)?
        {
            return Ok(Some(planned));
        }
    }
    Ok(None)
}
