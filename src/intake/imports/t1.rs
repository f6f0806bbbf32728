//! T1, the input format of the autotuning community: one JSON file with a kernel and its search space.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use super::python;
use super::tuning::{Access, Argument, ArgumentValue, Grid, Tuning, TuningSource, dtype};
use crate::domain::text::expected::in_words;
use crate::error::{Error, error};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    configuration_space: Space,
    kernel_specification: Specification,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Space {
    tuning_parameters: Vec<Parameter>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    name: String,
    #[serde(rename = "Type")]
    kind: String,
    values: Value,
    default: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Condition {
    expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Specification {
    language: String,
    kernel_name: String,
    kernel_file: String,
    #[serde(default)]
    compiler_options: Vec<String>,
    #[serde(default)]
    shared_memory: u64,
    global_size_type: Option<String>,
    #[serde(default)]
    global_size: Axes,
    #[serde(default)]
    local_size: Axes,
    problem_size: Option<Value>,
    grid_div_x: Option<Vec<Value>>,
    grid_div_y: Option<Vec<Value>>,
    grid_div_z: Option<Vec<Value>>,
    #[serde(default)]
    arguments: Vec<GivenArgument>,
}

#[derive(Default, Deserialize)]
struct Axes {
    #[serde(rename = "X")]
    x: Option<Value>,
    #[serde(rename = "Y")]
    y: Option<Value>,
    #[serde(rename = "Z")]
    z: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GivenArgument {
    name: Option<String>,
    #[serde(rename = "Type")]
    kind: String,
    memory_type: String,
    mem_type: Option<String>,
    size: Option<Value>,
    fill_value: Option<f64>,
    access_type: Option<String>,
}

/// Reads a T1 file. The error is one sentence.
pub fn t1(text: &str) -> Result<Tuning, Error> {
    let file: File =
        serde_json::from_str(text).map_err(|error| error!("as a T1 file, {}", in_words(&error.to_string())))?;
    let (space, kernel) = (file.configuration_space, file.kernel_specification);
    let mut problems = Vec::new();
    if !kernel.language.eq_ignore_ascii_case("CUDA") {
        return Err(error!("its language is {}, but only CUDA is supported", kernel.language));
    }
    let params = space.tuning_parameters.iter().filter_map(|parameter| match parameter.values() {
        Ok(values) => Some((parameter.name.clone(), values)),
        Err(problem) => {
            problems.push(format!("the parameter `{}`: {problem}", parameter.name));
            None
        }
    });
    let params = params.collect();
    let whole = |value: &Value| value.as_i64().or_else(|| value.as_bool().map(i64::from));
    let default = |parameter: &Parameter| Some((parameter.name.clone(), whole(parameter.default.as_ref()?)?));
    let defaults = space.tuning_parameters.iter().filter_map(default).collect();
    let (mut arguments, mut constants) = (Vec::new(), IndexMap::new());
    for (at, argument) in kernel.arguments.iter().enumerate() {
        match argument.read() {
            // As in Kernel Tuner, the kernel gets it, and it is copied into constant memory.
            Ok(read) if argument.mem_type.as_deref() == Some("Constant") => {
                constants.extend(argument.name.clone().map(|name| (name, read.clone())));
                arguments.push(read);
            }
            Ok(argument) => arguments.push(argument),
            Err(problem) => problems.push(format!("argument {}: {problem}", at + 1)),
        }
    }
    let texts = |values: &Option<Vec<Value>>| {
        let given = values.as_ref().filter(|values| !values.is_empty());
        given.map(|values| values.iter().map(text_of).collect())
    };
    let global = kernel.global_size.texts();
    let grid = match (&kernel.problem_size, kernel.global_size_type.as_deref()) {
        (Some(size), _) => {
            let size = size.as_array().map_or_else(|| vec![text_of(size)], |sizes| sizes.iter().map(text_of).collect());
            let divisors = [&kernel.grid_div_x, &kernel.grid_div_y, &kernel.grid_div_z].map(texts);
            Grid::Divided { size, divisors }
        }
        (None, Some("CUDA")) => Grid::Blocks(global),
        (None, _) => Grid::Threads(global),
    };
    let local = kernel.local_size.texts();
    let ignored = (!kernel.compiler_options.is_empty()).then(|| {
        format!(
            "the compiler options {} are ignored: compile.options in config.toml has optloop's",
            kernel.compiler_options.join(" ")
        )
    });
    Ok(Tuning {
        kernel: kernel.kernel_name,
        source: TuningSource::File(kernel.kernel_file.into()),
        params,
        defaults,
        conditions: space.conditions.into_iter().map(|condition| condition.expression).collect(),
        grid,
        block: (!local.is_empty()).then_some(local),
        block_names: ["block_size_x", "block_size_y", "block_size_z"].map(str::to_owned).into(),
        shared: (kernel.shared_memory > 0).then(|| kernel.shared_memory.to_string()),
        arguments,
        constants,
        types_are_loose: true,
        oracle: None,
        no_oracle: Some("a T1 file has none".to_owned()),
        problems,
        notes: ignored.into_iter().collect(),
    })
}

/// Returns a number or an expression as text.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Axes {
    /// Returns the axes without those that are 1 at the end.
    fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = [&self.x, &self.y, &self.z].into_iter().flatten().map(text_of).collect();
        while texts.len() > 1 && texts.last().is_some_and(|last| last.trim() == "1") {
            texts.pop();
        }
        texts
    }
}

impl Parameter {
    fn values(&self) -> Result<Vec<i64>, Error> {
        if !["int", "uint", "bool"].contains(&self.kind.as_str()) {
            return Err(error!("its type is {}, but only whole numbers are supported", self.kind));
        }
        let values = match &self.values {
            Value::Array(values) => {
                let values = values.iter().map(|value| value.as_i64().or_else(|| value.as_bool().map(i64::from)));
                values.collect::<Option<Vec<_>>>().ok_or("it has a value that is no whole number")?
            }
            other => {
                let text = text_of(other);
                let values = python::parse(&text).and_then(|parsed| parsed.values());
                values.map_err(|problem| error!("`{text}`: {problem}"))?
            }
        };
        if values.is_empty() { Err(Error::new("it has no values")) } else { Ok(values) }
    }
}

impl GivenArgument {
    fn read(&self) -> Result<Argument, Error> {
        let value = match self.memory_type.as_str() {
            "Scalar" => ArgumentValue::Number(self.fill_value.ok_or("a scalar needs a FillValue")?),
            "Vector" => ArgumentValue::Tensor {
                shape: vec![text_of(self.size.as_ref().ok_or("a vector needs a Size")?)],
                access: match self.access_type.as_deref() {
                    Some("ReadOnly") => Some(Access::Reads),
                    Some("WriteOnly") => Some(Access::Writes),
                    Some("ReadWrite") => Some(Access::Updates),
                    _ => None,
                },
                contents: None,
            },
            other => return Err(error!("the memory type {other} is not supported")),
        };
        Ok(Argument { dtype: dtype(&self.kind), type_name: self.kind.clone(), value })
    }
}
