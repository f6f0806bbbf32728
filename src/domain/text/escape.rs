//! Text that others chose (manifests, kernels, models, programs), made safe for the language that it goes into.
//!
//! There is one function for each language. Each returns a single line, in which a character that would move a cursor or
//! reorder text is replaced. A text that goes to a terminal is escaped as it is printed ([`crate::secrets::escape`]).

use crate::error::{Error, error};
/// Stands for a character that cannot be shown.
const REPLACEMENT: char = '\u{fffd}';

/// Tells whether a character moves a terminal's cursor, ends a line in some language, or reorders text (Unicode, UAX 9).
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Refuses a text that is meant to be one line and is not. The error is one sentence that begins with `what`.
pub fn check_line(what: &str, text: &str) -> Result<(), Error> {
    match text.chars().find(|c| is_unsafe(*c)) {
        None => Ok(()),
        Some('\n' | '\r' | '\u{2028}' | '\u{2029}') => {
            Err(error!("{what} has a line break").hint("write it on one line"))
        }
        Some(c) => Err(error!("{what} has the control character U+{:04X}: remove it", u32::from(c))),
    }
}

/// Returns a text as one line: line ends and tabs become blanks, and other unsafe characters a replacement.
pub fn one_line(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        c if is_unsafe(c) => REPLACEMENT,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Escapes a text for Markdown (CommonMark and its tables): it shows as it is, without markup, HTML or entities.
pub fn markdown(text: &str) -> String {
    let text: Vec<char> = one_line(text.trim()).chars().collect();
    let at = |place: Option<usize>| place.and_then(|place| text.get(place).copied());
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut escaped = String::with_capacity(text.len());
    for (place, c) in text.iter().copied().enumerate() {
        let (before, after) = (at(place.checked_sub(1)), at(Some(place + 1)));
        let is_markup = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '$' => true,
            // Within a word it is no emphasis.
            '_' => !(is_word(before) && is_word(after)),
            '&' => is_word(after) || after == Some('#'),
            // At the beginning of a line these make a heading, a list or a rule.
            '#' | '+' | '-' | '=' => place == 0,
            '.' | ')' if after.is_none_or(|c| c == ' ') => place > 0 && text[..place].iter().all(char::is_ascii_digit),
            _ => false,
        };
        escaped.extend(is_markup.then_some('\\'));
        escaped.push(c);
    }
    escaped
}

/// Returns a text as a code span of Markdown. A `|` gets a backslash, which belongs to tables: elsewhere it shows.
pub fn markdown_code(text: &str) -> String {
    let text = one_line(text).replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Escapes a text for HTML, between tags or in a quoted attribute.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes a text for Python: in a comment, between `"`, or between `"""`. A literal has the value of the text.
pub fn python(text: &str) -> String {
    let shown = |c: char| match c {
        '\\' | '"' => format!("\\{c}"),
        c if is_unsafe(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Escapes a text for C and C++: in a comment of either kind, or between `"`. A literal has the bytes of the text.
pub fn c(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        match (before, c) {
            // As a backslash, it would continue a comment at the end of its line. `??/` is one in older standards.
            (_, '\\') => escaped.push_str("\\134"),
            (_, '"') => escaped.push_str("\\\""),
            ('?', '?') => escaped.push_str("\\?"),
            ('*', '/') => escaped.push_str("\\057"),
            ('/', '*') => escaped.push_str("\\052"),
            (_, c) if is_unsafe(c) => {
                escaped.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\{byte:03o}")));
            }
            (_, c) => escaped.push(c),
        }
        before = c;
    }
    escaped
}

/// Returns a text as one word of a POSIX shell.
pub fn shell(text: &str) -> String {
    let text = one_line(text);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Returns a text as a part of one line of a git message, where it cannot begin a line of its own.
pub fn git(text: &str) -> String {
    one_line(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that end something, begin something or hide something in one of the languages.
    const HOSTILE: [&str; 12] = [
        "\"\"\"; import os; \"\"\"",
        "'''\\",
        "*/ int main; /*/ //*/*",
        "// \\",
        "trigraph ???/",
        "a\nb\r\u{2028}c\u{85}d",
        "</script><script>alert(1)</script>",
        "| [x](javascript:alert(1)) `code` ![y](z) |",
        "$(touch ran); `touch ran` 'x'",
        "\u{202e}reversed\u{1b}[2J\0",
        "&lt;b&#62; _em_ ~~s~~ $x$",
        "- 1. # item",
    ];

    #[test]
    fn markdown_shows_the_text_and_nothing_else() {
        use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_MATH;
        for text in
            HOSTILE.into_iter().chain(["1. x", "12) x", "2.5", "7.", "+ x", "=== x", "a_b_c and x_ _y", "a & b"])
        {
            let shown = one_line(text);
            let mut found = String::new();
            for event in Parser::new_ext(&markdown(text), options) {
                match event {
                    Event::Text(part) => found.push_str(&part),
                    Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph) => {}
                    other => panic!("{text:?} became {other:?}"),
                }
            }
            assert_eq!(found, shown);
            let span = markdown_code(text);
            let code = Parser::new_ext(&span, options).nth(1).unwrap();
            assert_eq!(code, Event::Code(shown.replace('|', "\\|").into()));
            let row = format!("|a|b|\n|---|---|\n|{}|{}|\n", markdown(text), markdown_code(text));
            let cells = Parser::new_ext(&row, options).filter(|event| matches!(event, Event::End(TagEnd::TableCell)));
            assert_eq!(cells.count(), 4, "{row}");
        }
        assert_eq!(markdown("f16_tile is 1.5 - 2 & fast (no. 3)"), "f16_tile is 1.5 - 2 & fast (no. 3)");
    }

    #[test]
    fn comments_do_not_end_early_and_literals_have_the_same_value() {
        for text in HOSTILE {
            let escaped = c(text);
            assert!(!["*/", "/*", "??"].iter().any(|end| escaped.contains(end)), "{escaped}");
            assert!(!escaped.ends_with('\\') && !escaped.contains(is_unsafe), "{escaped}");
            assert!(!escaped.replace("\\\"", "").contains('"'), "{escaped}");
            // Python's escapes are those of JSON.
            let literal = format!("\"{}\"", python(text));
            assert_eq!(serde_json::from_str::<String>(&literal).unwrap(), text);
            assert!(!html(text).contains(['<', '>', '"', '\'']) && !git(text).contains(is_unsafe));
        }
        assert_eq!(c("a\"b\\c\n*/??"), "a\\\"b\\134c\\012*\\057?\\?");
    }

    #[test]
    fn a_shell_takes_each_text_as_one_word() {
        for text in HOSTILE {
            let echo = format!("printf %s {}", shell(text));
            let output = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), one_line(text));
        }
        assert_eq!([shell("a/b-1.toml"), shell("")], ["a/b-1.toml", "''"]);
    }

    #[test]
    fn a_text_that_is_not_one_line_is_refused() {
        assert_eq!(check_line("`about`", "Überraschend schnell."), Ok(()));
        insta::assert_snapshot!(check_line("`about`", "a\nb").unwrap_err(), @"`about` has a line break: write it on one line");
        insta::assert_snapshot!(check_line("`about`", "a\u{202e}b").unwrap_err(), @"`about` has the control character U+202E: remove it");
        insta::assert_snapshot!(check_line("`about`", "a\tb").unwrap_err(), @"`about` has the control character U+0009: remove it");
    }
}
