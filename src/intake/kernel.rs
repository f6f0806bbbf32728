//! Finds kernels and their parameters.

use super::source::{closing, identifier, line_of, split, words};
use crate::domain::op::Dtype;

/// A kernel of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Where its declaration begins, in bytes.
    pub at: usize,
    /// The line of its name.
    pub line: usize,
    /// Whether its name is that of C, so that it can be launched by it.
    pub is_extern_c: bool,
    /// Whether it is a template, which has no machine code of its own.
    pub is_template: bool,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type as the source has it.
    pub type_text: String,
    /// What it is. None for a type that optloop cannot pass.
    pub kind: Option<Kind>,
}

/// What a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The address of a tensor.
    Tensor {
        /// Its element type.
        dtype: Dtype,
        /// Whether the kernel may write there.
        is_output: bool,
    },
    /// The address of scratch memory.
    Scratch {
        /// Its element type.
        dtype: Dtype,
    },
    /// A size, as a 32-bit integer.
    Size,
    /// A floating-point constant.
    Scalar,
}

impl Kernel {
    /// Makes scratch memory of the pointers with these names. The error says which one cannot be.
    pub(super) fn set_scratch(&mut self, names: &[&str]) -> Result<(), Vec<String>> {
        let mut mistakes = Vec::new();
        for name in names {
            let named = self.parameters.iter_mut().find(|parameter| parameter.name == *name);
            match named.map(|parameter| (parameter.kind, parameter)) {
                Some((Some(Kind::Tensor { is_output: true, dtype }), parameter)) => {
                    parameter.kind = Some(Kind::Scratch { dtype });
                }
                // No tensor holds such numbers, but scratch memory is only bytes.
                Some((None, parameter))
                    if ["unsigned long long*", "uint64_t*"].contains(&parameter.type_text.as_str()) =>
                {
                    parameter.kind = Some(Kind::Scratch { dtype: Dtype::I64 });
                }
                Some((None, parameter)) => mistakes.push(format!("--scratch {name}: {}", remedy(parameter))),
                _ => {
                    mistakes.push(format!("--scratch {name}: the kernel has no pointer of that name that it may write"))
                }
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    /// Makes inputs of the pointers with these names. The error says which one cannot be.
    pub(super) fn set_inputs(&mut self, names: &[&str]) -> Result<(), Vec<String>> {
        let mut mistakes = Vec::new();
        for name in names {
            match self.parameters.iter_mut().find(|parameter| parameter.name == *name).map(|it| &mut it.kind) {
                Some(Some(Kind::Tensor { is_output, .. })) => *is_output = false,
                _ => mistakes.push(format!("--input {name}: the kernel has no pointer of that name")),
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    /// Returns what keeps the kernel from being launched, a sentence for each.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let Self { name, line, .. } = self;
        let mut mistakes = Vec::new();
        if self.is_template {
            mistakes.push(format!(
                "line {line}: `{name}` is a template, whose header cannot be read: write `template <int NAME, ...>` \
                 before `__global__`"
            ));
        }
        for parameter in self.parameters.iter().filter(|parameter| parameter.kind.is_none()) {
            mistakes.push(format!("line {line}: parameter `{}` of `{name}`: {}", parameter.name, remedy(parameter)));
        }
        if !self.tensors().any(|(_, is_output)| is_output) {
            mistakes.push(format!("line {line}: `{name}` has no output: every pointer is const or an input"));
        }
        mistakes
    }

    /// Returns the element type in which it computes: that of an output if it is no whole number.
    pub fn dtype(&self) -> Dtype {
        let outputs = || self.tensors().filter(|(_, is_output)| *is_output);
        let is_float = |(dtype, _): &(Dtype, bool)| !dtype.is_integer();
        let found = outputs().find(is_float).or_else(|| self.tensors().find(is_float)).or_else(|| outputs().next());
        found.map_or(Dtype::F32, |(dtype, _)| dtype)
    }

    /// Returns the element type of each tensor, and whether it is an output.
    fn tensors(&self) -> impl Iterator<Item = (Dtype, bool)> {
        self.parameters.iter().filter_map(|parameter| match parameter.kind? {
            Kind::Tensor { dtype, is_output } => Some((dtype, is_output)),
            _ => None,
        })
    }
}

fn remedy(parameter: &Parameter) -> String {
    let found = &parameter.type_text;
    match found.contains('*') {
        true => format!(
            "`{found}` is not supported: use a pointer to float, double, __half, __nv_bfloat16, __nv_fp8_e4m3, int, unsigned, long long, unsigned char or bool"
        ),
        false => format!("`{found}` is not supported: use int for a size, or float for a constant"),
    }
}

/// Finds every kernel that has a body.
pub(super) fn find(code: &str) -> Vec<Kernel> {
    words(code, "__global__").filter_map(|at| kernel(code, at)).collect()
}

fn kernel(code: &str, global: usize) -> Option<Kernel> {
    let mut at = global + "__global__".len();
    let (name, name_at, open) = loop {
        let rest = &code[at..];
        at += rest.find(|c: char| c.is_ascii_alphabetic() || c == '_')?;
        let word = identifier(code, at);
        let after = at + word.len();
        let open = after + code[after..].len() - code[after..].trim_start().len();
        if code[open..].starts_with('(') {
            if !["__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__"].contains(&word) {
                break (word, at, open);
            }
            at = closing(code, open)?;
        } else {
            at = after;
        }
    };
    let close = closing(code, open)?;
    // A declaration without a body is followed by its definition.
    if !code[close..].trim_start().starts_with('{') {
        return None;
    }
    let begin = code[..global].rfind([';', '}', '{', '#']).map_or(0, |before| before + 1);
    let before = &code[begin..global];
    let is_extern_c = before.contains("extern") && before.contains("\"C\"") || is_in_extern_block(code, global);
    Some(Kernel {
        name: name.to_owned(),
        parameters: split(&code[open + 1..close - 1]).into_iter().filter_map(parameter).collect(),
        at: global,
        line: line_of(code, name_at),
        is_extern_c,
        is_template: before.contains("template"),
    })
}

/// Tells whether a place is in the braces of an `extern "C"`.
fn is_in_extern_block(code: &str, at: usize) -> bool {
    code[..at].match_indices("\"C\"").any(|(quote, _)| {
        let open = quote + 3 + code[quote + 3..].len() - code[quote + 3..].trim_start().len();
        code[open..].starts_with('{') && closing(code, open).is_none_or(|close| close > at)
    })
}

fn parameter(text: &str) -> Option<Parameter> {
    let text = text.split_once('=').map_or(text, |(before, _)| before).trim();
    let name_at = text.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |before| before + 1);
    let (type_text, name) = text.split_at(name_at);
    if name.is_empty() || name == "void" {
        return None;
    }
    let words: Vec<&str> = type_text
        .split(|c: char| c.is_whitespace() || c == '*')
        .filter(|word| !word.is_empty() && !word.starts_with("__restrict") && *word != "__grid_constant__")
        .collect();
    let is_const = words.contains(&"const");
    let base: Vec<&str> =
        words.iter().copied().filter(|word| !["const", "volatile", "struct"].contains(word)).collect();
    let kind = match type_text.matches('*').count() {
        0 => plain(&base),
        1 => element(&base).map(|dtype| Kind::Tensor { dtype, is_output: !is_const }),
        _ => None,
    };
    let shown = type_text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" *", "*");
    Some(Parameter { name: name.to_owned(), type_text: shown, kind })
}

fn element(base: &[&str]) -> Option<Dtype> {
    match base {
        ["float" | "float2" | "float4"] => Some(Dtype::F32),
        ["double" | "double2"] => Some(Dtype::F64),
        ["half" | "__half" | "half2" | "__half2"] => Some(Dtype::F16),
        ["nv_bfloat16" | "__nv_bfloat16" | "nv_bfloat162" | "__nv_bfloat162"] => Some(Dtype::Bf16),
        ["__nv_fp8_e4m3" | "__nv_fp8x2_e4m3" | "__nv_fp8x4_e4m3"] => Some(Dtype::E4m3),
        ["__nv_fp8_e5m2" | "__nv_fp8x2_e5m2" | "__nv_fp8x4_e5m2"] => Some(Dtype::E5m2),
        ["int" | "int2" | "int4" | "int32_t"] => Some(Dtype::I32),
        ["unsigned" | "uint" | "uint2" | "uint4" | "uint32_t"] | ["unsigned", "int"] => Some(Dtype::U32),
        ["long" | "int64_t"] | ["long", "long"] => Some(Dtype::I64),
        ["uint8_t" | "uchar" | "uchar2" | "uchar4"] | ["unsigned", "char"] => Some(Dtype::U8),
        ["char" | "int8_t" | "char2" | "char4"] | ["signed", "char"] => Some(Dtype::I8),
        ["bool"] => Some(Dtype::Bool),
        _ => None,
    }
}

fn plain(base: &[&str]) -> Option<Kind> {
    match base {
        ["int" | "unsigned" | "int32_t" | "uint32_t"] | ["unsigned", "int"] => Some(Kind::Size),
        ["float"] => Some(Kind::Scalar),
        _ => None,
    }
}
