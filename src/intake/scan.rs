//! One pass over the tokens of a source: its directives, and its functions, types and variables.

use std::ops::Range;

use super::source::{closing, identifier, last_word_at, without_comments, words};

/// What a source consists of. All places are bytes of its text.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    /// The text without comments, literals and directives, which are blanks.
    pub plain: String,
    /// Its directives.
    pub directives: Vec<Directive>,
    /// Its items, in order: those at file scope, in namespaces and in `extern "C"`.
    pub items: Vec<Item>,
    /// The braces of namespaces without a name, with the word before the first one.
    pub unnamed: Vec<(Range<usize>, usize)>,
    /// The places that no compilation reads: branches of conditions that are known to be false.
    pub inactive: Vec<Range<usize>>,
    /// Whether every bracket is closed. Where one is not, items may be missing.
    pub is_complete: bool,
}

/// A preprocessor directive.
#[derive(Debug, Clone)]
pub(super) struct Directive {
    /// Its lines, without the last line's end.
    pub span: Range<usize>,
    /// Its name, such as `include`.
    pub name: String,
    /// What follows the name.
    pub rest: String,
}

/// A function, a type, or another declaration.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// From its first word to its `;` or `}`.
    pub span: Range<usize>,
    /// Where its body begins, or its end.
    pub head_end: usize,
    /// What it is.
    pub kind: ItemKind,
    /// Its name. Empty if it has none.
    pub name: String,
}

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// A function, with a body or without.
    Function,
    /// A type.
    Type,
    /// A variable, an alias, or anything else.
    Other,
}

/// What is written like a call in front of a name, and is none.
const ATTRIBUTES: [&str; 12] = [
    "__launch_bounds__",
    "__cluster_dims__",
    "__maxnreg__",
    "__block_size__",
    "__align__",
    "alignas",
    "__attribute__",
    "__declspec",
    "decltype",
    "explicit",
    "noexcept",
    "requires",
];

/// Words that may follow the parameters of a function.
const AFTER_PARAMETERS: [&str; 8] =
    ["const", "noexcept", "override", "final", "volatile", "requires", "try", "__attribute__"];

impl Scan {
    /// Scans a text.
    pub fn of(text: &str) -> Self {
        Self::after(text, &[])
    }

    /// Returns the names of the macros that it defines.
    pub fn defined(&self) -> Vec<&str> {
        let defines = self.directives.iter().filter(|directive| directive.name == "define");
        defines.map(|directive| identifier(&directive.rest, 0)).collect()
    }

    /// Tells whether it defines a macro or a variable of that name.
    pub fn defines(&self, name: &str) -> bool {
        let is_variable = |item: &Item| item.kind == ItemKind::Other && item.name == name;
        self.defined().contains(&name) || self.items.iter().any(is_variable)
    }

