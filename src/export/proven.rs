//! The launches of a winner on the other shapes for which its source is proven.

use crate::domain::device::{DeviceInfo, DeviceKey};
use crate::domain::family::Family;
use crate::domain::op::Dims;
use crate::domain::plan::LaunchPlan;
use crate::domain::sidecar::Sidecar;
use crate::domain::workload::{Case, Workload};

/// Fills in the launches of a winner on the shapes in its `proven_for`, other than that of its case.
///
/// A sidecar has only the launches of its case, so the family fills in the others. A family that has changed since, and
/// fills in other launches for the case itself, gives none.
pub fn proven(
    sidecar: &Sidecar,
    dims: &Dims,
    (family, workload): (&Family, &Workload),
    device: &DeviceKey,
) -> Vec<(Dims, LaunchPlan)> {
    let Ok(info) = DeviceInfo::of_arch(&sidecar.arch) else { return Vec::new() };
    let info = DeviceInfo { name: sidecar.environment.device.clone(), sms: device.sms(), ..info };
    let plan = |dims: &Dims| {
        let name = sidecar.measurement.case.clone();
        let case = Case { name, dims: dims.clone(), regime: sidecar.measurement.regime };
        family.plan(&sidecar.variant.params, &case, workload.op, workload.dtype, &info).ok()
    };
    if plan(dims) != Some(sidecar.plan()) {
        return Vec::new();
    }
    let others = sidecar.proven_for.iter().filter(|other| *other != dims && workload.op.check(other).is_ok());
    others.filter_map(|other| Some((other.clone(), plan(other)?))).collect()
}
