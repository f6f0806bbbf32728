//! A tuning problem of Kernel Tuner, however it was written: a kernel with its arguments, parameters and launch.

use std::path::PathBuf;

use indexmap::IndexMap;

use super::Imported;
use super::default_values::default_values;
use super::extents::Extents;
use super::function::Function;
use super::python;
use crate::domain::op::Dtype;
use crate::intake::{Kernel, Kind, Wanted, kernels};

/// Threads of a block along x if no parameter says it, as in Kernel Tuner.
const DEFAULT_THREADS: &str = "256";

/// Axes of a grid.
const AXES: [&str; 3] = ["x", "y", "z"];

/// Where the source of a kernel is.
#[derive(Debug, Clone, PartialEq)]
pub enum TuningSource {
    /// A file, relative to the imported one.
    File(PathBuf),
    /// Its text, with the file that it is from.
    Text(String, Option<PathBuf>),
}

/// A kernel with its parameters, launch and arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// The kernel's name.
    pub kernel: String,
    /// Its source.
    pub source: TuningSource,
    /// The values of each parameter.
    pub(super) params: IndexMap<String, Vec<i64>>,
    /// The values to begin with, if the file names them.
    pub(super) defaults: IndexMap<String, i64>,
    /// Conditions on parameters, in Python.
    pub(super) conditions: Vec<String>,
    /// The grid.
    pub(super) grid: Grid,
    /// Threads of a block along x, y and z, in Python. None for those of the parameters `block_size_x`, …
    pub(super) block: Option<Vec<String>>,
    /// The names of the parameters that say the threads of a block, if `block` does not.
    pub(super) block_names: Vec<String>,
    /// Bytes of dynamic shared memory, in Python.
    pub(super) shared: Option<String>,
    /// The arguments, in the kernel's order.
    pub(super) arguments: Vec<Argument>,
    /// The function that computes the outputs, by the names of the script.
    pub(super) oracle: Option<Function>,
    /// Why there is none.
    pub(super) no_oracle: Option<String>,
    /// What cannot be imported.
    pub(super) problems: Vec<String>,
    /// What is ignored.
    pub(super) notes: Vec<String>,
}

/// How a file gives the grid.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Grid {
    /// The problem's size, and for each axis by which product it is divided. None for the threads of a block.
    Divided { size: Vec<String>, divisors: [Option<Vec<String>>; 3] },
    /// The blocks.
    Blocks(Vec<String>),
    /// The threads.
    Threads(Vec<String>),
}

/// An argument of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Argument {
    /// The element type as the file has it.
    pub dtype: Option<Dtype>,
    /// The name of that type.
    pub type_name: String,
    pub value: ArgumentValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArgumentValue {
    Number(f64),
    Tensor {
        /// The extents, in Python.
        shape: Vec<String>,
        /// What the kernel does with it. None if the file does not say.
        access: Option<Access>,
        /// What it contains, as TOML.
        contents: Option<String>,
    },
}

/// What a kernel does with an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It only reads it.
    Reads,
    /// It overwrites it.
    Writes,
    /// It reads it, and writes new values into it.
    Updates,
}

impl Access {
    fn is_read(self) -> bool {
        self != Self::Writes
    }
}

