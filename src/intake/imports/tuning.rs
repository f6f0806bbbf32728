//! A tuning problem of Kernel Tuner, however it was written: a kernel with its arguments, parameters and launch.

use std::path::PathBuf;

use indexmap::IndexMap;

use super::Imported;
use super::default_values::default_values;
use super::extents::Extents;
use super::function::Function;
use super::python;
use crate::domain::op::Dtype;
use crate::error::{Error, error};
use crate::intake::host::{blanked, included};
use crate::intake::scan::Scan;
use crate::intake::source::{without_comments, words};
use crate::intake::{Draft, Kernel, Kind, OracleNotes, Reading, Wanted, kernels};

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
    /// What the tool copies into constant memory, by its name.
    pub(super) constants: IndexMap<String, Argument>,
    /// Whether the types of arguments may be those of the kernel, as in files whose types no tool checks.
    pub(super) types_are_loose: bool,
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
    /// The file does not say what the kernel gets.
    Unknown,
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
    /// Makes what `optloop add` needs. `reading` has the source, `given` is what the user says beside the file, and `oracle` what
    /// the file of the user's oracle says. The error has a sentence for everything that cannot be imported.
    pub fn import(
        mut self,
        reading: Reading<'_>,
        given: &Wanted,
        oracle: Option<&OracleNotes>,
    ) -> Result<Imported, Vec<String>> {
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let mut mistakes = Vec::new();
        let text = reading.text;
        if !kernels(text).iter().any(|kernel| kernel.name == self.kernel) {
            return Err(vec![format!("the source has no kernel `{}`", self.kernel)]);
        }
        let (before, text) = with_defined(text, reading.own_header);
        let whole = format!("{before}{text}");
        let draft = Draft::read(Reading { kernel: Some(&self.kernel), text: &whole, ..reading })?;
        let kernel = draft.kernel.clone();
        self.place_constants(&draft);
        self.check_arguments(&kernel, &mut mistakes);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut wanted = Wanted { flop: "0".to_owned(), ..Wanted::default() };
        let mut notes = self.notes.clone();
        let taken: Vec<&str> =
            oracle.iter().flat_map(|notes| &notes.parameters).map(|parameter| parameter.name.as_str()).collect();
        let extents = self.extents(&draft, given, &taken);
        self.arguments_into(&kernel, (&extents, given), &mut wanted, (&mut notes, &mut mistakes));
        mistakes.extend(self.launch_into(&extents, given, &mut wanted).err().map(String::from));
        self.conditions_into(&extents, &mut wanted, (&mut notes, &mut mistakes));
        if extents.sizes.is_empty() && given.cases.is_empty() {
            mistakes.push("no argument is a size: pass the size of the problem to the kernel as an `int`".to_owned());
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        wanted.cases = vec![extents.sizes.iter().map(|(name, size)| (name.clone(), *size)).collect()];
        let constants = self.params.iter().filter(|(name, _)| extents.sizes.contains_key(*name));
        let constants: IndexMap<String, i64> = constants.map(|(name, _)| (name.clone(), extents.sizes[name])).collect();
        for (name, values) in
            self.params.iter().filter(|(name, values)| constants.contains_key(*name) && values.len() > 1)
        {
            let (value, values) = (extents.sizes[name], values.len());
            notes.push(format!(
                "`{name}` is a dimension with the size {value}, because the result depends on it: its {values} values are cases"
            ));
        }
        let tuned = self.params.iter().filter(|(name, _)| !constants.contains_key(*name));
        wanted.values = tuned.map(|(name, values)| (name.clone(), values.clone())).collect();
        let defaults = default_values(&wanted, &self.defaults).map_err(|mistake| vec![mistake.to_string()])?;
        let mut defined: Vec<String> =
            constants.iter().chain(&defaults).map(|(name, value)| definition(name, *value)).collect();
        defined.extend(self.usual_definitions(&whole));
        let oracle = self.oracle.as_ref().map(|function| function.text(&kernel, &extents, &mut notes));
        Ok(Imported {
            source: format!("{}{before}{text}", defined.concat()),
            lines_before: defined.len() + before.matches('\n').count(),
            kernel: Some(self.kernel),
            wanted,
            oracle,
            no_oracle: self.no_oracle,
            notes,
        })
    }

    /// Puts what is copied into constant memory in the places of the parameters that this memory has become.
    fn place_constants(&mut self, draft: &Draft) {
        let unknown = || Argument { dtype: None, type_name: String::new(), value: ArgumentValue::Unknown };
        if self.arguments.is_empty() {
            let own = draft.kernel.parameters.len() - draft.moved.len();
            self.arguments = std::iter::repeat_with(unknown).take(own).collect();
        }
        for (name, _) in &draft.moved {
            self.arguments.push(self.constants.shift_remove(name).unwrap_or_else(unknown));
        }
    }

    /// Returns what Kernel Tuner defines beside the parameters: that it tunes, and the threads of a block that no parameter
    /// says, where the source asks for them.
    fn usual_definitions(&self, text: &str) -> Vec<String> {
        let code = without_comments(text);
        let asks = |name: &str| words(&code, name).next().is_some();
        let mut defined = Vec::new();
        if asks("kernel_tuner") {
            defined.push(definition("kernel_tuner", 1));
        }
        for (axis, name) in self.block_names.iter().enumerate() {
            if !self.params.contains_key(name) && asks(name) {
                let threads = if axis == 0 { DEFAULT_THREADS } else { "1" };
                defined.push(format!("#define {name} {threads}\n"));
            }
        }
        defined
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
                    if !self.types_are_loose && argument.dtype.is_none_or(|given| !is_alike(given, dtype)) =>
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

    /// Finds the dimensions: the sizes that the kernel gets, numbers of the source and parameters that are extents or that
    /// extents depend on, and parameters that the oracle takes.
    fn extents(&self, draft: &Draft, given: &Wanted, taken: &[&str]) -> Extents {
        let mut sizes = IndexMap::new();
        for (parameter, argument) in draft.kernel.parameters.iter().zip(&self.arguments) {
            if let (Some(Kind::Size), ArgumentValue::Number(value)) = (parameter.kind, &argument.value) {
                sizes.insert(parameter.name.clone(), *value as i64);
            }
        }
        let problem = match &self.grid {
            Grid::Divided { size, .. } => size.clone(),
            Grid::Blocks(_) | Grid::Threads(_) => Vec::new(),
        };
        let unknown = draft.kernel.parameters.iter().zip(&self.arguments).filter(|(parameter, argument)| {
            parameter.kind == Some(Kind::Size) && argument.value == ArgumentValue::Unknown
        });
        // The only size of a problem is the only one that its kernel gets.
        if let ([(parameter, _)], [only]) = (&unknown.collect::<Vec<_>>()[..], &problem[..])
            && let Ok(size) = only.trim().parse()
        {
            sizes.insert(parameter.name.clone(), size);
        }
        let shapes = self.arguments.iter().filter_map(|argument| match &argument.value {
            ArgumentValue::Tensor { shape, .. } => Some(shape),
            ArgumentValue::Number(_) | ArgumentValue::Unknown => None,
        });
        let shapes: Vec<&String> = shapes.flatten().chain(given.shapes.values().flatten()).collect();
        let used: Vec<&String> = shapes.iter().copied().chain(&problem).collect();
        let is_number = |value: i64| used.iter().any(|text| text.parse() == Ok(value));
        for (name, values) in self.params.iter().filter(|(name, _)| !self.block_names.contains(name)) {
            let is_extent = match values[..] {
                [only] => {
                    let is_named = sizes.values().any(|size| *size == only);
                    !is_named && (is_number(only) || used.iter().any(|text| text == &name))
                }
                _ => false,
            };
            let is_part = shapes.iter().any(|text| words(text, name).next().is_some());
            if is_extent || is_part || taken.contains(&name.as_str()) {
                let most = values.iter().copied().max().unwrap_or_default();
                sizes.insert(name.clone(), self.defaults.get(name).copied().unwrap_or(most));
            }
        }
        for tunable in draft.tunables.iter().filter(|tunable| !self.params.contains_key(&tunable.name)) {
            let is_part = given.shapes.values().flatten().any(|text| words(text, &tunable.name).next().is_some());
            let is_extent = tunable.value > 1 && is_number(tunable.value);
            if !sizes.contains_key(&tunable.name) && (is_part || is_extent || taken.contains(&tunable.name.as_str())) {
                sizes.insert(tunable.name.clone(), tunable.value);
            }
        }
        for case in given.cases.iter().take(1) {
            for (name, size) in case {
                sizes.entry(name.clone()).or_insert(*size);
            }
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
                    match extents.shape(shape) {
                        Ok((shape, is_guess)) => {
                            if is_guess {
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

    fn launch_into(&self, extents: &Extents, given: &Wanted, wanted: &mut Wanted) -> Result<(), Error> {
        let number = |text: &String| extents.written(text);
        wanted.block = match &self.block {
            Some(block) => block.iter().map(number).collect::<Result<_, _>>()?,
            None => self.default_block(),
        };
        wanted.shared = self.shared.as_ref().map(number).transpose()?;
        if !given.grid.is_empty() {
            return Ok(());
        }
        let axis = |at: usize, text: &String| {
            extents.on_axis(at, text).map_err(|problem| error!("the grid: {problem}").hint("give --grid …"))
        };
        let divided = |(size, by): (String, String)| if by == "1" { size } else { format!("ceil_div({size}, {by})") };
        wanted.grid = match &self.grid {
            Grid::Blocks(blocks) => blocks.iter().map(number).collect::<Result<_, _>>()?,
            Grid::Threads(threads) => {
                let threads =
                    threads.iter().enumerate().map(|(at, text)| axis(at, text)).collect::<Result<Vec<_>, _>>()?;
                let blocks = wanted.block.iter().cloned().chain(std::iter::repeat("1".to_owned()));
                threads.into_iter().zip(blocks).map(divided).collect()
            }
            Grid::Divided { size, divisors } => {
                let mut grid = Vec::new();
                for (at, (size, divisors)) in size.iter().zip(divisors).enumerate() {
                    grid.push(divided((axis(at, size)?, self.divisor(at, divisors.as_deref(), extents)?)));
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
    fn divisor(&self, axis: usize, divisors: Option<&[String]>, extents: &Extents) -> Result<String, Error> {
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

/// Splits a source into its own headers that only define numbers, and the rest without their includes. Numbers in them may be
/// sizes.
fn with_defined(text: &str, own_header: &dyn Fn(&str) -> Option<String>) -> (String, String) {
    let scan = Scan::of(text);
    let (mut before, mut spans) = (String::new(), Vec::new());
    for directive in scan.directives.iter().filter(|directive| directive.name == "include") {
        let own = included(&directive.rest).filter(|(_, is_quoted)| *is_quoted);
        let header = own.and_then(|(name, _)| own_header(name)).filter(|header| Scan::of(header).items.is_empty());
        if let Some(header) = header {
            before += header.trim_end();
            before.push('\n');
            spans.push(directive.span.clone());
        }
    }
    (before, blanked(text, spans))
}

/// Writes a definition. A factor of unrolling must be a constant of the language for a `#pragma`.
fn definition(name: &str, value: i64) -> String {
    match name.contains("loop_unroll_factor") {
        true => format!("constexpr int {name} = {value};\n"),
        false => format!("#define {name} {value}\n"),
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
