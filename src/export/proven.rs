//! The launches of a winner on the other shapes for which its source is proven.

use crate::domain::device::{DeviceInfo, DeviceKey};
use crate::domain::family::Family;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::op::Dims;
use crate::domain::sidecar::Sidecar;
use crate::domain::workload::Workload;

/// Fills in the launches of a winner on the shapes in its `proven_for`, other than that of its case.
///
/// A sidecar has the launches of its case, and the rules for others. An older sidecar has no rules. Then the family fills in
/// the others, unless it has changed since, and fills in other launches for the case itself.
pub fn proven(
    sidecar: &Sidecar,
    dims: &Dims,
    (family, workload): (Option<&Family>, &Workload),
    device: &DeviceKey,
) -> Vec<(Dims, LaunchPlan)> {
    let Some(info) = device_of(sidecar, device) else { return Vec::new() };
    let Some(rules) = sidecar.rules.clone().or_else(|| family.map(Family::plan_rules)) else { return Vec::new() };
    let plan = |dims: &Dims| rules.plan(&sidecar.variant.params, dims, (workload.op, workload.dtype), &info).ok();
    if plan(dims) != Some(sidecar.plan()) {
        return Vec::new();
    }
    let others = sidecar.proven_for.iter().filter(|other| *other != dims && workload.op.check(other).is_ok());
    others.filter_map(|other| Some((other.clone(), plan(other)?))).collect()
}

/// Describes the device of a winner. None if its architecture is not known.
pub(super) fn device_of(sidecar: &Sidecar, device: &DeviceKey) -> Option<DeviceInfo> {
    let info = DeviceInfo::of_arch(&sidecar.arch).ok()?;
    Some(DeviceInfo { name: sidecar.environment.device.clone(), sms: device.sms(), ..info })
}
