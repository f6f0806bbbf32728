//! Markdown tables.

use crate::report::format::NOTHING;

/// Writes a table. A heading with a leading `>` is for figures, which are aligned to the right. No rows make no table.
pub(super) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let mut text = line(&mut headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()));
    let rule = |heading: &&str| if heading.starts_with('>') { "--:" } else { "---" };
    text += &format!("|{}|\n", headings.iter().map(rule).collect::<Vec<_>>().join("|"));
    for row in rows {
        text += &line(&mut row.iter().map(|text| cell(text)));
    }
    text
}

/// Makes text safe in a cell.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// Formats a figure that may be missing.
pub(super) fn shown(figure: Option<f64>, show: impl Fn(f64) -> String) -> String {
    figure.map_or_else(|| NOTHING.to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_aligned_and_bars_are_escaped() {
        insta::assert_snapshot!(table(&["name", ">us"], &[vec!["a|b".to_owned(), "1.5".to_owned()]]), @r"
        | name | us |
        |---|--:|
        | a\|b | 1.5 |
        ");
        assert_eq!(table(&["name"], &[]), "");
    }
}
