//! T1: the input format of the autotuning community, which defines a search space.
//!
//! optloop's kernels are templates, which other tuners cannot compile. They can search the space in simulation, with the
//! results of a session in another format.

use serde_json::{Value, json};

use crate::domain::device::DeviceInfo;
use crate::domain::family::{Family, InPython, Param};
use crate::domain::op::Dtype;
use crate::domain::workload::Case;
use crate::error::Error;

/// Writes the search space of a family on a case of a device as JSON text. The error is one sentence.
pub fn t1(family: &Family, case: &Case, dtype: Dtype, device: &DeviceInfo) -> Result<String, Error> {
    let InPython { constraints, grid, block } = family.in_python(case, dtype, device)?;
    let parameters: Vec<Value> = family.params.iter().map(parameter).collect();
    let condition = |(expression, parameters): (String, Vec<String>)| {
        // Without a parameter, it says whether the family takes the case at all.
        (!parameters.is_empty()).then(|| json!({ "Parameters": parameters, "Expression": expression }))
    };
    let file = json!({
        "General": { "BenchmarkName": format!("{} on {}", family.name, case.name), "FormatVersion": 1, "OutputFormat": "JSON" },
        "ConfigurationSpace": {
            "TuningParameters": parameters,
            "Conditions": constraints.into_iter().filter_map(condition).collect::<Vec<_>>(),
        },
        "KernelSpecification": {
            "Language": "CUDA",
            // As in the caches of sessions. The space of a family does not depend on the names of its kernels.
            "KernelName": family.name,
            "KernelFile": format!("templates/kernels/{}/kernel.cu.tera", family.name),
            "GlobalSizeType": "CUDA",
            "GlobalSize": axes(&grid),
            "LocalSize": axes(&block),
            "ProblemSize": [],
            "Arguments": [],
        },
    });
    Ok(serde_json::to_string(&file).expect("names, numbers and texts are JSON"))
}

fn parameter((name, param): (&String, &Param)) -> Value {
    let values: Vec<String> = param.values.iter().map(i64::to_string).collect();
    json!({ "Name": name, "Type": "int", "Values": format!("[{}]", values.join(", ")), "Default": param.default })
}

/// Writes sizes along the axes. Those that are not given are 1.
fn axes(sizes: &[String]) -> Value {
    let at = |axis: usize| sizes.get(axis).map_or("1", String::as_str);
    json!({ "X": at(0), "Y": at(1), "Z": at(2) })
}
