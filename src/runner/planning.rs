//! Turns a suggestion into device requests, case by case: the launch plans of a configuration on cases, on scaled cases
//! and on hidden shapes.
//!
//! Sessions, the audit and `bench` all use it, so that they make the same requests. It is pure: no device is touched.

use super::messages::{CaseRequest, FarCase, PlannedCase};
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::op::{CheckLimits, Dims, FarShape, Op, independent_dims};
use crate::domain::proposal::Suggestion;
use crate::domain::space::Space;
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};
use crate::error::{Result, error};

/// The most hidden cases of the acceptance checks. Each costs an allocation and two oracle runs, and the op lists the
/// most telling ones first. Remainders, which are small, come in addition.
pub const MAX_HIDDEN: usize = 8;

/// The work and memory that a real GPU can spend on a hidden case, however small the case is. A naive kernel takes some
/// 50 ms for it.
const ON_A_GPU: CheckLimits = CheckLimits { flop: 2e9, bytes: 64e6 };

/// The same for a virtual GPU, where a CPU core takes some 0.1 s.
const ON_A_VIRTUAL_GPU: CheckLimits = CheckLimits { flop: 1e7, bytes: 2e6 };

/// The most threads of a launch on a hidden shape that a virtual GPU executes, in some seconds of a CPU core. So many rows of a few
/// numbers may each have a block.
const MAX_VIRTUAL_THREADS: u64 = 9_000_000;

