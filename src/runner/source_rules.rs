//! Rules for a kernel's source, checked before NVRTC sees it, and for its PTX.
//!
//! These are tripwires, not the defence. A source that passes them is still compiled in a process with limits, executed
//! in another one, and checked. They catch what a kernel does not need: files of this machine, and clocks. A clear
//! message is cheap there. Anything that compilers might interpret in two ways is refused.

mod scanner;
#[cfg(test)]
mod tests;

use self::scanner::{Directive, Scanner};
use super::headers::{FOLDERS, HEADERS, is_allowed};
use crate::error::{Error, Result, error};

/// Directives that read no file. All others are refused, except `#include` of an allowed header.
const DIRECTIVES: [&str; 15] = [
    "", "define", "elif", "elifdef", "elifndef", "else", "endif", "error", "if", "ifdef", "ifndef", "line", "pragma",
    "undef", "warning",
];

/// Words that request files anywhere in the source.
const WORDS: [&str; 3] = ["__has_embed", "__has_include", "__has_include_next"];

/// Special registers of PTX that tell the time.
const CLOCKS: [&str; 6] = ["%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_hi", "%globaltimer_lo"];

/// Checks a source. The error has the form of a compiler's.
pub fn check_source(source: &str) -> Result<()> {
    // Most compilers treat `\r\n` as a line's end; they disagree on `\r` alone.
    let source = source.replace("\r\n", "\n");
    check_characters(&source)?;
    let mut scanner = Scanner::new(&source);
    while let Some(directive) = scanner.next_directive(check_word)? {
        check_directive(&directive)?;
    }
    Ok(())
}

/// Checks the PTX of a source.
pub fn check_ptx(ptx: &str) -> Result<()> {
    let clock = ptx.match_indices('%').find_map(|(at, _)| {
        let rest = &ptx[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
        let register = &ptx[at..=at + end];
        CLOCKS.into_iter().find(|clock| *clock == register)
    });
    match clock {
        None => Ok(()),
        Some(clock) => Err(error!("error: it reads the clock {clock}, which kernels must not do")),
    }
}

/// Refuses characters that compilers may replace or skip before they look for directives.
fn check_characters(source: &str) -> Result<()> {
    for (line, text) in (1..).zip(source.split('\n')) {
        if let Some(control) = text.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(refusal(line, &format!("the control character U+{:04X}", control as u32)));
        }
        if text.contains('\u{feff}') {
            return Err(refusal(line, "a byte order mark"));
        }
        let trigraph = text.match_indices("??").find_map(|(at, _)| text.get(at..at + 3));
        if let Some(trigraph) = trigraph.filter(|trigraph| trigraph.ends_with(|c| "=/'()!<>-".contains(c))) {
            return Err(refusal(line, &format!("the trigraph `{trigraph}`")));
        }
    }
    Ok(())
}

fn check_word(line: usize, word: &str) -> Result<()> {
    if WORDS.contains(&word) { Err(refusal(line, &format!("`{word}`"))) } else { Ok(()) }
}

fn check_directive(directive: &Directive) -> Result<()> {
    let Directive { line, name, rest } = directive;
    match name.as_str() {
        "include" => check_include(*line, rest.trim()),
        // A module's `import` reads a header as an include does.
        "import" => Err(refusal(*line, "`import`")),
        known if DIRECTIVES.contains(&known) => Ok(()),
        other => Err(refusal(*line, &format!("`#{other}`"))),
    }
}

fn check_include(line: usize, operand: &str) -> Result<()> {
    let quoted = operand.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let header = quoted.or_else(|| operand.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')));
    let Some(header) = header else {
        return Err(refusal(line, &format!("`#include {operand}`, which does not name a header directly,")));
    };
    if is_allowed(header) {
        return Ok(());
    }
    let known = HEADERS.iter().map(|header| header.name).collect::<Vec<_>>().join(", ");
    Err(error!(
        "variant.cu({line}): error: source rules: `{header}` is not one of the headers that a kernel may include: \
         {known}, and those in {}",
        FOLDERS.join(", ")
    ))
}

fn refusal(line: usize, what: &str) -> Error {
    error!("variant.cu({line}): error: source rules: {what} is not allowed in a kernel")
}
