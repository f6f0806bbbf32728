//! The tables of a manifest, read key by key, so that one mistake does not hide the others.

use std::cell::RefCell;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, ValueDeserializer};

use crate::domain::expr::{ExpectedType, Expr};
use crate::domain::text::toml_text;

/// The most mistakes that are reported. A text with more is hardly a manifest, and every sentence takes time to write.
const MAX_MISTAKES: usize = 32;

/// The mistakes and the expressions found while a manifest is read.
pub(super) struct Notes<'t> {
    text: &'t str,
    mistakes: RefCell<Vec<String>>,
    exprs: RefCell<Vec<Expr>>,
}

/// A table of a manifest, without the keys that were read.
pub(super) struct Fields<'n, 't> {
    notes: &'n Notes<'t>,
    /// The byte at which the table begins.
    start: usize,
    left: Vec<(Spanned<DeString<'t>>, Spanned<DeValue<'t>>)>,
    known: Vec<&'static str>,
}

impl<'t> Notes<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, mistakes: RefCell::default(), exprs: RefCell::default() }
    }

    /// Adds a mistake, in one sentence.
    pub fn add(&self, mistake: impl Into<String>) {
        let (mut mistakes, mistake) = (self.mistakes.borrow_mut(), toml_text::one_line(mistake.into()));
        if mistakes.len() <= MAX_MISTAKES && !mistakes.contains(&mistake) {
            mistakes.push(mistake);
        }
    }

    /// Tells whether further mistakes would not be reported.
    pub fn is_full(&self) -> bool {
        self.mistakes.borrow().len() > MAX_MISTAKES
    }

    fn add_at(&self, byte: usize, mistake: &str) {
        if !self.is_full() {
            self.add(toml_text::at(self.text, byte, mistake));
        }
    }

    /// Returns the mistakes.
    pub fn into_mistakes(self) -> Vec<String> {
        let mut mistakes = self.mistakes.into_inner();
        if mistakes.len() > MAX_MISTAKES {
            mistakes.truncate(MAX_MISTAKES);
            mistakes.push("there are more mistakes".to_owned());
        }
        mistakes
    }

    /// Returns the expressions that were read with [`Fields::expr`] and its kin.
    pub fn take_exprs(&self) -> Vec<Expr> {
        self.exprs.take()
    }

    /// Parses an expression and checks what its text decides.
    pub fn expr(&self, text: &str, wanted: ExpectedType) -> Option<Expr> {
        let parsed = Expr::parse(text).and_then(|expr| expr.check_type(wanted).map(|()| expr));
        parsed.map_err(|error| self.add(error.to_string())).ok()
    }

    fn remembered(&self, text: &str, wanted: ExpectedType) -> Option<Expr> {
        let expr = self.expr(text, wanted)?;
        self.exprs.borrow_mut().push(expr.clone());
        Some(expr)
    }

    fn value<T: DeserializeOwned>(&self, value: Spanned<DeValue<'t>>) -> Option<T> {
        T::deserialize(ValueDeserializer::from(value))
            .map_err(|error| {
                if !self.is_full() {
                    self.add(toml_text::describe(self.text, &error));
                }
            })
            .ok()
    }

    /// Returns a value that must be a table.
    fn fields<'n>(&'n self, value: Spanned<DeValue<'t>>) -> Option<Fields<'n, 't>> {
        let start = value.span().start;
        match value.into_inner() {
            DeValue::Table(table) => Some(Fields::of(self, start, table)),
            other => {
                self.add_at(start, &format!("must be a table, but is {}", kind_of(&other)));
                None
            }
        }
    }
}

impl<'n, 't> Fields<'n, 't> {
    /// Makes the fields of a table that begins at a byte of the manifest.
    pub fn of(notes: &'n Notes<'t>, start: usize, table: DeTable<'t>) -> Self {
        Self { notes, start, left: table.into_iter().collect(), known: Vec::new() }
    }