    /// Scans a text that others include, which have defined macros.
    pub fn after(text: &str, defined: &[&str]) -> Self {
        let mut plain = without_comments(text);
        let directives = directives(text, &plain);
        let mut bytes = std::mem::take(&mut plain).into_bytes();
        for Directive { span, .. } in &directives {
            bytes[span.clone()].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        // Whole lines of the text were replaced.
        let plain = String::from_utf8_lossy(&bytes).into_owned();
        let inactive = inactive(&directives, defined, plain.len());
        let mut scan = Self { plain, directives, items: Vec::new(), unnamed: Vec::new(), inactive, is_complete: true };
        let end = scan.plain.len();
        scan.read(0, end);
        scan
    }

    /// Tells whether a place is in a branch that may be read.
    pub fn is_active(&self, place: usize) -> bool {
        !self.inactive.iter().any(|span| span.contains(&place))
    }

    /// Returns the item that a place is in.
    pub fn item_at(&self, place: usize) -> Option<&Item> {
        self.items.iter().find(|item| item.span.contains(&place))
    }

    fn read(&mut self, from: usize, to: usize) {
        let mut at = from;
        while let Some(start) = next_word(&self.plain, at, to) {
            let Some(end) = self.item(start, to) else {
                self.is_complete = false;
                return;
            };
            at = end;
        }
    }

    /// Reads the item that begins at a place, and returns where it ends. None if a bracket is not closed.
    fn item(&mut self, start: usize, to: usize) -> Option<usize> {
        let bytes = self.plain.as_bytes();
        let mut at = start;
        while at < to {
            match bytes[at] {
                b'(' | b'[' => {
                    let close = closing(&self.plain, at)?;
                    if self.is_macro(start, at, close) {
                        let name = self.plain[start..at].trim().to_owned();
                        self.items.push(Item { span: start..close, head_end: close, kind: ItemKind::Other, name });
                        return Some(close);
                    }
                    at = close;
                }
                b'{' => {
                    let close = closing(&self.plain, at)?;
                    let head = self.plain[start..at].trim_end();
                    if is_block(head) {
                        if head.trim_start_matches("inline").trim() == "namespace" {
                            self.unnamed.push((start..at + 1, close - 1));
                        }
                        self.read(at + 1, close - 1);
                        return Some(close);
                    }
                    if function_name(head).is_some() {
                        self.push(start..close, at);
                        return Some(close);
                    }
                    at = close;
                }
                b';' => {
                    self.push(start..at + 1, at);
                    return Some(at + 1);
                }
                b'}' | b')' | b']' => return None,
                _ => at += 1,
            }
        }
        self.push(start..to, to);
        Some(to)
    }

    /// Tells whether the brackets from `open` to `close` are those of a macro that stands for itself, in front of an item.
    fn is_macro(&self, start: usize, open: usize, close: usize) -> bool {
        let before = self.plain[start..open].trim();
        let is_alone = !before.is_empty() && before.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let after = self.plain[close..].trim_start();
        let word = identifier(after, 0);
        is_alone && !word.is_empty() && !ATTRIBUTES.contains(&before) && !AFTER_PARAMETERS.contains(&word)
    }

    fn push(&mut self, span: Range<usize>, mut head_end: usize) {
        let text = &self.plain[span.clone()];
        // Before the members of a type, or a list of values.
        let head = self.plain[span.start..head_end].split('{').next().unwrap_or_default().trim_end();
        let (kind, name) = match (function_name(head), type_name(text)) {
            (Some(name), _) => (ItemKind::Function, name.to_owned()),
            (None, Some(name)) => {
                head_end = span.start + text.find('{').unwrap_or(text.len());
                (ItemKind::Type, name.to_owned())
            }
            (None, None) => (ItemKind::Other, variable_name(text).to_owned()),
        };
        self.items.push(Item { span, head_end, kind, name });
    }
}

/// Finds the branches of conditions on macros that are known to be false: `#ifdef` and `defined` of names that the text does not
/// define, and `#if 0`.
fn inactive(directives: &[Directive], defined: &[&str], end: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut defined: Vec<&str> = defined.to_vec();
    // For each open condition: where its branch begins, whether that is read, and whether an earlier branch surely was.
    let mut open: Vec<(usize, Option<bool>, Option<bool>)> = Vec::new();
    for directive in directives {
        let is = |word: &str| directive.name == word;
        if is("define") {
            defined.push(identifier(&directive.rest, 0));
            continue;
        }
        if is("elif") || is("else") || is("endif") {
            let Some((from, value, before)) = open.pop() else { continue };
            if value == Some(false) {
                found.push(from..directive.span.start);
            }
            // Some(true) once a branch was read, None if one may have been.
            let taken = match (before, value) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (None, _) | (_, None) => None,
                _ => Some(false),
            };
            if !is("endif") {
                let own = if is("else") { Some(true) } else { condition(&directive.rest, &defined) };
                let value = match taken {
                    Some(true) => Some(false),
                    Some(false) => own,
                    None => own.filter(|own| !own),
                };
                open.push((directive.span.end, value, taken));
            }
        } else if is("if") || is("ifdef") || is("ifndef") {
            let name = identifier(&directive.rest, 0);
            let value = match directive.name.as_str() {
                "ifdef" => is_defined(name, &defined),
                "ifndef" => is_defined(name, &defined).map(|defined| !defined),
                _ => condition(&directive.rest, &defined),
            };
            open.push((directive.span.end, value, Some(false)));
        }
    }
    found.extend(open.into_iter().filter(|(_, value, _)| *value == Some(false)).map(|(from, ..)| from..end));
    found
}

