//! Finds the directives of a source as a preprocessor would: with continued lines joined, without comments, and not in
//! strings.

use crate::error::{Error, Result, error};

/// A preprocessor directive.
#[derive(Debug, PartialEq, Eq)]
pub struct Directive {
    /// Line on which it begins, counted from 1.
    pub line: usize,
    /// The word after the `#`; empty if there is none.
    pub name: String,
    /// The rest of the line, without comments.
    pub rest: String,
}

/// A source and the position reached in it.
pub struct Scanner<'a> {
    source: &'a [u8],
    at: usize,
    line: usize,
    /// Whether a directive may begin here: the line has only had space so far, or a comment from an earlier line ended
    /// on it.
    fresh: bool,
}

impl<'a> Scanner<'a> {
    /// Returns a scanner at the first line.
    pub fn new(source: &'a str) -> Self {
        Self { source: source.as_bytes(), at: 0, line: 1, fresh: true }
    }

    /// Returns the next directive. Calls `word` with every identifier and its line, also for those in directives.
    pub fn next_directive(&mut self, mut word: impl FnMut(usize, &str) -> Result<()>) -> Result<Option<Directive>> {
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.bump();
                    self.fresh = true;
                }
                b' ' | b'\t' => self.bump(),
                b'/' if self.skip_comment()? => {}
                b'#' if self.fresh => {
                    self.bump();
                    return self.directive(&mut word).map(Some);
                }
                b'%' if self.fresh && self.peek_second() == Some(b':') => {
                    self.bump();
                    self.bump();
                    return self.directive(&mut word).map(Some);
                }
                _ => {
                    let (fresh, line) = (self.fresh, self.line);
                    let token = self.token(&mut word)?;
                    // `import <header>;` of a C++ module is only recognized where a directive could begin.
                    if fresh && token == "import" {
                        return Ok(Some(Directive { line, name: token, rest: String::new() }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Reads a directive from after its `#` to the end of its line.
    fn directive(&mut self, word: &mut impl FnMut(usize, &str) -> Result<()>) -> Result<Directive> {
        let line = self.line;
        self.skip_space()?;
        let name = if self.peek().is_some_and(is_word) { self.word() } else { String::new() };
        self.skip_space()?;
        // A header's name is not a string, and `//` in it is not a comment.
        let mut rest = String::new();
        if name == "include" {
            rest = self.header_name();
        }
        while let Some(byte) = self.peek().filter(|byte| *byte != b'\n') {
            if byte == b'/' && self.skip_comment()? {
                rest.push(' ');
            } else {
                rest.push_str(&self.token(word)?);
            }
        }
        Ok(Directive { line, name, rest })
    }

    fn header_name(&mut self) -> String {
        let close = match self.peek() {
            Some(b'<') => b'>',
            Some(b'"') => b'"',
            _ => return String::new(),
        };
        let mut name = String::from(char::from(self.take()));
        while let Some(byte) = self.peek().filter(|byte| *byte != b'\n') {
            name.push(char::from(self.take()));
            if byte == close {
                break;
            }
        }
        name
    }

    /// Reads one token: a word, a number, a string, or a single byte. Returns only the quotes of a string.
    fn token(&mut self, word: &mut impl FnMut(usize, &str) -> Result<()>) -> Result<String> {
        self.fresh = false;
        let Some(byte) = self.peek() else { return Ok(String::new()) };
        if byte.is_ascii_digit() || (byte == b'.' && self.peek_second().is_some_and(|next| next.is_ascii_digit())) {
            return Ok(self.number());
        }
        if is_word(byte) {
            let (line, text) = (self.line, self.word());
            if self.peek() == Some(b'"') && ["R", "LR", "uR", "UR", "u8R"].contains(&text.as_str()) {
                return self.raw_string();
            }
            word(line, &text)?;
            return Ok(text);
        }
        if byte == b'"' || byte == b'\'' {
            return self.quoted(byte);
        }
        Ok(char::from(self.take()).to_string())
    }

    fn word(&mut self) -> String {
        let mut word = Vec::new();
        while self.peek().is_some_and(is_word) {
            word.push(self.take());
        }
        String::from_utf8_lossy(&word).into_owned()
    }

    /// Reads a number as a preprocessor does: `1'000`, `0x1p-3`, `1.5f`.
    fn number(&mut self) -> String {
        let mut number = vec![self.take()];
        while let Some(byte) = self.peek() {
            let sign = matches!(byte, b'+' | b'-') && matches!(number.last(), Some(b'e' | b'E' | b'p' | b'P'));
            let separator = byte == b'\'' && self.peek_second().is_some_and(is_word);
            if !(is_word(byte) || byte == b'.' || sign || separator) {
                break;
            }
            number.push(self.take());
        }
        String::from_utf8_lossy(&number).into_owned()
    }

    fn quoted(&mut self, quote: u8) -> Result<String> {
        let line = self.line;
        self.bump();
        while let Some(byte) = self.peek().filter(|byte| *byte != b'\n') {
            self.bump();
            match byte {
                b'\\' if self.peek() != Some(b'\n') => self.bump(),
                byte if byte == quote => return Ok("\"\"".to_owned()),
                _ => {}
            }
        }
        Err(unreadable(line, "a quote that is not closed on its line"))
    }

    /// Skips a raw string from its quote on. Inside it, lines are not continued and there are no comments.
    fn raw_string(&mut self) -> Result<String> {
        let line = self.line;
        let unreadable = || unreadable(line, "a raw string that does not end");
        // A joined line's end may precede the quote itself.
        self.settle();
        let rest = &self.source[self.at + 1..];
        let open = rest.iter().position(|byte| *byte == b'(').filter(|open| *open <= 16).ok_or_else(unreadable)?;
        let delimiter = &rest[..open];
        if delimiter.iter().any(|byte| b" \t\n\\)\"".contains(byte)) {
            return Err(unreadable());
        }
        let close = [b")", delimiter, b"\""].concat();
        let body = &rest[open + 1..];
        let end = body.windows(close.len()).position(|window| window == close).ok_or_else(unreadable)?;
        self.line += body[..end].iter().filter(|byte| **byte == b'\n').count();
        self.at += 1 + open + 1 + end + close.len();
        Ok("\"\"".to_owned())
    }

    /// Skips a comment. Returns `false` if the slash does not begin one.
    fn skip_comment(&mut self) -> Result<bool> {
        let line = self.line;
        match self.peek_second() {
            Some(b'/') => {
                while self.peek().is_some_and(|byte| byte != b'\n') {
                    self.bump();
                }
                Ok(true)
            }
            Some(b'*') => {
                self.bump();
                self.bump();
                while let Some(byte) = self.peek() {
                    self.bump();
                    if byte == b'*' && self.peek() == Some(b'/') {
                        self.bump();
                        // Compilers disagree on whether a directive may follow a multi-line comment.
                        self.fresh |= self.line > line;
                        return Ok(true);
                    }
                }
                Err(unreadable(line, "a comment that does not end"))
            }
            _ => Ok(false),
        }
    }

    fn skip_space(&mut self) -> Result<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.bump(),
                Some(b'/') if self.skip_comment()? => {}
                _ => return Ok(()),
            }
        }
    }

    /// Joins continued lines: moves past every backslash at a line's end.
    fn settle(&mut self) {
        while self.source[self.at..].starts_with(b"\\\n") {
            self.at += 2;
            self.line += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.settle();
        self.source.get(self.at).copied()
    }

    fn peek_second(&mut self) -> Option<u8> {
        let (at, line) = (self.at, self.line);
        self.bump();
        let second = self.peek();
        (self.at, self.line) = (at, line);
        second
    }

    fn take(&mut self) -> u8 {
        let byte = self.peek().unwrap_or_default();
        self.bump();
        byte
    }

    fn bump(&mut self) {
        if let Some(byte) = self.peek() {
            self.at += 1;
            self.line += usize::from(byte == b'\n');
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn unreadable(line: usize, what: &str) -> Error {
    error!("variant.cu({line}): error: source rules: {what}")
}
