//! Names that a source gives to types: by `typedef`, `using` and `#define`.

use std::ops::Range;

use indexmap::IndexMap;

use super::host::File;
use super::scan::{ItemKind, Scan};
use super::source::identifier;

/// The most names that stand for each other.
const MAX_DEPTH: usize = 16;

/// The names with what they stand for.
#[derive(Debug, Clone, Default)]
pub(super) struct Aliases(IndexMap<String, Alias>);

#[derive(Debug, Clone)]
struct Alias {
    text: String,
    /// Where the text is.
    span: Range<usize>,
}

impl Aliases {
    /// Finds them. Of several definitions, such as in the branches of an `#if`, the first one counts.
    pub fn of(text: &str, scan: &Scan) -> Self {
        let mut found = Self::default();
        let is_active = |place: usize| scan.is_active(place);
        let defines = scan.directives.iter().filter(|directive| directive.name == "define");
        for directive in defines.filter(|directive| is_active(directive.span.start)) {
            let name = identifier(&directive.rest, 0);
            let value = &directive.rest[name.len()..];
            if value.starts_with(char::is_whitespace) {
                let whole = &text[directive.span.clone()];
                let at = whole.find(value.trim()).map_or(directive.span.end, |at| directive.span.start + at);
                // The value may also be part of the name.
                let at = whole.find(name).map_or(at, |name_at| {
                    let after = name_at + name.len();
                    directive.span.start + after + whole[after..].find(value.trim()).unwrap_or(0)
                });
                found.add(name, value.trim(), at);
            }
        }
        let others = scan.items.iter().filter(|item| item.kind == ItemKind::Other);
        for item in others.filter(|item| is_active(item.span.start)) {
            let declared = &scan.plain[item.span.clone()];
            let first = identifier(declared, 0);
            let end = declared.trim_end_matches(';').trim_end().len();
            if first == "using"
                && let Some(equals) = declared.find('=')
            {
                let value = declared[equals + 1..end].trim();
                let at = item.span.start + equals + 1 + declared[equals + 1..].find(value).unwrap_or(0);
                found.add(&item.name, value, at);
            } else if first == "typedef" && end >= item.name.len() && !declared.contains('(') {
                let value = declared[first.len()..end - item.name.len()].trim();
                let at = item.span.start + first.len() + declared[first.len()..].find(value).unwrap_or(0);
                found.add(&item.name, value, at);
            }
        }
        found
    }

    /// Finds those of several files. The first file counts most.
    pub fn of_all(files: &[File]) -> Self {
        let mut found = Self::default();
        for file in files {
            for (name, alias) in Self::of(&file.text, &file.scan).0 {
                found.0.entry(name).or_insert(alias);
            }
        }
        found
    }

    fn add(&mut self, name: &str, value: &str, at: usize) {
        let is_type = value.chars().all(|c| c.is_ascii_alphanumeric() || c.is_whitespace() || "_*:".contains(c))
            && value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if is_type && !name.is_empty() {
            let alias = Alias { text: value.to_owned(), span: at..at + value.len() };
            self.0.entry(name.to_owned()).or_insert(alias);
        }
    }

    /// Returns the place of what a name stands for.
    pub fn place(&self, name: &str) -> Option<Range<usize>> {
        self.0.get(name).map(|alias| alias.span.clone())
    }

    /// Returns a text in which the names are replaced by what they stand for.
    pub fn resolve(&self, text: &str) -> String {
        let mut resolved = text.to_owned();
        for _ in 0..MAX_DEPTH {
            let next = self.replaced(&resolved);
            if next == resolved {
                break;
            }
            resolved = next;
        }
        resolved
    }

    fn replaced(&self, text: &str) -> String {
        let mut made = String::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let word = identifier(text, at);
            if word.is_empty() {
                let c = text[at..].chars().next().unwrap_or_default();
                made.push(c);
                at += c.len_utf8();
            } else {
                made.push_str(self.0.get(word).map_or(word, |alias| alias.text.as_str()));
                at += word.len();
            }
        }
        made
    }
}
