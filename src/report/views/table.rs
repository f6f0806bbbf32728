//! A table of plain text, for templates that escape it.

use serde::Serialize;

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Table {
    /// The headings.
    pub(super) headings: Vec<Heading>,
    /// The rows, with a cell for each heading.
    pub(super) rows: Vec<Vec<String>>,
}

/// The heading of a column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Heading {
    /// Its text.
    pub(super) name: String,
    /// Whether its cells are figures, which are aligned to the right.
    pub(super) figures: bool,
}

impl Table {
    /// Makes a table. A leading `>` of a heading is for figures.
    pub(super) fn new(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let heading =
            |text: &&str| Heading { name: text.trim_start_matches('>').to_owned(), figures: text.starts_with('>') };
        Self { headings: headings.iter().map(heading).collect(), rows: rows.into_iter().collect() }
    }
}
