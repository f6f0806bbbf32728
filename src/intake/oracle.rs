//! What the source of an oracle says: the arguments of a kernel in CUDA, and what a file in Python says about its kernel.

use super::kernels;
use super::literal::Literal;
use super::source::{closing, split};
use crate::domain::text::names::did_you_mean;
use crate::error::{Error, error};

/// How the kernel of an oracle is launched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OracleKernel {
    /// The arguments, in the order of its parameters.
    pub args: Vec<String>,
    /// The number of blocks along x, y and z, as expressions over dimensions.
    pub grid: Vec<String>,
    /// The number of threads of a block along x, y and z.
    pub block: Vec<String>,
}

impl OracleKernel {
    /// Reads the parameters of the only kernel of a source, or of the one called `oracle`. The error is one sentence.
    pub fn read(text: &str, grid: Vec<String>, block: Vec<String>) -> Result<Self, Error> {
        let found = kernels(text);
        let chosen = match &found[..] {
            [] => return Err(Error::new("it has no `__global__` kernel")),
            [only] => only,
            several => several.iter().find(|kernel| kernel.name == "oracle").ok_or_else(|| {
                let names: Vec<&str> = several.iter().map(|kernel| kernel.name.as_str()).collect();
                format!("it has the kernels {}: call the one to launch `oracle`", names.join(", "))
            })?,
        };
        let args = chosen.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        Ok(Self { args, grid, block })
    }
}

/// What an oracle in Python says about its kernel: the parameters of its function with their annotations, and the
/// dictionary `optloop`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OracleNotes {
    /// The name of the function. Empty if there is none.
    pub function: String,
    /// The parameters of the function, in order.
    pub parameters: Vec<OracleParameter>,
    /// The shapes of the outputs, in order, if they are annotated.
    pub outputs: Vec<Vec<String>>,
    /// The options of `optloop add` that the dictionary stands for, as on a command line.
    pub options: Vec<String>,
}

/// A parameter of an oracle's function.
#[derive(Debug, Clone, PartialEq)]
pub struct OracleParameter {
    /// Its name.
    pub name: String,
    /// The shape with which it is annotated.
    pub shape: Option<Vec<String>>,
    /// Its default, if it is a number.
    pub default: Option<f64>,
}

/// Stands for a comma in a string.
const COMMA: char = '\u{1}';

/// The name of the function that computes the outputs.
const FUNCTION: &str = "oracle";

/// The names by which types of PyTorch are less exact than those of an oracle.
pub(super) const EXACT_TORCH: &str = r#"import torch

# An oracle computes in float64, whatever types it names.
torch.float32 = torch.float16 = torch.bfloat16 = torch.float = torch.half = torch.float64
torch.Tensor.float = torch.Tensor.half = torch.Tensor.bfloat16 = torch.Tensor.double
torch.set_default_dtype(torch.float64)

"#;

/// Calls a function of PyTorch, with its parameters.
const OF_TORCH: &str = r#"


def oracle(**given):
    is_array = lambda value: getattr(value, "shape", ())
    return FUNCTION(**{name: torch.from_numpy(value) if is_array(value) else value for name, value in given.items()})


oracle.__wrapped__ = FUNCTION
"#;

/// The name of the dictionary.
const DICTIONARY: &str = "optloop";

