//! The bundled price table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::provider::Provider;
use crate::domain::models::money::Price;

/// The table of prices.toml.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The day on which the prices were read.
    date: String,
    anthropic: Prices,
    openai: Prices,
}

/// The prices of one provider.
#[derive(Debug, Default, Deserialize)]
struct Prices {
    /// The page that states them.
    source: String,
    models: BTreeMap<String, Entry>,
}

/// The prices of one model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    input: f64,
    cached: f64,
    cache_write: f64,
    output: f64,
    /// The largest prompt for which they hold, in tokens.
    up_to: Option<u64>,
}

/// A test parses the file, so that the empty table is never used.
static TABLE: LazyLock<Table> = LazyLock::new(|| toml::from_str(include_str!("prices.toml")).unwrap_or_default());

/// Returns the price of a model at its provider's own endpoint, or `None` if the table has none for prompts of up to
/// `prompt_tokens`. A dated name such as `claude-x-20260101` has the price of the longest name that it continues with a
/// date.
pub fn bundled_price(provider: Provider, model: &str, prompt_tokens: u64) -> Option<Price> {
    let models = &of(provider).models;
    let names = models.iter().filter(|(name, _)| is_version_of(model, name));
    let (_, entry) = names.max_by_key(|(name, _)| name.len())?;
    let Entry { input, cached, cache_write, output, up_to } = *entry;
    up_to.is_none_or(|most| prompt_tokens <= most).then_some(Price { input, cached, cache_write, output })
}

/// Returns the day on which the bundled prices were read, and the page that states those of a provider.
pub fn bundled_prices_origin(provider: Provider) -> (&'static str, &'static str) {
    (&TABLE.date, &of(provider).source)
}

fn of(provider: Provider) -> &'static Prices {
    match provider {
        Provider::Anthropic => &TABLE.anthropic,
        Provider::OpenAi => &TABLE.openai,
    }
}

/// Tells whether a name equals another one, or continues it with a date or `latest`. `gpt-x-mini` is not a version of
/// `gpt-x`.
fn is_version_of(model: &str, name: &str) -> bool {
    match model.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|rest| {
            rest == "latest" || (rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
        }),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete_and_plausible() {
        let table: Table = toml::from_str(include_str!("prices.toml")).unwrap();
        assert!(table.date.starts_with("2026-") && table.anthropic.models.len() > 5 && !table.openai.models.is_empty());
        for prices in [&table.anthropic, &table.openai] {
            assert!(prices.source.starts_with("https://"));
            for (model, price) in &prices.models {
                let rises = [0.0, price.cached, price.input, price.output, 100.0];
                assert!(rises.is_sorted() && price.cache_write >= price.input, "{model}");
            }
        }
    }

    #[test]
    fn a_dated_name_has_the_price_of_the_longest_name() {
        let output = |model| bundled_price(Provider::Anthropic, model, 60_000).map(|price| price.output);
        assert_eq!(output("claude-opus-5"), Some(25.0));
        assert_eq!(output("claude-opus-5-20260724"), Some(25.0));
        assert_eq!(output("claude-opus-5-5-20260922"), Some(20.0));
        assert_eq!(output("claude-opus-5-5-latest"), Some(20.0));
        let openai = |model| bundled_price(Provider::OpenAi, model, 60_000).is_some();
        assert!(openai("gpt-6.2-sol-2026-11-17") && !openai("gpt-6.2-sol-pro") && !openai("claude-opus-5"));
        assert_eq!([output("claude-opus-5-6"), output("claude-opus"), output("claude-opus-5x"), output("")], [None; 4]);
    }

    #[test]
    fn a_price_holds_for_prompts_up_to_its_limit() {
        let price = |tokens| bundled_price(Provider::Anthropic, "claude-haiku-5-5", tokens);
        assert!(price(100_000).is_some() && price(100_001).is_none());
    }
}
