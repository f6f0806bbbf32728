//! The token cursor, and constant expressions.

use super::Problem;
use super::lexer::{Kind, Token};

/// Maximum nesting of parentheses in an expression.
const DEEPEST: u32 = 32;

/// A position in the tokens.
pub(crate) struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    /// Starts at the first of `tokens`, which end with [`Kind::End`].
    pub fn new(tokens: &'t [Token<'a>]) -> Self {
        Self { tokens, at: 0 }
    }

    /// Returns the current token.
    pub fn peek(&self) -> Kind<'a> {
        self.ahead(0)
    }

    /// Returns the token `n` positions ahead.
    pub fn ahead(&self, n: usize) -> Kind<'a> {
        self.tokens.get(self.at + n).map_or(Kind::End, |token| token.kind)
    }

    /// Returns the current line.
    pub fn line(&self) -> u32 {
        self.tokens[self.at.min(self.tokens.len() - 1)].line
    }

    /// Takes the current token.
    pub fn next(&mut self) -> Kind<'a> {
        let kind = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        kind
    }

    /// Takes the punctuation `byte` if it is next.
    pub fn eat(&mut self, byte: u8) -> bool {
        let here = self.peek() == Kind::Punct(byte);
        if here {
            self.next();
        }
        here
    }

    /// Takes the directive `name` if it is next.
    pub fn eat_dot(&mut self, name: &str) -> bool {
        let here = self.peek() == Kind::Dot(name);
        if here {
            self.next();
        }
        here
    }

    /// Takes the punctuation `byte`, which must be next.
    pub fn expect(&mut self, byte: u8) -> Result<(), Problem> {
        if self.eat(byte) { Ok(()) } else { Err(self.unexpected(&format!("`{}`", byte as char))) }
    }

    /// Takes a word, which must be next.
    pub fn word(&mut self) -> Result<&'a str, Problem> {
        match self.peek() {
            Kind::Word(word) => {
                self.next();
                Ok(word)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// Returns the error that names the current token instead of `wanted`.
    pub fn unexpected(&self, wanted: &str) -> Problem {
        let found = match self.peek() {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Dot(word) => format!("`.{word}`"),
            Kind::Punct(byte) => format!("`{}`", byte as char),
            Kind::End => "the end of the text".to_owned(),
            Kind::Text(_) => "a string".to_owned(),
            Kind::Int(_) | Kind::Single(_) | Kind::Double(_) => "a number".to_owned(),
        };
        Problem::Syntax(format!("{wanted} expected, {found} found"))
    }

    /// Skips up to and including `;`.
    pub fn skip_statement(&mut self) {
        while !matches!(self.next(), Kind::Punct(b';') | Kind::End) {}
    }

    /// Skips the rest of this line.
    pub fn skip_line(&mut self) {
        let line = self.line();
        while self.line() == line && self.peek() != Kind::End {
            self.next();
        }
    }

    /// Skips a `{ ... }` that starts here.
    pub fn skip_braces(&mut self) -> Result<(), Problem> {
        self.expect(b'{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Kind::Punct(b'{') => depth += 1,
                Kind::Punct(b'}') => depth -= 1,
                Kind::End => return Err("a `{` without its `}`".into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Parses a constant integer expression.
    pub fn integer(&mut self) -> Result<i64, Problem> {
        self.binary(0, 0)
    }

    /// Parses an expression whose value must fit in `u32`.
    pub fn small(&mut self) -> Result<u32, Problem> {
        let value = self.integer()?;
        u32::try_from(value).map_err(|_| Problem::Syntax(format!("{value} is out of range")))
    }

    fn binary(&mut self, least: u8, depth: u32) -> Result<i64, Problem> {
        if depth > DEEPEST {
            return Err("an expression nested too deep".into());
        }
        let mut left = self.unary(depth)?;
        while let Some((operator, length, binding)) = self.operator() {
            if binding < least {
                break;
            }
            for _ in 0..length {
                self.next();
            }
            let right = self.binary(binding + 1, depth + 1)?;
            left = apply(operator, left, right)?;
        }
        Ok(left)
    }

    /// Returns the operator here: its first character, its length and its precedence.
    fn operator(&self) -> Option<(u8, usize, u8)> {
        let Kind::Punct(byte) = self.peek() else { return None };
        let twice = self.ahead(1) == Kind::Punct(byte);
        match byte {
            b'|' if !twice => Some((byte, 1, 1)),
            b'^' => Some((byte, 1, 2)),
            b'&' if !twice => Some((byte, 1, 3)),
            b'<' | b'>' if twice => Some((byte, 2, 4)),
            b'+' | b'-' => Some((byte, 1, 5)),
            b'*' | b'/' | b'%' => Some((byte, 1, 6)),
            _ => None,
        }
    }

    fn unary(&mut self, depth: u32) -> Result<i64, Problem> {
        let mut negations = Vec::new();
        while let Kind::Punct(byte @ (b'-' | b'~' | b'+')) = self.peek() {
            self.next();
            negations.push(byte);
        }
        let mut value = match self.peek() {
            Kind::Int(value) => {
                self.next();
                value as i64
            }
            Kind::Word("WARP_SZ") => {
                self.next();
                32
            }
            Kind::Punct(b'(') => {
                self.next();
                let value = self.binary(0, depth + 1)?;
                self.expect(b')')?;
                value
            }
            _ => return Err(self.unexpected("an integer")),
        };
        for byte in negations.into_iter().rev() {
            value = match byte {
                b'-' => value.wrapping_neg(),
                b'~' => !value,
                _ => value,
            };
        }
        Ok(value)
    }
}

fn apply(operator: u8, left: i64, right: i64) -> Result<i64, Problem> {
    let shift = || u32::try_from(right).ok().filter(|&by| by < 64);
    Ok(match operator {
        b'|' => left | right,
        b'^' => left ^ right,
        b'&' => left & right,
        b'<' => shift().map_or(0, |by| left << by),
        b'>' => shift().map_or(0, |by| left >> by),
        b'+' => left.wrapping_add(right),
        b'-' => left.wrapping_sub(right),
        b'*' => left.wrapping_mul(right),
        b'/' => left.checked_div(right).ok_or("a division by zero")?,
        _ => left.checked_rem(right).ok_or("a division by zero")?,
    })
}
