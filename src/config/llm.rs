//! `[llm]`: which language models propose kernels, and how they are reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};

use super::duration;
use crate::domain::models::money::Price;
use crate::environment;
use crate::error::{Error, error};
use crate::llm::{Address, Provider, Settings, bundled_price};
use crate::secrets;

/// The value of a key that leaves the choice to optloop.
const AUTO: &str = "auto";

/// The longest name of a model, in bytes. Names in paths of files, as of llama.cpp, are the longest in use.
const MAX_NAME_BYTES: usize = 256;

/// The highest price in US dollars per million tokens: a thousand times that of the most expensive model. A higher one
/// is a typo.
const HIGHEST_PRICE: f64 = 1e6;

/// The parts of a kernel that a prompt may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Send {
    /// Names and values of parameters, and figures. No source.
    Parameters,
    /// Sources as well.
    Source,
}

/// `[llm]`. No `models` means that no language model is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LlmConfig {
    /// Whose API the endpoint speaks.
    pub provider: Provider,
    /// The endpoint; `auto` for the provider's own.
    pub base_url: String,
    /// The provider's names of the models.
    pub models: Vec<String>,
    /// The environment variable with the key. Empty for none; `auto` for the provider's usual one at its own endpoint.
    pub key_env: String,
    /// Whether plain HTTP may leave the private network.
    pub allow_http: bool,
    /// The longest time until a connection is made.
    pub connect_timeout: String,
    /// The longest time of a call, with all its attempts.
    pub timeout: String,
    /// The longest time without a byte of the answer.
    pub idle_timeout: String,
    /// Calls at once.
    pub concurrency: usize,
    /// Further attempts of a request that cost nothing.
    pub retries: u32,
    /// The most tokens of one answer.
    pub max_output_tokens: u32,
    /// The most tokens of one prompt.
    pub context_tokens: u32,
    /// How often errors go back to the model for correction.
    pub repair_rounds: u32,
    /// The largest share of the iterations that come from models under the default proposer.
    pub share: f64,
    /// The parts of a kernel that a prompt may contain.
    pub send: Send,
    /// Whether prompts contain profiles.
    pub profiling: bool,
    /// Whether prompts contain lessons of earlier sessions.
    pub lessons: bool,
    /// Whether prompts contain the diagnosis.
    pub diagnosis: bool,
    /// The folder for cassettes, relative to the project; empty for no recording.
    pub record: String,
    /// The folder with cassettes that answer instead of the endpoint; empty for none.
    pub replay: String,
    /// Prices by model.
    pub prices: BTreeMap<String, PriceConfig>,
}

/// `[llm.prices."MODEL"]`, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceConfig {
    /// Input.
    pub input: f64,
    /// Input from the provider's cache; that of input if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
    /// Input that is written to the cache; 1.25 times that of input if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Output.
    pub output: f64,
}

impl Send {
    /// Returns the name in `config.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Source => "source",
        }
    }
}

impl Default for LlmConfig {
    fn default() -> Self {
        Self {
            provider: Provider::Anthropic,
            base_url: AUTO.to_owned(),
            models: Vec::new(),
            key_env: AUTO.to_owned(),
            allow_http: false,
            connect_timeout: "10s".to_owned(),
            timeout: "10m".to_owned(),
            idle_timeout: "2m".to_owned(),
            concurrency: 1,
            retries: 4,
            max_output_tokens: 16_000,
            context_tokens: 60_000,
            repair_rounds: 3,
            share: 0.3,
            send: Send::Source,
            profiling: true,
            lessons: true,
            diagnosis: true,
            record: String::new(),
            replay: String::new(),
            prices: BTreeMap::new(),
        }
    }
}

impl From<Price> for PriceConfig {
    fn from(Price { input, cached, cache_write, output }: Price) -> Self {
        Self { input, cached: Some(cached), cache_write: Some(cache_write), output }
    }
}

impl PriceConfig {
    fn price(self) -> Price {
        let Self { input, cached, cache_write, output } = self;
        // Anthropic's surcharge for entries of five minutes. OpenAI has none, and reports no such tokens.
        let cache_write = cache_write.unwrap_or(input * 1.25);
        Price { input, cached: cached.unwrap_or(input), cache_write, output }
    }
}

impl LlmConfig {
    /// Tells whether a language model may be used.
    pub fn is_on(&self) -> bool {
        !self.models.is_empty()
    }

    /// Returns the address of the endpoint. The error is one sentence that names the key.
    pub fn address(&self) -> Result<Address, Error> {
        let given = (self.base_url != AUTO).then_some(self.base_url.as_str());
        Address::new(self.provider, given, self.allow_http).map_err(|problem| error!("llm.base_url {problem}"))
    }

    /// Returns the name of the environment variable with the key. Another endpoint than the provider's own never gets
    /// the provider's key unless the user names it.
    pub fn key_variable(&self) -> Option<&str> {
        match self.key_env.as_str() {
            "" => None,
            AUTO => (self.base_url == AUTO).then(|| self.provider.usual_key_variable()),
            name => Some(name),
        }
    }

