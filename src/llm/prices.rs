//! The bundled price table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::settings::Provider;
use crate::domain::money::Price;

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
    models: BTreeMap<String, Price>,
}

/// A test parses the file, so that the empty table is never used.
static TABLE: LazyLock<Table> = LazyLock::new(|| toml::from_str(include_str!("prices.toml")).unwrap_or_default());

/// Returns the price of a model at its provider's own endpoint, or `None` if the table has none. A dated name such as
/// `claude-x-20260101` has the price of the longest name that it continues with a date.
pub fn bundled_price(provider: Provider, model: &str) -> Option<Price> {
    let models = &of(provider).models;
    let names = models.iter().filter(|(name, _)| is_version_of(model, name));
    names.max_by_key(|(name, _)| name.len()).map(|(_, price)| *price)
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

/// Tells whether a name is another one, or that with a date or `latest`. `gpt-x-mini` is no version of `gpt-x`.
fn is_version_of(model: &str, name: &str) -> bool {
    match model.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|rest| {
            rest == "latest" || (rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
        }),
        None => false,
    }
}
