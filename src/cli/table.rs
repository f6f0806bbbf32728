//! Plain aligned tables.

use std::io::{self, Write};

/// The alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A table that is printed with its columns aligned and two spaces between them.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table from its columns' headings. A heading that starts with `>` is for figures.
    pub(super) fn new(headings: &[&str]) -> Self {
        let columns =
            headings.iter().map(|heading| if heading.starts_with('>') { Align::Right } else { Align::Left }).collect();
        let headings = headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect();
        Self { columns, rows: vec![headings] }
    }

    /// Adds a row with a cell for every column.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// Prints the table.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns).zip(&widths).map(|((cell, align), width)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Returns a figure as text, or a dash.
pub(super) fn figure<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| crate::report::format::NOTHING.to_owned(), show)
}

/// Cuts text to its first line and to 72 characters, so that a row stays on one line.
fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= 72 && line.len() == text.trim_end().len() {
        return line.to_owned();
    }
    line.chars().take(69).collect::<String>() + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_right_and_long_text_is_cut() {
        let mut table = Table::new(&["case", ">time", "note"]);
        table.row(["b1".to_owned(), "100.00".to_owned(), "first\nsecond".to_owned()]);
        table.row(["b16h8".to_owned(), "µ".to_owned(), "x".repeat(100)]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"
        case     time  note
        b1     100.00  first...
        b16h8       µ  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
        ");
    }
}
