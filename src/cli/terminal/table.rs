//! Aligned tables.

use std::io::{self, Write};

use crate::cli::terminal::screen::{Paint, Screen};

/// The width of the gap between two columns.
const GAP: usize = 2;

/// The least width that is left for a last column that is cut. Other columns are left out before.
const MIN_LAST: usize = 24;

/// The least width to which the last column is cut, where no more columns can be left out.
const MIN_CUT: usize = 8;

/// The most characters of a cell, unless cells are kept whole.
const MAX_CELL: usize = 72;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    /// Whether its cells are figures, which stand right.
    of_figures: bool,
    /// Whether it is left out where a screen is too narrow.
    is_optional: bool,
}

/// A table that is printed with its columns aligned and two spaces between them.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Cells in another style, by row and column.
    styles: Vec<(usize, usize, Paint)>,
    /// Lines below rows.
    notes: Vec<(usize, String)>,
    /// Whether long cells are kept whole.
    is_whole: bool,
}

impl Table {
    /// Makes a table from its columns' headings. A heading that starts with `>` is for figures. One that starts with `?`,
    /// before the `>`, is left out where a screen is too narrow.
    pub fn new(headings: &[&str]) -> Self {
        let column = |heading: &&str| {
            let is_optional = heading.starts_with('?');
            Column { of_figures: heading.trim_start_matches('?').starts_with('>'), is_optional }
        };
        let plain = |heading: &&str| heading.trim_start_matches(['?', '>']).to_owned();
        Self {
            columns: headings.iter().map(column).collect(),
            rows: vec![headings.iter().map(plain).collect()],
            styles: Vec::new(),
            notes: Vec::new(),
            is_whole: false,
        }
    }

