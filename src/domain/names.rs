//! Suggests the nearest known name for one that is not known.

/// Returns `" (did you mean \`x\`?)"` for the known name nearest to `unknown`, or nothing if none is near.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_named_and_nonsense_is_not() {
        let known = ["attention-fp16-d64", "attention-decode"];
        assert_eq!(did_you_mean("atention-fp16-d64", known), " (did you mean `attention-fp16-d64`?)");
        assert_eq!(did_you_mean("zzz", known), "");
    }
}
