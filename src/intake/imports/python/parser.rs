//! Parses expressions of Python.

use std::iter::Peekable;
use std::str::Chars;

use super::Python;
use crate::error::{Error, error};

/// How deep brackets may be nested. Conditions of published spaces have up to 5.
const MAX_DEPTH: usize = 64;

/// The most operators of an expression. Trees of expressions are walked recursively.
const MAX_OPERATORS: usize = 500;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(i64),
    Text(String),
    Name(String),
    Sign(&'static str),
    End,
}

/// Signs, the longest first.
const SIGNS: [&str; 25] = [
    "**", "//", "<=", ">=", "==", "!=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", "!",
    ".", ":", "{", "}",
];

/// Parses a text. The error says what is not supported.
pub(in crate::intake::imports) fn parse(text: &str) -> Result<Python, Error> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, operators: 0 };
    let parsed = parser.any()?;
    match parser.peek() {
        Token::End => Ok(parsed),
        token => Err(error!("{} is not supported here", shown(token))),
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Number(number) => format!("`{number}`"),
        Token::Text(text) => format!("the string `{text}`"),
        Token::Name(name) => format!("`{name}`"),
        Token::Sign(sign) => format!("`{sign}`"),
        Token::End => "the end".to_owned(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, Error> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&c) = rest.peek() {
        if c.is_whitespace() {
            rest.next();
        } else if c.is_ascii_digit() {
            let digits = taken(&mut rest, |c| c.is_ascii_alphanumeric() || c == '.');
            let number = digits.parse().ok().or_else(|| whole(&digits));
            tokens.push(Token::Number(number.ok_or_else(|| error!("`{digits}` is not a whole number"))?));
        } else if c.is_ascii_alphabetic() || c == '_' {
            tokens.push(Token::Name(taken(&mut rest, |c| c.is_ascii_alphanumeric() || c == '_')));
        } else if c == '"' || c == '\'' {
            rest.next();
            tokens.push(Token::Text(taken(&mut rest, |other| other != c)));
            rest.next().ok_or("a string does not end")?;
        } else {
            let ahead: String = rest.clone().take(2).collect();
            let sign = SIGNS.iter().copied().find(|sign| ahead.starts_with(sign));
            let sign = sign.ok_or_else(|| error!("`{c}` is not supported"))?;
            for _ in sign.chars() {
                rest.next();
            }
            tokens.push(Token::Sign(sign));
        }
    }
    tokens.push(Token::End);
    Ok(tokens)
}

/// Returns the whole number that a floating-point literal stands for.
fn whole(digits: &str) -> Option<i64> {
    let number: f64 = digits.parse().ok()?;
    (number.fract() == 0.0 && number.abs() < i64::MAX as f64).then_some(number as i64)
}

