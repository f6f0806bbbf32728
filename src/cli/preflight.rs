//! What is refused before a session begins and anything is spent.

use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::names::did_you_mean;
use crate::domain::space::Space;
use crate::domain::workload::Workload;
use crate::runner::render::render;

/// Refuses a workload whose reference family is not there.
pub fn check_reference(workload: &Workload, families: &[Family]) -> Result<(), String> {
    if families.iter().any(|family| family.name == workload.reference) {
        return Ok(());
    }
    let hint = did_you_mean(&workload.reference, families.iter().map(|family| family.name.as_str()));
    Err(format!(
        "workload `{}` names the reference family `{}`, which is not there{hint}",
        workload.name, workload.reference
    ))
}

/// Refuses what no session could search: no family that fits, a case without a valid point, a template that does not
/// render, a launch plan that cannot be filled in.
pub fn check_spaces(
    workload: &Workload,
    families: &[Family],
    searched: &[String],
    device: &DeviceInfo,
) -> Result<(), String> {
    let chosen = |family: &&Family| searched.contains(&family.name) && family.fits(workload, device);
    let fitting: Vec<_> = families.iter().filter(chosen).collect();
    if fitting.is_empty() {
        return Err(format!(
            "no family can compute workload `{}` ({}, {}) on {} (sm_{}): add one to templates/kernels/",
            workload.name,
            workload.op.name(),
            workload.dtype.name(),
            device.name,
            device.sm
        ));
    }
    for case in &workload.cases {
        let mut reasons = Vec::new();
        for family in &fitting {
            let space = Space { family, case, dtype: workload.dtype, device };
            let start = space.start().map_err(|problem| format!("family `{}`: {problem}", family.name))?;
            let Some(params) = start else {
                let why = space.why_not(&family.defaults()).unwrap_or_default();
                reasons.push(format!("{} ({why})", family.name));
                continue;
            };
            render(family, &family.specialization(case), workload.dtype, &params)?;
            family.plan(&params, case, workload.op, workload.dtype, device).map_err(|error| {
                format!("family `{}` has no launch plan on case `{}`: {error}", family.name, case.name)
            })?;
        }
        if reasons.len() == fitting.len() {
            return Err(format!(
                "case `{}` has no valid point in any family: {}; leave it out with --case, or widen a family's values",
                case.name,
                reasons.join("; ")
            ));
        }
    }
    Ok(())
}
