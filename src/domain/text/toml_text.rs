//! Reads TOML, and reports a mistake in one sentence with its line.

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::escape::{check_line, is_unsafe};
use super::expected::in_words;
use super::names::did_you_mean;
use crate::error::Error;

/// Parses a document. The error is one sentence that begins with `line N:`. For an unknown key, it names the nearest
/// known one.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| Error::new(describe(text, &error)))
}

/// Does the same for a document in which every text must be one line, because it is shown and written elsewhere.
pub fn parse_lines<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let parsed = parse(text)?;
    let document = DeTable::parse(text).map_err(|error| describe(text, &error))?;
    broken_lines(text, document.get_ref()).into_iter().next().map_or(Ok(parsed), |mistake| Err(mistake.into()))
}

/// Returns a sentence for each key and text of a table that is not one line.
pub fn broken_lines(text: &str, table: &DeTable<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in table {
        let mistake = check_line("the key", key.get_ref()).err();
        found.extend(mistake.map(|mistake| at(text, key.span().start, &mistake.to_string())));
        find_broken(text, key.get_ref(), value, &mut found);
    }
    found
}

fn find_broken(text: &str, key: &str, value: &Spanned<DeValue<'_>>, found: &mut Vec<String>) {
    match value.get_ref() {
        DeValue::String(line) => {
            let mistake = check_line(&format!("`{key}`"), line).err();
            found.extend(mistake.map(|mistake| at(text, value.span().start, &mistake.to_string())));
        }
        DeValue::Array(values) => values.iter().for_each(|value| find_broken(text, key, value, found)),
        DeValue::Table(table) => found.extend(broken_lines(text, table)),
        _ => {}
    }
}

/// Describes in one sentence what is wrong with a document or with one of its values.
pub fn describe(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().lines().next().unwrap_or("is malformed").to_owned();
    let hint = unknown_key(&message).map(|(key, known)| did_you_mean(key, known)).unwrap_or_default();
    let message = in_words(&message);
    match error.span() {
        Some(span) => at(text, span.start, &format!("{message}{hint}")),
        None => format!("{message}{hint}"),
    }
}

/// Adds the line of a byte of a document to a message.
pub fn at(text: &str, byte: usize, message: &str) -> String {
    let line = text.as_bytes()[..byte.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("line {line}: {message}")
}

/// Splits a sentence that begins with `line N:` into the line and the rest, as [`at`] puts them together.
pub fn split_line(sentence: &str) -> (Option<usize>, &str) {
    let split = || {
        let (line, rest) = sentence.strip_prefix("line ")?.split_once(": ")?;
        Some((line.parse().ok()?, rest))
    };
    split().map_or((None, sentence), |(line, rest)| (Some(line), rest))
}

/// Returns an error that names the new key, if a document still has a renamed one. `renamed` has pairs of old and new
/// key. The old key of a table entry is written `table.key`.
pub fn renamed_key(text: &str, renamed: &[(&str, &str)]) -> Option<String> {
    let document: toml::Table = toml::from_str(text).ok()?;
    let has = |key: &str| match key.split_once('.') {
        Some((table, key)) => document.get(table).is_some_and(|table| table.get(key).is_some()),
        None => document.contains_key(key),
    };
    let (old, new) = renamed.iter().find(|(old, _)| has(old))?;
    Some(format!("the key `{old}` was renamed to `{new}` in optloop 0.2: change it"))
}

/// Returns a text as one line. Control characters, which a file may hide in a quoted name, become visible.
pub fn one_line(text: String) -> String {
    let shown = |c: char| if is_unsafe(c) { c.escape_default().to_string() } else { c.to_string() };
    if text.contains(is_unsafe) { text.chars().map(shown).collect() } else { text }
}

/// Splits serde's "unknown field `x`, expected one of `a`, `b`" into the key and the known ones.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?;
    let (key, rest) = rest.split_once('`')?;
    Some((key, rest.split('`').skip(1).step_by(2).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        tolerance: f64,
    }

    #[test]
    fn mistakes_carry_their_line_and_the_nearest_key() {
        assert_eq!(parse::<Table>("tolerance = 1.5").unwrap().tolerance, 1.5);
        let error = |text| parse::<Table>(text).unwrap_err();
        insta::assert_snapshot!(error("\n\ntolerence = 1.0"), @"line 3: unknown field `tolerence`, expected `tolerance` (did you mean `tolerance`?)");
        insta::assert_snapshot!(error("tolerance = \"x\""), @r#"line 1: must be a number, but is the text "x""#);
        insta::assert_snapshot!(error("tolerance = "), @"line 1: string values must be quoted, expected literal string");
        insta::assert_snapshot!(error(""), @"line 1: missing field `tolerance`");
    }

    #[test]
    fn a_text_with_a_line_break_or_a_control_character_is_found_wherever_it_stands() {
        let error = |text| parse_lines::<toml::Table>(text).unwrap_err();
        assert!(parse_lines::<toml::Table>("about = 'one line'\nlist = [1, 'é']").is_ok());
        insta::assert_snapshot!(error("a = 1\nabout = \"x\\ny\""), @"line 2: `about` has a line break: write it on one line");
        insta::assert_snapshot!(error("[[case]]\nlist = [{ why = '''\nx\ny''' }]"), @"line 2: `why` has a line break: write it on one line");
        insta::assert_snapshot!(error("[params]\n\"a\\u001b\" = 1"), @"line 2: the key has the control character U+001B: remove it");
    }
}
