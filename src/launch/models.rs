//! Prepares language models for a session: their terms, their endpoint, and what the user is told before the first call.

use std::time::Duration;

use anyhow::Context;

use crate::agent;
use crate::catalog::Project;
use crate::config::{Config, Send};
use crate::domain::model_terms::Terms;
use crate::domain::models::money::MicroUsd;
use crate::error::usage_sentence;
use crate::llm::Endpoint;
use crate::notices::say;

/// Calls for each approach, for the estimate. A guess: a plan serves several approaches, and code may need corrections.
const CALLS_PER_APPROACH: f64 = 1.5;

/// Returns on which terms a session with a proposer uses language models.
pub fn terms(config: &Config, proposer: &str) -> anyhow::Result<Terms> {
    let llm = &config.llm;
    let is_asked = proposer == agent::LLM;
    if proposer == agent::INTERACTIVE {
        // Clients are not called. What they send is tried before anything else, and they correct it themselves.
        return Ok(Terms { share: 1.0, sends_source: true, profiling: true, diagnosis: true, ..Terms::none() });
    }
    if is_asked && !llm.is_on() {
        return Err(usage_sentence(
            "the proposer `llm` needs a language model: name one under [llm] in config.toml, as `optloop docs models` shows",
        ));
    }
    if !llm.is_on() || !(is_asked || [agent::PORTFOLIO, "local"].contains(&proposer)) {
        return Ok(Terms::none());
    }
    let prices = llm.price_table().map_err(usage_sentence)?;
    let price = |model: &String| prices.get(model).map(|price| (model.clone(), *price));
    Ok(Terms {
        models: llm.models.iter().filter_map(price).collect(),
        concurrency: llm.concurrency,
        repair_rounds: llm.repair_rounds,
        share: if is_asked { 1.0 } else { llm.share },
        context_tokens: llm.context_tokens as usize,
        max_output_tokens: llm.max_output_tokens,
        sends_source: llm.send == Send::Source,
        profiling: llm.profiling,
        diagnosis: llm.diagnosis,
        lessons: None,
    })
}

/// Opens the endpoint of a session, and says what leaves the machine and where to. None without language models.
pub fn open(project: &Project, config: &Config, terms: &Terms) -> anyhow::Result<Option<Endpoint>> {
    if terms.models.is_empty() {
        return Ok(None);
    }
    let settings = config.llm.settings(project.root()).map_err(usage_sentence)?;
    let endpoint = Endpoint::open(&settings).map_err(usage_sentence)?;
    say(&announcement(config, terms, endpoint.is_replay())?);
    Ok(Some(endpoint))
}

fn announcement(config: &Config, terms: &Terms, is_replay: bool) -> anyhow::Result<String> {
    let models: Vec<&str> = terms.models.iter().map(|(model, _)| model.as_str()).collect();
    let models = models.join(", ");
    if is_replay {
        return Ok(format!(
            "language models: calls to {models} are replayed from {}; nothing leaves this machine, and nothing is paid",
            config.llm.replay
        ));
    }
    let address = config.llm.address().map_err(usage_sentence)?;
    let what = match config.llm.send {
        Send::Parameters => {
            "names and values of parameters, shapes, times and the diagnosis leave this machine, no source"
        }
        Send::Source => {
            "sources of kernels and oracles, shapes, times, compiler messages and the diagnosis leave this machine (llm.send = \
             \"parameters\" sends no source)"
        }
    };
    Ok(format!("language models: {models} at {address}; {what}"))
}

/// Estimates what a session may cost, in sentences.
pub fn estimate(config: &Config, terms: &Terms, wall: Duration, gpu_usd: f64) -> Vec<String> {
    let mut lines = vec![format!("device: at most ${gpu_usd:.2} for {} s", wall.as_secs())];
    for (model, price) in &terms.models {
        let prompt_tokens = terms.context_tokens as u64;
        let most = price.worst_case(prompt_tokens, u64::from(terms.max_output_tokens));
        // A prompt is rarely full, and an answer rarely as long as it may be.
        let usual = MicroUsd((most.0 as f64 / 4.0) as u64);
        let approach = MicroUsd((usual.0 as f64 * CALLS_PER_APPROACH) as u64);
        lines.push(format!(
            "{model}: a call costs at most {most}, and about {usual} if a quarter of the prompt and of the answer is used; \
             an approach about {approach}"
        ));
    }
    if terms.models.is_empty() {
        lines.push("language models: none".to_owned());
    } else {
        let calls = wall.as_secs_f64() / USUAL_CALL.as_secs_f64() * config.llm.concurrency as f64;
        lines.push(format!(
            "at about {} s a call, the session makes at most {calls:.0} calls; --max-cost limits device and models together",
            USUAL_CALL.as_secs()
        ));
    }
    lines
}

/// The usual time of a call that writes code, for the estimate.
const USUAL_CALL: Duration = Duration::from_secs(30);

/// Puts the prices that a session counts with into its settings, so that a resumed one counts alike.
pub fn with_prices(config: &Config, terms: &Terms) -> anyhow::Result<serde_json::Value> {
    let mut config = config.clone();
    for (model, price) in &terms.models {
        config.llm.prices.insert(model.clone(), (*price).into());
    }
    serde_json::to_value(&config).context("Failed to record the configuration")
}
