//! What a value must be that has another type or range, in words: the sentences of serde are for programmers.

/// Rewrites "invalid type: string "x", expected u32", or the same of a value, as "must be a whole number from 0, but is the text
/// "x"". Other messages stay as they are. What follows the type, such as its line, is kept.
pub fn in_words(message: &str) -> String {
    rewritten(message).unwrap_or_else(|| message.to_owned())
}

fn rewritten(message: &str) -> Option<String> {
    let (of_type, of_value) = (message.find("invalid type: "), message.find("invalid value: "));
    let place = of_type.or(of_value)?;
    let (before, rest) = message.split_at(place);
    let (_, rest) = rest.split_once(": ")?;
    // A text may hold the word, too, so the last one counts.
    let (found, rest) = rest.rsplit_once(", expected ")?;
    let (wanted, at) = match rest.find(" at line ") {
        Some(place) => rest.split_at(place),
        None => (rest, ""),
    };
    let wanted = if of_type.is_none() { range_of(wanted) } else { None }.unwrap_or_else(|| type_of(wanted));
    Some(format!("{before}must be {wanted}, but is {}{at}", value_of(found)))
}

/// Returns what whole numbers a type holds.
fn range_of(wanted: &str) -> Option<String> {
    let bits: u32 = wanted.get(1..)?.replace("size", "64").parse().ok()?;
    match wanted.as_bytes()[0] {
        b'u' => Some(format!("a whole number from 0 to 2^{bits} - 1")),
        b'i' => Some(format!("a whole number from -2^{0} to 2^{0} - 1", bits - 1)),
        _ => None,
    }
}

/// Returns what a type is for those who write its values.
fn type_of(wanted: &str) -> String {
    let words = match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "str" | "string" | "a borrowed string" => "a text",
        "a boolean" | "bool" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        "option" | "unit" => "nothing",
        _ if wanted.starts_with("a nonzero u") => "a whole number from 1",
        _ if wanted.starts_with("struct ") || wanted.starts_with("internally tagged enum") => "a table",
        _ if wanted.starts_with("enum ") => "a name",
        other => return other.to_owned(),
    };
    words.to_owned()
}

/// Returns what was found.
fn value_of(found: &str) -> String {
    let bare = |text: &str| text.trim_matches('`').to_owned();
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        "null" | "unit value" | "Option value" => "nothing".to_owned(),
        _ => match found.split_once(' ') {
            Some(("string", text)) => format!("the text {text}"),
            Some(("integer" | "boolean", number)) => bare(number),
            Some(("floating", number)) => bare(number.trim_start_matches("point ")),
            _ => found.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_type_is_told_in_words_and_other_messages_stay() {
        for (said, words) in [
            (
                r#"invalid type: string "x, expected y", expected u32"#,
                r#"must be a whole number from 0, but is the text "x, expected y""#,
            ),
            ("line 3: invalid type: floating point `1.5`, expected i64", "line 3: must be a whole number, but is 1.5"),
            (
                "invalid value: integer `-1`, expected u64 at line 1 column 9",
                "must be a whole number from 0 to 2^64 - 1, but is -1 at line 1 column 9",
            ),
            ("invalid type: sequence, expected struct Wanted", "must be a table, but is a list"),
            ("invalid type: null, expected a string", "must be a text, but is nothing"),
            ("missing field `x`", "missing field `x`"),
        ] {
            assert_eq!(in_words(said), words);
        }
    }
}
