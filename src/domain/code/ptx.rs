//! Kernels that come as PTX, the assembly language of CUDA, instead of CUDA source.

use crate::error::{Error, error};
/// The directive with which PTX begins.
const BEGINNING: &str = ".version";

/// Tells whether a kernel's source is PTX. Comments of whole lines may precede it.
pub fn is_ptx(source: &str) -> bool {
    let mut lines = source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.next().is_some_and(|line| line.split_whitespace().next() == Some(BEGINNING))
}

/// Returns the ending of the file that keeps a kernel's source.
pub fn ending(source: &str) -> &'static str {
    if is_ptx(source) { "ptx" } else { "cu" }
}

/// Returns the names of the kernels in PTX.
pub fn kernels(ptx: &str) -> Vec<&str> {
    let code = ptx.lines().map(|line| line.split("//").next().unwrap_or_default());
    let name = |rest: &'_ str| rest.find(|c: char| c == '(' || c.is_whitespace()).unwrap_or(rest.len());
    let entries = code.filter_map(|line| line.split_once(".entry").map(|(_, rest)| rest.trim_start()));
    entries.map(|rest| &rest[..name(rest)]).filter(|name| !name.is_empty()).collect()
}

/// Returns the types of a kernel's parameters, such as `u64`. None if there is no such kernel.
pub fn parameters<'a>(ptx: &'a str, kernel: &str) -> Option<Vec<&'a str>> {
    let is_named = |rest: &&str| {
        let rest = rest.trim_start();
        rest.strip_prefix(kernel).is_some_and(|after| after.trim_start().starts_with(['(', '{', '.']))
    };
    let rest = ptx.split(".entry").skip(1).find(is_named)?;
    let body = rest.find('{').unwrap_or(rest.len());
    let Some((_, list)) = rest[..body].split_once('(') else { return Some(Vec::new()) };
    let list = list.rsplit_once(')').map_or(list, |(list, _)| list);
    let is_type = |word: &&str| word.starts_with('.') && !matches!(*word, ".param" | ".align");
    let of = |declared: &'a str| Some(declared.split_whitespace().find(is_type)?.trim_start_matches('.'));
    Some(list.split(',').filter(|declared| declared.contains(".param")).filter_map(of).collect())
}

/// Returns the architecture for which PTX was made, and its number: `sm_90a` and 90.
pub fn target(ptx: &str) -> (&str, Option<u32>) {
    let line = ptx.lines().find_map(|line| line.trim().strip_prefix(".target"));
    let target = line.and_then(|rest| rest.split([',', ' ', '\t']).find(|word| !word.is_empty())).unwrap_or_default();
    (target, number(target))
}

fn number(arch: &str) -> Option<u32> {
    let digits: String = arch.strip_prefix("sm_")?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Refuses PTX that a device of an architecture such as `sm_90a` cannot run, in one sentence.
pub fn check_target(ptx: &str, arch: &str) -> Result<(), Error> {
    let (target, of_code) = target(ptx);
    let (Some(of_code), Some(of_device)) = (of_code, number(arch)) else {
        return Err(error!("its target `{target}` is not an architecture such as {arch}: compile it for {arch}"));
    };
    // Code of sm_90a or sm_100f runs on no later architecture.
    let is_bound = target.ends_with(|c: char| c.is_ascii_alphabetic());
    match of_code <= of_device && (!is_bound || of_code == of_device) {
        true => Ok(()),
        false => Err(error!("its target is {target}, which the device ({arch}) cannot run: compile it for {arch}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_told_from_cuda_and_names_its_kernels() {
        let ptx = "// x for f32\n//\n\n.version 8.3\n.target sm_90a\n.visible .entry one(\n.param .u64 a)\n{}\n.entry two\n( )\n// .entry no(\n";
        assert!(is_ptx(ptx) && !is_ptx("// .version\n__global__ void f() {}") && !is_ptx(""));
        assert_eq!(kernels(ptx), ["one", "two"]);
        assert_eq!(parameters(ptx, "one"), Some(vec!["u64"]));
        assert_eq!((parameters(ptx, "two"), parameters(ptx, "on")), (Some(Vec::new()), None));
        assert_eq!((ending(ptx), ending("int x;")), ("ptx", "cu"));
    }

    #[test]
    fn ptx_of_another_architecture_is_refused() {
        let check = |target: &str, arch: &str| check_target(&format!(".version 8.3\n.target {target}, debug\n"), arch);
        for (target, arch) in [("sm_90a", "sm_90a"), ("sm_80", "sm_90a"), ("sm_90", "sm_100a")] {
            assert_eq!(check(target, arch), Ok(()));
        }
        insta::assert_snapshot!(check("sm_90a", "sm_100a").unwrap_err(), @"its target is sm_90a, which the device (sm_100a) cannot run: compile it for sm_100a");
        insta::assert_snapshot!(check("sm_100", "sm_90a").unwrap_err(), @"its target is sm_100, which the device (sm_90a) cannot run: compile it for sm_90a");
        insta::assert_snapshot!(check_target("", "sm_90a").unwrap_err(), @"its target `` is not an architecture such as sm_90a: compile it for sm_90a");
    }
}
