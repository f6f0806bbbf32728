//! Search-and-replace edits of a template.

use serde::{Deserialize, Serialize};

use crate::domain::family::Family;
use crate::error::{Error, error};

/// The most edits of one answer. More than that is a new kernel.
const MAX_EDITS: usize = 40;

/// Replaces one passage of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The passage: it must occur exactly once.
    pub search: String,
    /// What to put in its place.
    pub replace: String,
}

/// Applies edits to the template and the manifest of a family. Returns both.
pub fn of_family(family: &Family, template: &[Edit], manifest: &[Edit]) -> Result<(String, String), Error> {
    let of_manifest = || apply(&family.manifest, manifest).map_err(|problem| error!("in the manifest, {problem}"));
    let edited = if manifest.is_empty() { Ok(family.manifest.clone()) } else { of_manifest() };
    // An edit of the search space alone is an edit, too.
    if template.is_empty() && !manifest.is_empty() {
        return Ok((family.template.clone(), edited?));
    }
    match (apply(&family.template, template), edited) {
        (Ok(template), Ok(manifest)) => Ok((template, manifest)),
        (Err(one), Err(other)) => Err(error!("{one}; {other}")),
        (Err(problem), _) | (_, Err(problem)) => Err(problem),
    }
}

/// Applies edits in order. Each sees the result of the earlier ones. The error lists every edit that does not apply,
/// because the model has only a few attempts to correct them.
pub fn apply(text: &str, edits: &[Edit]) -> Result<String, Error> {
    if edits.is_empty() {
        return Err(Error::new("there are no edits").hint("give at least one"));
    }
    if edits.len() > MAX_EDITS {
        return Err(error!("there are {} edits, and at most {MAX_EDITS} are allowed", edits.len()));
    }
    let (mut edited, mut problems) = (text.to_owned(), Vec::new());
    for (place, Edit { search, replace }) in edits.iter().enumerate() {
        match find(&edited, search) {
            Ok(range) => edited.replace_range(range, replace),
            Err(problem) => problems.push(format!("edit {}: {problem}", place + 1)),
        }
    }
    if problems.is_empty() { Ok(edited) } else { Err(Error::of_all(&problems)) }
}

/// Finds the only occurrence of a passage. If there is no exact match, trailing blanks are ignored.
fn find(text: &str, search: &str) -> Result<std::ops::Range<usize>, Error> {
    if search.trim().is_empty() {
        return Err(Error::new("`search` is empty: copy a passage of the template"));
    }
    let found: Vec<usize> = text.match_indices(search).map(|(at, _)| at).collect();
    match found[..] {
        [at] => Ok(at..at + search.len()),
        [] => find_ignoring_trailing_blanks(text, search),
        _ => Err(error!("`search` occurs {} times: copy more lines around it", found.len())),
    }
}

/// Finds whole lines that differ from the passage only in trailing blanks.
fn find_ignoring_trailing_blanks(text: &str, search: &str) -> Result<std::ops::Range<usize>, Error> {
    let wanted: Vec<&str> = search.trim_matches('\n').lines().map(str::trim_end).collect();
    let mut lines = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        lines.push((at, line.trim_end()));
        at += line.len();
    }
    let is_at = |start: &usize| lines[*start..].iter().zip(&wanted).filter(|((_, have), want)| have == *want).count();
    let starts: Vec<usize> =
        (0..(lines.len() + 1).saturating_sub(wanted.len())).filter(|start| is_at(start) == wanted.len()).collect();
    match starts[..] {
        [start] => {
            let (last_at, last) = lines[start + wanted.len() - 1];
            Ok(lines[start].0..last_at + last.len())
        }
        [] => Err(error!("`search` does not occur there: copy a passage exactly{}", nearest(&lines, &wanted))),
        _ => Err(error!("`search` occurs {} times: copy more lines around it", starts.len())),
    }
}

/// Shows the passage that shares the most lines with the one that was searched for.
fn nearest(lines: &[(usize, &str)], wanted: &[&str]) -> String {
    let have: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
    let shared = |window: &[&str]| {
        let same =
            window.iter().zip(wanted).filter(|(have, want)| !want.trim().is_empty() && have.trim() == want.trim());
        same.count()
    };
    let windows = have.windows(wanted.len().clamp(1, have.len().max(1)));
    // The first of equals.
    let best = windows.rev().max_by_key(|window| shared(window)).filter(|window| shared(window) > 0);
    best.map_or_else(String::new, |window| format!("; the nearest one is:\n{}", window.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(search: &str, replace: &str) -> Edit {
        Edit { search: search.to_owned(), replace: replace.to_owned() }
    }

    #[test]
    fn edits_replace_the_only_occurrence_and_see_earlier_ones() {
        let text = "int a = 1;\nint b = 2;  \nint c = a;\n";
        let edits = [edit("int b = 2;", "int b = 3;"), edit("b = 3", "b = 4")];
        assert_eq!(apply(text, &edits).unwrap(), "int a = 1;\nint b = 4;  \nint c = a;\n");
        let over_lines = [edit("int b = 2;\nint c = a;\n", "int d;")];
        assert_eq!(apply(text, &over_lines).unwrap(), "int a = 1;\nint d;\n", "blanks at ends of lines do not count");
    }

    #[test]
    fn the_nearest_passage_is_shown() {
        let text = "int a = 1;\nint b = 2;\nint c = 3;\nint d = 4;\n";
        let error = apply(text, &[edit("int c = 3;\nint d = 5;", "")]).unwrap_err();
        assert!(error.to_string().ends_with("the nearest one is:\nint c = 3;\nint d = 4;"), "{error}");
    }

    #[test]
    fn every_edit_that_does_not_apply_is_named() {
        let error = |edits: &[Edit]| apply("a a b\n", edits).unwrap_err();
        insta::assert_snapshot!(error(&[edit("a", "x"), edit("b", "c"), edit("z", "y"), edit(" ", "y")]), @"edit 1: `search` occurs 2 times: copy more lines around it; edit 3: `search` does not occur there: copy a passage exactly; edit 4: `search` is empty: copy a passage of the template");
        insta::assert_snapshot!(error(&[]), @"there are no edits: give at least one");
        insta::assert_snapshot!(error(&vec![edit("b", "b"); 41]), @"there are 41 edits, and at most 40 are allowed");
    }
}
