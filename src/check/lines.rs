//! Finds the lines of a template from which the lines of a rendered source come.
//!
//! The template is rendered a second time, with a mark at the beginning of each line. The marks that are left say where
//! the characters come from.

use crate::domain::family::Family;
use crate::domain::op::{Dims, Dtype};
use crate::domain::variant::Params;
use crate::runner::renderer::Renderer;

/// The character around a mark. No source has it.
const MARK: char = '\u{1}';

/// Returns the line of the template of each line of `body`, the rendered template. Both are counted from 1. None if they
/// cannot be told.
pub(super) fn of_body(
    renderer: &Renderer,
    family: &Family,
    specialization: &Dims,
    dtype: Dtype,
    params: &Params,
    body: &str,
) -> Option<Vec<usize>> {
    let mut family = family.clone();
    family.template = marked(&family.template);
    let text = renderer.expanded(&family, specialization, dtype, params).ok()?;
    lines(body, &unmarked(&text))
}

/// Puts a mark at the beginning of each line that begins outside of Tera's tags.
fn marked(template: &str) -> String {
    let mut text = String::with_capacity(2 * template.len());
    let mut end_of_tag: Option<&str> = None;
    for (number, line) in (1..).zip(template.split_inclusive('\n')) {
        if end_of_tag.is_none() {
            text.push_str(&format!("{MARK}{number}{MARK}"));
        }
        text.push_str(line);
        let mut rest = line;
        loop {
            let next = match end_of_tag {
                Some(end) => rest.split_once(end).map(|(_, after)| (after, None)),
                None => opened(rest),
            };
            let Some((after, open)) = next else { break };
            (rest, end_of_tag) = (after, open);
        }
    }
    text
}

/// Returns what follows the first tag that opens in a text, and what closes the tag.
fn opened(text: &str) -> Option<(&str, Option<&'static str>)> {
    let tags = [("<%", "%>"), ("<$", "$>"), ("<#", "#>")];
    let (at, end) = tags.iter().filter_map(|(open, end)| Some((text.find(open)?, *end))).min()?;
    Some((&text[at + 2..], Some(end)))
}

/// Returns the characters of a text without its marks and without white space, each with the number of its mark.
fn unmarked(text: &str) -> Vec<(char, usize)> {
    let (mut characters, mut current) = (Vec::with_capacity(text.len()), 1);
    for (place, part) in text.split(MARK).enumerate() {
        // Every second part is between two marks.
        match part.parse() {
            Ok(number) if place % 2 == 1 => current = number,
            _ => characters.extend(part.chars().filter(|c| !c.is_whitespace()).map(|c| (c, current))),
        }
    }
    characters
}

/// Returns the number of the mark of each line of a text, if the text has these characters. An empty line has that of
/// the next one.
fn lines(text: &str, characters: &[(char, usize)]) -> Option<Vec<usize>> {
    if !text.chars().filter(|c| !c.is_whitespace()).eq(characters.iter().map(|(c, _)| *c)) {
        return None;
    }
    let mut passed = 0;
    let line = |line: &str| {
        let number = characters.get(passed).or(characters.last()).map_or(1, |(_, number)| *number);
        passed += line.chars().filter(|c| !c.is_whitespace()).count();
        number
    };
    Some(text.lines().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_with_marks_unless_a_tag_goes_on() {
        let template = "a <$ X $>\n<% if X > 1\n   and X < 3 %>\nb\n<% endif %>c\n<# d\n#>e\n";
        let shown = marked(template).replace(MARK, "'");
        insta::assert_snapshot!(shown, @"
        '1'a <$ X $>
        '2'<% if X > 1
           and X < 3 %>
        '4'b
        '5'<% endif %>c
        '6'<# d
        #>e
        ");
        // A tag may remove the white space around it, but not the marks.
        let rendered = format!("{MARK}1{MARK}a 2\n{MARK}2{MARK}\n{MARK}4{MARK}b\n{MARK}5{MARK}c\n{MARK}6{MARK}e\n");
        let characters = unmarked(&rendered);
        assert_eq!(lines("a 2\nb\n\nc\ne\n", &characters), Some(vec![1, 4, 5, 5, 6]));
        assert_eq!(lines("a 2\nb\nc\n", &characters), None);
    }
}