/// Fills in the plans of a suggestion. The first two cases may show that it is slow everywhere
/// ([`Policy::is_dropped`](crate::domain::measurement::verdict::Policy::is_dropped)): the one that it is meant for, and the one whose work differs
/// most from that. The others follow with the least work first, so that a wrong variant fails early.
pub fn of_suggestion(
    family: &Family,
    suggestion: &Suggestion,
    workload: &Workload,
    device: &DeviceInfo,
    model_flop: f64,
) -> Result<Vec<CaseRequest>> {
    let request = |case: &Case| of_case(family, &suggestion.params, case, workload, device, model_flop);
    let mut cases = suggestion.cases.iter().map(request).collect::<Result<Vec<_>>>()?;
    let ln_work = |request: &CaseRequest| workload.op.work(&request.case.dims).max(1.0).ln();
    cases.sort_by(|a, b| ln_work(a).total_cmp(&ln_work(b)));
    if let Some(meant) = cases.iter().position(|request| request.case.name == suggestion.rationale.hypothesis.case) {
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
) -> Result<CaseRequest> {
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
    for dims in workload.op.remainders(&case.dims, seed) {
        if hidden.iter().any(|planned| planned.case.dims == dims) {
            continue;
        }
        if let Ok(planned) = on_shape(family, params, dims, case, workload, device) {
            hidden.extend(planned.filter(|planned| is_affordable(planned, device)));
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

/// Fills in the plans of shapes of which only the ends are computed: one with offsets beyond 32 bits, and one where the grid has
/// stopped growing. None if the op has none, if the same source is not valid there, or if the device does not model its times: a
/// real one would need the memory, and its candidates are executed on a virtual one, too.
pub fn far(family: &Family, params: &Params, case: &Case, workload: &Workload, device: &DeviceInfo) -> Vec<FarCase> {
    if device.time_source() != TimeSource::Modelled || workload.op.is_in_place(&case.dims, workload.dtype) {
        return Vec::new();
    }
    let Some(shape) = workload.op.far(&case.dims, workload.dtype) else { return Vec::new() };
    let on = |dims: Dims| on_shape(family, params, dims, case, workload, device).ok().flatten();
    let ends = Ends { workload, shape: &shape, on: &on };
    ends.capped().into_iter().chain(ends.far()).collect()
}

/// The ends of a shape that is long in one dimension.
struct Ends<'a> {
    workload: &'a Workload,
    shape: &'a FarShape,
    /// Fills in the plan of other sizes.
    on: &'a dyn Fn(Dims) -> Option<PlannedCase>,
}

impl Ends<'_> {
    fn with(&self, dims: &Dims, name: &str, size: i64) -> Option<PlannedCase> {
        let mut dims = dims.clone();
        dims.insert(name.to_owned(), size);
        (self.on)(dims)
    }

    /// Returns the plan for a number of indices of the long dimension.
    fn sized(&self, size: i64) -> Option<PlannedCase> {
        self.with(&self.shape.dims, self.shape.dim, size)
    }

    fn far(&self) -> Option<FarCase> {
        let size = self.shape.dims[self.shape.dim];
        Some(self.case(self.sized(size)?, size / 2, false))
    }

    /// Returns a shape with twice as many indices as a grid with a largest size has blocks for. If each block takes the next ones
    /// after as many blocks as there are, the last block takes the last indices.
    fn capped(&self) -> Option<FarCase> {
        let grid_of = |size: i64| Some(grid(&self.sized(size)?));
        let (mut smaller, mut larger) = (1, self.shape.dims[self.shape.dim]);
        let most = grid_of(larger)?;
        let axis = (0..3).find(|axis| grid_of(smaller).is_some_and(|grid| grid[*axis] < most[*axis]))?;
        if grid_of(larger / 2)? != most {
            return None;
        }
        while larger - smaller > 1 {
            let middle = smaller + (larger - smaller) / 2;
            if grid_of(middle)? == most { larger = middle } else { smaller = middle }
        }
        // All blocks but the last one are for the smaller size.
        let of_all = smaller + smaller / i64::from(most[axis] - 1).max(1);
        let size = 2 * of_all;
        let planned = self.sized(size).filter(|planned| planned.plan.threads() <= MAX_VIRTUAL_THREADS)?;
        Some(self.case(planned, 1, true)).filter(|far| far.ends_last && size > 2 * self.shape.window)
    }

    /// Makes the check of a shape. Its grid is compared with that of another size.
    fn case(&self, planned: PlannedCase, other: i64, is_capped: bool) -> FarCase {
        let FarShape { dim, window, is_in_order, is_assumed, .. } = *self.shape;
        let dims = &planned.case.dims;
        // Along which axes a grid changes with a dimension.
        let changes = |name: &str, size: i64| -> Option<[bool; 3]> {
            let (own, other) = (grid(&planned), grid(&self.with(dims, name, size)?));
            Some(std::array::from_fn(|axis| own[axis] != other[axis]))
        };
        let along = changes(dim, other).unwrap_or_default();
        let independent = independent_dims(self.workload.op, self.workload.dtype);
        let others = dims.iter().filter(|(name, _)| *name != dim && !independent.contains(&name.as_str()));
        let by_others: Vec<[bool; 3]> = others.filter_map(|(name, size)| changes(name, size * 2)).collect();
        let has_own_axis = (0..3).any(|axis| along[axis] && by_others.iter().all(|changed| !changed[axis]));
        let has_one_axis = grid(&planned)[1..] == [1, 1];
        // Parts of a sum may be put together by any block.
        let has_workspaces = !planned.plan.workspaces.is_empty();
        let ends_last = !has_workspaces && along.contains(&true) && (has_own_axis || has_one_axis && is_in_order);
        FarCase { planned, dim: dim.to_owned(), window, ends_last, is_capped, is_assumed }
    }
}

fn grid(planned: &PlannedCase) -> [u32; 3] {
    planned.plan.launches.last().map_or([1; 3], |launch| launch.grid)
}

/// Returns whether a shape has so much more work than a case, or a dimension so much longer, that a slow kernel may not end there.
pub fn is_longer(op: &dyn Op, dims: &Dims, own: &Dims) -> bool {
    let has_longer = dims.iter().any(|(name, size)| own.get(name).is_some_and(|own| *size >= 2 * own));
    has_longer || op.work(dims) >= 2.0 * op.work(own)
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
) -> Result<Option<PlannedCase>> {
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
) -> Result<Option<PlannedCase>> {
    if family.specialization(other) != family.specialization(case) || workload.op.check(&other.dims).is_err() {
        return Ok(None);
    }
    if !(Space { family, case: other, dtype: workload.dtype, device }).contains(params)? {
        return Ok(None);
    }
    let plan = plan(family, params, other, workload, device)?;
    Ok(Some(PlannedCase { case: other.clone(), plan }))
}

fn plan(family: &Family, params: &Params, case: &Case, workload: &Workload, device: &DeviceInfo) -> Result<LaunchPlan> {
    let plan = family.plan(params, case, workload.op, workload.dtype, device);
    plan.map_err(|error| error!("{} on {}: {error}", family.name, case.name))
}

/// Finds the smallest scaled case on which the same source is valid. Returns `None` if there is none. The case itself
/// is checked then, however long that takes.
fn scaled(
    family: &Family,
    params: &Params,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
) -> Result<Option<PlannedCase>> {
    for dims in workload.op.scaled(&case.dims) {
        if workload.op.executed_flop(&dims) < workload.op.executed_flop(&case.dims)
            && let Some(planned) = on_shape(family, params, dims, case, workload, device)?
        {
            return Ok(Some(planned));
        }
    }
    Ok(None)
}
