//! Gives the parameters of a kernel template values, so that it becomes a plain kernel.

use super::aliases::Aliases;
use super::kernel;
use super::scan::{Scan, after_angles};
use super::source::{split, words};

/// Replaces the template header of a kernel by constants and types, on the same lines. `wanted` names the kernel, if the
/// source has several. `values` has the values of parameters that have no default, or another one, and other types for the
/// names that the source gives to types. A kernel that is no template stays as it is. Returns a sentence for each mistake
/// beside a text in which a value that lacks is an example.
///
/// `template <int TILE = 16, typename T> __global__ void k()` becomes
/// `constexpr int TILE = 16; using T = float; __global__ void k()`.
pub(super) fn instantiate(text: &str, wanted: Option<&str>, values: &[(String, String)]) -> (String, Vec<String>) {
    let scan = Scan::of(text);
    let aliases = Aliases::of(text, &scan);
    let kernels = kernel::find(&scan, &aliases);
    let chosen = kernels.iter().filter(|kernel| wanted.is_none_or(|name| name == kernel.name)).collect::<Vec<_>>();
    let [kernel] = chosen[..] else { return (text.to_owned(), Vec::new()) };
    let (mut mistakes, mut edits) = (Vec::new(), Vec::new());
    let mut names = Vec::new();
    if let Some((from, to)) = kernel.is_template.then(|| header(&scan.plain, kernel.at)).flatten() {
        let open = from + scan.plain[from..to].find('<').unwrap_or_default();
        let mut declared = Vec::new();
        for parameter in split(&scan.plain[open + 1..to - 1]) {
            let read = declaration(parameter, values);
            mistakes.extend(read.mistake.map(|mistake| format!("line {}: {mistake}", kernel.line)));
            names.extend(read.name);
            declared.push(read.text);
        }
        let lines = "\n".repeat(scan.plain[from..to].matches('\n').count());
        edits.push((from..to, format!("{}{lines}", declared.join(" "))));
    }
    for (name, value) in values.iter().filter(|(name, _)| !names.contains(&name.as_str())) {
        match aliases.place(name) {
            Some(place) => edits.push((place, value.clone())),
            None => mistakes.push(format!(
                "--template {name}: `{}` has no such template parameter, and the source gives no type that name",
                kernel.name
            )),
        }
    }
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut text = text.to_owned();
    edits.into_iter().for_each(|(place, value)| text.replace_range(place, &value));
    (text, mistakes)
}

/// Returns where the template header of the kernel at a place begins and ends.
fn header(code: &str, kernel_at: usize) -> Option<(usize, usize)> {
    let begin = code[..kernel_at].rfind([';', '}', '{']).map_or(0, |before| before + 1);
    let from = begin + words(&code[begin..kernel_at], "template").next()?;
    Some((from, from + after_angles(&code[from..kernel_at])?))
}

/// Returns the name of a template parameter: the last word before its default.
fn name(parameter: &str) -> Option<&str> {
    parameter.split('=').next()?.split_whitespace().next_back()
}

/// A template parameter as it was read.
struct Declaration<'a> {
    name: Option<&'a str>,
    /// What gives it its value, or an example if it has none.
    text: String,
    mistake: Option<String>,
}

/// Reads a template parameter.
fn declaration<'a>(parameter: &'a str, values: &[(String, String)]) -> Declaration<'a> {
    let (declared, default) = match parameter.split_once('=') {
        Some((declared, default)) => (declared.trim(), Some(default.trim())),
        None => (parameter.trim(), None),
    };
    let is_word = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let name = name(declared).filter(is_word);
    let kind = name.map(|name| declared[..declared.len() - name.len()].trim());
    let (Some(name), Some(kind)) =
        (name, kind.filter(|kind| !kind.is_empty() && !kind.contains(['<', '.']) && *kind != "auto"))
    else {
        let how = "use `int NAME` or `typename NAME`";
        let mistake = Some(format!("the template parameter `{parameter}` is not supported: {how}"));
        return Declaration { name, text: String::new(), mistake };
    };
    let is_type = ["typename", "class"].contains(&kind);
    let example = if is_type { "float" } else { "16" };
    let given = values.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str()).or(default);
    let mistake = given
        .is_none()
        .then(|| format!("the template parameter `{name}` has no value: add --template {name}={example}"));
    let value = match given.unwrap_or(example) {
        "true" | "True" => "1",
        "false" | "False" => "0",
        other => other,
    };
    let text = if is_type { format!("using {name} = {value};") } else { format!("constexpr {kind} {name} = {value};") };
    Declaration { name: Some(name), text, mistake }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn instantiated(text: &str, values: &[(&str, &str)]) -> Result<String, Error> {
        let values: Vec<_> = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (text, mistakes) = instantiate(text, None, &values);
        if mistakes.is_empty() { Ok(text) } else { Err(Error::of_all(&mistakes)) }
    }

    #[test]
    fn template_parameters_become_constants_and_types_on_the_same_lines() {
        let text = "// template <int NO>\ntemplate <int TILE = 16, bool FAST = true,\n          typename T>\n\
                    __global__ void k(const T* x, T* y, int n) {}\n";
        let made = instantiated(text, &[("T", "float"), ("TILE", "32"), ("FAST", "False")]).unwrap();
        insta::assert_snapshot!(made, @r"
        // template <int NO>
        constexpr int TILE = 32; constexpr bool FAST = 0; using T = float;

        __global__ void k(const T* x, T* y, int n) {}
        ");
        let named = "#define real real_of_all\ntypedef float real_of_all;\n__global__ void k(real* y) {}";
        assert_eq!(
            instantiated(named, &[("real_of_all", "double")]).unwrap(),
            named.replace("typedef float", "typedef double")
        );
        assert_eq!(instantiated(named, &[("real", "half")]).unwrap(), named.replace("real real_of_all", "real half"));
        let plain = "__global__ void k(float* y) {}";
        assert_eq!(instantiated(plain, &[]).unwrap(), plain);
    }

    #[test]
    fn a_parameter_without_a_value_is_named_with_the_option_that_gives_it() {
        let text = "template <int TILE, typename T>\n__global__ void k(T* y) {}";
        insta::assert_snapshot!(instantiated(text, &[("TILES", "8")]).unwrap_err(), @"line 2: the template parameter `TILE` has no value: add --template TILE=16; line 2: the template parameter `T` has no value: add --template T=float; --template TILES: `k` has no such template parameter, and the source gives no type that name");
        let twice = "template <template <int> class C>\n__global__ void k(float* y) {}";
        insta::assert_snapshot!(instantiated(twice, &[]).unwrap_err(), @"line 2: the template parameter `template <int> class C` is not supported: use `int NAME` or `typename NAME`");
        insta::assert_snapshot!(instantiated("__global__ void k(float* y) {}", &[("T", "int")]).unwrap_err(), @"--template T: `k` has no such template parameter, and the source gives no type that name");
    }
}