impl OracleNotes {
    /// Reads the text of an oracle in Python, without running it: what it says of `function`, if its name is given. The error
    /// is one sentence.
    pub fn read(text: &str, function: Option<&str>) -> Result<Self, Error> {
        let mut notes = Self { options: options(text)?, ..Self::default() };
        let functions: Vec<(&str, usize)> = functions(text).collect();
        let has_other = text.lines().any(|line| line.starts_with(FUNCTION));
        let chosen = match (function, &functions[..]) {
            (None, [only]) if !has_other => Some(only),
            (name, all) => all.iter().find(|(other, _)| *other == name.unwrap_or(FUNCTION)),
        };
        let Some((name, at)) = chosen else {
            return match function {
                Some(name) => Err(error!(
                    "there is no function `{name}`{}",
                    did_you_mean(name, functions.iter().map(|(it, _)| *it))
                )),
                None => Ok(notes),
            };
        };
        notes.function = (*name).to_owned();
        let open = at + "def ".len() + name.len();
        let Some(close) = closing(text, open) else { return Ok(notes) };
        notes.parameters = parameters(&text[open + 1..close - 1]).iter().filter_map(|text| parameter(text)).collect();
        if let Some(returned) = text[close..].trim_start().strip_prefix("->") {
            let returned = Literal::read(returned);
            notes.outputs = match returned {
                Ok(Literal::Text(shape)) => vec![extents(&shape)],
                Ok(Literal::List(shapes)) => shapes.iter().map(|shape| extents(&shape.plain())).collect(),
                _ => Vec::new(),
            };
        }
        Ok(notes)
    }
}

/// Returns the text of an oracle whose function is called `oracle`, and gets tensors of PyTorch in float64 if it uses that.
pub fn with_oracle(text: &str, function: &str) -> String {
    if [FUNCTION, ""].contains(&function) {
        return text.to_owned();
    }
    let is_torch = |line: &str| ["import torch", "from torch"].iter().any(|import| line.starts_with(import));
    if !text.lines().any(is_torch) {
        return format!("{}\n\n\noracle = {function}\n", text.trim_end());
    }
    // It must stay the first statement.
    let (future, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("from __future__"));
    let future: String = future.iter().map(|line| format!("{line}\n")).collect();
    format!("{future}{EXACT_TORCH}{}{}", rest.join("\n").trim_end(), OF_TORCH.replace("FUNCTION", function))
}

/// Returns the functions of a file with the places of their definitions.
fn functions(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let definition = |at: usize| {
        let (name, _) = text[at..].strip_prefix("def ")?.split_once('(')?;
        Some((name, at))
    };
    text.lines().scan(0, line_at(text)).filter_map(definition)
}

/// Returns where each line begins.
fn line_at(text: &str) -> impl FnMut(&mut usize, &str) -> Option<usize> + '_ {
    move |at, line| {
        let begin = *at;
        *at += line.len() + text[begin + line.len()..].find('\n').map_or(0, |rest| rest + 1);
        Some(begin)
    }
}

fn extents(shape: &str) -> Vec<String> {
    split(shape).into_iter().map(str::to_owned).collect()
}

/// Splits parameters at the commas that are in no string.
fn parameters(text: &str) -> Vec<String> {
    let mut quote = None;
    let masked = text.chars().map(|c| match (quote, c) {
        (None, '"' | '\'') => {
            quote = Some(c);
            c
        }
        (Some(open), _) if open == c => {
            quote = None;
            c
        }
        (Some(_), ',') => COMMA,
        _ => c,
    });
    let masked: String = masked.collect();
    split(&masked).into_iter().map(|part| part.replace(COMMA, ",")).collect()
}

fn parameter(text: &str) -> Option<OracleParameter> {
    let (declared, default) = text.split_once('=').map_or((text, None), |(before, after)| (before, Some(after.trim())));
    let (name, annotation) = declared.split_once(':').map_or((declared, None), |(name, it)| (name, Some(it.trim())));
    let name = name.trim();
    if name.starts_with('*') || name == "/" || ["rows", "row_numbers"].contains(&name) {
        return None;
    }
    let shape = annotation.and_then(|annotation| match Literal::read(annotation) {
        Ok(Literal::Text(shape)) => Some(extents(&shape)),
        _ => None,
    });
    // A word of Python has an underscore behind it.
    let name = name.strip_suffix('_').unwrap_or(name).to_owned();
    Some(OracleParameter { name, shape, default: default.and_then(|default| default.parse().ok()) })
}

