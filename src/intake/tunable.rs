//! Finds numbers in a source that could have other values.

use std::ops::Range;

use super::scan::{ItemKind, Scan};
use super::source::{closing, identifier, line_of, split, words};
use crate::domain::text::escape::is_unsafe;
use crate::domain::text::names::is_identifier;

/// A number that could have another value.
#[derive(Debug, Clone, PartialEq)]
pub struct Tunable {
    /// The name of the parameter that it becomes.
    pub name: String,
    /// How the source gives it.
    pub place: Place,
    /// Its value in the source.
    pub value: i64,
    /// The bytes of the number.
    pub span: Range<usize>,
    /// Its line.
    pub line: usize,
    /// The comment behind it, if there is one.
    pub comment: Option<String>,
    /// Whether the kernel may use it.
    pub is_used: bool,
}

/// How a source gives a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `#define NAME 16`
    Define,
    /// `constexpr int NAME = 16;`
    Constant,
    /// `#pragma unroll 4`
    Unroll,
    /// The blocks of `__launch_bounds__(256, 2)`
    LaunchBounds,
    /// A parameter of an imported file
    Imported,
    /// A number of one of the source's own headers
    Header,
    /// A number of the launch, which the source does not have
    Launch,
}

impl Tunable {
    /// Makes a number of the launch, which the source does not have.
    pub(super) fn of_launch(name: &str, value: i64) -> Self {
        Self { name: name.to_owned(), place: Place::Launch, value, span: 0..0, line: 0, comment: None, is_used: true }
    }

    /// Says in words where the source has it.
    pub fn origin(&self) -> String {
        match self.place {
            Place::Imported | Place::Header | Place::Launch => self.place.words().to_owned(),
            place => format!("{} in line {}", place.words(), self.line),
        }
    }

    /// Counts lines from a later one. What is before that was imported, or comes from a header.
    pub(super) fn move_up(&mut self, lines: usize, of_headers: &[String]) {
        match self.line.checked_sub(lines) {
            None | Some(0) if of_headers.contains(&self.name) => self.place = Place::Header,
            None | Some(0) => self.place = Place::Imported,
            Some(line) => self.line = line,
        }
    }
}

impl Place {
    /// Returns it in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Define => "a #define",
            Self::Constant => "a constant",
            Self::Unroll => "an unroll factor",
            Self::LaunchBounds => "the blocks of launch bounds",
            Self::Imported => "a parameter of the imported file",
            Self::Header => "a number of a header",
            Self::Launch => "a number of the launch",
        }
    }
}

/// Finds all of them. `code` is the text without comments.
pub(super) fn find(text: &str, code: &str) -> Vec<Tunable> {
    let scan = Scan::of(text);
    let is_outside = |at: usize| scan.is_complete && scan.item_at(at).is_some_and(|item| item.kind == ItemKind::Other);
    let mut found: Vec<Tunable> = Vec::new();
    let mut from = 0;
    for line in code.split_inclusive('\n') {
        for (name, place, span) in in_line(code, line, from, &is_outside) {
            let number = line_of(code, span.start);
            let name = if name.is_empty() { format!("UNROLL_{number}") } else { name };
            // A second definition, such as in the other branch of an #if, would need another name.
            let is_new = found.iter().all(|other| other.name != name);
            if let (true, true, Ok(value)) = (is_identifier(&name), is_new, code[span.clone()].parse()) {
                let comment = comment(&text[span.end..from + line.len()]);
                found.push(Tunable { name, place, value, span, line: number, comment, is_used: true });
            }
        }
        from += line.len();
    }
    found
}

/// A number that is found: its name (none for an unroll factor), how the source gives it, and its bytes.
type Found = (String, Place, Range<usize>);

/// Finds the numbers of a line: of a directive one, of statements one each.
fn in_line(code: &str, line: &str, from: usize, is_outside: &dyn Fn(usize) -> bool) -> Vec<Found> {
    if line.trim_start().starts_with('#') {
        return in_directive(code, line, from).into_iter().collect();
    }
    let mut found: Vec<Found> = launch_bounds(code, line, from).into_iter().collect();
    let mut at = from;
    for statement in line.split_inclusive(';') {
        found.extend(in_statement(
            code,
            statement,
            at,
            is_outside(at + statement.len() - statement.trim_start().len()),
        ));
        at += statement.len();
    }
    found
}

