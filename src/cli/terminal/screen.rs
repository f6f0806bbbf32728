//! What standard output can show: its width, colours, and a pager for long lists.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

use anstream::ColorChoice;
use anstyle::{AnsiColor, Reset, Style};

use crate::notices::showable;

/// The width of output that goes to no terminal, in columns. Everything fits it.
const PLAIN_COLUMNS: usize = 80;

/// How a cell looks on a screen with colours. Tables write styles as characters that no text has, because control characters
/// in texts are escaped. [`Screen::show`] replaces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// A heading.
    Heading,
    /// Good news, such as an improvement.
    Good,
    /// Bad news, such as a wrong result.
    Bad,
    /// What is only beside the point.
    Faint,
}

/// Ends a style. It is for private use (Unicode, chapter 23), as are those that begin one.
const END: char = '\u{f8f4}';

impl Paint {
    const ALL: [Self; 4] = [Self::Heading, Self::Good, Self::Bad, Self::Faint];

    /// Returns a text in this style.
    pub fn on(self, text: &str) -> String {
        format!("{}{text}{END}", self.begin())
    }

    fn begin(self) -> char {
        match self {
            Self::Heading => '\u{f8f0}',
            Self::Good => '\u{f8f1}',
            Self::Bad => '\u{f8f2}',
            Self::Faint => '\u{f8f3}',
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Heading => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Faint => Style::new().dimmed(),
        }
    }
}

/// Masks and escapes a text, and then replaces its styles by what a terminal obeys.
fn rendered(text: &str) -> String {
    let mut shown = String::new();
    for c in showable(text).chars() {
        match Paint::ALL.into_iter().find(|paint| paint.begin() == c) {
            Some(paint) => shown.push_str(&paint.style().render().to_string()),
            None if c == END => shown.push_str(&Reset.render().to_string()),
            None => shown.push(c),
        }
    }
    shown
}

/// A place that shows text.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Its width in columns.
    pub columns: usize,
    /// Whether it shows colours.
    pub is_coloured: bool,
    /// Its height in lines. None if it scrolls by itself, such as a file.
    pub rows: Option<usize>,
}

impl Screen {
    /// Returns what standard output is. NO_COLOR, CLICOLOR and CLICOLOR_FORCE are respected.
    pub fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let is_coloured = anstream::AutoStream::choice(&stdout) != ColorChoice::Never;
        let size = terminal_size::terminal_size().filter(|_| stdout.is_terminal());
        match size {
            Some((width, height)) => Self {
                columns: usize::from(width.0).max(PLAIN_COLUMNS),
                is_coloured,
                rows: Some(usize::from(height.0)),
            },
            None => Self { columns: PLAIN_COLUMNS, is_coloured, rows: None },
        }
    }

    /// Tells whether the output goes to a program or a file, which cuts nothing and needs everything.
    pub fn is_pipe(&self) -> bool {
        self.rows.is_none()
    }

    /// Returns a screen of 80 columns without colours.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { columns: PLAIN_COLUMNS, is_coloured: false, rows: None }
    }

    /// Writes a text with its styles, through the user's pager if it is higher than the terminal.
    pub fn show(&self, text: &[u8], out: &mut impl Write) -> std::io::Result<()> {
        let text = String::from_utf8_lossy(text);
        if self.rows.is_some_and(|rows| text.lines().count() >= rows) && page(&rendered(&text)) {
            return Ok(());
        }
        if !self.is_coloured {
            return out.write_all(text.as_bytes());
        }
        // `out` would escape the styles.
        out.flush()?;
        std::io::stdout().write_all(rendered(&text).as_bytes())
    }
}

/// Gives a text to the program in PAGER, or to `less`. Returns whether it was shown.
fn page(text: &str) -> bool {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    if pager.trim().is_empty() {
        return false;
    }
    let mut command = Command::new("sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    // As git does: leave a short text on the screen, and show its colours.
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(stdin) = child.stdin.take() {
        // A pager that is left before the end of the text closes its input.
        let _ = { stdin }.write_all(text.as_bytes());
    }
    // 127: the shell has not found it.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_shown_and_what_a_text_brings_along_is_escaped() {
        let text = format!("{} {}", Paint::Good.on("improved"), Paint::Heading.on("x\u{1b}[2J"));
        assert_eq!(rendered(&text), "\u{1b}[32mimproved\u{1b}[0m \u{1b}[1mx\\u001b[2J\u{1b}[0m");
    }
}
