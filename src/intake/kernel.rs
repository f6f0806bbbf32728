//! Finds kernels and their parameters.

use super::aliases::Aliases;
use super::scan::{Scan, after_angles};
use super::source::{closing, identifier, last_word_at, line_of, split, words};
use crate::domain::op::Dtype;

/// A kernel of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Where its declaration begins, in bytes, after the header of a template.
    pub at: usize,
    /// Where its parameters end: the place of the closing bracket.
    pub parameters_end: usize,
    /// The line of its name.
    pub line: usize,
    /// Whether its name is that of C, so that it can be launched by it.
    pub is_extern_c: bool,
    /// Whether it is a template, which has no machine code of its own.
    pub is_template: bool,
    /// The most threads of a block, if its launch bounds are a number.
    pub most_threads: Option<i64>,
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
    /// A size, as an integer.
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

    /// Gives the elements behind pointers other types than those that the kernel declares. The error says which one cannot be.
    pub(super) fn set_dtypes(&mut self, dtypes: &[(String, Dtype)]) -> Result<(), Vec<String>> {
        let mut mistakes = Vec::new();
        for (name, dtype) in dtypes {
            match self.parameters.iter_mut().find(|parameter| parameter.name == *name) {
                Some(parameter) if parameter.type_text.matches('*').count() == 1 => {
                    let is_output = match parameter.kind {
                        Some(Kind::Tensor { is_output, .. }) => is_output,
                        _ => !parameter.type_text.split(['*', ' ']).any(|word| word == "const"),
                    };
                    parameter.kind = Some(Kind::Tensor { dtype: *dtype, is_output });
                }
                _ => mistakes.push(format!("--dtype {name}: the kernel has no pointer of that name")),
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
        false => format!("`{found}` is not supported: use an integer for a size, or float or double for a constant"),
    }
}

/// Finds every kernel that has a body.
pub(super) fn find(scan: &Scan, aliases: &Aliases) -> Vec<Kernel> {
    words(&scan.plain, "__global__").filter_map(|at| kernel(scan, aliases, at)).collect()
}

fn kernel(scan: &Scan, aliases: &Aliases, global: usize) -> Option<Kernel> {
    let code = scan.plain.as_str();
    let (name_at, open) = declared(code, global + "__global__".len())?;
    let name = identifier(code, name_at);
    let close = closing(code, open)?;
    // A declaration without a body is followed by its definition.
    if !code[close..].trim_start().starts_with('{') {
        return None;
    }
    let begin = code[..global].rfind([';', '}', '{']).map_or(0, |before| before + 1);
    let begin = scan.item_at(global).map_or(begin, |item| item.span.start);
    let before = &code[begin..global];
    let is_extern_c = before.contains("extern") && before.contains("\"C\"") || is_in_extern_block(code, global);
    let is_template = words(before, "template").next().is_some();
    let parameters = split(&code[open + 1..close - 1]).into_iter().filter_map(|text| parameter(text, aliases));
    Some(Kernel {
        name: name.to_owned(),
        parameters: parameters.collect(),
        at: if is_template { global } else { begin },
        parameters_end: close - 1,
        line: line_of(code, name_at),
        is_extern_c,
        is_template,
        most_threads: most_threads(&code[begin..open]),
    })
}

/// Finds the name of the kernel that is declared from a place on, and the bracket behind it. None for an instance of a template,
/// such as `k<float>(…)`.
fn declared(code: &str, mut at: usize) -> Option<(usize, usize)> {
    loop {
        at += code[at..].find(|c: char| c.is_ascii_alphabetic() || c == '_' || ";{}".contains(c))?;
        let word = identifier(code, at);
        if word.is_empty() {
            return None;
        }
        let after = at + word.len();
        let open = after + code[after..].len() - code[after..].trim_start().len();
        if code[open..].starts_with('<') {
            at = open + after_angles(&code[open..])?;
            if code[at..].trim_start().starts_with('(') {
                return None;
            }
        } else if !code[open..].starts_with('(') {
            at = after;
        } else if ["__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__"].contains(&word) {
            at = closing(code, open)?;
        } else {
            return Some((at, open));
        }
    }
}

/// Returns the first of the launch bounds before the name of a kernel, if it is a number.
fn most_threads(before: &str) -> Option<i64> {
    let open = words(before, "__launch_bounds__").next()? + "__launch_bounds__".len();
    let bounds = before[open..].trim_start().strip_prefix('(')?;
    bounds.split([',', ')']).next()?.trim().parse().ok()
}

/// Tells whether a place is in the braces of an `extern "C"`.
fn is_in_extern_block(code: &str, at: usize) -> bool {
    code[..at].match_indices("\"C\"").any(|(quote, _)| {
        let open = quote + 3 + code[quote + 3..].len() - code[quote + 3..].trim_start().len();
        code[open..].starts_with('{') && closing(code, open).is_none_or(|close| close > at)
    })
}

fn parameter(text: &str, aliases: &Aliases) -> Option<Parameter> {
    let text = text.split_once('=').map_or(text, |(before, _)| before).trim();
    // An array is passed as the address of its first element.
    let (text, is_array) = text.split_once('[').map_or((text, false), |(before, _)| (before.trim_end(), true));
    let name_at = last_word_at(text);
    let (written, name) = text.split_at(name_at);
    if name.is_empty() || name == "void" {
        return None;
    }
    let resolved = aliases.resolve(written) + if is_array { "*" } else { "" };
    // What is behind the asterisk is about the pointer.
    let (pointee, stars) = resolved
        .split_once('*')
        .map_or((resolved.as_str(), 0), |(before, after)| (before, 1 + after.matches('*').count()));
    let is_dropped = |word: &&str| {
        word.starts_with("__restrict")
            || ["__grid_constant__", "restrict", "volatile", "struct", "register"].contains(word)
    };
    let words: Vec<&str> = pointee.split_whitespace().filter(|word| !is_dropped(word)).collect();
    let is_const = words.contains(&"const");
    let base: Vec<&str> = words.into_iter().filter(|word| *word != "const").collect();
    let base: Vec<&str> = base.iter().map(|word| word.rsplit("::").next().unwrap_or(word)).collect();
    let kind = match stars {
        0 => plain(&base),
        1 => element(&base).map(|dtype| Kind::Tensor { dtype, is_output: !is_const }),
        _ => None,
    };
    let shown = resolved.split_whitespace().collect::<Vec<_>>().join(" ").replace(" *", "*");
    Some(Parameter { name: name.to_owned(), type_text: shown, kind })
}

fn element(base: &[&str]) -> Option<Dtype> {
    match base {
        ["float" | "float2" | "float3" | "float4" | "cuComplex" | "cuFloatComplex"] => Some(Dtype::F32),
        ["double" | "double2" | "double3" | "double4"] => Some(Dtype::F64),
        ["half" | "__half" | "half2" | "__half2"] => Some(Dtype::F16),
        ["nv_bfloat16" | "__nv_bfloat16" | "nv_bfloat162" | "__nv_bfloat162"] => Some(Dtype::Bf16),
        ["__nv_fp8_e4m3" | "__nv_fp8x2_e4m3" | "__nv_fp8x4_e4m3"] => Some(Dtype::E4m3),
        ["__nv_fp8_e5m2" | "__nv_fp8x2_e5m2" | "__nv_fp8x4_e5m2"] => Some(Dtype::E5m2),
        ["int" | "int2" | "int3" | "int4" | "int32_t"] => Some(Dtype::I32),
        ["unsigned" | "uint" | "uint2" | "uint3" | "uint4" | "uint32_t"] => Some(Dtype::U32),
        ["unsigned", "int"] => Some(Dtype::U32),
        ["uint8_t" | "uchar" | "uchar2" | "uchar3" | "uchar4"] | ["unsigned", "char"] => Some(Dtype::U8),
        ["char" | "int8_t" | "char2" | "char3" | "char4"] | ["signed", "char"] => Some(Dtype::I8),
        ["bool"] => Some(Dtype::Bool),
        // No tensor is unsigned with 64 bits, but such numbers have the same bytes.
        base if is_long(base) => Some(Dtype::I64),
        _ => None,
    }
}

fn plain(base: &[&str]) -> Option<Kind> {
    match base {
        ["int" | "unsigned" | "uint" | "int32_t" | "uint32_t" | "bool"] | ["unsigned", "int"] => Some(Kind::Size),
        ["float" | "double"] => Some(Kind::Scalar),
        base if is_long(base) => Some(Kind::Size),
        _ => None,
    }
}

/// Tells whether a type is an integer of 64 bits.
fn is_long(base: &[&str]) -> bool {
    let named = ["int64_t", "uint64_t", "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t", "ulong"];
    match base {
        [only] if named.contains(only) => true,
        words => {
            words.contains(&"long") && words.iter().all(|word| ["long", "unsigned", "signed", "int"].contains(word))
        }
    }
}

impl Parameter {
    /// Returns the least and the greatest value of a size, if its type limits it: a condition is 0 or 1.
    pub fn range(&self) -> Option<(i64, i64)> {
        let is_flag = self.kind == Some(Kind::Size) && self.type_text.split_whitespace().any(|word| word == "bool");
        is_flag.then_some((0, 1))
    }

    /// Tells whether it points to vectors that may stand for several elements of a smaller type, such as a `float4` for eight
    /// halves. Kernels load so, and cast.
    pub fn may_hold(&self, dtype: Dtype) -> bool {
        let is_vector = |word: &str| ["float2", "float4", "double2", "double4"].contains(&word);
        let Some(Kind::Tensor { dtype: own, .. }) = self.kind else { return false };
        dtype.bytes() < own.bytes() && self.type_text.split(['*', ' ']).any(is_vector)
    }

    /// Returns the type that a manifest names in front of an argument: none for 32 bits.
    pub fn wide_type(&self) -> Option<&'static str> {
        let words: Vec<&str> = self.type_text.split_whitespace().filter(|word| *word != "const").collect();
        let words: Vec<&str> = words.iter().map(|word| word.rsplit("::").next().unwrap_or(word)).collect();
        match self.kind? {
            Kind::Size if is_long(&words) => Some("long long"),
            Kind::Scalar if words == ["double"] => Some("double"),
            _ => None,
        }
    }
}