/// Finds the blocks of launch bounds, if they are a number.
fn launch_bounds(code: &str, line: &str, from: usize) -> Option<Found> {
    let at = from + words(line, "__launch_bounds__").next()?;
    let open = at + code[at..].find('(')?;
    let close = closing(code, open)? - 1;
    let [_, blocks] = split(&code[open + 1..close])[..] else { return None };
    let start = open + code[open..close].rfind(blocks)?;
    let is_number = !blocks.is_empty() && blocks.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| ("MIN_BLOCKS".to_owned(), Place::LaunchBounds, start..start + blocks.len()))
}

fn in_directive(code: &str, line: &str, from: usize) -> Option<Found> {
    let begin = from + line.len() - line.trim_start().len();
    let rest = line.trim_start();
    let after = rest.strip_prefix('#')?.trim_start();
    let at = begin + rest.len() - after.len();
    if let Some(defined) = after.strip_prefix("define ") {
        let name_at = at + "define ".len() + defined.len() - defined.trim_start().len();
        let name = identifier(code, name_at);
        let value = number(code, name_at + name.len(), from + line.len())?;
        return Some((name.to_owned(), Place::Define, value));
    }
    let words: Vec<&str> = after.split_whitespace().collect();
    let ["pragma", "unroll", ..] = words[..] else { return None };
    let value_at = at + after.find("unroll")? + "unroll".len();
    Some((String::new(), Place::Unroll, number(code, value_at, from + line.len())?))
}

/// Finds the constants of a statement. `is_outside` tells whether it is in no function, where `const` alone makes a constant.
fn in_statement(code: &str, line: &str, from: usize, is_outside: bool) -> Vec<Found> {
    let Some((declared, _)) = line.split_once('=') else { return Vec::new() };
    let words: Vec<&str> = declared.split_whitespace().collect();
    let Some((name, kind)) = words.split_last() else { return Vec::new() };
    let is_integer = kind.iter().any(|word| ["int", "unsigned", "size_t", "bool"].contains(word));
    let is_lasting = kind.contains(&"static") || is_outside;
    let is_constant = kind.contains(&"constexpr") || (kind.contains(&"const") && is_lasting);
    let is_plain = kind.iter().all(|word| {
        ["static", "constexpr", "const", "int", "unsigned", "inline", "__device__", "size_t", "bool"].contains(word)
    });
    if !(is_integer && is_constant && is_plain) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let (mut name, mut at) = (*name, from + declared.len() + 1);
    let end = from + line.len();
    loop {
        // More names may follow: `const int rows = 64, columns = 64;`.
        let until = code[at..end].find(',').map_or(end, |comma| at + comma);
        found.extend(number(code, at, until).map(|value| (name.to_owned(), Place::Constant, value)));
        let Some((next, _)) = code.get(until + 1..end).and_then(|rest| rest.split_once('=')) else { return found };
        name = next.trim();
        at = until + 1 + next.len() + 1;
    }
}

/// Returns the place of a number that is followed by nothing but the end of the statement or line.
fn number(code: &str, at: usize, line_end: usize) -> Option<Range<usize>> {
    let rest = code.get(at..line_end)?;
    let trimmed = rest.trim_start().trim_start_matches('(');
    let start = at + rest.len() - trimmed.len();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let after = trimmed[digits..].trim_end().trim_start_matches(['u', 'U']).trim_start_matches(')').trim();
    (digits > 0 && (after.is_empty() || after.starts_with(';'))).then_some(start..start + digits)
}

fn comment(rest: &str) -> Option<String> {
    let (_, comment) = rest.split_once("//")?;
    let comment = comment.trim().trim_end_matches('.');
    (!comment.is_empty()).then(|| comment.chars().filter(|c| !is_unsafe(*c)).take(200).collect())
}
