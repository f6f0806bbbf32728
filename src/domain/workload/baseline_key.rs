//! The key `baseline` of a workload: what a user would use instead.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::domain::text::names::is_identifier;
use crate::error::{Error, error};

/// The program that times expressions of an op's inputs.
pub const EXPRESSION: &str = "torch_expression.py";

/// The program that times the module of an op that was imported from PyTorch.
pub const MODULE: &str = "torch_module.py";

/// The key of the file with that module.
const MODULE_KEY: &str = "module";

/// The key of PyTorch's expression, and the backends that the program makes of it.
const TORCH: &str = "torch";
const BACKENDS_OF_TORCH: [&str; 2] = ["eager", "compile"];

/// The program that times what a user would use instead, as the workload file names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "KeyText")]
pub enum BaselineKey {
    /// Expressions of the op's inputs, which optloop's own program times.
    Torch {
        /// The expression of PyTorch, timed eager and compiled.
        torch: String,
        /// Further expressions, such as calls of kernel libraries, by the name of their backend.
        others: BTreeMap<String, String>,
    },
    /// A file of the project with a module of PyTorch as a function of the op's inputs, which optloop's own program times.
    Module(String),
    /// A file in `kernels/baselines/`, run by the configured interpreter.
    File(String),
    /// A program and its arguments. A path is relative to the project; a bare name is looked up in PATH.
    Command(Vec<String>),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a file in kernels/baselines/, a command as a list of strings, or { torch = \"EXPRESSION\" }"
)]
enum KeyText {
    Expressions(BTreeMap<String, String>),
    File(String),
    Command(Vec<String>),
}

impl TryFrom<KeyText> for BaselineKey {
    type Error = Error;

    fn try_from(text: KeyText) -> Result<Self, Error> {
        match text {
            KeyText::Expressions(mut others) if others.len() == 1 && others.contains_key(MODULE_KEY) => {
                Ok(Self::Module(others.remove(MODULE_KEY).unwrap_or_default()))
            }
            KeyText::Expressions(mut others) => match others.remove(TORCH) {
                Some(torch) => Ok(Self::Torch { torch, others }),
                None => Err(Error::new(
                    "the baseline needs an expression of PyTorch beside the others: add \
                             `torch = \"EXPRESSION\"` to its table",
                )),
            },
            KeyText::File(file) => Ok(Self::File(file)),
            KeyText::Command(command) => Ok(Self::Command(command)),
        }
    }
}

impl BaselineKey {
    /// Returns the command to run in the project's folder.
    pub fn command(&self, interpreter: &str) -> Vec<String> {
        match self {
            Self::File(_) => [interpreter.to_owned()].into_iter().chain(self.path()).collect(),
            Self::Torch { torch, others } => {
                let others = others.iter().map(|(name, expression)| format!("{name}={expression}"));
                [interpreter, EXPRESSION, torch].map(str::to_owned).into_iter().chain(others).collect()
            }
            Self::Module(file) => [interpreter, MODULE, file].map(str::to_owned).to_vec(),
            Self::Command(command) => command.clone(),
        }
    }

    /// Returns the program's path below the project; none for a program in PATH.
    pub fn path(&self) -> Option<String> {
        match self {
            Self::File(file) => Some(format!("kernels/baselines/{file}")),
            Self::Module(file) => Some(file.clone()),
            // It runs from a folder of its own.
            Self::Torch { .. } => None,
            Self::Command(command) => command.first().filter(|program| program.contains('/')).cloned(),
        }
    }

    /// Refuses a program outside the project, unless it is in the user's PATH, and expressions that cannot be timed.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self {
            Self::File(file) if file.is_empty() || file.contains(['/', '\\']) || file.starts_with('.') => {
                Err(error!("baseline `{file}`").hint("name a file in kernels/baselines/, without a path"))
            }
            Self::Module(file) if !is_inside(file) => {
                Err(error!("baseline `{file}`").hint("name a Python file by its path below the project"))
            }
            Self::Torch { torch, .. } if torch.trim().is_empty() => {
                Err(Error::new("baseline: its expression is empty, such as `torch.softmax(x, -1)`"))
            }
            Self::Torch { torch, others } => {
                check_expression(torch)?;
                others.iter().try_for_each(|(name, expression)| check_backend(name, expression))
            }
            Self::Command(command) if command.first().is_none_or(String::is_empty) => {
                Err(Error::new("baseline: its command is empty, name a program first"))
            }
            Self::Command(command) if !is_inside(&command[0]) => Err(error!(
                "baseline `{}`: name a program by its path below the project, or by its bare name in PATH",
                command[0]
            )),
            _ => Ok(()),
        }
    }
}

