//! What the source of an oracle says: the arguments of a kernel in CUDA, and what a file in Python says about its kernel.

use super::kernels;
use super::literal::Literal;
use super::source::{closing, split};

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
    pub fn read(text: &str, grid: Vec<String>, block: Vec<String>) -> Result<Self, String> {
        let found = kernels(text);
        let chosen = match &found[..] {
            [] => return Err("it has no `__global__` kernel".to_owned()),
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

/// The name of the dictionary.
const DICTIONARY: &str = "optloop";

impl OracleNotes {
    /// Reads the text of an oracle in Python, without running it. The error is one sentence.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut notes = Self { options: options(text)?, ..Self::default() };
        let Some(at) = text.lines().scan(0, line_at(text)).find(|at| text[*at..].starts_with("def oracle(")) else {
            return Ok(notes);
        };
        let open = at + "def oracle".len();
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
fn options(text: &str) -> Result<Vec<String>, String> {
    let value = text
        .lines()
        .scan(0, line_at(text))
        .find_map(|at| text[at..].strip_prefix(DICTIONARY)?.trim_start().strip_prefix('='));
    let Some(value) = value else { return Ok(Vec::new()) };
    let wrong = |problem: String| format!("`{DICTIONARY}`: {problem}");
    let Literal::Dict(items) = Literal::read(value).map_err(wrong)? else {
        return Err(wrong("write a dictionary whose keys are options of optloop add".to_owned()));
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
        let notes = OracleNotes::read(text).unwrap();
        insta::assert_snapshot!(notes.options.join(" "), @"--case R=4,N=512 --case R=8,N=64 --grid R --values THREADS=32,64 --input x --scalar a=-1.5e-3");
        let shown = notes.parameters.iter().map(|it| format!("{} {:?} {:?}", it.name, it.shape, it.default));
        insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @r#"
        x Some(["R", "N"]) None
        in Some(["N"]) None
        eps None Some(1e-5)
        "#);
        assert_eq!(notes.outputs, [vec!["R", "N"], vec!["R"]]);
        let wrong = |text: &str| OracleNotes::read(text).unwrap_err();
        insta::assert_snapshot!(wrong("optloop = {'grid': ceil(1)}"), @"`optloop`: `ceil(1)}` is no string, number, list or dictionary");
        insta::assert_snapshot!(wrong("optloop = {'grid' 'R'}"), @"`optloop`: `gridR` has no value");
        insta::assert_snapshot!(wrong("optloop = ['grid']"), @"`optloop`: write a dictionary whose keys are options of optloop add");
    }
}
