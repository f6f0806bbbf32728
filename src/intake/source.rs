//! The text of a CUDA source, without what a search should not find.

/// Replaces comments, and the contents of strings and character literals, by blanks. Lines and columns stay.
pub(super) fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'/')) => line_end(bytes, at),
            (b'/', Some(b'*')) => find(bytes, at + 2, b"*/").map_or(bytes.len(), |end| end + 2),
            (quote @ (b'"' | b'\''), _) if !is_digit_separator(bytes, at) => literal_end(bytes, at, quote),
            _ => {
                at += 1;
                continue;
            }
        };
        // `extern "C"` must stay.
        if &bytes[at..end] != b"\"C\"" {
            code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        at = end;
    }
    // Only whole characters were replaced: comments and literals end at ASCII.
    String::from_utf8_lossy(&code).into_owned()
}

/// Tells whether a quote separates the digits of a number, as in `1'000`.
fn is_digit_separator(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b'\'' && at > 0 && bytes[at - 1].is_ascii_alphanumeric()
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| from + length)
}

fn find(bytes: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    bytes.get(from..)?.windows(wanted.len()).position(|window| window == wanted).map(|length| from + length)
}

fn literal_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != b'\n' {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

/// Returns the number of the line that a byte is in, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the line of a `main` function or of a launch, if there is one.
pub(super) fn host_code(code: &str) -> Option<usize> {
    let is_function = |at: &usize| code[at + "main".len()..].trim_start().starts_with('(');
    let main = words(code, "main").find(is_function);
    main.into_iter().chain(code.find("<<<")).min().map(|at| line_of(code, at))
}

/// Returns the identifier that begins at a byte.
pub(super) fn identifier(code: &str, at: usize) -> &str {
    let rest = &code[at..];
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    &rest[..end]
}

/// Returns where the identifier begins with which a text ends: its length if there is none.
pub(super) fn last_word_at(text: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map_or(text.len(), |(at, _)| at)
}

/// Returns the places where a word stands by itself.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = code.as_bytes();
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before))) && !is_part(bytes.get(at + word.len()))
    })
}

/// Returns the place after the bracket that closes the one at a byte.
pub(super) fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits a text at the commas that are in no brackets.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}
