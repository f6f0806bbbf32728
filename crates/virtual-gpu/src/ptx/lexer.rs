//! Splits PTX text into tokens.

use super::Problem;

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind<'a> {
    /// A name, register, opcode with its modifiers, or label: dots and `::` included.
    Word(&'a str),
    /// A directive or a type, without its dot.
    Dot(&'a str),
    /// An integer literal.
    Int(u64),
    /// `0fXXXXXXXX`, as bits.
    Single(u32),
    /// `0dXXXXXXXXXXXXXXXX` or a decimal float, as bits of a double.
    Double(u64),
    /// A string, without its quotes.
    Text(&'a str),
    /// One character of punctuation.
    Punct(u8),
    /// End of the text.
    End,
}

/// A token and its line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Token<'a> {
    /// Its kind.
    pub kind: Kind<'a>,
    /// Its line, from 1.
    pub line: u32,
}

/// Splits `text`; the result ends with [`Kind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, (u32, Problem)> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut tokens = Vec::with_capacity(text.len() / 4 + 1);
    loop {
        lexer.skip_blanks();
        let line = lexer.line;
        let kind = lexer.token().map_err(|message| (line, Problem::Syntax(message)))?;
        tokens.push(Token { kind, line });
        if kind == Kind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn done(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        while !self.done() {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (b'/', b'/') => self.skip_while(|byte| byte != b'\n'),
                (b'/', b'*') => self.skip_block_comment(),
                (byte, _) if byte.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    fn skip_block_comment(&mut self) {
        self.at += 2;
        while !self.done() && (self.byte(0), self.byte(1)) != (b'*', b'/') {
            self.line += u32::from(self.byte(0) == b'\n');
            self.at += 1;
        }
        self.at = (self.at + 2).min(self.text.len());
    }

    fn skip_while(&mut self, keep: impl Fn(u8) -> bool) {
        while !self.done() && keep(self.byte(0)) {
            self.at += 1;
        }
    }

    fn token(&mut self) -> Result<Kind<'a>, String> {
        if self.done() {
            return Ok(Kind::End);
        }
        let byte = self.byte(0);
        match byte {
            b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'.' if self.byte(1).is_ascii_digit() => self.number(),
            b'.' => {
                self.at += 1;
                let name = self.take_while(is_name);
                if name.is_empty() { Err("a lone `.`".into()) } else { Ok(Kind::Dot(name)) }
            }
            b'%' if !is_start(self.byte(1)) => self.punctuation(),
            _ if is_start(byte) => Ok(Kind::Word(self.word())),
            _ if byte.is_ascii_punctuation() => self.punctuation(),
            _ => {
                let found = self.text.get(self.at..).and_then(|rest| rest.chars().next()).unwrap_or('?');
                Err(format!("unexpected character {found:?}"))
            }
        }
    }

    fn punctuation(&mut self) -> Result<Kind<'a>, String> {
        self.at += 1;
        Ok(Kind::Punct(self.text.as_bytes()[self.at - 1]))
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        self.skip_while(keep);
        // Only ASCII is kept, so both ends are character boundaries.
        &self.text[start..self.at]
    }

    /// Takes a name, including dots and `::`.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        self.at += 1;
        loop {
            self.skip_while(is_name);
            if self.byte(0) == b'.' && is_name(self.byte(1)) {
                self.at += 1;
            } else if self.byte(0) == b':' && self.byte(1) == b':' && is_name(self.byte(2)) {
                self.at += 2;
            } else {
                return &self.text[start..self.at];
            }
        }
    }

    fn string(&mut self) -> Result<Kind<'a>, String> {
        self.at += 1;
        let start = self.at;
        self.skip_while(|byte| byte != b'"' && byte != b'\n');
        if self.byte(0) != b'"' || self.done() {
            return Err("a string without its end".into());
        }
        self.at += 1;
        Ok(Kind::Text(&self.text[start..self.at - 1]))
    }

    fn number(&mut self) -> Result<Kind<'a>, String> {
        let (radix, prefix) = match (self.byte(0), self.byte(1)) {
            (b'0', b'x' | b'X') => (16, 2),
            (b'0', b'b' | b'B') => (2, 2),
            (b'0', b'f' | b'F') => return self.hex_float(8),
            (b'0', b'd' | b'D') => return self.hex_float(16),
            (b'0', b'0'..=b'7') => (8, 1),
            _ => (10, 0),
        };
        if prefix != 2 && self.is_decimal_float() {
            return self.decimal_float();
        }
        self.at += prefix;
        let digits = self.take_while(|byte| byte.is_ascii_alphanumeric());
        let digits = digits.strip_suffix(['U', 'u']).unwrap_or(digits);
        u64::from_str_radix(digits, radix).map(Kind::Int).map_err(|_| format!("bad integer `{digits}`"))
    }

    /// Returns whether a `.` or an exponent follows the digits here.
    fn is_decimal_float(&self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        matches!(rest.get(digits), Some(b'.' | b'e' | b'E'))
    }

    fn decimal_float(&mut self) -> Result<Kind<'a>, String> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_digit() || byte == b'.');
        if matches!(self.byte(0), b'e' | b'E') {
            self.at += 1;
            if matches!(self.byte(0), b'+' | b'-') {
                self.at += 1;
            }
            self.skip_while(|byte| byte.is_ascii_digit());
        }
        let text = &self.text[start..self.at];
        text.parse::<f64>().map(|value| Kind::Double(value.to_bits())).map_err(|_| format!("bad number `{text}`"))
    }

    fn hex_float(&mut self, digits: usize) -> Result<Kind<'a>, String> {
        self.at += 2;
        let text = self.take_while(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(text, 16) {
            Ok(bits) if text.len() == digits && digits == 8 => Ok(Kind::Single(bits as u32)),
            Ok(bits) if text.len() == digits => Ok(Kind::Double(bits)),
            _ => Err(format!("a floating-point literal of {} digits instead of {digits}", text.len())),
        }
    }
}

fn is_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn literals_of_every_kind() {
        assert_eq!(
            kinds("10 0x1F 017 0b101 7U 0f3F800000 0d3FF0000000000000 1.5e1"),
            [
                Kind::Int(10),
                Kind::Int(31),
                Kind::Int(15),
                Kind::Int(5),
                Kind::Int(7),
                Kind::Single(0x3f80_0000),
                Kind::Double(0x3ff0_0000_0000_0000),
                Kind::Double(15.0_f64.to_bits()),
                Kind::End,
            ]
        );
    }

    #[test]
    fn words_keep_their_modifiers_and_labels_do_not_keep_their_colon() {
        assert_eq!(
            kinds("ld.shared::cta.u32 %r1, $L_1: .reg"),
            [
                Kind::Word("ld.shared::cta.u32"),
                Kind::Word("%r1"),
                Kind::Punct(b','),
                Kind::Word("$L_1"),
                Kind::Punct(b':'),
                Kind::Dot("reg"),
                Kind::End,
            ]
        );
    }

    #[test]
    fn lines_count_through_comments() {
        let tokens = tokens("// one\n/* two\nthree */ x").unwrap();
        assert_eq!(tokens[0], Token { kind: Kind::Word("x"), line: 3 });
    }
}
