//! Gives the parameters of a kernel template values, so that it becomes a plain kernel.

use indexmap::IndexMap;

use super::kernel;
use super::source::{split, without_comments, words};

/// Replaces the template header of a kernel by constants and types, on the same lines. `wanted` names the kernel, if the
/// source has several. `values` has the values of parameters that have no default, or another one. A kernel that is no
/// template stays as it is. The error has a sentence for each mistake.
///
/// `template <int TILE = 16, typename T> __global__ void k()` becomes
/// `constexpr int TILE = 16; using T = float; __global__ void k()`.
pub fn instantiate(text: &str, wanted: Option<&str>, values: &IndexMap<String, String>) -> Result<String, Vec<String>> {
    let code = without_comments(text);
    let kernels = kernel::find(&code);
    let chosen = kernels.iter().filter(|kernel| wanted.is_none_or(|name| name == kernel.name)).collect::<Vec<_>>();
    let [kernel] = chosen[..] else { return Ok(text.to_owned()) };
    let header = kernel.is_template.then(|| header(&code, kernel.at)).flatten();
    let Some((from, to)) = header else {
        let unknown = values.keys().map(|name| format!("--template {name}: `{}` is no template", kernel.name));
        let unknown: Vec<String> = unknown.collect();
        return if unknown.is_empty() { Ok(text.to_owned()) } else { Err(unknown) };
    };
    let open = from + code[from..to].find('<').unwrap_or_default();
    let (parameters, mut mistakes) = (split(&code[open + 1..to - 1]), Vec::new());
    let mut declared = Vec::new();
    let mut names = Vec::new();
    for parameter in parameters {
        match declaration(parameter, values) {
            Ok((name, declaration)) => {
                names.push(name);
                declared.push(declaration);
            }
            Err(mistake) => {
                names.extend(name(parameter));
                mistakes.push(format!("line {}: {mistake}", kernel.line));
            }
        }
    }
    let unknown = values.keys().filter(|name| !names.contains(&name.as_str()));
    mistakes.extend(unknown.map(|name| format!("--template {name}: `{}` has no such template parameter", kernel.name)));
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let lines = "\n".repeat(code[from..to].matches('\n').count());
    Ok(format!("{}{}{lines}{}", &text[..from], declared.join(" "), &text[to..]))
}

/// Returns where the template header of the kernel at a place begins and ends.
fn header(code: &str, kernel_at: usize) -> Option<(usize, usize)> {
    let begin = code[..kernel_at].rfind([';', '}', '{', '#']).map_or(0, |before| before + 1);
    let from = begin + words(&code[begin..kernel_at], "template").next()?;
    let open = from + code[from..kernel_at].find('<')?;
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().take(kernel_at).skip(open) {
        match byte {
            b'<' => depth += 1,
            b'>' if depth == 1 => return Some((from, at + 1)),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the name of a template parameter: the last word before its default.
fn name(parameter: &str) -> Option<&str> {
    parameter.split('=').next()?.split_whitespace().next_back()
}

/// Returns the name of a template parameter, and the declaration that gives it its value.
fn declaration<'a>(parameter: &'a str, values: &IndexMap<String, String>) -> Result<(&'a str, String), String> {
    let (declared, default) = match parameter.split_once('=') {
        Some((declared, default)) => (declared.trim(), Some(default.trim())),
        None => (parameter.trim(), None),
    };
    let wrong = || format!("the template parameter `{parameter}` is not supported: use `int NAME` or `typename NAME`");
    let name = name(declared).filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    let name = name.ok_or_else(wrong)?;
    let kind = declared[..declared.len() - name.len()].trim();
    if kind.contains('<') {
        return Err(wrong());
    }
    let is_type = ["typename", "class"].contains(&kind);
    let value = values.get(name).map(String::as_str).or(default).ok_or_else(|| {
        let example = if is_type { "float" } else { "16" };
        format!("the template parameter `{name}` has no value: add --template {name}={example}")
    })?;
    if is_type {
        return Ok((name, format!("using {name} = {value};")));
    }
    let value = match value {
        "true" => "1",
        "false" => "0",
        other => other,
    };
    if kind.is_empty() || kind == "auto" {
        Err(wrong())
    } else {
        Ok((name, format!("constexpr {kind} {name} = {value};")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instantiated(text: &str, values: &[(&str, &str)]) -> Result<String, String> {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        instantiate(text, None, &values).map_err(|mistakes| mistakes.join("; "))
    }

    #[test]
    fn template_parameters_become_constants_and_types_on_the_same_lines() {
        let text = "// template <int NO>\ntemplate <int TILE = 16, bool FAST = true,\n          typename T>\n\
                    __global__ void k(const T* x, T* y, int n) {}\n";
        let made = instantiated(text, &[("T", "float"), ("TILE", "32")]).unwrap();
        insta::assert_snapshot!(made, @r"
        // template <int NO>
        constexpr int TILE = 32; constexpr bool FAST = 1; using T = float;

        __global__ void k(const T* x, T* y, int n) {}
        ");
        let plain = "__global__ void k(float* y) {}";
        assert_eq!(instantiated(plain, &[]).unwrap(), plain);
    }

    #[test]
    fn a_parameter_without_a_value_is_named_with_the_option_that_gives_it() {
        let text = "template <int TILE, typename T>\n__global__ void k(T* y) {}";
        insta::assert_snapshot!(instantiated(text, &[("TILES", "8")]).unwrap_err(), @"line 2: the template parameter `TILE` has no value: add --template TILE=16; line 2: the template parameter `T` has no value: add --template T=float; --template TILES: `k` has no such template parameter");
        let twice = "template <template <int> class C>\n__global__ void k(float* y) {}";
        insta::assert_snapshot!(instantiated(twice, &[]).unwrap_err(), @"line 2: the template parameter `template <int> class C` is not supported: use `int NAME` or `typename NAME`");
        insta::assert_snapshot!(instantiated("__global__ void k(float* y) {}", &[("T", "int")]).unwrap_err(), @"--template T: `k` is no template");
    }
}