    /// Keeps the first line of each cell whole, however long it is.
    pub fn with_whole_cells(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Adds a row with a cell for every column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let most = if self.is_whole { usize::MAX } else { MAX_CELL };
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell, most)).collect());
    }

    /// Gives a cell of the last row a style.
    pub fn paint(&mut self, column: usize, paint: Paint) {
        self.styles.push((self.rows.len() - 1, column, paint));
    }

    /// Adds lines below the last row.
    pub fn note(&mut self, lines: String) {
        self.notes.push((self.rows.len() - 1, lines));
    }

    /// Prints the table, however wide it is.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.lines(&(0..self.columns.len()).collect::<Vec<_>>(), None, false, out)
    }

    /// Prints the table with its styles, however wide it is.
    pub fn print_wide(&self, screen: Screen, out: &mut impl Write) -> io::Result<()> {
        self.lines(&(0..self.columns.len()).collect::<Vec<_>>(), None, screen.is_coloured, out)
    }

    /// Prints the table in the width of a screen: optional columns are left out, the last ones first, and then the last
    /// column is cut.
    pub fn print_on(&self, screen: Screen, out: &mut impl Write) -> io::Result<()> {
        let widths = self.widths();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let last = self.columns.len() - 1;
        let before =
            |shown: &[usize]| shown.iter().filter(|&&at| at != last).map(|&at| widths[at] + GAP).sum::<usize>();
        while before(&shown) + widths[last].min(MIN_LAST) > screen.columns {
            let Some(place) = shown.iter().rposition(|&at| self.columns[at].is_optional) else { break };
            shown.remove(place);
        }
        let room = screen.columns.saturating_sub(before(&shown)).max(MIN_CUT);
        self.lines(&shown, Some(room), screen.is_coloured, out)
    }

    /// Prints all of the table in the width of a screen. A wider table is turned: a line for each column, and as many rows
    /// beside each other as fit.
    pub fn print_whole_on(&self, screen: Screen, out: &mut impl Write) -> io::Result<()> {
        let widths = self.widths();
        if widths.iter().sum::<usize>() + GAP * (widths.len() - 1) <= screen.columns {
            return self.lines(&(0..self.columns.len()).collect::<Vec<_>>(), None, screen.is_coloured, out);
        }
        let headings = self.rows[0].iter().map(|heading| heading.chars().count()).max().unwrap_or(0);
        let width = |row: &[String]| row.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let mut rest = &self.rows[1..];
        while !rest.is_empty() {
            let mut used = headings + GAP + width(&rest[0]);
            let more = rest[1..].iter().take_while(|row| {
                used += GAP + width(row);
                used <= screen.columns
            });
            let (shown, after) = rest.split_at(1 + more.count());
            for (column, heading) in self.rows[0].iter().enumerate() {
                let padded = |cell: &str, width: usize| format!("{cell:<0$}", width + GAP);
                let cells = shown.iter().map(|row| padded(&row[column], width(row)));
                let line = std::iter::once(padded(heading, headings)).chain(cells).collect::<String>();
                writeln!(out, "{}", line.trim_end())?;
            }
            rest = after;
            if !rest.is_empty() {
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
        (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect()
    }

    /// Prints some columns. The last column is cut to `room`, if that is given.
    fn lines(&self, shown: &[usize], room: Option<usize>, is_coloured: bool, out: &mut impl Write) -> io::Result<()> {
        let widths = self.widths();
        for (place, row) in self.rows.iter().enumerate() {
            let cells = shown.iter().filter_map(|&at| Some((at, row.get(at)?))).map(|(at, cell)| {
                let is_last = at + 1 == self.columns.len();
                let cell = match room.filter(|room| is_last && cell.chars().count() > *room) {
                    Some(room) => cut(cell, room),
                    None => cell.clone(),
                };
                let width = if is_last { room.map_or(widths[at], |room| room.min(widths[at])) } else { widths[at] };
                let cell =
                    if self.columns[at].of_figures { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
                self.styled(cell, (place, at), is_coloured)
            });
            writeln!(out, "{}", cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end())?;
            for (_, note) in self.notes.iter().filter(|(row, _)| *row == place) {
                write!(out, "{note}")?;
            }
        }
        Ok(())
    }

    fn styled(&self, cell: String, (row, column): (usize, usize), is_coloured: bool) -> String {
        let paint = match row {
            0 => Some(Paint::Heading),
            _ => self.styles.iter().find(|(r, c, _)| (*r, *c) == (row, column)).map(|(.., paint)| *paint),
        };
        match paint.filter(|_| is_coloured) {
            Some(paint) => {
                // Spaces after the text stay outside, so that they are trimmed at the end of a line.
                let text = cell.trim_end();
                paint.on(text) + &cell[text.len()..]
            }
            None => cell,
        }
    }
}

/// Returns a figure as text, or a dash.
pub fn figure<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| crate::report::format::NOTHING.to_owned(), show)
}

/// Cuts text to its first line and to a number of characters, so that a row stays on one line.
fn one_line(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= most && line.len() == text.trim_end().len() {
        return line.to_owned();
    }
    line.chars().take(most.saturating_sub(3)).collect::<String>() + "..."
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width.saturating_sub(3)).collect::<String>().trim_end().to_owned() + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(print: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn figures_stand_right_and_long_text_is_cut() {
        let mut table = Table::new(&["case", ">time", "note"]);
        table.row(["b1".to_owned(), "100.00".to_owned(), "first\nsecond".to_owned()]);
        table.row(["b16h8".to_owned(), "µ".to_owned(), "x".repeat(100)]);
        insta::assert_snapshot!(printed(|out| table.print(out)), @"
        case     time  note
        b1     100.00  first...
        b16h8       µ  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
        ");
    }

    #[test]
    fn a_table_fits_its_screen() {
        let mut table = Table::new(&["case", "?device", "?>cost", ">time", "note"]);
        table.row(["b1h1s128", "a device with a very long name", "$0.01", "100.00", "a short note"].map(str::to_owned));
        table.row(["b1h1s64", "-", "$100.01", "1.00", &"x".repeat(60)].map(str::to_owned));
        table.paint(3, Paint::Good);
        let on = |columns: usize| printed(|out| table.print_on(Screen { columns, ..Screen::plain() }, out));
        insta::assert_snapshot!(on(90), @"
        case      device                             cost    time  note
        b1h1s128  a device with a very long name    $0.01  100.00  a short note
        b1h1s64   -                               $100.01    1.00  xxxxxxxxxxxxxxxxxxxxxxxxxxxx...
        ");
        insta::assert_snapshot!(on(50), @"
        case        time  note
        b1h1s128  100.00  a short note
        b1h1s64     1.00  xxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
        ");
        let coloured = Screen { is_coloured: true, columns: 50, ..Screen::plain() };
        let line = printed(|out| table.print_on(coloured, out)).lines().nth(2).unwrap().to_owned();
        assert!(line.contains(&Paint::Good.on("  1.00")), "{line:?}");
    }

    #[test]
    fn a_table_that_is_too_wide_is_turned() {
        let mut table = Table::new(&["role", ">µs", "name", "interval"]);
        table.row(["challenger", "1.00", "attention-mma 8f6cc9c4b5", "0.99 to 1.01"].map(str::to_owned));
        table.row(["control", "1.01", "attention-mma 8f6cc9c4b5", "0.99 to 1.01"].map(str::to_owned));
        table.row(["baseline", "2.00", "torch", "1.99 to 2.01"].map(str::to_owned));
        let on = |columns: usize| printed(|out| table.print_whole_on(Screen { columns, ..Screen::plain() }, out));
        assert_eq!(on(80), printed(|out| table.print(out)), "it fits");
        insta::assert_snapshot!(on(50), @"
        role      challenger
        µs        1.00
        name      attention-mma 8f6cc9c4b5
        interval  0.99 to 1.01

        role      control                   baseline
        µs        1.01                      2.00
        name      attention-mma 8f6cc9c4b5  torch
        interval  0.99 to 1.01              1.99 to 2.01
        ");
    }
}