fn taken(rest: &mut Peekable<Chars<'_>>, is_part: impl Fn(char) -> bool) -> String {
    let mut text = String::new();
    while let Some(c) = rest.next_if(|c| is_part(*c)) {
        text.push(c);
    }
    text
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    operators: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Takes the next token if it is one of these signs or words.
    fn take(&mut self, wanted: &[&'static str]) -> Option<&'static str> {
        let found = wanted.iter().copied().find(|wanted| match self.peek() {
            Token::Sign(sign) => sign == wanted,
            Token::Name(name) => name == wanted,
            _ => false,
        })?;
        self.at += 1;
        Some(found)
    }

    /// Takes an operator, of which there may not be too many.
    fn operator(&mut self, wanted: &[&'static str]) -> Result<Option<&'static str>, Error> {
        let found = self.take(wanted);
        self.operators += usize::from(found.is_some());
        if self.operators > MAX_OPERATORS { Err(Error::new("it is too long")) } else { Ok(found) }
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Error> {
        match self.take(&[sign]) {
            Some(_) => Ok(()),
            None => Err(error!("{} is not supported here, `{sign}` is expected", shown(self.peek()))),
        }
    }

    fn any(&mut self) -> Result<Python, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::new("it is nested too deeply"));
        }
        let parsed = self.binary(&["or", "||"], "||", Self::all);
        self.depth -= 1;
        parsed
    }

    fn all(&mut self) -> Result<Python, Error> {
        self.binary(&["and", "&&"], "&&", Self::not)
    }

    fn binary(
        &mut self,
        words: &[&'static str],
        sign: &'static str,
        part: fn(&mut Self) -> Result<Python, Error>,
    ) -> Result<Python, Error> {
        let mut left = part(self)?;
        while self.operator(words)?.is_some() {
            left = Python::Both(sign, Box::new(left), Box::new(part(self)?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Python, Error> {
        let mut negations = 0_usize;
        while self.operator(&["not", "!"])?.is_some() {
            negations += 1;
        }
        let inner = self.compared()?;
        Ok((0..negations).fold(inner, |inner, _| Python::Not(Box::new(inner))))
    }

    fn compared(&mut self) -> Result<Python, Error> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let sign = match self.operator(&["<=", ">=", "==", "!=", "<", ">", "in", "not"])? {
                Some("not") => self.expect("in").map(|()| "not in")?,
                Some(sign) => sign,
                None => break,
            };
            rest.push((sign, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Python::Compared(Box::new(first), rest) })
    }

    fn sum(&mut self) -> Result<Python, Error> {
        let mut left = self.product()?;
        while let Some(sign) = self.operator(&["+", "-"])? {
            left = Python::Both(sign, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Python, Error> {
        let mut left = self.signed()?;
        while let Some(sign) = self.operator(&["*", "/", "//", "%"])? {
            let sign = if sign == "//" { "/" } else { sign };
            left = Python::Both(sign, Box::new(left), Box::new(self.signed()?));
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Python, Error> {
        let mut is_negative = false;
        while let Some(sign) = self.take(&["-", "+"]) {
            is_negative ^= sign == "-";
        }
        let base = self.power()?;
        Ok(if is_negative { Python::Negative(Box::new(base)) } else { base })
    }

    fn power(&mut self) -> Result<Python, Error> {
        let base = self.item()?;
        if self.operator(&["**"])?.is_none() {
            return Ok(base);
        }
        Ok(Python::Power(Box::new(base), Box::new(self.signed()?)))
    }

    fn item(&mut self) -> Result<Python, Error> {
        let mut base = self.atom()?;
        while self.operator(&["["])?.is_some() {
            let index = self.any()?;
            self.expect("]")?;
            base = Python::Item(Box::new(base), Box::new(index));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Result<Python, Error> {
        match self.next() {
            Token::Number(number) => Ok(Python::Number(number)),
            Token::Text(text) => Ok(Python::Text(text)),
            Token::Name(name) if name == "True" || name == "true" => Ok(Python::Number(1)),
            Token::Name(name) if name == "False" || name == "false" => Ok(Python::Number(0)),
            Token::Name(name) if self.take(&["("]).is_some() => Ok(Python::Call(name, self.items(")")?)),
            Token::Name(name) => Ok(Python::Name(name)),
            Token::Sign("[") => self.list(),
            Token::Sign("(") => {
                let mut inner = self.items(")")?;
                if inner.len() == 1 { Ok(inner.remove(0)) } else { Ok(Python::List(inner)) }
            }
            token => Err(error!("{} is not supported here", shown(&token))),
        }
    }

    /// Reads expressions up to a closing bracket.
    fn items(&mut self, close: &'static str) -> Result<Vec<Python>, Error> {
        let mut items = Vec::new();
        while self.take(&[close]).is_none() {
            items.push(self.any()?);
            if self.take(&[","]).is_none() {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn list(&mut self) -> Result<Python, Error> {
        if self.take(&["]"]).is_some() {
            return Ok(Python::List(Vec::new()));
        }
        let first = self.any()?;
        if self.take(&["for"]).is_none() {
            let mut items = vec![first];
            if self.take(&[","]).is_some() {
                items.extend(self.items("]")?);
            } else {
                self.expect("]")?;
            }
            return Ok(Python::List(items));
        }
        let Token::Name(name) = self.next() else { return Err(Error::new("`for` is supported with one name only")) };
        self.expect("in")?;
        let over = Box::new(self.sum()?);
        self.expect("]")?;
        Ok(Python::Each { item: Box::new(first), name, over })
    }
}
