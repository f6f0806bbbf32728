//! Names: which ones are safe, and which known name is nearest to an unknown one.

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

/// Names that Windows reserves for devices in every folder.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "com", "lpt"];

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
    fn a_slip_of_the_finger_is_named_and_nonsense_is_not() {
        let known = ["attention-fp16-d64", "attention-decode"];
        assert_eq!(did_you_mean("atention-fp16-d64", known), " (did you mean `attention-fp16-d64`?)");
        assert_eq!(did_you_mean("zzz", known), "");
    }
}