/// Tells whether a path leads below the project.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| part != "..")
}

fn check_backend(name: &str, expression: &str) -> Result<(), Error> {
    if BACKENDS_OF_TORCH.contains(&name) {
        return Err(error!("baseline `{name}`").hint("choose another name, because a backend of PyTorch has this one"));
    }
    if !is_identifier(name) {
        return Err(error!(
            "baseline `{name}`: use 1 to 64 letters, digits and `_` for its name, and no digit first, such as `quack`"
        ));
    }
    if expression.trim().is_empty() {
        return Err(error!("baseline `{name}`: its expression is empty, such as `quack.softmax(x)`"));
    }
    check_expression(expression)
}

/// Refuses a text that would be more than an expression between parentheses, because programs and exported modules
/// contain it between parentheses. Whether it is an expression of Python is for Python to say.
fn check_expression(text: &str) -> Result<(), Error> {
    let wrong = |what: &str| Err(error!("baseline `{text}`: {what}").hint("write one expression of Python"));
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let before = &text[..text.len() - rest.len()];
        rest = &rest[c.len_utf8()..];
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(c) => return wrong("its brackets do not match"),
            '#' | ';' | '\\' => return wrong(&format!("it has a `{c}`")),
            // Python's versions disagree on where a formatted string ends.
            '"' | '\'' if has_format_prefix(before) => return wrong("it has a formatted string"),
            '"' | '\'' => match after_string(c, rest) {
                Some(after) => rest = after,
                None => return wrong("a string does not end"),
            },
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { wrong("its brackets do not match") }
}

fn has_format_prefix(before: &str) -> bool {
    let name = before.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
    name.contains(['f', 'F', 't', 'T'])
}

