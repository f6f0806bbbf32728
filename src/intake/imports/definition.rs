//! Definitions and workloads of flashinfer-bench: what a kernel computes, in which sizes, with a reference in Python.

use indexmap::IndexMap;
use serde::Deserialize;

use super::Imported;
use super::python;
use super::tuning::dtype;
use crate::domain::text::expected::in_words;
use crate::domain::text::names::{MAX_NAME, shortened};
use crate::error::{Error, error};
use crate::intake::oracle::EXACT_TORCH;
use crate::intake::{Kernel, Kind, Wanted, kernels};

/// A definition: the shapes and types of tensors, and a reference.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Definition {
    name: String,
    axes: IndexMap<String, Axis>,
    inputs: IndexMap<String, Tensor>,
    outputs: IndexMap<String, Tensor>,
    reference: String,
    #[serde(default)]
    constraints: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Axis {
    Const {
        value: i64,
    },
    Var,
    /// A number that others determine, in Python.
    Expr {
        #[serde(alias = "expr", alias = "value")]
        expression: String,
    },
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Tensor {
    /// None for a scalar.
    shape: Option<Vec<String>>,
    dtype: String,
}

#[derive(Deserialize)]
struct Line {
    workload: Option<Workload>,
    #[serde(flatten)]
    own: IndexMap<String, serde_json::Value>,
}

/// The sizes of a case, and what its inputs are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Workload {
    axes: IndexMap<String, i64>,
    #[serde(default)]
    inputs: IndexMap<String, Input>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Input {
    Random,
    Scalar {
        value: f64,
    },
    Safetensors {
        path: String,
    },
    #[serde(other)]
    Other,
}

/// Reads a definition. The error is one sentence.
pub fn definition(text: &str) -> Result<Definition, Error> {
    serde_json::from_str(text)
        .map_err(|error| error!("as a definition of flashinfer-bench, {}", in_words(&error.to_string())))
}

/// Reads workloads: a line of JSON for each, by itself or in a trace. The error names the line.
pub fn workloads(text: &str) -> Result<Vec<Workload>, Error> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(at, line)| -> Result<Workload, Error> {
        let named = |error: serde_json::Error| format!("line {}: as a workload of flashinfer-bench, {error}", at + 1);
        let line: Line = serde_json::from_str(line).map_err(named)?;
        match line.workload {
            Some(workload) => Ok(workload),
            None => serde_json::from_value(serde_json::Value::Object(line.own.into_iter().collect()))
                .map_err(|error| Error::new(named(error))),
        }
    });
    let read: Vec<Workload> = read.collect::<Result<_, _>>()?;
    if read.is_empty() { Err(Error::new("it has no workload")) } else { Ok(read) }
}