/// Reads the dictionary.
fn options(text: &str) -> Result<Vec<String>, Error> {
    let value = text
        .lines()
        .scan(0, line_at(text))
        .find_map(|at| text[at..].strip_prefix(DICTIONARY)?.trim_start().strip_prefix('='));
    let Some(value) = value else { return Ok(Vec::new()) };
    let wrong = |problem: Error| problem.within(format_args!("`{DICTIONARY}`"));
    let Literal::Dict(items) = Literal::read(value).map_err(wrong)? else {
        return Err(wrong(Error::new("write a dictionary whose keys are options of optloop add")));
    };
    let mut options = Vec::new();
    for (key, value) in items {
        let option = format!("--{}", key.plain().replace('_', "-"));
        let mut add = |text: String| options.extend([option.clone(), text]);
        match (&*option, value) {
            ("--case", Literal::List(cases)) => cases.iter().for_each(|case| add(case.plain())),
            ("--case", case) => add(case.plain()),
            (_, Literal::Dict(pairs)) => {
                pairs.iter().for_each(|(name, value)| add(format!("{}={}", name.plain(), value.plain())))
            }
            ("--grid" | "--block" | "--oracle-grid" | "--oracle-block", extents) => add(extents.plain()),
            (_, Literal::List(values)) => values.iter().for_each(|value| add(value.plain())),
            (_, value) => add(value.plain()),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oracles_file_says_what_its_kernel_needs() {
        let text = "import numpy as np\n\noptloop = {  # as on the command line\n    'case': [{'R': 4, 'N': 512}, \"R=8,N=64\"],\n    \
                    \"grid\": 'R', 'values': {'THREADS': [32, 64]},\n    'input': ['x'], 'scalar': {'a': -1.5e-3,},\n}\n\n\
                    def oracle(x: \"R, N\", in_: 'N', eps=1e-5, rows=None) -> (\"R, N\", 'R'):\n    return x\n";
        let notes = OracleNotes::read(text, None).unwrap();
        insta::assert_snapshot!(notes.options.join(" "), @"--case R=4,N=512 --case R=8,N=64 --grid R --values THREADS=32,64 --input x --scalar a=-1.5e-3");
        let shown = notes.parameters.iter().map(|it| format!("{} {:?} {:?}", it.name, it.shape, it.default));
        insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @r#"
        x Some(["R", "N"]) None
        in Some(["N"]) None
        eps None Some(1e-5)
        "#);
        assert_eq!(notes.outputs, [vec!["R", "N"], vec!["R"]]);
        let wrong = |text: &str| OracleNotes::read(text, None).unwrap_err();
        insta::assert_snapshot!(wrong("optloop = {'grid': ceil(1)}"), @"`optloop`: `ceil(1)}` is no string, number, list or dictionary");
        insta::assert_snapshot!(wrong("optloop = {'grid' 'R'}"), @"`optloop`: `gridR` has no value");
        let of = |name| OracleNotes::read("def a(x): 0\ndef rope(q: 'B, D', base=1e4): 0", name);
        assert_eq!(of(Some("rope")).unwrap().parameters.len(), 2);
        assert_eq!(of(None).unwrap().function, "", "any of them may be meant");
        insta::assert_snapshot!(of(Some("ropes")).unwrap_err(), @"there is no function `ropes` (did you mean `rope`?)");
        insta::assert_snapshot!(wrong("optloop = ['grid']"), @"`optloop`: write a dictionary whose keys are options of optloop add");
    }

    #[test]
    fn a_function_of_pytorch_becomes_an_oracle_in_float64() {
        assert_eq!(with_oracle("def f(x):\n    return x\n", "f"), "def f(x):\n    return x\n\n\noracle = f\n");
        let text = with_oracle("from __future__ import annotations\nimport torch\ndef f(x): return x", "f");
        assert!(text.starts_with("from __future__ import annotations\nimport torch\n\n# An oracle"), "{text}");
        assert!(text.contains("return f(**{name: torch.from_numpy(value)") && text.ends_with("__wrapped__ = f\n"));
        assert_eq!(with_oracle("def oracle(x): return x", "oracle"), "def oracle(x): return x");
    }
}