/// Returns the value of a condition, if it is known.
fn condition(text: &str, defined: &[&str]) -> Option<bool> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('!') {
        return condition(rest, defined).map(|value| !value);
    }
    match text.strip_prefix("defined") {
        Some(rest) => {
            let name = rest.trim().trim_start_matches('(').trim_end_matches(')').trim();
            (identifier(name, 0) == name).then(|| is_defined(name, defined)).flatten()
        }
        None => text.parse::<i64>().ok().map(|value| value != 0),
    }
}

/// Tells whether a macro is defined. Names with underscores may be the compiler's.
fn is_defined(name: &str, defined: &[&str]) -> Option<bool> {
    match defined.contains(&name) {
        true => Some(true),
        false => (!name.starts_with("__")).then_some(false),
    }
}

/// Finds the directives of a text. `code` is the text without comments.
fn directives(text: &str, code: &str) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut lines = text.split_inclusive('\n').zip(code.split_inclusive('\n'));
    let mut at = 0;
    while let Some((line, plain)) = lines.next() {
        let start = at;
        at += line.len();
        if !plain.trim_start().starts_with('#') {
            continue;
        }
        let mut last = line;
        while last.trim_end_matches(['\n', '\r']).ends_with('\\') {
            let Some((next, _)) = lines.next() else { break };
            at += next.len();
            last = next;
        }
        let end = start + text[start..at].trim_end_matches(['\n', '\r']).len();
        // A file's name is a literal, which the code does not have.
        let rest = text[start..end].trim_start().trim_start_matches('#').trim_start();
        let name = identifier(rest, 0);
        let is_include = name == "include";
        let rest =
            if is_include { &rest[name.len()..] } else { code[start..end].split_once(name).map_or("", |(_, it)| it) };
        found.push(Directive { span: start..end, name: name.to_owned(), rest: rest.trim().to_owned() });
    }
    found
}

/// Returns where the next item begins.
fn next_word(plain: &str, from: usize, to: usize) -> Option<usize> {
    let is_between = |c: char| c.is_whitespace() || c == ';';
    let at = from + plain[from..to].find(|c: char| !is_between(c))?;
    Some(at)
}

/// Tells whether braces after this text contain items: a namespace, or `extern "C"`.
fn is_block(head: &str) -> bool {
    let is_namespace = words(head, "namespace").next().is_some() && !head.contains(['(', '=']);
    is_namespace || head.starts_with("extern") && head.ends_with("\"C\"")
}