    /// Returns how models are called. Paths of cassettes are relative to `project`.
    pub fn settings(&self, project: &Path) -> Result<Settings, Error> {
        let time = |key: &str, text: &str| duration(key, text).map_err(Error::new);
        let folder = |path: &str| (!path.is_empty()).then(|| project.join(path));
        Ok(Settings {
            address: self.address()?,
            key_variable: self.key_variable().map(str::to_owned),
            connect_timeout: time("llm.connect_timeout", &self.connect_timeout)?,
            timeout: time("llm.timeout", &self.timeout)?,
            idle_timeout: time("llm.idle_timeout", &self.idle_timeout)?,
            concurrency: self.concurrency,
            retries: self.retries,
            record: folder(&self.record),
            replay: folder(&self.replay),
        })
    }

    /// Returns the price of a model: that of the configuration, else the bundled one at the provider's own endpoint.
    /// The error is one sentence that says which key to set.
    pub fn price_of(&self, model: &str) -> Result<Price, Error> {
        if let Some(price) = self.prices.get(model) {
            return Ok(price.price());
        }
        // Tokens are estimated before a call, and a prompt may turn out to have a few more.
        let prompt_tokens = u64::from(self.context_tokens) * 3 / 2;
        let bundled = (self.base_url == AUTO).then(|| bundled_price(self.provider, model, prompt_tokens)).flatten();
        bundled.ok_or_else(|| {
            error!(
                "the price of the model `{model}` is not known: set input and output in [llm.prices.{model:?}], in US \
                 dollars per million tokens (0 for a model of your own)"
            )
        })
    }

    /// Returns the price of each model. The error is that of the first one without.
    pub fn price_table(&self) -> Result<BTreeMap<String, Price>, Error> {
        self.models.iter().map(|model| Ok((model.clone(), self.price_of(model)?))).collect()
    }

    /// Checks the section. `baseline_env` lists the variables that baselines get. The error is one sentence that names
    /// the key.
    pub(super) fn check(&self, baseline_env: &[String]) -> anyhow::Result<()> {
        self.check_models()?;
        self.address().map_err(anyhow::Error::msg)?;
        self.check_key(baseline_env)?;
        let timeout = duration("llm.timeout", &self.timeout)?;
        for (key, text) in [("connect_timeout", &self.connect_timeout), ("idle_timeout", &self.idle_timeout)] {
            ensure!(duration(&format!("llm.{key}"), text)? <= timeout, "llm.{key} must not be longer than llm.timeout");
        }
        self.check_numbers()?;
        if !self.record.is_empty() && !self.replay.is_empty() {
            bail!("llm.record and llm.replay exclude each other: remove one of them");
        }
        for (key, path) in [("record", &self.record), ("replay", &self.replay)] {
            // An absolute path is the user's own choice: it needs `optloop trust`.
            let leaves = Path::new(path).components().any(|part| part == Component::ParentDir);
            ensure!(!leaves, "llm.{key} must stay inside the project: use a path without `..`, or an absolute one");
        }
        Ok(())
    }

    fn check_models(&self) -> anyhow::Result<()> {
        let is_name =
            |name: &str| (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(|c| c.is_ascii_graphic());
        if let Some(name) = self.models.iter().chain(self.prices.keys()).find(|name| !is_name(name)) {
            bail!(
                "llm.models: `{name}` is not the name of a model: use 1 to {MAX_NAME_BYTES} characters without blanks"
            );
        }
        let mut seen = BTreeSet::new();
        if let Some(name) = self.models.iter().find(|name| !seen.insert(*name)) {
            bail!("llm.models names `{name}` twice: remove one of them");
        }
        for (model, price) in &self.prices {
            let figures = [Some(price.input), price.cached, price.cache_write, Some(price.output)];
            if !figures.into_iter().flatten().all(|usd| (0.0..=HIGHEST_PRICE).contains(&usd)) {
                bail!(
                    "llm.prices.{model:?}: prices must be between 0 and {HIGHEST_PRICE} US dollars per million tokens"
                );
            }
        }
        Ok(())
    }

    /// The key's variable must be one that is masked everywhere and given to no child process.
    fn check_key(&self, baseline_env: &[String]) -> anyhow::Result<()> {
        let Some(name) = self.key_variable() else { return Ok(()) };
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // A value that is not a name may be the key itself, so it is not shown.
        ensure!(is_name, "llm.key_env must be the name of an environment variable, such as ANTHROPIC_API_KEY");
        ensure!(
            secrets::looks_secret(name) && !environment::is_for_a_child(name),
            "llm.key_env: `{name}` is not treated as a secret: use a variable whose name ends in _KEY or _TOKEN"
        );
        ensure!(
            !(self.is_on() && baseline_env.iter().any(|given| given == name)),
            "baseline.env must not list `{name}`, which holds the key of the language model: remove it"
        );
        Ok(())
    }

    fn check_numbers(&self) -> anyhow::Result<()> {
        let ranges: [(&str, u64, std::ops::RangeInclusive<u64>); 5] = [
            ("concurrency", self.concurrency as u64, 1..=64),
            ("retries", self.retries.into(), 0..=20),
            ("max_output_tokens", self.max_output_tokens.into(), 256..=1_000_000),
            ("context_tokens", self.context_tokens.into(), 2000..=10_000_000),
            ("repair_rounds", self.repair_rounds.into(), 0..=10),
        ];
        for (key, value, range) in ranges {
            ensure!(range.contains(&value), "llm.{key} must be between {} and {}", range.start(), range.end());
        }
        ensure!((0.0..=1.0).contains(&self.share), "llm.share must be between 0 and 1");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
