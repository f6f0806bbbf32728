//! Names: which ones are safe, how they are ordered, and which known name is nearest to an unknown one.

use std::cmp::Ordering;

/// Returns `" (did you mean \`x\`?)"` for the known name nearest to `unknown`, or nothing if no known name is near.
pub fn did_you_mean<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(unknown, known).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// Finds the known name with the highest Jaro-Winkler similarity, if it is above 0.7.
///
/// 0.7 is the threshold that clap uses for its own suggestions.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(unknown, name), name))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Compares names as people order them: `s64` comes before `s128`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a_rest, mut b_rest) = (a, b);
    while !a_rest.is_empty() && !b_rest.is_empty() {
        let ((a_part, a_after), (b_part, b_after)) = (first_part(a_rest), first_part(b_rest));
        // Without leading zeros, the longer number is the larger one.
        let of_numbers = || {
            let (a, b) = (a_part.trim_start_matches('0'), b_part.trim_start_matches('0'));
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        };
        let are_numbers = [a_part, b_part].iter().all(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        match if are_numbers { of_numbers() } else { a_part.cmp(b_part) } {
            Ordering::Equal => (a_rest, b_rest) = (a_after, b_after),
            unequal => return unequal,
        }
    }
    // Equal but for zeros in front of a number.
    a_rest.len().cmp(&b_rest.len()).then_with(|| a.cmp(b))
}

/// Splits a text after its first run of digits, or of anything else.
fn first_part(text: &str) -> (&str, &str) {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    text.split_at(text.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(text.len()))
}

/// Names that Windows reserves for devices in every folder.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "com", "lpt"];

/// The most characters of a name of files.
pub const MAX_NAME: usize = 64;

/// Returns a name of files with at most [`MAX_NAME`] characters: the beginning of a longer one, and a hash of all of it.
pub fn shortened(name: &str) -> String {
    if name.len() <= MAX_NAME {
        return name.to_owned();
    }
    let hash = &blake3::hash(name.as_bytes()).to_hex()[..8];
    let begin: String = name.chars().take(MAX_NAME - 1 - hash.len()).collect();
    format!("{}-{hash}", begin.trim_end_matches('-'))
}

/// Tells whether a name can name a file or folder on every system and cannot be mistaken for an option.
pub fn is_file_name(name: &str) -> bool {
    let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let device = DEVICES.contains(&name) || (name.len() == 4 && DEVICES[4..].contains(&&name[..3]));
    (1..=64).contains(&name.len()) && name.chars().all(safe) && !name.starts_with('-') && !device
}

/// Tells whether a name can be a variable in a template and an expression, and a kernel in CUDA.
pub fn is_identifier(name: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=64).contains(&name.len()) && name.chars().all(safe) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_safe_everywhere() {
        assert!(["s64", "attention-fp16-d64", "compare", "lptx1"].into_iter().all(is_file_name));
        assert!(!["", "con", "com1", "nul", "..", "-rf", "a/b", "A", "é", "a\0"].into_iter().any(is_file_name));
        assert!(["TILE", "_x", "B2"].into_iter().all(is_identifier));
        assert!(!["", "2B", "a-b", "a\nb", "a b"].into_iter().any(is_identifier));
    }

    #[test]
    fn numbers_in_names_are_ordered_by_size() {
        let mut names = ["s128", "b8h8s64", "s64", "s4d4", "b16h8s512", "s4", "s064", "b8h8s128", "", "attention"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["", "attention", "b8h8s64", "b8h8s128", "b16h8s512", "s4", "s4d4", "s064", "s64", "s128"]);
    }

    #[test]
    fn a_typo_gets_a_suggestion_and_nonsense_does_not() {
        let known = ["attention-fp16-d64", "attention-decode"];
        assert_eq!(did_you_mean("atention-fp16-d64", known), " (did you mean `attention-fp16-d64`?)");
        assert_eq!(did_you_mean("zzz", known), "");
    }
}
