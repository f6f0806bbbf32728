//! Reads what an agent reports of itself at the end of its output.
//!
//! `claude -p --output-format json` prints one object with `total_cost_usd`, `usage` and `result`; with `stream-json`, it is the
//! last line. `codex exec --json` prints lines, of which `turn.completed` has the tokens and no cost. Any other output is text.

use serde::Deserialize;

use crate::domain::models::call::Usage;
use crate::domain::models::money::MicroUsd;

/// The most that a report is believed, in US dollars. What is above it is no cost.
const MOST_USD: f64 = 1e6;

/// What an agent reports.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reported {
    /// What it has cost. None if it does not say.
    pub cost: Option<MicroUsd>,
    /// The tokens. None if it does not say.
    pub usage: Option<Usage>,
    /// Its last words.
    pub said: String,
}

/// An object of an agent's output. Everything else in it is ignored.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    total_cost_usd: Option<f64>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    item: Option<Item>,
}

/// A message of Codex.
#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    text: Option<String>,
}

/// Tokens, with the names of Anthropic and of OpenAI. OpenAI counts cached input as input, too.
#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cache_read_input_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input_tokens: tokens.input_tokens.saturating_sub(tokens.cached_input_tokens),
            cached_tokens: tokens.cache_read_input_tokens.saturating_add(tokens.cached_input_tokens),
            cache_write_tokens: tokens.cache_creation_input_tokens,
            output_tokens: tokens.output_tokens,
        }
    }
}

/// Reads the end of an output.
pub(super) fn reported(output: &[u8]) -> Reported {
    let text = String::from_utf8_lossy(output);
    let whole: Option<Line> = serde_json::from_str(text.trim()).ok();
    let lines = whole.into_iter().chain(text.lines().filter_map(|line| serde_json::from_str(line.trim()).ok()));
    let mut found = Reported::default();
    let mut is_report = false;
    for Line { total_cost_usd, usage, result, item } in lines {
        let cost = total_cost_usd.filter(|usd| (0.0..=MOST_USD).contains(usd));
        is_report |= cost.is_some() || usage.is_some();
        found.cost = cost.map(MicroUsd::of_usd).or(found.cost);
        found.usage = usage.map(Usage::from).or(found.usage);
        found.said = result.or(item.and_then(|item| item.text)).unwrap_or(found.said);
    }
    if is_report { found } else { Reported { said: text.into_owned(), ..Reported::default() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_usual_agents_are_read() {
        let claude = r#"{"type":"result","subtype":"success","is_error":false,"result":"done","total_cost_usd":0.25,
            "usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":200,"output_tokens":40}}"#;
        let usage = Usage { input_tokens: 10, cached_tokens: 200, cache_write_tokens: 3, output_tokens: 40 };
        let of_claude = Reported { cost: Some(MicroUsd(250_000)), usage: Some(usage), said: "done".to_owned() };
        assert_eq!(reported(claude.as_bytes()), of_claude);
        let stream = format!("{{\"type\":\"system\"}}\n{}\n", claude.replace('\n', ""));
        assert_eq!(reported(stream.as_bytes()), of_claude);
        let codex = br#"{"type":"thread.started"}
{"type":"item.completed","item":{"type":"agent_message","text":"nothing left"}}
{"type":"turn.completed","usage":{"input_tokens":210,"cached_input_tokens":200,"output_tokens":40}}"#;
        let usage = Usage { cache_write_tokens: 0, ..usage };
        assert_eq!(reported(codex), Reported { cost: None, usage: Some(usage), said: "nothing left".to_owned() });
    }

    #[test]
    fn other_output_is_text_and_costs_are_not_guessed() {
        let text = Reported { said: "I am done.\n{\"a\": 1}\n".to_owned(), ..Reported::default() };
        assert_eq!(reported(b"I am done.\n{\"a\": 1}\n"), text);
        for wrong in ["-1", "1e300", "\"0.1\"", "null"] {
            assert_eq!(reported(format!("{{\"total_cost_usd\": {wrong}}}").as_bytes()).cost, None, "{wrong}");
        }
        assert_eq!(reported(b"\xff\x00").cost, None);
    }
}
