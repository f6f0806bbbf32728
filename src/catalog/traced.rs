//! Text put together from several files, with the file and the line that each of its lines comes from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<PathBuf>,
    /// The line, counted from 1.
    pub line: usize,
}

/// A text, with the place of each line. A line with parts from several files has the place of its first part.
#[derive(Debug, Clone, Default)]
pub(super) struct Traced {
    text: String,
    places: Vec<Place>,
}

impl Traced {
    /// Makes a text of a whole file.
    pub(super) fn of(text: &str, file: &Path) -> Self {
        let mut traced = Self::default();
        traced.push(text, &Arc::new(file.to_owned()), 1);
        traced
    }

    /// Returns the text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the place of each line.
    pub(super) fn into_places(self) -> Vec<Place> {
        self.places
    }

    /// Returns the lines without their ends, each with its place.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.text.lines().zip(&self.places)
    }

    /// Adds a part of a file that begins in a line.
    pub(super) fn push(&mut self, text: &str, file: &Arc<PathBuf>, line: usize) {
        for (line, text) in (line..).zip(text.split_inclusive('\n')) {
            self.push_line(text, &Place { file: Arc::clone(file), line });
        }
    }

    /// Adds another text.
    pub(super) fn append(&mut self, other: &Self) {
        for (text, place) in other.text.split_inclusive('\n').zip(&other.places) {
            self.push_line(text, place);
        }
    }

    /// Adds a line, or the rest of one.
    pub(super) fn push_line(&mut self, text: &str, place: &Place) {
        if !text.is_empty() && (self.text.is_empty() || self.text.ends_with('\n')) {
            self.places.push(place.clone());
        }
        self.text.push_str(text);
    }

    /// Removes white space from the end, and ends the last line.
    pub(super) fn trim_end(&mut self) {
        self.text.truncate(self.text.trim_end().len());
        self.places.truncate(self.text.lines().count().max(1));
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_place_where_it_begins() {
        let (a, b) = (Path::new("a"), Path::new("b"));
        let mut text = Traced::default();
        text.push("1\n2\n", &Arc::new(a.to_owned()), 1);
        let mut other = Traced::of("x\ny\n\n\n", b);
        other.trim_end();
        text.append(&other);
        text.push("5 ", &Arc::new(a.to_owned()), 5);
        text.append(&Traced::of("z\n", b));
        assert_eq!(text.text(), "1\n2\nx\ny\n5 z\n");
        let shown = |place: &Place| format!("{}{}", place.file.display(), place.line);
        let places: Vec<String> = text.lines().map(|(_, place)| shown(place)).collect();
        assert_eq!(places, ["a1", "a2", "b1", "b2", "a5"]);
    }
}
