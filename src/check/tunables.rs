//! Finds parameters that change nothing.

use crate::domain::space::Space;
use crate::domain::variant::Params;

/// Returns the parameters of a family that change neither the machine code nor the launch, whatever their value.
///
/// `code` compiles a configuration, and `launch` describes how it is launched. None means that it does not compile or
/// cannot be launched, which proves nothing.
pub(super) fn idle(
    space: &Space<'_>,
    defaults: &Params,
    code: impl Fn(&Params) -> Option<String>,
    launch: impl Fn(&Params) -> Option<String>,
) -> Vec<String> {
    let (Some(own_code), Some(own_launch)) = (code(defaults), launch(defaults)) else { return Vec::new() };
    let is_idle = |name: &&String| {
        let moves = space.moves(defaults).into_iter().filter(|(moved, _)| moved == *name).map(|(_, params)| params);
        let valid: Vec<Params> = moves.filter(|params| space.contains(params).unwrap_or(false)).collect();
        if valid.iter().any(|params| launch(params).is_some_and(|launch| launch != own_launch)) {
            return false;
        }
        let mut compiled = valid.iter().filter_map(&code).peekable();
        let own_code = code_without(&own_code, name);
        compiled.peek().is_some() && compiled.all(|code| code_without(&code, name) == own_code)
    };
    space.family.params.keys().filter(is_idle).cloned().collect()
}

/// Returns PTX without a constant's own declaration. NVRTC declares every `constexpr`, whether it is used or not.
pub fn code_without(ptx: &str, constant: &str) -> String {
    let names_it =
        |line: &&str| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|word| word == constant);
    let is_used = ptx.lines().filter(names_it).count() > 1;
    let is_declaration = |line: &&str| line.starts_with(".global") && names_it(line);
    ptx.lines().filter(|line| is_used || !is_declaration(line)).collect::<Vec<_>>().join("\n")
}
