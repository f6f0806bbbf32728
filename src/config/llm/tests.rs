//! The meaning of `[llm]`, and the mistakes that are refused.

use super::*;
use crate::config::Config;

fn error(text: &str) -> String {
    Config::parse(text).unwrap_err().into()
}

fn config(text: &str) -> LlmConfig {
    Config::parse(text).unwrap().llm
}

#[test]
fn no_model_is_used_unless_it_is_named() {
    assert!(!config("").is_on() && !config("[llm]\nprovider = 'openai'").is_on());
    assert!(config("[llm]\nmodels = ['m']").is_on());
}

#[test]
fn the_usual_key_goes_to_the_providers_own_endpoint_only() {
    let variable = |text: &str| config(text).key_variable().map(str::to_owned);
    assert_eq!(variable(""), Some("ANTHROPIC_API_KEY".to_owned()));
    assert_eq!(variable("[llm]\nprovider = 'openai'"), Some("OPENAI_API_KEY".to_owned()));
    assert_eq!(variable("[llm]\nbase_url = 'https://example.com'"), None);
    assert_eq!(variable("[llm]\nkey_env = ''"), None);
    assert_eq!(variable("[llm]\nbase_url = 'https://x.y'\nkey_env = 'MY_KEY'"), Some("MY_KEY".to_owned()));
}

#[test]
fn a_price_is_the_configured_one_or_a_bundled_one_of_the_providers_own_endpoint() {
    let price = |text: &str, model: &str| config(text).price_of(model);
    assert_eq!(price("", "claude-opus-5").unwrap().output, 25.0);
    let configured = "[llm.prices.'claude-opus-5']\ninput = 2\noutput = 3";
    let expected = Price { input: 2.0, cached: 2.0, cache_write: 2.5, output: 3.0 };
    assert_eq!(price(configured, "claude-opus-5").unwrap(), expected);
    let local = "[llm]\nprovider = 'openai'\nbase_url = 'http://localhost:8000'";
    insta::assert_snapshot!(price(local, "gpt-6-sol").unwrap_err(), @r#"the price of the model `gpt-6-sol` is not known: set input and output in [llm.prices."gpt-6-sol"], in US dollars per million tokens (0 for a model of your own)"#);
    assert_eq!(price(&format!("{local}\n[llm.prices.m]\ninput = 0\noutput = 0"), "m").unwrap(), Price::FREE);
    assert!(price("[llm]\ncontext_tokens = 80000", "claude-haiku-5-5").is_err(), "it is dearer above 100000 tokens");
    assert!(config("[llm]\nmodels = ['claude-opus-5', 'x']").price_table().unwrap_err().to_string().contains("`x`"));
}

#[test]
fn mistakes_are_one_sentence_that_names_the_key() {
    let llm = |line: &str| error(&format!("[llm]\n{line}"));
    insta::assert_snapshot!(llm("provider = 'acme'"), @"line 2: unknown variant `acme`, expected `anthropic` or `openai`");
    insta::assert_snapshot!(llm("model = 'x'"), @"line 2: unknown field `model`, expected one of `provider`, `base_url`, `models`, `key_env`, `allow_http`, `connect_timeout`, `timeout`, `idle_timeout`, `concurrency`, `retries`, `max_output_tokens`, `context_tokens`, `repair_rounds`, `share`, `send`, `profiling`, `lessons`, `diagnosis`, `record`, `replay`, `prices` (did you mean `models`?)");
    insta::assert_snapshot!(llm("models = ['a b']"), @"llm.models: `a b` is not the name of a model: use 1 to 256 characters without blanks");
    insta::assert_snapshot!(llm("models = ['a', 'a']"), @"llm.models names `a` twice: remove one of them");
    insta::assert_snapshot!(llm("base_url = 'http://example.com'"), @"llm.base_url is plain HTTP to a public address: use https, or set llm.allow_http = true");
    insta::assert_snapshot!(llm("base_url = 'https://u:p@example.com'"), @"llm.base_url must not contain a user or a password: name a variable with the key in llm.key_env");
    insta::assert_snapshot!(llm("base_url = 'file:///etc'"), @"llm.base_url must begin with http:// or https://");
    insta::assert_snapshot!(llm("key_env = 'sk-ant-hunter2'"), @"llm.key_env must be the name of an environment variable, such as ANTHROPIC_API_KEY");
    insta::assert_snapshot!(llm("key_env = 'OPTLOOP_LLM'"), @"llm.key_env: `OPTLOOP_LLM` is not treated as a secret: use a variable whose name ends in _KEY or _TOKEN");
    insta::assert_snapshot!(llm("idle_timeout = '11m'"), @"llm.idle_timeout must not be longer than llm.timeout");
    insta::assert_snapshot!(llm("timeout = 'soon'"), @"llm.timeout: `soon` is not a duration (expected number at 0): use one such as 10m or 4h");
    insta::assert_snapshot!(llm("concurrency = 0"), @"llm.concurrency must be between 1 and 64");
    insta::assert_snapshot!(llm("share = 1.5"), @"llm.share must be between 0 and 1");
    insta::assert_snapshot!(llm("record = 'a'\nreplay = 'b'"), @"llm.record and llm.replay exclude each other: remove one of them");
    insta::assert_snapshot!(llm("record = '../a'"), @"llm.record must stay inside the project: use a path without `..`, or an absolute one");
    insta::assert_snapshot!(error("[llm.prices.m]\ninput = -1\noutput = 1"), @r#"llm.prices."m": prices must be between 0 and 1000000 US dollars per million tokens"#);
    insta::assert_snapshot!(error("[llm.prices.m]\ninput = 1"), @"line 1: missing field `output`");
    insta::assert_snapshot!(error("[llm]\nkey_env = 'A_KEY'\nmax_output_tokens = 'x'"), @r#"line 3: must be a whole number from 0, but is the text "x""#);
}

#[test]
fn no_child_process_gets_the_key() {
    let with =
        |env: &str, llm: &str| Config::parse(&format!("[baseline]\nenv = ['{env}']\n[llm]\nmodels = ['m']\n{llm}"));
    insta::assert_snapshot!(with("MY_KEY", "key_env = 'MY_KEY'").unwrap_err(), @"baseline.env must not list `MY_KEY`, which holds the key of the language model: remove it");
    insta::assert_snapshot!(with("ANTHROPIC_API_KEY", "").unwrap_err(), @"baseline.env must not list `ANTHROPIC_API_KEY`, which holds the key of the language model: remove it");
    assert!(with("HF_HOME", "key_env = 'MY_KEY'").is_ok());
    // Other names follow the rules for child processes. Names that these rules pass to a child are refused.
    for name in ["PIP_KEY", "HTTPS_PROXY", "PATH", "CUDA_HOME", "HF_HOME", "LC_ALL"] {
        assert!(
            with("X", &format!("key_env = '{name}'")).unwrap_err().to_string().contains("not treated as a secret"),
            "{name}"
        );
    }
    for name in ["CUDA_KEY", "OPTLOOP_TOKEN", "ANTHROPIC_API_KEY"] {
        assert!(!environment::is_for_a_child(name) && with("X", &format!("key_env = '{name}'")).is_ok(), "{name}");
    }
}
