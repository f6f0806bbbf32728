//! The Python package, and its variant with an op of PyTorch.

use std::collections::BTreeMap;

use super::interface::{Interface, Tensor};
use super::plans;
use super::table::Table;
use super::{ExportError, File, Target, Winner, context, is_python_keyword, module_name, rendered};
use crate::domain::op::TensorRole;
use crate::domain::workload::Workload;

/// Modules that are the same in every export.
const DRIVER: &str = include_str!("../../templates/export/driver.py");
const TABLE: &str = include_str!("../../templates/export/table.py");
const LAUNCHER: &str = include_str!("../../templates/export/launcher.py");
const PREPARED: &str = include_str!("../../templates/export/prepared.py");
const ZEROED: &str = include_str!("../../templates/export/zeroed.py");

/// Names of parameters and modules in the exported code, which tensors and dimensions cannot have.
const TAKEN: [&str; 3] = ["stream", "workspace", "torch"];

/// Returns the package.
pub(super) fn files(
    workload: &Workload,
    interface: &Interface,
    table: &Table,
    winners: &[Winner],
    target: Target,
) -> Result<Vec<File>, ExportError> {
    check(workload, interface, target)?;
    let module = module_name(&workload.name);
    let file = |path: &str, text: String| File { path: format!("{module}/{path}"), text };
    let mut files = vec![
        file("__init__.py", entry(workload, interface, table, target)?),
        file("driver.py", DRIVER.to_owned()),
        file("launcher.py", LAUNCHER.to_owned()),
        file("plans.py", plans::module(workload, interface, table, winners)?),
        file("table.py", TABLE.to_owned()),
        file("table.json", table.to_json()?),
    ];
    if target == Target::Torch {
        files.push(file("prepared.py", PREPARED.to_owned()));
        files.push(file("zeroed.py", ZEROED.to_owned()));
        if let Some(masks) = masks(workload, interface) {
            let mut context = context(workload, interface);
            context.insert("masks", &masks);
            files.push(file("sdpa.py", rendered("sdpa.py", &context)?));
        }
    }
    // Cases with the same source share the file.
    let sources: BTreeMap<String, &str> =
        winners.iter().map(|winner| (winner.source_name(), winner.source.as_str())).collect();
    files.extend(sources.into_iter().map(|(name, text)| file(&format!("kernels/{name}"), text.to_owned())));
    Ok(files)
}

/// Refuses names that the code uses itself, and outputs whose shape only a reference could tell.
fn check(workload: &Workload, interface: &Interface, target: Target) -> Result<(), ExportError> {
    let tensors = interface.tensors.iter().map(|tensor| tensor.name.as_str());
    let names = tensors.chain(interface.dims.iter().map(|dim| dim.name));
    if let Some(name) = names.into_iter().find(|name| TAKEN.contains(name) || is_python_keyword(name)) {
        return Err(ExportError::Refused(format!(
            "op `{}` has a tensor or dimension `{name}`, and exported modules cannot have this name: rename it",
            workload.op.name()
        )));
    }
    let unknown = interface
        .with_role(|role| role == TensorRole::Output)
        .find(|tensor| tensor.extents.iter().any(Option::is_none));
    if let (Target::Torch, None, Some(tensor)) = (target, &interface.reference, unknown) {
        return Err(ExportError::Refused(format!(
            "the shape {} of output `{}` is no sum of dimensions: name a baseline = {{ torch = \"EXPRESSION\" }} in the \
             workload, which tells PyTorch its shape",
            tensor.shape(),
            tensor.name
        )));
    }
    Ok(())
}

/// Renders `__init__.py`.
fn entry(workload: &Workload, interface: &Interface, table: &Table, target: Target) -> Result<String, ExportError> {
    let mut context = context(workload, interface);
    let inputs = interface.inputs();
    let given: Vec<&str> = interface.given().into_iter().map(|dim| dim.name).collect();
    let tensors: Vec<&str> = interface.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    context.insert("tensors", &tensors);
    context.insert("prepares", &table.prepares());
    context.insert("parameters", &tensors.join(", "));
    context.insert("call", &format!("_call({})", [&inputs[..], &given[..]].concat().join(", ")));
    context.insert("schema", &schema(interface));
    context.insert("output_shapes", &output_shapes(interface));
    context.insert("alike", &alike(interface));
    context.insert("is_sdpa", &masks(workload, interface).is_some());
    let elsewhere = match interface.reference {
        Some(_) => "Elsewhere, it falls back to `reference`.",
        None => "Where there is no winner, it raises an error.",
    };
    context.insert("elsewhere", elsewhere);
    match target {
        Target::Torch => rendered("torch.py", &context),
        Target::C | Target::Python => rendered("python.py", &context),
    }
}

/// Returns the optional dimensions that are 0 where a winner computes what PyTorch's scaled_dot_product_attention does. None if no
/// winner does.
pub(super) fn masks(workload: &Workload, interface: &Interface) -> Option<Vec<&'static str>> {
    let given = || interface.given().into_iter().map(|dim| dim.name);
    let is_attention = workload.op.name() == "attention" && interface.inputs() == ["q", "k", "v"];
    (is_attention && given().any(|name| name == "CAUSAL")).then(|| given().filter(|name| *name != "CAUSAL").collect())
}

/// Returns each output with the first input that has its shape and dtype in every case.
fn alike(interface: &Interface) -> Vec<(&str, &str)> {
    let outputs = interface.with_role(|role| role == TensorRole::Output);
    let like = |output: &Tensor| {
        let mut inputs = interface.with_role(|role| role == TensorRole::Input);
        let is_known = output.extents.iter().all(Option::is_some);
        inputs.find(|input| is_known && input.extents == output.extents && input.dtype == output.dtype)
    };
    outputs.filter_map(|output| Some((output.name.as_str(), like(output)?.name.as_str()))).collect()
}

/// Writes the signature of the op in PyTorch's schema language.
fn schema(interface: &Interface) -> String {
    let in_place = interface.in_place();
    // Each mutated tensor is its own, and no output shares its memory.
    let tensor = |name: &str| match in_place.iter().position(|other| *other == name) {
        Some(place) => format!("Tensor(a{place}!) {name}"),
        None => format!("Tensor {name}"),
    };
    let inputs = interface.inputs().into_iter().map(tensor);
    let given = interface.given().into_iter().map(|dim| format!("int {}", dim.parameter));
    let parameters: Vec<String> = inputs.chain(given).collect();
    let outputs = vec!["Tensor"; interface.outputs().len()];
    let outputs = if let [only] = outputs[..] { only.to_owned() } else { format!("({})", outputs.join(", ")) };
    format!("({}) -> {outputs}", parameters.join(", "))
}

/// Returns each result with its shape as a tuple of Python.
fn output_shapes(interface: &Interface) -> Vec<BTreeMap<&'static str, String>> {
    let shape = |tensor: &Tensor| match tensor.extents.iter().cloned().collect::<Option<Vec<String>>>() {
        // A tuple of one needs a comma.
        Some(extents) if extents.len() == 1 => format!("({},)", extents[0]),
        Some(extents) => format!("({})", extents.join(", ")),
        None => "None".to_owned(),
    };
    let outputs = interface.with_role(TensorRole::is_written);
    outputs.map(|tensor| BTreeMap::from([("name", tensor.name.clone()), ("shape", shape(tensor))])).collect()
}
