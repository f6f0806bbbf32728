//! Reads `op.toml`.

use indexmap::IndexMap;
use serde::Deserialize;

use super::array_file::{self, Array, MAX_GIVEN};
use super::launch::{Known, LaunchText};
use super::property::Property;
use super::tensor::{Bound, TensorRule, ValuesRule, ValuesText};
use super::{Declared, expression};
use crate::domain::expr::Expr;
use crate::domain::op::oracle::{Oracle, OracleLanguage};
use crate::domain::op::{AtomicSums, DeclaredSource, DimSpec, Dtype, InputFile, TensorRole, Values};
use crate::domain::text::names::{did_you_mean, is_file_name, is_identifier};
use crate::domain::text::toml_text;
use crate::error::{Error, error};

/// The range of a dimension without a `range`. Kernels get dimensions as 32-bit integers.
const RANGE: (i64, i64) = (1, i32::MAX as i64);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(rename = "about")]
    _about: String,
    oracle: String,
    oracle_launch: Option<LaunchText>,
    independent: Option<String>,
    flop: String,
    dims: IndexMap<String, Dim>,
    #[serde(default)]
    scalars: IndexMap<String, f64>,
    tensors: IndexMap<String, Tensor>,
    #[serde(default, rename = "property")]
    properties: Vec<Property>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dim {
    about: String,
    range: Option<(i64, i64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tensor {
    role: TensorRole,
    shape: Vec<String>,
    dtype: Option<Dtype>,
    values: Option<ValuesText>,
    atomic_sums: Option<AtomicSums>,
    selects: Option<String>,
}

fn parse(text: &str) -> Result<File, Vec<String>> {
    toml_text::parse_lines(text).map_err(|problem| vec![toml_text::one_line(problem.into())])
}

pub(super) fn oracle_file(text: &str) -> Result<String, Vec<String>> {
    let file = parse(text)?;
    check_oracle(&file.oracle).map_err(|problem| vec![problem.to_string()])?;
    Ok(file.oracle)
}

pub(super) fn input_files(text: &str) -> Result<Vec<String>, Vec<String>> {
    let file = parse(text)?;
    let mut names: Vec<String> = Vec::new();
    for (tensor, name) in
        file.tensors.iter().filter_map(|(name, tensor)| Some((name, tensor.values.as_ref()?.file()?.0)))
    {
        let is_plain = !name.starts_with('.') && !name.contains(['/', '\\']);
        if !is_plain || ![".npy", ".safetensors"].iter().any(|ending| name.ends_with(ending)) {
            let how = "name a .npy or .safetensors file in the op's folder, without a path";
            return Err(vec![format!("tensor `{tensor}`: file `{name}`: {how}")]);
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Reads what an input contains from its file. It stays as long as the op. `left` is how many numbers the op's files may still
/// have.
fn input(
    (name, tensor): (&str, Option<&str>),
    dtype: Option<Dtype>,
    files: &[InputFile],
    left: &mut usize,
) -> Result<&'static Array, Error> {
    let file = files.iter().find(|file| file.name == name).ok_or_else(|| error!("{name} was not found"))?;
    let bytes = std::fs::read(&file.path).map_err(|error| error!("{name} cannot be read: {error}"))?;
    if blake3::hash(&bytes).to_hex().as_str() != file.hash {
        return Err(error!("{name} has changed since it was read").hint("start again"));
    }
    let array = array_file::read(&bytes, tensor, *left).map_err(|problem| error!("{name} {problem}"))?;
    *left -= array.values.len();
    let found = array.dtype;
    match dtype {
        Some(dtype) if dtype == found => Ok(Box::leak(Box::new(array))),
        Some(dtype) => Err(error!("it is declared as {}, but {name} has {}", dtype.name(), found.name())),
        None => Err(error!("give it the type of {name}: dtype = \"{}\"", found.name())),
    }
}

fn check_oracle(file: &str) -> Result<(), Error> {
    let is_plain = !file.starts_with('.') && !file.contains(['/', '\\']);
    if is_plain && OracleLanguage::of_file(file).is_some() {
        Ok(())
    } else {
        Err(error!(
            "oracle `{file}`: name a Python file (.py) or a CUDA source (.cu) in the op's folder, without a path"
        ))
    }
}

pub(super) fn read(source: DeclaredSource, oracle: Box<dyn Oracle>) -> Result<Declared, Vec<String>> {
    let file = parse(&source.manifest)?;
    let mut mistakes = Vec::new();
    check_names(&file, &mut mistakes);
    mistakes.extend(check_oracle(&file.oracle).err().map(String::from));
    mistakes.extend(LaunchText::check_language(&file.oracle, file.oracle_launch.as_ref()).err().map(String::from));
    let dims: Vec<DimSpec> = file.dims.iter().map(|(name, dim)| dim_spec(name, dim, &mut mistakes)).collect();
    let expr = |what: String, text: &str, mistakes: &mut Vec<String>| match expression::over(text, &dims) {
        Ok(expr) => Some(expr),
        Err(problem) => {
            mistakes.push(format!("{what}: {problem}"));
            None
        }
    };
    let flop = expr("`flop`".to_owned(), &file.flop, &mut mistakes);
    let (mut tensors, mut left) = (Vec::new(), MAX_GIVEN);
    for (name, tensor) in &file.tensors {
        if tensor.shape.is_empty() {
            mistakes.push(format!("tensor `{name}`: its shape is empty: use [\"1\"] for a single element"));
        }
        let what = format!("tensor `{name}`");
        let mut shape: Vec<Expr> =
            tensor.shape.iter().filter_map(|text| expr(what.clone(), text, &mut mistakes)).collect();
        // One number for each index is a row for each.
        if let (true, [only]) = (tensor.role.is_written(), &shape[..])
            && file.independent.as_deref() == Some(only.text())
        {
            shape.extend(Expr::parse("1").ok());
        }
        let bound =
            |bound: &Bound, mistakes: &mut Vec<String>| expr(format!("{what}: its values"), &bound.text(), mistakes);
        let values = match &tensor.values {
            None => ValuesRule::Usual,
            Some(ValuesText::Normal) => ValuesRule::Fixed(Values::Normal),
            Some(ValuesText::Uniform(from, to)) => ValuesRule::Fixed(Values::Uniform(*from, *to)),
            Some(ValuesText::Mask(share)) => ValuesRule::Fixed(Values::Mask(*share)),
            Some(text @ (ValuesText::File(_) | ValuesText::Tensor(..))) => {
                let read = text
                    .file()
                    .ok_or_else(String::new)
                    .and_then(|file| input(file, tensor.dtype, &source.files, &mut left).map_err(String::from));
                let rule = read.map_err(|problem| mistakes.push(format!("{what}: {problem}")));
                rule.map_or(ValuesRule::Usual, ValuesRule::Given)
            }
            Some(ValuesText::Integers(from, to) | ValuesText::Sorted(from, to)) => {
                match (bound(from, &mut mistakes), bound(to, &mut mistakes)) {
                    (Some(from), Some(to)) => {
                        ValuesRule::Integers(from, to, matches!(tensor.values, Some(ValuesText::Sorted(..))))
                    }
                    _ => ValuesRule::Usual,
                }
            }
        };
        mistakes.extend(check_values(tensor).err().map(|problem| format!("{what}: {problem}")));
        let Tensor { role, dtype, atomic_sums, .. } = *tensor;
        let selects = tensor.selects.clone();
        mistakes.extend(check_selects(tensor, &file.tensors).err().map(|problem| format!("{what}: {problem}")));
        tensors.push(TensorRule { name: leak(name), shape, role, dtype, values, atomic_sums, selects });
    }
    // Inputs come first, as in every op.
    tensors.sort_by_key(|tensor| tensor.role);
    check_tensors(&file, &tensors, &mut mistakes);
    let names: Vec<&str> = dims.iter().map(|dim| dim.name).collect();
    let scalars: Vec<(&'static str, f64)> = file.scalars.iter().map(|(name, value)| (leak(name), *value)).collect();
    let tensor_names: Vec<&str> = tensors.iter().map(|tensor| tensor.name).collect();
    let known = Known { dims: &dims, tensors: &tensor_names, scalars: &scalars };
    let launch = file.oracle_launch.as_ref().and_then(|launch| launch.parsed(known, &mut mistakes));
    mistakes
        .extend(file.properties.iter().filter_map(|property| property.check(&names, &tensors).err().map(String::from)));
    match flop {
        Some(flop) if mistakes.is_empty() => Ok(Declared {
            name: leak(&file.name),
            dims: Box::leak(dims.into_boxed_slice()),
            tensors,
            scalars,
            flop,
            independent: file.independent.as_deref().map(leak),
            properties: file.properties,
            launch,
            source,
            oracle,
        }),
        _ => Err(mistakes),
    }
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn check_names(file: &File, mistakes: &mut Vec<String>) {
    if !is_file_name(&file.name) {
        let name = &file.name;
        mistakes.push(format!("name `{name}`: use 1 to 64 of a-z, 0-9 and `-`, because it is a folder name"));
    }
    let mut seen: Vec<&str> = Vec::new();
    for name in file.dims.keys().chain(file.tensors.keys()).chain(file.scalars.keys()) {
        if !is_identifier(name) {
            let why = "because it names a parameter of the oracle";
            mistakes.push(format!("`{name}`: use 1 to 64 letters, digits and `_`, {why}"));
        }
        if seen.contains(&name.as_str()) {
            mistakes.push(format!("`{name}` names two things: rename one"));
        }
        seen.push(name);
    }
    if let Some((name, value)) = file.scalars.iter().find(|(_, value)| !value.is_finite()) {
        mistakes.push(format!("scalar `{name}` is {value}, but must be finite"));
    }
}

fn dim_spec(name: &str, dim: &Dim, mistakes: &mut Vec<String>) -> DimSpec {
    let range = dim.range.unwrap_or(RANGE);
    if range.0 < 0 || range.0 > range.1 || range.1 > RANGE.1 {
        mistakes.push(format!(
            "dimension `{name}`: its range is {} to {}, but must be rising, from 0 at least to {} at most",
            range.0, range.1, RANGE.1
        ));
    }
    DimSpec { name: leak(name), about: leak(&dim.about), range }
}

/// Refuses values that the tensor's element type does not hold, whatever the sizes.
fn check_values(tensor: &Tensor) -> Result<(), Error> {
    let is_integer = tensor.dtype.is_some_and(Dtype::is_integer);
    match &tensor.values {
        _ if tensor.atomic_sums.is_some() && !tensor.role.is_written() => {
            Err(Error::new("only outputs have `atomic_sums`"))
        }
        _ if tensor.atomic_sums.is_some() && is_integer => {
            Err(Error::new("sums of whole numbers are the same in any order").hint("leave out `atomic_sums`"))
        }
        Some(_) if !tensor.role.is_read() => Err(Error::new("only inputs have `values`")),
        None if tensor.role.is_read() && tensor.dtype.is_some_and(Dtype::is_kept_as_bits) => {
            Err(Error::new("say which whole numbers it holds, such as values = { integers = [0, \"N - 1\"] }"))
        }
        Some(ValuesText::Normal | ValuesText::Uniform(..)) if is_integer => {
            Err(Error::new("it holds whole numbers").hint("use values = { integers = [0, 9] } or { mask = 0.5 }"))
        }
        Some(ValuesText::Integers(..) | ValuesText::Sorted(..)) if tensor.dtype.is_none() => {
            Err(Error::new("give it a `dtype` that holds these whole numbers, such as \"i32\""))
        }
        Some(ValuesText::Uniform(from, to)) if !(from < to && from.is_finite() && to.is_finite()) => {
            Err(error!("its values are uniform from {from} to {to}, which must be finite and rising"))
        }
        Some(ValuesText::Mask(share)) if !(0.0..=1.0).contains(share) => {
            Err(error!("its mask is {share}, which is no share").hint("use a number from 0 to 1"))
        }
        _ => Ok(()),
    }
}

/// Refuses indices that do not select from the rows of an input.
fn check_selects(tensor: &Tensor, all: &IndexMap<String, Tensor>) -> Result<(), Error> {
    let Some(from) = &tensor.selects else { return Ok(()) };
    let rows = |shape: &[String]| shape.split_last().map(|(_, rows)| rows.to_vec());
    let source = all.get(from).filter(|source| source.role == TensorRole::Input);
    match source {
        None => Err(error!("it selects from `{from}`, which is no input")),
        Some(source) if rows(&source.shape) != rows(&tensor.shape) => {
            Err(error!("it selects from `{from}`, which has other rows: only the last extents may differ"))
        }
        _ if tensor.role != TensorRole::Output
            || !matches!(tensor.dtype, Some(Dtype::I32 | Dtype::U32 | Dtype::I64)) =>
        {
            Err(Error::new("only outputs of i32, u32 and i64 have `selects`"))
        }
        _ => Ok(()),
    }
}

fn check_tensors(file: &File, tensors: &[TensorRule], mistakes: &mut Vec<String>) {
    let written = || tensors.iter().filter(|tensor| tensor.role.is_written());
    if written().next().is_none() {
        mistakes.push("it has no output: give a tensor the role `output` or `in-place`".to_owned());
    }
    let mut inputs = file.tensors.values().filter(|tensor| tensor.role.is_read()).peekable();
    let is_given = |tensor: &Tensor| tensor.values.as_ref().is_some_and(|values| values.file().is_some());
    if inputs.peek().is_some() && inputs.all(is_given) {
        let why = "checks need other inputs, so at least one must be random";
        mistakes.push(format!("every input is from a file: {why}"));
    }
    let Some(dim) = &file.independent else { return };
    if !file.dims.contains_key(dim) {
        let hint = did_you_mean(dim, file.dims.keys().map(String::as_str));
        mistakes.push(format!("`independent` names `{dim}`, which is not a dimension{hint}"));
        return;
    }
    let outputs = written().filter(|tensor| !tensor.begins_with(dim));
    mistakes.extend(outputs.map(|tensor| {
        format!("`independent` names `{dim}`, so it must be the first extent of the output `{}`", tensor.name)
    }));
    for tensor in tensors {
        if tensor.shape.iter().skip(1).any(|expr| expr.names().contains(dim)) {
            mistakes.push(format!(
                "`independent` names `{dim}`, so tensor `{}` may have it only as its first extent",
                tensor.name
            ));
        }
    }
}
