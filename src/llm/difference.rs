//! Names the first difference of two requests.

use crate::domain::models::call::ModelRequest;

/// The longest part of a line that is shown, in characters.
const SHOWN: usize = 80;

/// Returns the first difference of a request from the recorded one, in one line.
pub(super) fn difference(recorded: &ModelRequest, now: &ModelRequest) -> String {
    let texts = |request: &ModelRequest| {
        let ModelRequest { model, system, cached, prompt, answer, max_output_tokens, temperature, .. } = request;
        [
            ("model", model.clone()),
            ("system", system.clone()),
            ("cached", cached.clone()),
            ("prompt", prompt.clone()),
            ("answer", serde_json::to_string_pretty(answer).unwrap_or_default()),
            ("max_output_tokens", max_output_tokens.to_string()),
            ("temperature", temperature.map_or_else(|| "none".to_owned(), |value| value.to_string())),
        ]
    };
    let pairs = texts(recorded).into_iter().zip(texts(now));
    let mut different = pairs.filter(|((_, then), (_, now))| then != now);
    match different.next() {
        Some(((part, then), (_, now))) => first_line(part, &then, &now),
        None => "the recorded request was changed by hand".to_owned(),
    }
}

fn first_line(part: &str, then: &str, now: &str) -> String {
    let (mut then, mut now) = (then.split('\n'), now.split('\n'));
    let mut number = 1;
    loop {
        match (then.next(), now.next()) {
            (Some(then), Some(now)) if then == now => number += 1,
            (then, now) => {
                return format!("{part}, line {number}: {} was recorded, now it is {}", shown(then), shown(now));
            }
        }
    }
}

fn shown(line: Option<&str>) -> String {
    let Some(line) = line else { return "the end".to_owned() };
    let beginning: String = line.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let more = if line.chars().count() > SHOWN { "..." } else { "" };
    format!("`{beginning}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_different_line_is_named() {
        insta::assert_snapshot!(first_line("prompt", "a\nb", "a"), @"prompt, line 2: `b` was recorded, now it is the end");
        let long = "x".repeat(100);
        let told = first_line("cached", &format!("{long}1"), &format!("{long}2"));
        assert!(told.contains("line 1") && told.contains("...") && told.len() < 250, "{told}");
    }
}
