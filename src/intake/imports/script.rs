//! What a Python script of Kernel Tuner called `tune_kernel` with.

use indexmap::IndexMap;
use serde::Deserialize;

use super::function::Function;
use super::tuning::{Access, Argument, ArgumentValue, Grid, Tuning, TuningSource, dtype};
use crate::domain::op::Dtype;
use crate::error::{Error, error};

/// A call, as the program that runs the script tells it.
#[derive(Deserialize)]
struct Call {
    kernel: String,
    source: String,
    source_file: Option<String>,
    lang: Option<String>,
    params: IndexMap<String, Vec<i64>>,
    restrictions: Vec<String>,
    problem_size: Vec<String>,
    grid_div: [Option<Vec<String>>; 3],
    block_size_names: Vec<String>,
    shared: Option<String>,
    compiler_options: Vec<String>,
    defines: IndexMap<String, String>,
    arguments: Vec<GivenArgument>,
    constants: IndexMap<String, GivenArgument>,
    oracle: Option<Function>,
    no_oracle: Option<String>,
    verifies: bool,
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct GivenArgument {
    dtype: Option<String>,
    value: Option<f64>,
    shape: Option<Vec<u64>>,
    least: Option<f64>,
    most: Option<f64>,
    is_output: Option<bool>,
    #[serde(default)]
    is_sorted: bool,
}

/// Reads a call. The error is one sentence.
pub fn script(json: &str) -> Result<Tuning, Error> {
    let call: Call =
        serde_json::from_str(json).map_err(|error| error!("the script's call is not readable: {error}"))?;
    let mut problems = call.problems;
    if let Some(lang) =
        call.lang.as_deref().filter(|lang| !["cuda", "cupy", "nvcuda"].contains(&lang.to_lowercase().as_str()))
    {
        problems.push(format!("its language is {lang}, but only CUDA is supported"));
    }
    let empty = call.params.iter().filter(|(_, values)| values.is_empty() && problems.is_empty());
    let empty: Vec<String> = empty.map(|(name, _)| format!("the parameter `{name}` has no values")).collect();
    problems.extend(empty);
    let mut notes = Vec::new();
    if call.verifies {
        notes.push("`verify` is ignored: every output is compared with the answer".to_owned());
    }
    if !call.compiler_options.is_empty() {
        let options = call.compiler_options.join(" ");
        notes.push(format!("the compiler options {options} are ignored: compile.options in config.toml has optloop's"));
    }
    for name in call.defines.keys() {
        problems.push(format!("`defines` has {name}: write it into the source as a #define"));
    }
    Ok(Tuning {
        kernel: call.kernel,
        source: TuningSource::Text(call.source, call.source_file.map(Into::into)),
        params: call.params,
        defaults: IndexMap::new(),
        conditions: call.restrictions,
        grid: Grid::Divided { size: call.problem_size, divisors: call.grid_div },
        block: None,
        block_names: call.block_size_names,
        shared: call.shared,
        arguments: call.arguments.into_iter().map(GivenArgument::read).collect(),
        constants: call.constants.into_iter().map(|(name, argument)| (name, argument.read())).collect(),
        types_are_loose: false,
        oracle: call.oracle,
        no_oracle: call.no_oracle,
        problems,
        notes,
    })
}

impl GivenArgument {
    fn read(self) -> Argument {
        let type_name = self.dtype.clone().unwrap_or_else(|| "no type of numpy".to_owned());
        let dtype = self.dtype.as_deref().and_then(dtype);
        let contents = self.contents(dtype);
        let value = match (self.shape, self.value) {
            (Some(shape), _) => {
                let mut shape: Vec<String> = shape.iter().map(u64::to_string).collect();
                if shape.is_empty() {
                    shape.push("1".to_owned());
                }
                let access = self.is_output.map(|writes| if writes { Access::Writes } else { Access::Reads });
                ArgumentValue::Tensor { shape, access, contents }
            }
            (None, value) => ArgumentValue::Number(value.unwrap_or_default()),
        };
        Argument { dtype, type_name, value }
    }

    /// Returns what an input contains, as TOML: whole numbers between the least and the most, and positive numbers.
    fn contents(&self, dtype: Option<Dtype>) -> Option<String> {
        let (least, most) = (self.least?, self.most?);
        match dtype? {
            Dtype::Bool => None,
            dtype if dtype.is_integer() => {
                let kind = if self.is_sorted { "sorted" } else { "integers" };
                Some(format!("{{ {kind} = [{}, {}] }}", least as i64, most as i64))
            }
            // Numbers without a sign may be sizes or the arguments of a root.
            _ if least >= 0.0 && most > least => {
                Some(format!("{{ uniform = [{:?}, {:?}] }}", least as f32, most as f32))
            }
            _ => None,
        }
    }
}
