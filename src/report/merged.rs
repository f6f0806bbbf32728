//! Texts that differ only in their figures, merged into one: `the grid has 8 to 32 blocks on 132 SMs`.

/// What may stand around a figure. It stays at the ends of a range.
const PUNCTUATION: [char; 6] = ['(', ')', ',', ';', ':', '.'];

/// Returns what texts have in common that differ only in their figures.
pub(super) fn shape(text: &str) -> String {
    text.split_whitespace().map(word_shape).collect::<Vec<_>>().join(" ")
}

/// Merges texts of the same shape: each figure becomes the range over all of them.
pub(super) fn merge(texts: &[&str]) -> String {
    let words: Vec<Vec<&str>> = texts.iter().map(|text| text.split_whitespace().collect()).collect();
    let Some(first) = words.first() else { return String::new() };
    let merged = (0..first.len()).map(|place| merge_words(words.iter().filter_map(|words| words.get(place).copied())));
    merged.collect::<Vec<_>>().join(" ")
}

/// Figures become `#`. A plural counts as its singular, because a figure may be 1.
fn word_shape(word: &str) -> String {
    let digits = |letter: char| letter.is_ascii_digit();
    if figure(word).is_some() {
        let (Some(start), Some(end)) = (word.find(digits), word.rfind(digits)) else { return word.to_owned() };
        return format!("{}#{}", &word[..start], &word[end + 1..]);
    }
    word.trim_end_matches('s').to_owned()
}

/// Returns the number in a word such as `24%`. None for a word, and for a name with digits in it.
fn figure(word: &str) -> Option<f64> {
    word.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

fn merge_words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut words: Vec<&str> = words.collect();
    words.sort_by(|a, b| match (figure(a), figure(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        // The plural comes last.
        _ => a.len().cmp(&b.len()),
    });
    match (words.first(), words.last()) {
        (Some(least), Some(most)) if least != most && figure(least).is_some() => {
            format!("{} to {}", least.trim_end_matches(PUNCTUATION), most.trim_start_matches(PUNCTUATION))
        }
        (_, Some(most)) => (*most).to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_ranges_and_names_do_not() {
        let blocks = ["the grid has 16 blocks on 132 SMs", "the grid has 1 block on 132 SMs"];
        assert_eq!(shape(blocks[0]), shape(blocks[1]));
        assert_eq!(merge(&blocks), "the grid has 1 to 16 blocks on 132 SMs");
        assert_eq!(merge(&["29% of the time", "24% of the time"]), "24% to 29% of the time");
        assert_eq!(merge(&["(12% of L2, 22%)", "(25% of L2, 23%)"]), "(12% to 25% of L2, 22% to 23%)");
        assert_ne!(shape("as on b1h1s64"), shape("as on b8h8s128"), "cases are names");
    }
}
