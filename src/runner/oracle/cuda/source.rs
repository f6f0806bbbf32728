//! Compiles the source of an oracle, finds its kernel, and compares the kernel's parameters with the arguments.

use std::fmt::Write as _;

use crate::domain::code::artifact::Artifact;
use crate::domain::text::names::did_you_mean;
use crate::domain::variant::{Params, Variant, VariantHash};
use crate::error::{Error, Result, error};
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::toolchain::Toolchain;

use super::TIME_LIMIT;

/// The name of a source in the compiler's messages.
const COMPILED_AS: &str = "variant.cu(";

/// What the message of an assertion below begins with in the log. The number of a parameter follows, or 0 for their number.
/// The compiler prints no other text as it is: it replaces backquotes.
const ASSERTED: &str = "failed with \"optloop ";

/// Templates that tell the types of a function's parameters. They need no header, and follow the source.
const TYPES: &str = "
namespace optloop_oracle {
template <class A, class... Those> struct is_one_of { static const bool value = false; };
template <class A, class B, class... Rest> struct is_one_of<A, B, Rest...> {
    static const bool value = is_one_of<A, Rest...>::value;
};
template <class A, class... Rest> struct is_one_of<A, A, Rest...> { static const bool value = true; };
template <int N, class... All> struct nth { typedef void type; };
template <class First, class... Rest> struct nth<0, First, Rest...> { typedef First type; };
template <int N, class First, class... Rest> struct nth<N, First, Rest...> : nth<N - 1, Rest...> {};
template <class Function> struct parameters;
template <class Result, class... All> struct parameters<Result(All...)> {
    static const int count = sizeof...(All);
    template <int N, class... Those> struct fits {
        static const bool value = is_one_of<typename nth<N, All...>::type, Those...>::value;
    };
};
}
";

/// A compiled oracle.
pub struct Compiled {
    /// The compiled source.
    pub artifact: Artifact,
    /// The kernel's name in it.
    pub entry: String,
    /// The kernel's name in the source.
    pub name: String,
}

/// What a parameter of the kernel must be.
pub struct Parameter {
    /// What the launch passes, for messages.
    pub what: String,
    /// The types that take it, the usual one first.
    pub types: &'static [&'static str],
}

/// Compiles a source for an architecture. `kernel` names the kernel if there are several. The error is one sentence with the
/// line of the user's file.
pub fn compile(
    (file, text): (&str, &str),
    kernel: Option<&str>,
    parameters: &[Parameter],
    arch: &str,
) -> Result<Compiled> {
    let exe = std::env::current_exe().map_err(|error| error!("optloop's executable is not known: {error}"))?;
    let toolchain = Toolchain::find_or_fetch().map_err(|error| error!("{error:#}"))?;
    // No option of the project: --use_fast_math would make an oracle less exact.
    let compiler = Compiler::new(exe, toolchain, arch, &[], TIME_LIMIT).map_err(|error| error!("{error:#}"))?;
    let artifact = compiler.compile(&variant(text.to_owned())).map_err(|error| in_users_file(file, &error))?;
    let entries: Vec<&str> = artifact.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let (entry, name) = chosen(file, &entries, kernel)?;
    let entry = entry.to_owned();
    let asserted = format!("{text}\n{TYPES}{}", assertions(&name, parameters));
    match compiler.compile(&variant(asserted)) {
        Ok(_) => Ok(Compiled { artifact, entry, name }),
        Err(CompileError::Rejected { log }) if log.contains(ASSERTED) => {
            Err(Error::of_all(&mistakes(&log, &name, parameters)).within(file))
        }
        Err(error) => Err(in_users_file(file, &error)),
    }
}

fn variant(source: String) -> Variant {
    Variant { family: "oracle".to_owned(), params: Params::new(), hash: VariantHash::of(&source), source }
}

fn in_users_file(file: &str, error: &CompileError) -> Error {
    Error::new(error.to_string().replace(COMPILED_AS, &format!("{file}(")))
}

