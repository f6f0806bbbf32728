//! Scoped resources of a device: each is acquired, used by a function and released.

use super::sets::{Rotation, Sets};
use super::{Ended, ended, replays};
use crate::domain::code::artifact::Artifact;
use crate::domain::family::plan::LaunchPlan;
use crate::runner::device::{Capture, Device, Fault, Module, Problem, Work};

/// Loads an artifact, calls a function with it, and unloads it with its global variables.
pub fn with_module<T>(
    device: &mut dyn Device,
    case: &str,
    artifact: &Artifact,
    what: impl FnOnce(&mut dyn Device, Module) -> Result<T, Ended>,
) -> Result<T, Ended> {
    let module = device.load(artifact).map_err(|fault| ended(case, fault))?;
    let done = what(device, module);
    after_release(case, done, device.unload(module))
}

/// Allocates sets of buffers, calls a function with them, and frees them.
pub fn with_sets<T>(
    device: &mut dyn Device,
    case: &str,
    (problem, plan): (Option<&Problem<'_>>, &LaunchPlan),
    rotation: Rotation,
    what: impl FnOnce(&mut dyn Device, &Sets) -> Result<T, Ended>,
) -> Result<T, Ended> {
    let sets = Sets::allocate(device, problem, plan, rotation).map_err(|fault| ended(case, fault))?;
    let done = what(device, &sets);
    after_release(case, done, sets.free(device))
}

/// Captures one execution of every work, calls a function with the capture, and releases it. Buffers and module may
/// then be freed.
pub fn with_capture<T>(
    device: &mut dyn Device,
    case: &str,
    works: &[Work<'_>],
    what: impl FnOnce(&mut dyn Device, Capture) -> Result<T, Ended>,
) -> Result<T, Ended> {
    let captured = replays(device)?.capture(works, works.len() as u32);
    let capture = captured.map_err(|fault| ended(case, fault))?;
    let done = what(device, capture);
    let released = replays(device)?.release(capture);
    after_release(case, done, released)
}

/// Merges the results of use and release. After a crash there is nothing left to release, and the crash is the error to
/// report.
fn after_release<T>(case: &str, done: Result<T, Ended>, after_release: Result<(), Fault>) -> Result<T, Ended> {
    let done = done?;
    after_release.map_err(|fault| ended(case, fault))?;
    Ok(done)
}
