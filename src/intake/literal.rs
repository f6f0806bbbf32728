//! Literals of Python: the dictionaries in which an oracle's file says what its kernel needs.

use crate::error::{Error, error};
/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    /// A string.
    Text(String),
    /// A number, as it is written, or a word such as `True`.
    Word(String),
    List(Vec<Self>),
    Dict(Vec<(Self, Self)>),
}

/// How deep lists may be nested.
const MAX_DEPTH: usize = 16;

impl Literal {
    /// Reads the value at the beginning of a text. The error says what is there instead.
    pub fn read(text: &str) -> Result<Self, Error> {
        Reader { rest: text, depth: 0 }.value()
    }

    /// Returns it as the text of an option: `R=4096,N=8192` for a dictionary, `8,16` for a list.
    pub fn plain(&self) -> String {
        match self {
            Self::Text(text) | Self::Word(text) => text.clone(),
            Self::List(items) => items.iter().map(Self::plain).collect::<Vec<_>>().join(","),
            Self::Dict(items) => {
                let pairs = items.iter().map(|(key, value)| format!("{}={}", key.plain(), value.plain()));
                pairs.collect::<Vec<_>>().join(",")
            }
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    fn take(&mut self, sign: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self) -> Result<Literal, Error> {
        self.skip();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::new("it is nested too deeply"));
        }
        let value = match self.rest.chars().next() {
            Some('{') => self.dict(),
            Some(open @ ('[' | '(')) => self.list(if open == '[' { ']' } else { ')' }),
            Some('"' | '\'') => self.text(),
            _ => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn dict(&mut self) -> Result<Literal, Error> {
        self.take('{');
        let mut items = Vec::new();
        while !self.take('}') {
            let key = self.value()?;
            if !self.take(':') {
                return Err(error!("`{}` has no value", key.plain()));
            }
            items.push((key, self.value()?));
            self.comma('}')?;
        }
        Ok(Literal::Dict(items))
    }

    fn list(&mut self, close: char) -> Result<Literal, Error> {
        self.rest = &self.rest[1..];
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.value()?);
            self.comma(close)?;
        }
        Ok(Literal::List(items))
    }

    fn comma(&mut self, close: char) -> Result<(), Error> {
        if self.take(',') {
            return Ok(());
        }
        self.skip();
        if self.rest.starts_with(close) {
            Ok(())
        } else {
            Err(error!("a `,` or `{close}` is expected before `{:.20}`", self.rest))
        }
    }

    fn text(&mut self) -> Result<Literal, Error> {
        let mut text = String::new();
        // Strings behind each other are one.
        while let Some(quote) = self.rest.chars().next().filter(|c| ['"', '\''].contains(c)) {
            let (inner, rest) = self.rest[1..].split_once(quote).ok_or("a string does not end")?;
            if inner.contains('\\') {
                return Err(Error::new("a string with a backslash is not supported"));
            }
            text += inner;
            self.rest = rest;
            self.skip();
        }
        Ok(Literal::Text(text))
    }

    fn word(&mut self) -> Result<Literal, Error> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if word.is_empty() || is_name && !["True", "False", "None"].contains(&word) {
            return Err(error!("`{:.20}` is no string, number, list or dictionary", self.rest));
        }
        self.rest = rest;
        Ok(Literal::Word(word.to_owned()))
    }
}