/// Returns the entry point to launch, and the name of its function.
fn chosen<'a>(file: &str, entries: &[&'a str], kernel: Option<&str>) -> Result<(&'a str, String)> {
    let named: Vec<(&str, String)> = entries.iter().map(|entry| (*entry, function(entry))).collect();
    let names = || named.iter().map(|(_, name)| name.as_str());
    let with = |wanted: &str| named.iter().find(|(_, name)| name == wanted).cloned();
    match (kernel, &named[..]) {
        (_, []) => Err(error!("{file} has no `__global__` function: a template alone is none")),
        (Some(wanted), _) => with(wanted).ok_or_else(|| {
            error!("{file} has no kernel `{wanted}`{}: it has {}", did_you_mean(wanted, names()), listed(names()))
        }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => with("oracle").ok_or_else(|| {
            error!("{file} has the kernels {}", listed(names())).hint("name one of them as `kernel` in [oracle_launch]")
        }),
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the name of an entry point's function in the source. C++ adds the types of the parameters to it (Itanium C++ ABI,
/// "Mangling").
fn function(entry: &str) -> String {
    let plain = || -> Option<&str> {
        let rest = entry.strip_prefix("_Z")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[digits..].get(..rest[..digits].parse().ok()?)
    };
    plain().unwrap_or(entry).to_owned()
}

/// Writes an assertion for the number of parameters, and for the type of each.
fn assertions(kernel: &str, parameters: &[Parameter]) -> String {
    let count = parameters.len();
    let mut text = format!("typedef optloop_oracle::parameters<decltype({kernel})> optloop_parameters;\n");
    let _ = writeln!(text, "static_assert(optloop_parameters::count == {count}, \"optloop 0\");");
    for (place, Parameter { types, .. }) in parameters.iter().enumerate() {
        let (fits, number) = (types.join(", "), place + 1);
        let _ = writeln!(
            text,
            "static_assert(optloop_parameters::count != {count} || optloop_parameters::fits<{place}, {fits}>::value, \
             \"optloop {number}\");"
        );
    }
    text
}

/// Returns what is wrong with the parameters, by the assertions in a log that do not hold.
fn mistakes(log: &str, kernel: &str, parameters: &[Parameter]) -> Vec<String> {
    let number = |line: &str| -> Option<usize> { line.split_once(ASSERTED)?.1.split('"').next()?.parse().ok() };
    let mistake = |number: usize| match number.checked_sub(1).and_then(|place| parameters.get(place)) {
        Some(Parameter { what, types }) => {
            format!("parameter {number} of `{kernel}` must be a `{}`, because [oracle_launch] passes {what}", types[0])
        }
        None => {
            let passed: Vec<&str> = parameters.iter().map(|parameter| parameter.what.as_str()).collect();
            let (count, passed) = (passed.len(), passed.join(", "));
            format!("`{kernel}` must have {count} parameters, because [oracle_launch] passes {passed}")
        }
    };
    log.lines().filter_map(number).map(mistake).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_the_only_one_or_the_one_that_is_named() {
        let chosen = |entries: &[&str], kernel: Option<&str>| match chosen("o.cu", entries, kernel) {
            Ok((entry, name)) => format!("{entry} {name}"),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(chosen(&["_Z4sumsPKdPdx"], None), "_Z4sumsPKdPdx sums");
        assert_eq!(chosen(&["first", "oracle"], None), "oracle oracle");
        assert_eq!(chosen(&["first", "_Z6secondPd"], Some("second")), "_Z6secondPd second");
        insta::assert_snapshot!(chosen(&["first", "_Z6secondPd"], None), @"o.cu has the kernels `first`, `second`: name one of them as `kernel` in [oracle_launch]");
        insta::assert_snapshot!(chosen(&["first", "_Z6secondPd"], Some("secnd")), @"o.cu has no kernel `secnd` (did you mean `second`?): it has `first`, `second`");
        insta::assert_snapshot!(chosen(&[], None), @"o.cu has no `__global__` function: a template alone is none");
    }

    #[test]
    fn assertions_that_do_not_hold_are_explained() {
        let parameter = |what: &str, types| Parameter { what: what.to_owned(), types };
        let parameters = [parameter("the input `x`", &["const double *"]), parameter("the scalar `eps`", &["double"])];
        let log =
            "variant.cu(31): error: static assertion failed with \"optloop 2\"\n  static_assert(x, \"optloop 2\");\n";
        let said = |log: &str| mistakes(log, "oracle", &parameters).join("; ");
        insta::assert_snapshot!(said(log), @"parameter 2 of `oracle` must be a `double`, because [oracle_launch] passes the scalar `eps`");
        insta::assert_snapshot!(said(&log.replace('2', "0")), @"`oracle` must have 2 parameters, because [oracle_launch] passes the input `x`, the scalar `eps`");
        assert_eq!(said("variant.cu(3): error: static assertion failed with \"my own\""), "");
    }
}