impl Tuning {
    /// Makes what `optloop add` needs. `text` is the source, and `given` what the user says beside the file. The error
    /// has a sentence for everything that cannot be imported.
    pub fn import(self, text: &str, given: &Wanted) -> Result<Imported, Vec<String>> {
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let mut mistakes = Vec::new();
        let found = kernels(text).into_iter().find(|kernel| kernel.name == self.kernel);
        let Some(kernel) = found else {
            mistakes.push(format!("the source has no kernel `{}`", self.kernel));
            return Err(mistakes);
        };
        self.check_arguments(&kernel, &mut mistakes);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut wanted = Wanted { flop: "0".to_owned(), ..Wanted::default() };
        let mut notes = self.notes.clone();
        let extents = self.extents(&kernel, given);
        self.arguments_into(&kernel, (&extents, given), &mut wanted, (&mut notes, &mut mistakes));
        mistakes.extend(self.launch_into(&extents, given, &mut wanted).err());
        self.conditions_into(&extents, &mut wanted, (&mut notes, &mut mistakes));
        if extents.sizes.is_empty() && given.cases.is_empty() {
            mistakes.push("no argument is a size: pass the size of the problem to the kernel as an `int`".to_owned());
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        wanted.cases = vec![extents.sizes.iter().map(|(name, size)| (name.clone(), *size)).collect()];
        let constants = self.params.iter().filter(|(name, _)| extents.sizes.contains_key(*name));
        let constants: IndexMap<String, i64> = constants.map(|(name, values)| (name.clone(), values[0])).collect();
        let tuned = self.params.iter().filter(|(name, _)| !constants.contains_key(*name));
        wanted.values = tuned.map(|(name, values)| (name.clone(), values.clone())).collect();
        let defaults = default_values(&wanted, &self.defaults).map_err(|mistake| vec![mistake])?;
        let defined: Vec<String> =
            constants.iter().chain(&defaults).map(|(name, value)| format!("#define {name} {value}\n")).collect();
        let oracle = self.oracle.as_ref().map(|function| function.text(&kernel, &extents, &mut notes));
        Ok(Imported {
            source: format!("{}{text}", defined.concat()),
            lines_before: defined.len(),
            kernel: Some(self.kernel),
            wanted,
            oracle,
            no_oracle: self.no_oracle,
            notes,
        })
    }

    fn check_arguments(&self, kernel: &Kernel, mistakes: &mut Vec<String>) {
        let (takes, given) = (kernel.parameters.len(), self.arguments.len());
        if takes != given {
            mistakes
                .push(format!("the kernel `{}` has {takes} parameters, but {given} arguments are given", kernel.name));
            return;
        }
        for (at, (parameter, argument)) in kernel.parameters.iter().zip(&self.arguments).enumerate() {
            let name = &parameter.name;
            let what = format!("argument {} is", at + 1);
            let is_pointer = parameter.type_text.contains('*');
            match (&argument.value, parameter.kind) {
                (ArgumentValue::Tensor { .. }, Some(Kind::Tensor { dtype, .. }))
                    if argument.dtype.is_none_or(|given| !is_alike(given, dtype)) =>
                {
                    let (given, taken) = (&argument.type_name, &parameter.type_text);
                    mistakes.push(format!("{what} of type {given}, but the parameter `{name}` is `{taken}`"));
                }
                (ArgumentValue::Tensor { .. }, Some(Kind::Tensor { .. })) => {}
                (ArgumentValue::Tensor { .. }, _) if !is_pointer => {
                    mistakes.push(format!("{what} an array, but the parameter `{name}` is no pointer"));
                }
                (ArgumentValue::Number(_), _) if is_pointer => {
                    mistakes.push(format!("{what} a number, but the parameter `{name}` is a pointer"));
                }
                (ArgumentValue::Number(value), Some(Kind::Size)) if value.fract() != 0.0 || *value < 0.0 => {
                    mistakes.push(format!("{what} {value}, but the parameter `{name}` is a size"));
                }
                _ => {}
            }
        }
    }

    /// Finds the dimensions: the sizes that the kernel gets, and constants that are extents.
    fn extents(&self, kernel: &Kernel, given: &Wanted) -> Extents {
        let mut sizes = IndexMap::new();
        for (parameter, argument) in kernel.parameters.iter().zip(&self.arguments) {
            if let (Some(Kind::Size), ArgumentValue::Number(value)) = (parameter.kind, &argument.value) {
                sizes.insert(parameter.name.clone(), *value as i64);
            }
        }
        let problem = match &self.grid {
            Grid::Divided { size, .. } => size.clone(),
            Grid::Blocks(_) | Grid::Threads(_) => Vec::new(),
        };
        let shapes = self.arguments.iter().filter_map(|argument| match &argument.value {
            ArgumentValue::Tensor { shape, .. } => Some(shape),
            ArgumentValue::Number(_) => None,
        });
        let used: Vec<&String> = shapes.flatten().chain(&problem).collect();
        for (name, values) in &self.params {
            if let [only] = values[..]
                && !self.block_names.contains(name)
                && !sizes.values().any(|size| *size == only)
                && used.iter().any(|text| **text == *name || text.parse() == Ok(only))
            {
                sizes.insert(name.clone(), only);
            }
        }
        for case in given.cases.iter().take(1) {
            sizes.extend(
                case.iter()
                    .filter(|(name, _)| !sizes.contains_key(*name))
                    .map(|(name, size)| (name.clone(), *size))
                    .collect::<Vec<_>>(),
            );
        }
        Extents { sizes, problem }
    }

    fn arguments_into(
        &self,
        kernel: &Kernel,
        (extents, given): (&Extents, &Wanted),
        wanted: &mut Wanted,
        (notes, mistakes): (&mut Vec<String>, &mut Vec<String>),
    ) {
        for (parameter, argument) in kernel.parameters.iter().zip(&self.arguments) {
            let name = &parameter.name;
            match (&argument.value, parameter.kind) {
                (ArgumentValue::Number(value), Some(Kind::Scalar)) => {
                    wanted.scalars.insert(name.clone(), *value);
                }
                (ArgumentValue::Tensor { shape, access, contents }, _) => {
                    match access {
                        Some(Access::Reads) => wanted.inputs.push(name.clone()),
                        Some(Access::Updates) => wanted.in_place.push(name.clone()),
                        Some(Access::Writes) | None => {}
                    }
                    if access.is_some_and(Access::is_read) {
                        wanted.contents.extend(contents.iter().map(|contents| (name.clone(), contents.clone())));
                    }
                    if given.shapes.contains_key(name) || given.scratch.contains_key(name) {
                        continue;
                    }
                    let shape: Result<Vec<String>, String> = shape.iter().map(|extent| extents.named(extent)).collect();
                    match shape {
                        Ok(shape) => {
                            if shape.iter().any(|extent| extent != "1" && !extents.sizes.contains_key(extent)) {
                                let shape = shape.join(", ");
                                notes.push(format!("the shape of `{name}` is a guess: {shape}; --shape gives another"));
                            }
                            wanted.shapes.insert(name.clone(), shape);
                        }
                        Err(problem) => mistakes.push(format!("`{name}`: {problem}: give --shape {name}=…")),
                    }
                }
                _ => {}
            }
        }
    }

    fn launch_into(&self, extents: &Extents, given: &Wanted, wanted: &mut Wanted) -> Result<(), String> {
        let number = |text: &String| extents.written(text);
        wanted.block = match &self.block {
            Some(block) => block.iter().map(number).collect::<Result<_, _>>()?,
            None => self.default_block(),
        };
        wanted.shared = self.shared.as_ref().map(number).transpose()?;
        if !given.grid.is_empty() {
            return Ok(());
        }
        let named =
            |text: &String| extents.named(text).map_err(|problem| format!("the grid: {problem}: give --grid …"));
        let divided = |(size, by): (String, String)| if by == "1" { size } else { format!("ceil_div({size}, {by})") };
        wanted.grid = match &self.grid {
            Grid::Blocks(blocks) => blocks.iter().map(number).collect::<Result<_, _>>()?,
            Grid::Threads(threads) => {
                let threads = threads.iter().map(named).collect::<Result<Vec<_>, _>>()?;
                let blocks = wanted.block.iter().cloned().chain(std::iter::repeat("1".to_owned()));
                threads.into_iter().zip(blocks).map(divided).collect()
            }
            Grid::Divided { size, divisors } => {
                let mut grid = Vec::new();
                for (axis, (size, divisors)) in size.iter().zip(divisors).enumerate() {
                    grid.push(divided((named(size)?, self.divisor(axis, divisors.as_deref(), extents)?)));
                }
                grid
            }
        };
        while wanted.grid.len() > 1 && wanted.grid.last().is_some_and(|last| last == "1") {
            wanted.grid.pop();
        }
        Ok(())
    }

    /// Returns the threads of a block: the parameters that say them.
    fn default_block(&self) -> Vec<String> {
        let names =
            self.block_names.iter().zip(AXES).map(|(name, axis)| match (self.params.contains_key(name), axis) {
                (true, _) => name.clone(),
                (false, "x") => DEFAULT_THREADS.to_owned(),
                (false, _) => "1".to_owned(),
            });
        let mut block: Vec<String> = names.collect();
        while block.len() > 1 && block.last().is_some_and(|last| last == "1") {
            block.pop();
        }
        block
    }

    /// Returns by what the size along an axis is divided.
    fn divisor(&self, axis: usize, divisors: Option<&[String]>, extents: &Extents) -> Result<String, String> {
        let Some(divisors) = divisors else {
            let own = self.block_names.get(axis).filter(|name| self.params.contains_key(*name));
            return Ok(own.cloned().unwrap_or_else(|| "1".to_owned()));
        };
        let factors = divisors.iter().map(|text| extents.written(text)).collect::<Result<Vec<_>, _>>()?;
        let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let factors = factors.into_iter().map(|text| if is_word(&text) { text } else { format!("({text})") });
        Ok(factors.reduce(|all, one| format!("{all} * {one}")).unwrap_or_else(|| "1".to_owned()))
    }

    fn conditions_into(
        &self,
        extents: &Extents,
        wanted: &mut Wanted,
        (notes, mistakes): (&mut Vec<String>, &mut Vec<String>),
    ) {
        for text in &self.conditions {
            let items = |list: &str, at: usize| extents.item(list, at);
            match python::parse(text).and_then(|parsed| Ok((parsed.divides(), parsed.condition(&items)?))) {
                Ok((divides, condition)) => {
                    wanted.constraints.push(condition);
                    if divides && text.replace("//", "").contains('/') {
                        notes.push(format!("`/` in the condition `{text}` divides whole numbers, and rounds down"));
                    }
                }
                Err(problem) => mistakes.push(format!("condition `{text}`: {problem}")),
            }
        }
    }
}

/// Tells whether an array of one type can be passed to a pointer of the other. Sources have `int` for unsigned indices.
fn is_alike(given: Dtype, taken: Dtype) -> bool {
    given == taken || given.bytes() == taken.bytes() && given.is_integer() && taken.is_integer()
}

/// Names of element types in files of other tools.
pub(super) fn dtype(name: &str) -> Option<Dtype> {
    static NAMES: [(&str, Dtype); 24] = [
        ("float", Dtype::F32),
        ("float2", Dtype::F32),
        ("float4", Dtype::F32),
        ("float32", Dtype::F32),
        ("double", Dtype::F64),
        ("double2", Dtype::F64),
        ("float64", Dtype::F64),
        ("half", Dtype::F16),
        ("half2", Dtype::F16),
        ("float16", Dtype::F16),
        ("bfloat16", Dtype::Bf16),
        ("float8_e4m3fn", Dtype::E4m3),
        ("float8_e5m2", Dtype::E5m2),
        ("int32", Dtype::I32),
        ("uint32", Dtype::U32),
        ("int64", Dtype::I64),
        ("long", Dtype::I64),
        ("int", Dtype::I32),
        ("uint", Dtype::U32),
        ("int8", Dtype::I8),
        ("uint8", Dtype::U8),
        ("char", Dtype::I8),
        ("uchar", Dtype::U8),
        ("bool", Dtype::Bool),
    ];
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}