/// Returns what follows a string, given what follows its first quote.
fn after_string(quote: char, rest: &str) -> Option<&str> {
    let triple: String = [quote; 2].iter().collect();
    let (end, mut rest) = match rest.strip_prefix(&triple) {
        Some(inside) => ([quote; 3].iter().collect::<String>(), inside),
        None => (quote.to_string(), rest),
    };
    loop {
        if let Some(after) = rest.strip_prefix(&end) {
            return Some(after);
        }
        let mut chars = rest.chars();
        // A character after a backslash ends nothing, not even in a raw string.
        if chars.next()? == '\\' {
            chars.next()?;
        }
        rest = chars.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::workload::Workload;
    use crate::ops;

    /// Parses a workload with a baseline.
    fn parsed(key: &str) -> Result<BaselineKey, Error> {
        let text = format!(
            r#"
            name = "w"
            about = "A test workload."
            op = "attention"
            dtype = "f16"
            initial_kernel = "attention-scalar"
            baseline = {key}
            tolerance = {{ relative_l2 = 1e-3, worst_row = 4e-3 }}
            case = [{{ name = "small", B = 1, H = 1, Sq = 4, Sk = 4, D = 64, CAUSAL = 0 }}]
            "#
        );
        Workload::parse(&text, ops::find).map(|workload| workload.baseline.expect("it has one"))
    }

    #[test]
    fn a_baseline_is_a_file_for_the_interpreter_expressions_or_a_command() {
        let command = |key: &str| parsed(key).unwrap().command("python3").join(" ");
        assert_eq!(command(r#""torch_sdpa.py""#), "python3 kernels/baselines/torch_sdpa.py");
        assert_eq!(command(r#"["./my-baseline", "--flag"]"#), "./my-baseline --flag");
        assert_eq!(command(r#"["sh", "tools/mine.sh"]"#), "sh tools/mine.sh");
        assert_eq!(command(r#"{ torch = "x + 1" }"#), "python3 torch_expression.py x + 1");
        let module = r#"{ module = "kernels/ops/softmax/oracle.py" }"#;
        assert_eq!(command(module), "python3 torch_module.py kernels/ops/softmax/oracle.py");
        let several = parsed(r#"{ quack = "quack.f(x)", torch = "x + 1", liger = "liger.f(x=x)" }"#).unwrap();
        assert_eq!(
            several.command("python3"),
            ["python3", "torch_expression.py", "x + 1", "liger=liger.f(x=x)", "quack=quack.f(x)"]
        );
    }

    #[test]
    fn an_expression_stays_between_its_parentheses() {
        for honest in [
            "torch.softmax(x, -1)",
            "x[:, 0] + {'a': y, \"b)\": z}['a']",
            "f('''it's \\'fine''', r'\\(', '', \"\", \"\"\")\"\"\")",
            "(lambda v: v)(x) if N > 1 else x @ w.T",
        ] {
            assert_eq!(check_expression(honest), Ok(()), "{honest}");
        }
        let wrong = |text: &str| check_expression(text).unwrap_err();
        insta::assert_snapshot!(wrong("x); import os; (x"), @"baseline `x); import os; (x`: its brackets do not match: write one expression of Python");
        insta::assert_snapshot!(wrong("[x)"), @"baseline `[x)`: its brackets do not match: write one expression of Python");
        insta::assert_snapshot!(wrong("(x"), @"baseline `(x`: its brackets do not match: write one expression of Python");
        insta::assert_snapshot!(wrong("x # y"), @"baseline `x # y`: it has a `#`: write one expression of Python");
        insta::assert_snapshot!(wrong("f('x)"), @"baseline `f('x)`: a string does not end: write one expression of Python");
        insta::assert_snapshot!(wrong("f'{x}'"), @"baseline `f'{x}'`: it has a formatted string: write one expression of Python");
    }

    #[test]
    fn mistakes_are_one_sentence_with_a_remedy() {
        let error = |key: &str| parsed(key).unwrap_err();
        insta::assert_snapshot!(error(r#""../x.py""#), @"baseline `../x.py`: name a file in kernels/baselines/, without a path");
        insta::assert_snapshot!(error(r#""""#), @"baseline ``: name a file in kernels/baselines/, without a path");
        insta::assert_snapshot!(error("7"), @"line 7: expected a file in kernels/baselines/, a command as a list of strings, or { torch = \"EXPRESSION\" }");
        insta::assert_snapshot!(error("[]"), @"baseline: its command is empty, name a program first");
        insta::assert_snapshot!(error(r#"["/bin/mine"]"#), @"baseline `/bin/mine`: name a program by its path below the project, or by its bare name in PATH");
        insta::assert_snapshot!(error(r#"["a/../../mine", "--fast"]"#), @"baseline `a/../../mine`: name a program by its path below the project, or by its bare name in PATH");
        insta::assert_snapshot!(error(r#"{ module = "../x.py" }"#), @"baseline `../x.py`: name a Python file by its path below the project");
        insta::assert_snapshot!(error(r#"{ torch = " " }"#), @"baseline: its expression is empty, such as `torch.softmax(x, -1)`");
        insta::assert_snapshot!(error(r#"{ quack = "quack.f(x)" }"#), @"line 7: the baseline needs an expression of PyTorch beside the others: add `torch = \"EXPRESSION\"` to its table");
        insta::assert_snapshot!(error(r#"{ torch = "x", quack = "" }"#), @"baseline `quack`: its expression is empty, such as `quack.softmax(x)`");
        insta::assert_snapshot!(error(r#"{ torch = "x", eager = "quack.f(x)" }"#), @"baseline `eager`: choose another name, because a backend of PyTorch has this one");
        insta::assert_snapshot!(error(r#"{ torch = "x", "../a" = "a.f(x)" }"#), @"baseline `../a`: use 1 to 64 letters, digits and `_` for its name, and no digit first, such as `quack`");
        insta::assert_snapshot!(error(r#"{ torch = "x", torch = "y" }"#), @"line 7: duplicate key");
    }
}