    /// Returns the notes of the manifest.
    pub fn notes(&self) -> &'n Notes<'t> {
        self.notes
    }

    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'t>>> {
        self.known.push(key);
        let at = self.left.iter().position(|(name, _)| name.get_ref() == key)?;
        Some(self.left.remove(at).1)
    }

    fn take_required(&mut self, key: &'static str) -> Option<Spanned<DeValue<'t>>> {
        let value = self.take(key);
        if value.is_none() {
            self.notes.add_at(self.start, &format!("missing field `{key}`"));
        }
        value
    }

    /// Reads a key that may be missing. None if its value is wrong, too.
    pub fn optional<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        let value = self.take(key)?;
        self.notes.value(value)
    }

    /// Reads a key that must not be missing.
    pub fn required<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        let value = self.take_required(key)?;
        self.notes.value(value)
    }

    /// Reads an expression that must not be missing.
    pub fn expr(&mut self, key: &'static str, wanted: ExpectedType) -> Option<Expr> {
        let text: String = self.required(key)?;
        self.notes.remembered(&text, wanted)
    }

    /// Reads an expression that may be missing.
    pub fn optional_expr(&mut self, key: &'static str, wanted: ExpectedType) -> Option<Expr> {
        let text: String = self.optional(key)?;
        self.notes.remembered(&text, wanted)
    }

    /// Parses expressions of a list, which are integers.
    pub fn ints(&self, texts: &[String]) -> Option<Vec<Expr>> {
        // Each is parsed, even if one of them is wrong.
        let exprs: Vec<_> = texts.iter().map(|text| self.notes.remembered(text, ExpectedType::Int)).collect();
        exprs.into_iter().collect()
    }

    /// Reads the tables of `[key.NAME]`. A name whose value is not a table has none.
    pub fn named_tables(&mut self, key: &'static str) -> Vec<(String, Option<Fields<'n, 't>>)> {
        let (notes, value) = (self.notes, self.take_required(key));
        let table = value.and_then(|value| notes.fields(value));
        let entries = table.into_iter().flat_map(|table| table.left);
        entries.map(|(name, value)| (name.into_inner().into_owned(), notes.fields(value))).collect()
    }

    /// Reads the texts of a table that may be missing. A name whose value is not a text has none.
    pub fn named_texts(&mut self, key: &'static str) -> Vec<(String, Option<String>)> {
        let (notes, value) = (self.notes, self.take(key));
        let table = value.and_then(|value| notes.fields(value));
        let entries = table.into_iter().flat_map(|table| table.left);
        entries.map(|(name, value)| (name.into_inner().into_owned(), notes.value(value))).collect()
    }

    /// Reads the tables of `[[key]]`. None for an entry that is not a table.
    pub fn tables(&mut self, key: &'static str) -> Vec<Option<Fields<'n, 't>>> {
        let (notes, Some(value)) = (self.notes, self.take(key)) else { return Vec::new() };
        let start = value.span().start;
        match value.into_inner() {
            DeValue::Array(entries) => entries.into_iter().map(|entry| notes.fields(entry)).collect(),
            DeValue::Table(_) => {
                notes
                    .add_at(start, &format!("`{key}` is one table: write [[{key}]], with two brackets on either side"));
                vec![None]
            }
            other => {
                let kind = kind_of(&other);
                notes.add_at(start, &format!("must be tables, each below a line [[{key}]], but is {kind}"));
                vec![None]
            }
        }
    }

    /// Reports the keys that were not asked for. Returns whether one of them has tables, whose names are not known.
    pub fn finish(self) -> bool {
        let mut lost = false;
        let expected = expected(&self.known);
        for (key, value) in &self.left {
            lost |= value.get_ref().is_table() || value.get_ref().is_array();
            if self.notes.is_full() {
                break;
            }
            let (start, key) = (key.span().start, key.get_ref());
            let hint = crate::domain::text::names::did_you_mean(key, self.known.iter().copied());
            self.notes.add_at(start, &format!("unknown field `{key}`, {expected}{hint}"));
        }
        lost
    }
}

/// Lists the known keys as serde does.
fn expected(known: &[&str]) -> String {
    match known {
        [one] => format!("expected `{one}`"),
        [one, other] => format!("expected `{one}` or `{other}`"),
        _ => {
            format!("expected one of {}", known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns what a value is.
fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