impl Definition {
    /// Returns its name, as a name of files.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        shortened(&self.name.chars().map(plain).collect::<String>())
    }

    /// Makes what `optloop add` needs, with a kernel's source. The error has a sentence for everything that cannot be
    /// imported.
    pub fn import(
        &self,
        (source, kernel): (&str, Option<&str>),
        workloads: &[Workload],
        given: &Wanted,
    ) -> Result<Imported, Vec<String>> {
        let (mut mistakes, mut notes) = (Vec::new(), Vec::new());
        let mut wanted = Wanted { flop: "0".to_owned(), ..Wanted::default() };
        let tensors = || self.inputs.iter().chain(&self.outputs);
        for (name, tensor) in tensors() {
            let Some(shape) = &tensor.shape else { continue };
            for axis in shape.iter().filter(|axis| !self.axes.contains_key(*axis)) {
                mistakes.push(format!("tensor `{name}` has the axis `{axis}`, which is not defined"));
            }
            if dtype(&tensor.dtype).is_none() {
                mistakes.push(format!("tensor `{name}` is of type {}, which is not supported", tensor.dtype));
            }
            let extents = shape.iter().map(|axis| self.extent(axis, &mut mistakes));
            let extents: Vec<String> = if shape.is_empty() { vec!["1".to_owned()] } else { extents.collect() };
            wanted.shapes.insert(name.clone(), extents);
        }
        self.check_kernel(source, kernel, &mut mistakes);
        let used = self.used_axes(source, kernel);
        for (name, axis) in &self.axes {
            if let Axis::Expr { expression } = axis
                && kernels(source).iter().flat_map(|kernel| &kernel.parameters).any(|parameter| parameter.name == *name)
            {
                mistakes.push(format!(
                    "the kernel takes the axis `{name}`, which is `{expression}`: compute it in the kernel"
                ));
            }
        }
        let name = self.name.to_lowercase();
        if name.len() > MAX_NAME {
            notes.push(format!("`{}` is called `{}` here", self.name, self.file_name()));
        }
        wanted.inputs =
            self.inputs.iter().filter(|(_, tensor)| tensor.shape.is_some()).map(|(name, _)| name.clone()).collect();
        for (name, axis) in &self.axes {
            if let (Axis::Const { value }, true) = (axis, used.contains(&name)) {
                wanted.ranges.insert(name.clone(), (*value, *value));
            }
        }
        self.cases(workloads, &used, &mut wanted, (&mut notes, &mut mistakes));
        self.scalars(workloads, given, &mut wanted, &mut mistakes);
        let random =
            |(name, tensor): &(&String, &Tensor)| tensor.shape.is_some() && !given.contents.contains_key(*name);
        for (name, _) in self.inputs.iter().filter(random) {
            let from_file = workloads.iter().find_map(|workload| match workload.inputs.get(name) {
                Some(Input::Safetensors { path }) => Some(path.as_str()),
                Some(Input::Other) => Some("a source that is not known"),
                _ => None,
            });
            notes.extend(
                from_file.map(|path| format!("`{name}` is random here, but comes from {path} in the workload")),
            );
        }
        for text in self.constraints.iter().flatten() {
            match python::parse(text).and_then(|parsed| parsed.condition(&|_, _| None)) {
                Ok(condition) => wanted.constraints.push(condition),
                Err(problem) => mistakes.push(format!("constraint `{text}`: {problem}")),
            }
        }
        if !self.reference.contains("def run(") {
            mistakes.push("its `reference` defines no function `run`".to_owned());
        }
        if mistakes.is_empty() {
            let oracle = Some(self.oracle());
            Ok(Imported { source: source.to_owned(), wanted, oracle, notes, ..Imported::default() })
        } else {
            Err(mistakes)
        }
    }

    /// Finds what the kernel takes that the definition does not have, and the other way round.
    fn check_kernel(&self, source: &str, kernel: Option<&str>, mistakes: &mut Vec<String>) {
        let found = kernels(source).into_iter().filter(|found| kernel.is_none_or(|name| name == found.name));
        let [kernel] = &found.collect::<Vec<_>>()[..] else { return };
        let tensors = || self.inputs.iter().chain(&self.outputs).filter(|(_, tensor)| tensor.shape.is_some());
        for parameter in &kernel.parameters {
            let Some(Kind::Tensor { dtype: taken, .. }) = parameter.kind else { continue };
            let name = &parameter.name;
            match tensors().find(|(tensor, _)| *tensor == name) {
                None => {
                    let names: Vec<&str> = tensors().map(|(name, _)| name.as_str()).collect();
                    mistakes.push(format!(
                        "the kernel's pointer `{name}` is no tensor of the definition, which has {}",
                        names.join(", ")
                    ));
                }
                Some((_, tensor)) if dtype(&tensor.dtype).is_some_and(|dtype| dtype != taken) => {
                    let (own, of) = (&tensor.dtype, &parameter.type_text);
                    mistakes.push(format!("tensor `{name}` is of type {own}, but the kernel's `{name}` is `{of}`"));
                }
                Some(_) => {}
            }
        }
        for (name, _) in
            tensors().filter(|(name, _)| !kernel.parameters.iter().any(|parameter| parameter.name == **name))
        {
            mistakes.push(format!("the kernel has no pointer `{name}`, which is a tensor of the definition"));
        }
    }

    /// Returns the axes that a tensor or a parameter of the kernel has. No check needs the others.
    fn used_axes(&self, source: &str, kernel: Option<&str>) -> Vec<&String> {
        let found: Vec<Kernel> =
            kernels(source).into_iter().filter(|found| kernel.is_none_or(|name| name == found.name)).collect();
        let is_extent = |axis: &String| {
            let mut shapes =
                self.inputs.values().chain(self.outputs.values()).filter_map(|tensor| tensor.shape.as_ref());
            shapes.any(|shape| shape.contains(axis))
        };
        let is_taken =
            |axis: &String| found.iter().flat_map(|kernel| &kernel.parameters).any(|parameter| parameter.name == *axis);
        let is_condition = |axis: &String| self.constraints.iter().flatten().any(|text| text.contains(axis.as_str()));
        let is_part = |axis: &String| {
            let exprs = self.axes.values().filter_map(|other| match other {
                Axis::Expr { expression } => Some(expression),
                _ => None,
            });
            exprs.into_iter().any(|text| text.contains(axis.as_str()))
        };
        let names = self.axes.iter().filter(|(_, axis)| !matches!(axis, Axis::Expr { .. })).map(|(name, _)| name);
        names.filter(|axis| is_extent(axis) || is_taken(axis) || is_condition(axis) || is_part(axis)).collect()
    }

    /// Returns the extent along an axis.
    fn extent(&self, axis: &str, mistakes: &mut Vec<String>) -> String {
        let Some(Axis::Expr { expression }) = self.axes.get(axis) else { return axis.to_owned() };
        let written = python::parse(expression).and_then(|parsed| parsed.number(&|_, _| None));
        written.unwrap_or_else(|problem| {
            mistakes.push(format!("axis `{axis}`: `{expression}`: {problem}"));
            axis.to_owned()
        })
    }

    /// Makes a case of each workload. Those of the same sizes are one case, which a note says.
    fn cases(
        &self,
        workloads: &[Workload],
        used: &[&String],
        wanted: &mut Wanted,
        (notes, mistakes): (&mut Vec<String>, &mut Vec<String>),
    ) {
        let mut alike = Vec::new();
        for (at, workload) in workloads.iter().enumerate() {
            let mut sizes = IndexMap::new();
            for (name, axis) in self.axes.iter().filter(|(name, _)| used.contains(name)) {
                match (axis, workload.axes.get(name)) {
                    (Axis::Const { value }, _) => drop(sizes.insert(name.clone(), *value)),
                    (Axis::Var, Some(size)) => drop(sizes.insert(name.clone(), *size)),
                    (Axis::Var, None) => mistakes.push(format!("workload {} does not say the axis `{name}`", at + 1)),
                    (Axis::Expr { .. }, _) => {}
                }
            }
            if wanted.cases.contains(&sizes) {
                alike.push((at + 1).to_string());
            } else {
                wanted.cases.push(sizes);
            }
        }
        if !alike.is_empty() {
            notes.push(format!(
                "{} of {} workloads have the sizes of an earlier one, and are no cases of their own: {}",
                alike.len(),
                workloads.len(),
                alike.join(", ")
            ));
        }
    }

    fn scalars(&self, workloads: &[Workload], given: &Wanted, wanted: &mut Wanted, mistakes: &mut Vec<String>) {
        for (name, tensor) in self.inputs.iter().filter(|(_, tensor)| tensor.shape.is_none()) {
            if tensor.dtype.starts_with("int") {
                mistakes.push(format!(
                    "`{name}` is a scalar of type {}: only floating-point scalars are supported",
                    tensor.dtype
                ));
                continue;
            }
            let mut values: Vec<f64> = workloads
                .iter()
                .filter_map(|workload| match workload.inputs.get(name) {
                    Some(Input::Scalar { value }) => Some(*value),
                    _ => None,
                })
                .collect();
            values.dedup();
            match values[..] {
                [only] => drop(wanted.scalars.insert(name.clone(), only)),
                [] => {}
                _ if given.scalars.contains_key(name) => {}
                _ => mistakes.push(format!(
                    "the scalar `{name}` differs among the workloads: a scalar has one value, so give --scalar {name}={:?}",
                    values[0]
                )),
            }
        }
    }

    /// Writes the reference as an oracle.
    fn oracle(&self) -> String {
        let is_torch = self.reference.contains("torch");
        let names: Vec<&str> = self.inputs.keys().map(String::as_str).collect();
        let outputs: Vec<String> = self.outputs.keys().map(|name| format!("{name:?}")).collect();
        let mut text = format!("# Made of the reference of the definition `{}` of flashinfer-bench.\n", self.name);
        if is_torch {
            text += EXACT_TORCH;
        }
        text += self.reference.trim_end();
        text += &format!("\n\n\ndef oracle({}):\n", names.join(", "));
        let arguments = self.inputs.iter().map(|(name, tensor)| match (is_torch, &tensor.shape) {
            (true, Some(_)) => format!("torch.from_numpy({name})"),
            _ => name.clone(),
        });
        text += &format!("    results = run({})\n", arguments.collect::<Vec<_>>().join(", "));
        text += &format!(
            "    return tuple(results[name] for name in [{}]) if isinstance(results, dict) else results\n",
            outputs.join(", ")
        );
        text
    }
}