/// Returns the name of the function that a declaration declares: the word before its parameters.
pub(super) fn function_name(head: &str) -> Option<&str> {
    let first = identifier(head, 0);
    if ["typedef", "using", "static_assert", "asm", "friend"].contains(&first) {
        return None;
    }
    let bytes = head.as_bytes();
    let (mut at, mut angles) = (0, 0_usize);
    while at < head.len() {
        match bytes[at] {
            b'<' if head[..at].trim_end().ends_with("template") => angles += 1,
            b'<' if angles > 0 => angles += 1,
            b'>' if angles > 0 => angles -= 1,
            b'(' if angles > 0 => {
                at = closing(head, at)?;
                continue;
            }
            b'=' if angles == 0 && !head[..at].contains("operator") => return None,
            b'(' if angles == 0 => {
                let before = head[..at].trim_end();
                if let Some((_, operator)) = before.rsplit_once("operator")
                    && !operator.bytes().any(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                {
                    return Some("operator");
                }
                // The arguments of a specialization.
                let before = if before.ends_with('>') { before.split('<').next()?.trim_end() } else { before };
                let name_at = last_word_at(before);
                let name = &before[name_at..];
                if name.is_empty() {
                    return None;
                }
                if !ATTRIBUTES.contains(&name) {
                    return Some(name);
                }
                at = closing(head, at)?;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the name of the type that a declaration defines.
fn type_name(text: &str) -> Option<&str> {
    let head = text.split('{').next()?;
    let keyword = ["struct", "class", "union", "enum"];
    let mut rest = head.trim_start();
    if rest.starts_with("template") {
        rest = rest[after_angles(rest)?..].trim_start();
    }
    if rest.starts_with("typedef") {
        rest = rest["typedef".len()..].trim_start();
    }
    let first = identifier(rest, 0);
    if !keyword.contains(&first) || !text.contains('{') {
        return None;
    }
    let mut at = first.len();
    loop {
        let Some(found) = rest[at..].find(|c: char| c.is_ascii_alphabetic() || c == '_') else {
            // It has a name behind its members only.
            let behind = text.rsplit_once('}')?.1;
            return behind.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).find(|word| !word.is_empty());
        };
        at += found;
        let word = identifier(rest, at);
        let after = at + word.len();
        if ATTRIBUTES.contains(&word) && rest[after..].trim_start().starts_with('(') {
            at = closing(rest, after + rest[after..].find('(')?)?;
        } else if keyword.contains(&word) {
            at = after;
        } else {
            return Some(word);
        }
    }
}

/// Returns the place behind the first pair of angle brackets.
pub(super) fn after_angles(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        match text.as_bytes()[at] {
            b'<' => depth += 1,
            b'>' if depth == 1 => return Some(at + 1),
            b'>' => depth = depth.checked_sub(1)?,
            b'(' => {
                at = closing(text, at)?;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the name that a declaration of something else ends with, before its extents or value. Empty if there is none.
fn variable_name(text: &str) -> &str {
    let declared = text.split(['=', '[', ';', '{']).next().unwrap_or_default().trim_end();
    let at = last_word_at(declared);
    &declared[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_with_their_names() {
        let text = "#include <cstdio>\n#define TWO(x) \\\n  ((x) * 2)\nnamespace { namespace b {\n\
                    template <typename T, int N = (1 < 2)> __device__ T twice(const T& x) { return TWO(x); }\n}}\n\
                    extern \"C\" {\nvoid __global__\n#if 1\n__launch_bounds__(32, 1)\n#endif\nk(float *y) { if (1) { y[0] = 1; } }\n}\n\
                    struct __align__(16) Pair { float a; __device__ float sum() { return a; } };\n\
                    __constant__ float filter[3 * 3];\nusing real = float;\ntypedef float4 quad;\nstatic const int N = 4;\n\
                    TORCH_LIBRARY(x, m) { m.def(); }\nDISPATCH(float)\nstd::vector<int> list() { return {}; }\n\
                    template <> struct Traits<float> { int x; };\nbool operator<(Pair a, Pair b) { return true; }\nint main(int argc, char** argv);";
        let scan = Scan::of(text);
        let shown: Vec<String> = scan.items.iter().map(|item| format!("{:?} {}", item.kind, item.name)).collect();
        assert!(scan.is_complete);
        insta::assert_snapshot!(shown.join("\n"), @r"
        Function twice
        Function k
        Type Pair
        Other filter
        Other real
        Other quad
        Other N
        Function TORCH_LIBRARY
        Other DISPATCH
        Function list
        Type Traits
        Function operator
        Function main
        ");
        assert_eq!(scan.unnamed.len(), 1);
        assert_eq!(
            scan.directives.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
            ["include", "define", "if", "endif"]
        );
        assert!(!Scan::of("void f() { if (x) {").is_complete);
    }
}
