//! The allowlist of NVRTC options from a project, a sidecar or a recorded iteration.
//!
//! NVRTC has options that read and write files (`--create-pch`, `--pre-include`, `--time`, `--ptxas-options=-optf=…`).
//! So only the options listed here are passed on: those that change nothing but the code. The names are those of the
//! CUDA 13.0 documentation of NVRTC, section 3.6.

use crate::error::{Result, error};

/// What may follow the `=` of an option.
enum Value {
    /// The option takes no value.
    None,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A number up to this one.
    Number(u32),
    /// Numbers of diagnostics, with commas.
    Numbers,
    /// `NAME` or `NAME=VALUE`, of letters, digits, and what numbers are written with.
    Macro,
    /// Options of ptxas, with commas, each of which is checked as well.
    Ptxas,
}

const SWITCH: Value = Value::OneOf(&["true", "false"]);

/// Options by all their names, which come after one or two dashes.
const OPTIONS: &[(&[&str], Value)] = &[
    (&["std"], Value::OneOf(&["c++11", "c++14", "c++17", "c++20"])),
    (&["use_fast_math"], Value::None),
    (&["ftz"], SWITCH),
    (&["prec-sqrt"], SWITCH),
    (&["prec-div"], SWITCH),
    (&["fmad"], SWITCH),
    (&["maxrregcount"], Value::Number(255)),
    (&["extra-device-vectorization"], Value::None),
    (&["restrict"], Value::None),
    (&["device-as-default-execution-space", "default-device"], Value::None),
    (&["device-int128"], Value::None),
    (&["device-float128"], Value::None),
    (&["device-debug", "G"], Value::None),
    (&["generate-line-info", "lineinfo"], Value::None),
    (&["dopt"], Value::OneOf(&["on", "off"])),
    (&["Ofast-compile"], Value::OneOf(&["0", "min", "mid", "max"])),
    (&["builtin-move-forward"], SWITCH),
    (&["builtin-initializer-list"], SWITCH),
    (&["minimal"], Value::None),
    (&["disable-warnings", "w"], Value::None),
    (&["diag-suppress"], Value::Numbers),
    (&["diag-warn"], Value::Numbers),
    (&["diag-error"], Value::Numbers),
    (&["define-macro", "D"], Value::Macro),
    (&["undefine-macro", "U"], Value::Macro),
    (&["ptxas-options", "Xptxas"], Value::Ptxas),
];

/// Options of ptxas, after one or two dashes. Those that name a file are not among them.
const PTXAS: &[(&[&str], Value)] = &[
    (&["O0"], Value::None),
    (&["O1"], Value::None),
    (&["O2"], Value::None),
    (&["O3"], Value::None),
    (&["opt-level"], Value::OneOf(&["0", "1", "2", "3"])),
    (&["v", "verbose"], Value::None),
    (&["warn-spills", "warn-on-spills"], Value::None),
    (&["warn-lmem-usage", "warn-on-local-memory-usage"], Value::None),
    (&["allow-expensive-optimizations"], SWITCH),
    (&["maxrregcount"], Value::Number(255)),
    (&["dlcm", "def-load-cache"], Value::OneOf(&["ca", "cg", "cs", "lu", "cv"])),
    (&["dscm", "def-store-cache"], Value::OneOf(&["wb", "cg", "cs", "wt"])),
    (&["fmad"], SWITCH),
];

/// Refuses options that are not on the list. The error is one sentence.
pub fn check(options: &[String]) -> Result<()> {
    options.iter().try_for_each(|option| {
        if is_allowed(option, OPTIONS) {
            return Ok(());
        }
        Err(error!("the compiler option `{}` is not allowed", option.escape_default()).hint(
            "use options that change the code only, with the value after a `=`, such as --maxrregcount=128 (`optloop docs \
             security` lists them)",
        ))
    })
}

