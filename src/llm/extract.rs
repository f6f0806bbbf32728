//! Finds the JSON object in a model's text.

use serde_json::Value;

/// The most beginnings of an object that are tried. An answer has one, and some braces in its prose.
const MAX_TRIES: usize = 1000;

/// Returns the longest JSON object of a text, which may stand in prose or in a code fence. An object within one that is
/// broken or cut off does not count, because it is not the requested one. The time is linear in the text.
pub(super) fn json_object(text: &str) -> Option<Value> {
    let mut best: Option<(usize, Value)> = None;
    let mut at = 0;
    for _ in 0..MAX_TRIES {
        let Some(found) = text[at..].find('{') else { break };
        at += found;
        let rest = &text[at..];
        // Other braces, such as those in code.
        if !rest[1..].trim_start().starts_with(['"', '}']) {
            at += 1;
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let length = values.byte_offset();
                if best.as_ref().is_none_or(|(longest, _)| length > *longest) {
                    best = Some((length, value));
                }
                at += length;
            }
            Some(Err(error)) if !error.is_eof() => at += position(rest, error.line(), error.column()),
            _ => break,
        }
    }
    best.map(|(_, value)| value)
}

/// Returns the index after a place that a parser names by line and column (in bytes), both from 1.
fn position(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut at = (before + column).clamp(1, text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(text: &str) -> Value {
        json_object(text).unwrap_or(Value::Null)
    }

    #[test]
    fn an_object_is_found_in_prose_and_fences() {
        for text in [
            "{\"a\": [1, {\"b\": 2}]}",
            "Here it is:\n```json\n{\"a\": [1, {\"b\": 2}]}\n```\nI hope that {it} helps.",
            "Like {\"x\": 1}, but {code; } {\"a\": [1, {\"b\": 2}]} {}",
            "{\"wrong\": {\"b\": 2} oops}\u{fc} {\"a\": [1, {\"b\": 2}]}",
        ] {
            assert_eq!(found(text), json!({ "a": [1, { "b": 2 }] }), "{text}");
        }
    }

    #[test]
    fn part_of_a_broken_object_is_not_an_answer() {
        for text in [
            "",
            "no",
            "[1]",
            "{\"a\": {\"b\": 2}",
            "{\"a\": [{\"b\": 2}, ",
            "{",
            "{\"a\": {\"b\": 1}, oops}",
            "{\"a\": \u{1}\u{fc}",
        ] {
            assert_eq!(json_object(text), None, "{text}");
        }
    }

    #[test]
    fn hostile_text_takes_no_time() {
        let nested = "{\"a\":".repeat(200_000);
        assert_eq!(json_object(&nested), None);
        assert_eq!(json_object(&"{".repeat(1_000_000)), None);
        assert_eq!(json_object(&"{\"a\" ".repeat(200_000)), None);
    }
}
