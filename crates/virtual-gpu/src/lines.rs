//! Finds the line of the CUDA source from which an instruction comes.
//!
//! If the compiler is asked for lines (`-lineinfo`), its PTX has `.loc` directives. Each holds for the instructions
//! after it, and names a file and a line. In an inlined function, it also names the call, which has a directive of its
//! own before it. Only a fault needs a line, so the text is read then.

use std::collections::HashMap;

/// A line of a CUDA source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}")]
pub struct SourceLine {
    /// The file's name, without its folder.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// The number of a file, a line and a column.
type Location<'a> = [&'a str; 3];

/// Returns the line of the source from which the instruction on a line of a PTX text comes. None if the text does not
/// tell.
///
/// In an inlined function it is the innermost line in the file of the kernel, or of the function that is being
/// executed. So a fault in a header names the call in the user's own source.
pub(crate) fn source_line(text: &str, line: u32) -> Option<SourceLine> {
    let (mut calls, mut own, mut now) = (HashMap::<Location<'_>, Location<'_>>::new(), None, None);
    for written in text.lines().take(line as usize) {
        if written.starts_with('{') {
            (own, now) = (None, None);
            calls.clear();
        }
        let Some((location, call)) = location(written.trim_start()) else { continue };
        match call {
            Some(call) => calls.insert(location, call),
            None => calls.remove(&location),
        };
        own = own.or(Some(location[0]));
        now = Some(location);
    }
    let innermost = now?;
    // A chain of calls cannot be longer than their number.
    let frames = (0..=calls.len()).scan(Some(innermost), |at, _| {
        let frame = (*at)?;
        *at = calls.get(&frame).copied();
        Some(frame)
    });
    let [file, line, _] = frames.into_iter().find(|frame| Some(frame[0]) == own).unwrap_or(innermost);
    Some(SourceLine { file: file_name(text, file)?.to_owned(), line: line.parse().ok().filter(|&line| line > 0)? })
}

/// Reads `.loc 1 20 5, function_name $L__info_string0, inlined_at 1 30 9`: the location, and that of the call.
fn location(directive: &str) -> Option<(Location<'_>, Option<Location<'_>>)> {
    let rest = directive.strip_prefix(".loc").filter(|rest| rest.starts_with(char::is_whitespace))?;
    let (location, call) = match rest.split_once(',') {
        Some((location, call)) => (location, call.split_once("inlined_at").map(|(_, call)| call)),
        None => (rest, None),
    };
    Some((numbers(location)?, call.and_then(numbers)))
}

fn numbers(text: &str) -> Option<Location<'_>> {
    let mut words = text.split_whitespace();
    Some([words.next()?, words.next()?, words.next()?])
}

/// Returns the name of the file with a number, without its folder.
fn file_name<'a>(text: &'a str, number: &str) -> Option<&'a str> {
    let named = |written: &'a str| {
        let rest = written.trim_start().strip_prefix(".file")?;
        let (found, rest) = rest.trim_start().split_once(char::is_whitespace)?;
        let path = rest.split('"').nth(1).filter(|_| found == number)?;
        path.rsplit(['/', '\\']).next()
    };
    text.lines().find_map(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
.visible .entry k(
	.param .u64 k_param_0
)
{
	.local .align 4 .b8 	__local_depot0[28];
	.loc	1 12 0
	mov.u32 %r1, %tid.x;
	.loc	1 14 9
	.loc	2 70 5, function_name $L__info_string0, inlined_at 1 14 9
	.loc	3 8 1, function_name $L__info_string1, inlined_at 2 70 5
	add.u32 %r1, %r1, 1;
	.loc	1 3 20, function_name $L__info_string2, inlined_at 1 14 9
	add.u32 %r1, %r1, 2;
	ret;
}
.entry plain()
{
	ret;
}
	.file	1 "/folder/own.cu"
	.file	2 "/cuda/include/a.hpp"
	.file	3 "/cuda/include/b.hpp"
"#;

    #[test]
    fn a_line_is_that_of_the_innermost_call_in_the_own_file() {
        let line_of = |instruction: &str| {
            let line = TEXT.lines().position(|line| line.contains(instruction)).unwrap() as u32 + 1;
            source_line(TEXT, line).map(|line| line.to_string())
        };
        assert_eq!(line_of("mov.u32"), Some("own.cu:12".to_owned()));
        // It is in a function of a header that one of another header calls.
        assert_eq!(line_of("%r1, 1;"), Some("own.cu:14".to_owned()));
        assert_eq!(line_of("%r1, 2;"), Some("own.cu:3".to_owned()));
        let last = TEXT.lines().position(|line| line.contains(".entry plain")).unwrap() as u32 + 3;
        assert_eq!(source_line(TEXT, last), None);
    }
}