fn is_allowed(option: &str, known: &[(&[&str], Value)]) -> bool {
    let Some(text) = option.strip_prefix("--").or_else(|| option.strip_prefix('-')) else { return false };
    // `-DNAME` and `-UNAME` have their value without a `=`.
    let joined = ["D", "U"].into_iter().find_map(|name| Some((name, text.strip_prefix(name)?)));
    let (name, value) = match text.split_once('=') {
        Some((name, value)) if find(name, known).is_some() => (name, Some(value)),
        _ if find(text, known).is_some() => (text, None),
        _ => joined.map_or((text, None), |(name, value)| (name, Some(value))),
    };
    match (find(name, known), value) {
        (None, _) => false,
        (Some(Value::None), value) => value.is_none(),
        (Some(_), None) => false,
        (Some(Value::OneOf(values)), Some(value)) => values.contains(&value),
        (Some(Value::Number(most)), Some(value)) => value.parse::<u32>().is_ok_and(|number| number <= *most),
        (Some(Value::Numbers), Some(value)) => value.split(',').all(|number| number.parse::<u32>().is_ok()),
        (Some(Value::Macro), Some(value)) => is_macro(value),
        (Some(Value::Ptxas), Some(value)) => value.split(',').all(|option| is_allowed(option, PTXAS)),
    }
}

fn find<'a>(name: &str, known: &'a [(&[&str], Value)]) -> Option<&'a Value> {
    known.iter().find(|(names, _)| names.contains(&name)).map(|(_, value)| value)
}

/// A macro may be a name, a number or nothing. It cannot contain words that would bypass the rules for sources, such as
/// `__has_include`.
fn is_macro(text: &str) -> bool {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_name = word(name) && name.starts_with(|c: char| !c.is_ascii_digit());
    let is_value = value.chars().all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c));
    is_name && is_value && !text.contains("__has")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(option: &str) -> bool {
        check(&[option.to_owned()]).is_ok()
    }

    #[test]
    fn options_that_change_the_code_pass() {
        for option in [
            "--std=c++17",
            "-std=c++20",
            "--use_fast_math",
            "--fmad=false",
            "--maxrregcount=128",
            "-DTILE=64",
            "-DFAST",
            "--define-macro=EPS=1e-5",
            "-UDEBUG",
            "--diag-suppress=177,550",
            "--ptxas-options=-O3,--warn-spills",
            "-Xptxas=-dlcm=cg",
            "-lineinfo",
        ] {
            assert!(allowed(option), "{option}");
        }
    }

    #[test]
    fn options_that_name_files_or_hide_something_are_refused() {
        for option in [
            "--create-pch=/tmp/x",
            "--use-pch=x",
            "--pch",
            "--pch-dir=/tmp",
            "--time=/tmp/x",
            "--time=-",
            "--fdevice-time-trace=/tmp/x",
            "--pre-include=/etc/passwd",
            "-I/etc",
            "-I",
            "/etc",
            "--include-path=/etc",
            "--ptxas-options=-optf=/etc/passwd",
            "--ptxas-options=-O3,-optf=/etc/passwd",
            "--ptxas-options=--output-file=/tmp/x",
            "--ptxas-options",
            "-optf=/x",
            "--gpu-architecture=sm_90",
            "--dlink-time-opt",
            "-DX=__has_include(\"/etc/passwd\")",
            "-D__has_include=1",
            "-DX(a)=a",
            "-D",
            "-D=1",
            "--std=c++17 --time=/tmp/x",
            "--maxrregcount=many",
            "--use_fast_math=yes",
            "",
            "-",
        ] {
            assert!(!allowed(option), "{option}");
        }
    }

    #[test]
    fn every_option_is_documented() {
        let page = include_str!("../../../docs/security.md");
        for (names, _) in OPTIONS {
            assert!(page.contains(&format!("`--{}", names[0])), "docs/security.md lacks --{}", names[0]);
        }
    }

    #[test]
    fn the_error_names_the_option_in_printable_form() {
        let error = check(&["--time=\x1b[2J".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("the compiler option `--time=\\u{1b}[2J` is not allowed: "), "{error}");
    }
}
