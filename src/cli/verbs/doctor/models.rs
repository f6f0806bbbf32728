//! What `optloop doctor` says about language models.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;

use super::Finding::{self, Here, Missing};
use crate::catalog::Project;
use crate::config::{Config, LlmConfig};
use crate::domain::models::call::{AnswerForm, CallPurpose, ModelReply, ModelRequest};
use crate::domain::models::money::{MicroUsd, Price};
use crate::error::{Error, error, usage_sentence};
use crate::launch::consent::{self, Agrees};
use crate::llm::Endpoint;
use crate::trust::of_models;

/// The longest time for the list of models.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most tokens of the answer to the paid call. Models that think first need some hundred.
const MAX_OUTPUT: u32 = 2000;

/// Checks the endpoint without spending anything.
pub(super) async fn check(project: &Project, config: Option<&Config>) -> Finding {
    let Some(config) = config else { return Missing("config.toml must be mended first".to_owned()) };
    let llm = &config.llm;
    if !llm.is_on() {
        return Here("llm.models names none, so sessions do not use any (`optloop docs models`)".to_owned());
    }
    if of_models(project.root(), config).iter().any(|item| !consent::is_trusted(project, item)) {
        return Missing("[llm] in config.toml is not trusted, so the endpoint was not asked".to_owned());
    }
    checked(project, llm).await.map_or_else(|problem| Missing(problem.to_string()), Here)
}

async fn checked(project: &Project, llm: &LlmConfig) -> Result<String, Error> {
    let mut settings = llm.settings(project.root())?;
    let address = settings.address.to_string();
    (settings.connect_timeout, settings.idle_timeout, settings.timeout) = (PATIENCE, PATIENCE, PATIENCE);
    let endpoint = Endpoint::open(&settings)?;
    let prices = llm.price_table()?;
    if endpoint.is_replay() {
        return Ok(format!("the cassettes in {} answer (llm.replay)", llm.replay));
    }
    let known = endpoint.models().await.map_err(|error| error!("{address}: {error}"))?;
    let unknown: Vec<&str> = prices.keys().filter(|model| !known.contains(*model)).map(String::as_str).collect();
    if !unknown.is_empty() {
        return Err(error!("{address} does not list {}: correct llm.models", unknown.join(", ")));
    }
    let key = llm.key_variable().map_or_else(|| "no key".to_owned(), |name| format!("the key in {name}"));
    let models: Vec<String> = prices.iter().map(|(model, price)| priced(model, price)).collect();
    Ok(format!("{address} answers with {key}: {}", models.join("; ")))
}

fn priced(model: &str, price: &Price) -> String {
    format!("{model} (${} for input and ${} for output per million tokens)", price.input, price.output)
}

/// Makes one paid call, and prints what it cost.
pub(super) async fn call(
    agrees: Agrees,
    project: &Project,
    config: &Config,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let llm = &config.llm;
    let Some(model) = llm.models.first() else {
        return Err(usage_sentence(
            "there is no language model to call: name one in llm.models (`optloop docs models`)",
        ));
    };
    consent::admit(project, agrees, of_models(project.root(), config))?;
    let price = llm.price_of(model).map_err(usage_sentence)?;
    let settings = llm.settings(project.root()).map_err(usage_sentence)?;
    let endpoint = Endpoint::open(&settings).map_err(usage_sentence)?;
    let request = request(model, llm.max_output_tokens.min(MAX_OUTPUT));
    let most = price.worst_case(request.prompt_tokens_upper_bound(), request.max_output_tokens.into());
    let asked = endpoint.ask(&request).await;
    let reply = asked.map_err(|error| match (error.may_be_billed, error.usage) {
        (false, _) => anyhow::anyhow!("{error}. It cost nothing"),
        (true, Some(usage)) => anyhow::anyhow!("{error}. It cost {}", price.cost(&usage)),
        (true, None) => anyhow::anyhow!("{error}. It may have cost up to {most}"),
    });
    let reply = reply.with_context(|| format!("Failed to call {model}"))?;
    Ok(writeln!(out, "paid     {model}: {}", spent(&reply, &price, most))?)
}

fn request(model: &str, max_output_tokens: u32) -> ModelRequest {
    let schema = serde_json::json!({ "type": "object", "additionalProperties": false, "required": ["ready"],
                                     "properties": { "ready": { "type": "boolean" } } });
    ModelRequest {
        purpose: CallPurpose::Check,
        ordinal: 0,
        model: model.to_owned(),
        system: String::new(),
        cached: String::new(),
        prompt: "This tests a connection. Answer that you are ready.".to_owned(),
        answer: AnswerForm {
            name: "connection_check".to_owned(),
            description: "Says that you are ready".to_owned(),
            schema,
        },
        max_output_tokens,
        temperature: None,
    }
}

fn spent(reply: &ModelReply, price: &Price, most: MicroUsd) -> String {
    if !reply.usage_is_known {
        return format!("it answered in {} ms, and did not count its tokens; at most {most}", reply.latency_ms);
    }
    let usage = &reply.usage;
    format!(
        "it answered in {} ms; {} tokens of input, {} of output; {}",
        reply.latency_ms,
        usage.prompt_tokens(),
        usage.output_tokens,
        price.cost(usage)
    )
}
