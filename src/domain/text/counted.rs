//! Numbers of things, in words.

/// Returns a number of things: `1 family`, `2 families`.
pub fn counted(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {}", plural(thing)) }
}

/// Returns the plural of a regular noun.
fn plural(thing: &str) -> String {
    let is_consonant = |c: char| c.is_ascii_alphabetic() && !"aeiou".contains(c);
    match thing.strip_suffix('y') {
        Some(stem) if stem.ends_with(is_consonant) => format!("{stem}ies"),
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| thing.ends_with(end)) => format!("{thing}es"),
        _ => format!("{thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_kind_has_no_plural_and_regular_nouns_have_their_own() {
        let words = ["family", "launch", "key", "winner", "box"];
        assert_eq!(words.map(|word| counted(1, word)), ["1 family", "1 launch", "1 key", "1 winner", "1 box"]);
        assert_eq!(words.map(|word| counted(5, word)), ["5 families", "5 launches", "5 keys", "5 winners", "5 boxes"]);
        assert_eq!(counted(0, "more query"), "0 more queries");
    }
}
