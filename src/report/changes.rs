//! Names changed parameters, with what each of them does.

use super::format::of_two_runs;
use crate::domain::origin::Change;

/// The most changes to name. More of them say little about any.
pub(super) const MOST: usize = 3;

/// Names a change, with its effect alone if that is known, and with what the parameter does.
pub(super) fn named(Change { parameter, from, to }: &Change, alone: Option<f64>, about: Option<&str>) -> String {
    let alone = alone.map(|alone| format!("{} alone", of_two_runs(alone)));
    let notes: Vec<String> = alone.into_iter().chain(about.map(|about| meaning(about).to_owned())).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    format!("`{parameter}` {from} → {to}{notes}")
}

/// Joins the names of the first changes, and counts the others: `A, B, C and 2 more`.
pub(super) fn joined(names: &[String]) -> String {
    joined_of(names, names.len())
}

/// The same, where some of all changes have no name.
pub(super) fn joined_of(names: &[String], all: usize) -> String {
    let named = &names[..names.len().min(MOST)];
    let more = (all > named.len()).then(|| format!("{} more", all - named.len()));
    listed(&named.iter().cloned().chain(more).collect::<Vec<_>>()).unwrap_or_default()
}

/// Lists all names: `A, B and C`. None without names.
pub(super) fn listed(names: &[String]) -> Option<String> {
    let (last, others) = names.split_last()?;
    Some(if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) })
}

/// Returns what a parameter does in short: the first clause, or all of it up to the second value where it lists values.
pub(super) fn meaning(about: &str) -> &str {
    let first = first_clause(about);
    if first.len() > 2 { first } else { about.split_once("; ").map_or(about, |(first, _)| first) }
}

/// Returns a text up to its first punctuation mark.
pub(super) fn first_clause(text: &str) -> &str {
    text.find([':', ';', '.', ',', '(']).map_or(text, |end| &text[..end]).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_changes_are_named_with_their_meaning_and_the_others_counted() {
        let change = |parameter: &str| Change { parameter: parameter.to_owned(), from: 1, to: 0 };
        let about = Some("scores overlap with values: this hides latency");
        let first = named(&change("OVERLAP"), Some(0.96), about);
        assert_eq!(first, "`OVERLAP` 1 → 0 (0.96× alone; scores overlap with values)");
        let names: Vec<String> = ["A", "B", "C", "D", "E"].iter().map(|one| named(&change(one), None, None)).collect();
        assert_eq!(joined(&names), "`A` 1 → 0, `B` 1 → 0, `C` 1 → 0 and 2 more");
        assert_eq!([joined(&names[..2]), joined(&names[..1])], ["`A` 1 → 0 and `B` 1 → 0", "`A` 1 → 0"]);
    }

    #[test]
    fn a_parameter_is_explained_by_its_first_clause() {
        assert_eq!(first_clause("keys per copy: small chunks start sooner"), "keys per copy");
        assert_eq!(first_clause("warps"), "warps");
    }
}
