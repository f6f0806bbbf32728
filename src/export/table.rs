//! The table of winners: which launches compute which shapes on which device.

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use super::interface::{Dim, Interface};
use super::{ExportError, Winner};
use crate::domain::code::ptx;
use crate::domain::compute::Compute;
use crate::domain::family::plan::{Launch, LaunchPlan};
use crate::domain::op::{DimDefault, Dims, Dtype, TensorRole};
use crate::domain::sidecar::{self, SidecarTensor, SidecarWorkspace};
use crate::domain::workload::Workload;

/// The format of `table.json`.
const SCHEMA: &str = "optloop.export/1";

/// Everything that a launcher needs to know, apart from the sources.
#[derive(Serialize)]
pub(super) struct Table {
    schema: &'static str,
    workload: String,
    op: &'static str,
    /// The precision in which its kernels may multiply.
    #[serde(skip_serializing_if = "Compute::is_dtype")]
    compute: Compute,
    dims: Vec<PlacedDim>,
    inputs: IndexMap<String, Ranked>,
    outputs: IndexMap<String, Ranked>,
    pub devices: Vec<Device>,
    pub rows: Vec<Row>,
}

#[derive(Serialize)]
struct PlacedDim {
    name: &'static str,
    of: Option<(String, usize)>,
    /// What it is where a shape leaves it out: a number, or the name of another dimension.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Value>,
}

#[derive(Serialize)]
struct Ranked {
    dtype: Dtype,
    rank: usize,
}

/// A kind of device, as the driver describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Device {
    pub name: String,
    pub sms: u32,
    pub arch: String,
}

impl Device {
    /// Returns that of a winner.
    pub fn of(winner: &Winner) -> Self {
        let sidecar = &winner.sidecar;
        let name = sidecar.environment.device.clone();
        Self { name, sms: winner.device.sms(), arch: sidecar.arch.clone() }
    }
}

/// A winner on one device and one shape.
#[derive(Serialize)]
pub(super) struct Row {
    pub case: String,
    /// Index of its device.
    pub device: usize,
    pub dims: Dims,
    pub source: String,
    pub arch: String,
    pub options: Vec<String>,
    tensors: IndexMap<String, SidecarTensor>,
    pub workspaces: IndexMap<String, SidecarWorkspace>,
    /// What prepares weights, before the launches that rely on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preparation: Vec<Launch>,
    pub launches: Vec<Launch>,
    /// The recorded time in microseconds. None for a shape that is no case: it was proven, not timed.
    time_us: Option<f64>,
    regime: &'static str,
}

impl Table {
    /// Returns whether a winner prepares weights.
    pub fn prepares(&self) -> bool {
        self.rows.iter().any(|row| !row.preparation.is_empty())
    }

    /// Lists the winners, those of the cases first. A shape has one winner on a device.
    /// The error names a winner with other tensors than the rest.
    pub fn of(workload: &Workload, interface: &Interface, winners: &[Winner]) -> Result<Self, ExportError> {
        let mut devices: Vec<Device> = Vec::new();
        let mut rows: Vec<Row> = Vec::new();
        let tensors = |dims: &Dims| workload.op.tensors(dims, workload.dtype);
        let mut add = |winner: &Winner, dims: &Dims, completed: Dims, plan: LaunchPlan, time_us| {
            let sidecar = &winner.sidecar;
            let found = Device::of(winner);
            let device = devices.iter().position(|device| *device == found).unwrap_or_else(|| {
                devices.push(found);
                devices.len() - 1
            });
            if rows.iter().any(|row| row.device == device && row.dims == completed) {
                return;
            }
            rows.push(Row {
                case: sidecar.measurement.case.to_string(),
                device,
                dims: completed,
                source: winner.source_name(),
                arch: sidecar.arch.clone(),
                options: sidecar.compile_options.clone(),
                tensors: sidecar::tensors(&tensors(dims)),
                workspaces: sidecar::workspaces(&plan.workspaces),
                preparation: plan.preparation,
                launches: plan.launches,
                time_us,
                regime: sidecar.measurement.regime.name(),
            });
        };
        for winner in winners {
            let Some(completed) = interface.complete(&winner.dims, &tensors(&winner.dims)) else {
                return Err(ExportError::Refused(format!(
                    "{} and other winners have different tensors: export each by itself, as {}/{}",
                    winner.sidecar.measurement.case, workload.name, winner.sidecar.measurement.case
                )));
            };
            add(winner, &winner.dims, completed, winner.sidecar.plan(), Some(winner.sidecar.measurement.median_us));
        }
        for (winner, (dims, plan)) in winners.iter().flat_map(|one| one.proven.iter().map(move |proven| (one, proven)))
        {
            if let Some(completed) = interface.complete(dims, &tensors(dims)) {
                add(winner, dims, completed, plan.clone(), None);
            }
        }
        let ranked = |is_meant: fn(TensorRole) -> bool| {
            let tensors = interface.with_role(is_meant);
            tensors.map(|it| (it.name.clone(), Ranked { dtype: it.dtype, rank: it.extents.len() })).collect()
        };
        let placed = |dim: &Dim| PlacedDim {
            name: dim.name,
            of: dim.of.clone(),
            default: interface.default_of(dim.name).map(|default| match default {
                DimDefault::Same(other) => other.into(),
                DimDefault::Fixed(value) => value.into(),
                DimDefault::Off => 0.into(),
            }),
        };
        Ok(Self {
            schema: SCHEMA,
            workload: workload.name.clone(),
            op: workload.op.name(),
            compute: workload.compute,
            dims: interface.dims.iter().map(placed).collect(),
            inputs: ranked(TensorRole::is_read),
            outputs: ranked(|role| role == TensorRole::Output),
            devices,
            rows,
        })
    }

    /// Writes `table.json`, with a line for each row.
    pub fn to_json(&self) -> Result<String, ExportError> {
        let mut value = serde_json::to_value(self)?;
        let rows: Vec<String> = self.rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        value["rows"] = "ROWS".into();
        let text = serde_json::to_string_pretty(&value)?;
        // Only the outermost key is indented by two blanks.
        let placed = format!("\n  \"rows\": [\n    {}\n  ]", rows.join(",\n    "));
        Ok(text.replace("\n  \"rows\": \"ROWS\"", &placed) + "\n")
    }

    /// Returns the cases with device and time, for readers.
    pub fn described(&self) -> Vec<Described> {
        let cases = self.rows.iter().filter_map(|row| Some((row, row.time_us?)));
        let described = |(row, time_us): (&Row, f64)| Described {
            case: row.case.clone(),
            dims: row.dims.iter().map(|(name, size)| format!("{name} = {size}")).collect::<Vec<_>>().join(", "),
            device: self.devices[row.device].name.clone(),
            time_us: format!("{time_us:.4}"),
            regime: row.regime,
        };
        cases.map(described).collect()
    }

    /// Returns the versions of NVRTC that compiled the winners when they were timed. Empty if all came as PTX.
    pub fn nvrtc(&self, winners: &[Winner]) -> String {
        let compiled = winners.iter().filter(|winner| !ptx::is_ptx(&winner.source));
        let mut versions: Vec<&str> = compiled.map(|winner| winner.sidecar.environment.nvrtc.as_str()).collect();
        versions.sort_unstable();
        versions.dedup();
        versions.join(", ")
    }
}

/// A case, for readers.
#[derive(Serialize)]
pub(super) struct Described {
    case: String,
    dims: String,
    device: String,
    time_us: String,
    regime: &'static str,
}
