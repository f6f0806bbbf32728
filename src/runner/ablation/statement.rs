//! Splits PTX into pieces that can be replaced one by one. All pieces together are the text.

/// A piece of PTX.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece<'a> {
    /// What begins the body of a kernel.
    Body(&'a str),
    /// A declaration of registers.
    Registers(&'a str),
    /// An instruction with its semicolon.
    Instruction(Instruction<'a>),
    /// Anything else: blanks, comments, labels, braces and directives.
    Other(&'a str),
}

/// An instruction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Instruction<'a> {
    /// The whole text.
    pub text: &'a str,
    /// The guard, such as `@!%p1`; empty without one.
    pub guard: &'a str,
    /// The opcode with its modifiers.
    pub opcode: &'a str,
    /// The operands. A list in braces is one operand, and so is an address.
    pub operands: Vec<&'a str>,
}

/// What stands before the number of a value of a register, in SSA form. No name in PTX has it.
pub(super) const NUMBERED: char = '#';

/// Directives that end with their line.
const LINE_DIRECTIVES: [&str; 6] = [".version", ".target", ".address_size", ".file", ".loc", ".section"];

/// Instructions without a result.
const NO_RESULT: [&str; 22] = [
    "st",
    "bra",
    "brx",
    "bar",
    "barrier",
    "red",
    "cp",
    "fence",
    "membar",
    "ret",
    "exit",
    "trap",
    "prefetch",
    "prefetchu",
    "stmatrix",
    "setmaxnreg",
    "nanosleep",
    "griddepcontrol",
    "discard",
    "applypriority",
    "brkpt",
    "pmevent",
];

/// Splits PTX.
pub(super) fn pieces(ptx: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut rest, mut is_header) = (Vec::new(), ptx, false);
    while !rest.is_empty() {
        let (length, kind) = next(rest);
        let (text, after) = rest.split_at(length);
        rest = after;
        pieces.push(match kind {
            Kind::Other if is_header && text == "{" => Piece::Body(text),
            Kind::Instruction => Piece::Instruction(instruction(text)),
            Kind::Directive if text.trim_start().starts_with(".reg") => Piece::Registers(text),
            _ => Piece::Other(text),
        });
        is_header = matches!(kind, Kind::Header) || (is_header && text != "{");
    }
    pieces
}

enum Kind {
    Other,
    Directive,
    /// The head of a kernel, up to its body.
    Header,
    Instruction,
}

/// Returns the length of the piece at the start of a text that is not empty, and what it is.
fn next(text: &str) -> (usize, Kind) {
    let up_to = |end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
    let first = text.chars().next().unwrap_or_default();
    if first.is_whitespace() {
        return (text.find(|c: char| !c.is_whitespace()).unwrap_or(text.len()), Kind::Other);
    }
    match first {
        '/' if text.starts_with("//") => (up_to("\n"), Kind::Other),
        '/' if text.starts_with("/*") => (up_to("*/"), Kind::Other),
        '{' | '}' | ';' => (1, Kind::Other),
        '.' => directive(text),
        _ => match label(text) {
            Some(length) => (length, Kind::Other),
            None => (up_to(";"), Kind::Instruction),
        },
    }
}

fn directive(text: &str) -> (usize, Kind) {
    let first = text.split_whitespace().next().unwrap_or_default();
    if LINE_DIRECTIVES.contains(&first) {
        return (text.find('\n').unwrap_or(text.len()), Kind::Other);
    }
    // A list of initial values has braces, too, but its declaration ends with a semicolon.
    let end = text.find([';', '{', '=']).unwrap_or(text.len());
    let is_function = text[..end].split_whitespace().any(|word| matches!(word, ".entry" | ".func"));
    match (is_function, text[end..].starts_with('{')) {
        (true, true) => (end, if text[..end].contains(".entry") { Kind::Header } else { Kind::Other }),
        // The qualifiers of a kernel stand on lines of their own, such as `.maxntid 128`.
        (false, true) => (end, Kind::Header),
        _ => (text.find(';').map_or(text.len(), |at| at + 1), Kind::Directive),
    }
}

/// Returns the length of a label with its colon. The modifiers of an opcode may have two colons.
fn label(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !is_name(c))?;
    (text[end..].starts_with(':') && !text[end..].starts_with("::")).then_some(end + 1)
}

fn instruction(text: &str) -> Instruction<'_> {
    let body = text.trim_end_matches(';').trim();
    let (guard, body) = match body.starts_with('@') {
        true => body.split_once(char::is_whitespace).unwrap_or((body, "")),
        false => ("", body),
    };
    let body = body.trim_start();
    let (opcode, operands) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    Instruction { text, guard, opcode, operands: split(operands) }
}

/// Splits a list at the commas that are in no brackets.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(list[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns whether a character can be part of a name.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | NUMBERED)
}

/// Returns the names in an operand: registers and symbols.
pub(super) fn names(operand: &str) -> impl Iterator<Item = &str> {
    let words = operand.split(|c: char| !is_name(c));
    words.filter(|word| word.starts_with(|c: char| !c.is_ascii_digit()))
}

