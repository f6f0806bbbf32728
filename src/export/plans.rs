//! The launches of winners on other shapes than those of the table, as functions of the dimensions.

use serde::Serialize;

use super::interface::Interface;
use super::proven::device_of;
use super::table::{Device, Table};
use super::{ExportError, Winner, is_python_keyword, rendered};
use crate::domain::family::PlanInPython;
use crate::domain::op::{Dims, Dtype, TensorRole};
use crate::domain::workload::Workload;

/// A source that is launched on a range of shapes.
#[derive(Serialize)]
struct Plan {
    /// The name of its function.
    name: String,
    /// Index of its device.
    device: usize,
    case: String,
    source: String,
    arch: String,
    options: Vec<String>,
    /// The dimensions that are no constants of the source, in the op's order.
    free: Vec<&'static str>,
    /// The lowest and the highest value of each dimension for which the source is proven.
    ranges: Vec<(String, i64, i64)>,
    /// The free dimensions of the case.
    at: Vec<(String, i64)>,
    code: PlanInPython,
}

/// A tensor with its extents in Python.
#[derive(Serialize)]
struct Shaped<'a> {
    name: &'a str,
    dtype: Dtype,
    role: TensorRole,
    extents: Vec<&'a str>,
}

/// Writes `plans.py`. It has no plans where the shape of a tensor is no sum of dimensions.
pub(super) fn module(
    workload: &Workload,
    interface: &Interface,
    table: &Table,
    winners: &[Winner],
) -> Result<String, ExportError> {
    let shapes: Option<Vec<Shaped<'_>>> = interface.tensors.iter().map(shaped).collect();
    let mut plans: Vec<Plan> = Vec::new();
    for winner in winners.iter().filter(|_| shapes.is_some()) {
        plans.extend(plan(workload, interface, table, winner, plans.len()));
    }
    let mut context = super::context(workload, interface);
    context.insert("plans", &plans);
    context.insert("shapes", &shapes.unwrap_or_default());
    rendered("plans.py", &context)
}

fn shaped(tensor: &super::interface::Tensor) -> Option<Shaped<'_>> {
    let extents = tensor.extents.iter().map(Option::as_deref).collect::<Option<_>>()?;
    Some(Shaped { name: &tensor.name, dtype: tensor.dtype, role: tensor.role, extents })
}

/// Writes the plan of a winner. None if it has no rules, if they do not give its own launches, or if Python cannot follow them.
fn plan(workload: &Workload, interface: &Interface, table: &Table, winner: &Winner, number: usize) -> Option<Plan> {
    let Winner { sidecar, dims, proven, .. } = winner;
    let op = workload.op;
    let info = device_of(sidecar, &winner.device)?;
    let rules = sidecar.rules.as_ref()?;
    let (params, of) = (&sidecar.variant.params, (op, workload.dtype));
    if rules.plan(params, dims, of, &info).ok()? != sidecar.plan() {
        return None;
    }
    // A scalar is a number in the plan, so it must be the same on every shape.
    let mut shapes = proven.iter().map(|(dims, _)| dims).chain([dims]);
    if shapes.any(|other| op.scalars(other) != op.scalars(dims)) {
        return None;
    }
    let called: Vec<&'static str> = interface.dims.iter().map(|dim| dim.name).collect();
    let code = rules.in_python(params, (dims, &called), of, &info).ok()??;
    let free: Vec<&'static str> =
        called.iter().copied().filter(|name| !rules.constants.iter().any(|constant| constant == name)).collect();
    let is_taken = |name: &str| is_python_keyword(name) || ["min", "max"].contains(&name);
    if code.derived.iter().map(|(name, _)| name.as_str()).chain(free.iter().copied()).any(is_taken) {
        return None;
    }
    let completed = |dims: &Dims| interface.complete(dims, &op.tensors(dims, workload.dtype));
    let case = completed(dims)?;
    let shapes: Vec<Dims> = proven.iter().filter_map(|(dims, _)| completed(dims)).chain([case.clone()]).collect();
    let range = |name: &'static str| {
        let values = || shapes.iter().filter_map(|dims| dims.get(name).copied());
        Some((name.to_owned(), values().min()?, values().max()?))
    };
    let ranges: Vec<(String, i64, i64)> = called.iter().copied().map(range).collect::<Option<_>>()?;
    // The table has the case itself.
    if ranges.iter().all(|(_, low, high)| low == high) {
        return None;
    }
    let device = Device::of(winner);
    Some(Plan {
        name: format!("launch_{number}"),
        device: table.devices.iter().position(|one| *one == device)?,
        case: sidecar.measurement.case.to_string(),
        source: winner.source_name(),
        arch: sidecar.arch.clone(),
        options: sidecar.compile_options.clone(),
        ranges,
        at: free.iter().map(|name| Some(((*name).to_owned(), *case.get(*name)?))).collect::<Option<_>>()?,
        free,
        code,
    })
}
