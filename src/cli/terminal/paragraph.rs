//! Text in lines that fit a terminal.

/// The width of the text.
pub const WIDTH: usize = 80;

/// Returns a text in lines of at most [`WIDTH`] characters, where its words allow that. The first line begins with
/// `label`, and the others with as many spaces as `indent`.
pub fn paragraph(label: &str, indent: usize, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), format!("{label:<indent$}"));
    for word in text.split(' ') {
        let length = line.chars().count() + 1 + word.chars().count();
        if length > WIDTH && line.trim_end().chars().count() > indent {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = " ".repeat(indent);
        }
        line.push_str(word);
        line.push(' ');
    }
    lines + line.trim_end() + "\n"
}