/// Returns a text in which names have the numbers of their values, if they have any.
pub(super) fn with_numbers(text: &str, number: impl Fn(&str) -> Option<usize>) -> String {
    let (mut numbered, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        // What follows a full stop is a part, as in `%tid.x`.
        let number = if numbered.ends_with('.') { None } else { number(word) };
        let (between, after) = after.split_at(after.find(is_name).unwrap_or(after.len()));
        numbered += word;
        numbered += &number.map(|number| format!("{NUMBERED}{number}")).unwrap_or_default();
        numbered += between;
        rest = after;
    }
    numbered
}

/// Returns the parts of a list in braces, or the operand itself.
pub(super) fn list(operand: &str) -> Vec<&str> {
    match operand.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        Some(inner) => split(inner),
        None => vec![operand],
    }
}

impl<'a> Piece<'a> {
    /// Returns the text.
    pub fn text(&self) -> &'a str {
        match self {
            Self::Body(text) | Self::Registers(text) | Self::Other(text) => text,
            Self::Instruction(instruction) => instruction.text,
        }
    }

    /// Returns the instruction, if it is one.
    pub fn instruction(&self) -> Option<&Instruction<'a>> {
        match self {
            Self::Instruction(instruction) => Some(instruction),
            _ => None,
        }
    }

    /// Returns the declaration of registers, if it is one.
    pub fn declaration(&self) -> Option<&'a str> {
        match self {
            Self::Registers(text) => Some(text),
            _ => None,
        }
    }
}

impl<'a> Instruction<'a> {
    /// Returns the first part of the opcode.
    pub fn name(&self) -> &'a str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// Returns the operand that receives the result, if it has one.
    pub fn result(&self) -> Option<&'a str> {
        self.operands.first().filter(|_| !NO_RESULT.contains(&self.name())).copied()
    }

    /// Returns whether it joins values of a register, in SSA form. The kernel has no such instruction.
    pub fn is_phi(&self) -> bool {
        self.name() == "phi"
    }

    /// Returns whether it copies to shared memory asynchronously.
    pub fn is_copy_to_shared(&self) -> bool {
        self.copies_to().is_some_and(|space| space != "global")
    }

    /// Returns whether it copies to global memory asynchronously, and adds nothing there.
    pub fn is_copy_to_global(&self) -> bool {
        self.copies_to() == Some("global") && !self.has("reduce")
    }

    /// Returns the space to which it copies asynchronously: the first one in the opcode. None if it is no such copy.
    fn copies_to(&self) -> Option<&'a str> {
        let waits = ["commit_group", "wait_group", "wait_all", "mbarrier", "prefetch"];
        let is_copy = self.name() == "cp" && self.has("async") && !waits.iter().any(|part| self.has(part));
        let mut spaces = self.opcode.split('.').filter(|part| part.starts_with("shared") || *part == "global");
        spaces.next().filter(|_| is_copy)
    }

    /// Returns whether it is a barrier of a block, or of some of its warps.
    pub fn is_block_barrier(&self) -> bool {
        matches!(self.name(), "bar" | "barrier") && !self.has("cluster") && !self.has("warp")
    }

    /// Returns whether the opcode has a modifier.
    pub fn has(&self, modifier: &str) -> bool {
        self.opcode.split('.').skip(1).any(|part| part == modifier)
    }

    /// Returns whether it accesses a state space, such as `shared`, by its opcode.
    pub fn is_in(&self, space: &str) -> bool {
        let mut parts = self.opcode.split('.').skip(1);
        parts.any(|part| part == space || part.split_once("::").is_some_and(|(first, _)| first == space))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 9.0
.target sm_90a // a comment; with a semicolon
.global .align 4 .b8 table[4] = {1, 2, 3, 4};
.visible .entry first(
	.param .u64 first_param_0
)
.maxntid 128, 1, 1
{
	.reg .pred %p<2>;
$L__BB0_2:
	@!%p1 ld.global.v2.u32 {%r1, %r2}, [%rd1+8];
	{ add.f16x2 %r1,%r2,%r3; }
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%r5], %r6;
	ret;
}
";

    #[test]
    fn the_pieces_are_the_text() {
        assert_eq!(pieces(PTX).iter().map(Piece::text).collect::<String>(), PTX);
    }

    #[test]
    fn instructions_have_a_guard_and_operands() {
        let found: Vec<String> = pieces(PTX)
            .iter()
            .filter_map(|piece| match piece {
                Piece::Instruction(Instruction { guard, opcode, operands, .. }) => {
                    Some(format!("{guard}|{opcode}|{}", operands.join("|")))
                }
                Piece::Body(_) => Some("body".to_owned()),
                Piece::Registers(_) => Some("registers".to_owned()),
                Piece::Other(_) => None,
            })
            .collect();
        insta::assert_snapshot!(found.join("\n"), @r"
        body
        registers
        @!%p1|ld.global.v2.u32|{%r1, %r2}|[%rd1+8]
        |add.f16x2|%r1|%r2|%r3
        |mbarrier.try_wait.parity.shared::cta.b64|done|[%r5]|%r6
        |ret|
        ");
        assert_eq!(names("[%rd1+8]").collect::<Vec<_>>(), ["%rd1"]);
        assert_eq!(list("{%r1, %r2}"), ["%r1", "%r2"]);
    }
}
