//! Sessions with language models on the virtual H200, against a server that answers from a script. It is not a model:
//! these scenarios test how a session handles answers, not their quality.

mod answers;
mod failures;
mod hostile;
mod money;
mod replays;

use std::process::Output;

use scripted_llm::{Reply, Rule, Script, Server, Tokens};
use serde_json::{Value, json};

use crate::common::{Sandbox, is_nightly};

/// The key that must appear nowhere.
pub const KEY: &str = "canary-8c2d6e14f97a4b03";

/// Both APIs, for a scenario that every gate runs with each.
pub const APIS: [&str; 2] = ["anthropic", "openai"];

/// The APIs of a scenario: both in scripts/nightly, one in the gate. The library's tests cover both clients.
pub fn apis() -> &'static [&'static str] {
    if is_nightly() { &APIS } else { &APIS[1..] }
}

const WORKLOAD: &str = r#"
name = "small"
about = "One small case."
op = "attention"
dtype = "f16"
initial_kernel = "plain"
tolerance = { relative_l2 = 1e-3, worst_row = 4e-3 }
dims = { B = 2, H = 2, CAUSAL = 1 }
[[case]]
name = "s32"
Sq = 32
Sk = 32
D = 16
"#;

/// A family without parameters, so that only language models can propose anything.
pub const MANIFEST: &str = r#"
name = "plain"
about = "One thread a query, in two passes over the keys."
op = "attention"
dtypes = ["f16"]
requires_sm = 80
constants = ["D", "CAUSAL"]
params = {}
[[launch]]
kernel = "plain"
grid = ["ceil_div(Sq, 32)", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
"#;

/// Its template.
pub const TEMPLATE: &str = include_str!("plain.cu.tera");

/// The first of the two passes.
pub const FIRST_PASS: &str = "    for (int j = 0; j <= last; ++j) {
        float score = 0;
        for (int d = 0; d < D; ++d) score += __half2float(q[d]) * __half2float(k[j * D + d]);
        most = fmaxf(most, score * scale);
    }
";

/// A project with a server, and the result of a session.
pub struct Scenario {
    pub sandbox: Sandbox,
    pub server: Server,
}

/// The result of a session.
pub struct Ended {
    pub said: String,
    pub report: Value,
    /// One row for each iteration and case.
    pub iterations: Vec<Value>,
    pub calls: Vec<Value>,
}

impl Scenario {
    /// Makes a project whose model is on a server that follows a script. `more` is added to `[llm]`.
    pub fn new(api: &str, script: Script, more: &str) -> Self {
        let server = Server::start(Script { models: vec!["m".to_owned()], ..script }).unwrap();
        let sandbox = Sandbox::without_repository();
        std::fs::remove_dir_all(sandbox.path("templates/kernels/toy")).unwrap();
        sandbox.write("kernels/workloads/small.toml", WORKLOAD);
        sandbox.write("templates/kernels/plain/family.toml", MANIFEST);
        sandbox.write("templates/kernels/plain/kernel.cu.tera", TEMPLATE);
        sandbox.write(
            "config.toml",
            &format!(
                "[git]\nbranch = ''\n[compile]\nparallel = 1\n[llm]\nprovider = '{api}'\nbase_url = '{}'\nmodels = ['m']\n\
                 key_env = 'SOME_API_KEY'\nretries = 2\n{more}\n[llm.prices.m]\ninput = 3\ncached = 0.3\n\
                 cache_write = 3.75\noutput = 15\n",
                server.url()
            ),
        );
        sandbox.git(&["init", "--quiet"]);
        sandbox.git(&["add", "--all"]);
        sandbox.git(&["commit", "--quiet", "--message", "a project"]);
        Self { sandbox, server }
    }

    /// Runs a session.
    pub fn start(&self, more: &[&str]) -> Output {
        let start = ["start", "--workload", "small", "--device", "virtual", "--seed", "1", "--trust"];
        let proposer = ["--proposer", "llm"];
        let output = self.sandbox.command(&[&start[..], &proposer, more].concat()).env("SOME_API_KEY", KEY).output();
        output.unwrap()
    }

    /// Runs a session that must succeed, and checks the invariants of every session.
    pub fn ends_well(&self, more: &[&str]) -> Ended {
        let output = self.start(more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let ended = self.ended(said);
        ended.check_money();
        self.check_key(&ended);
        ended
    }

    /// Reads the result of the latest session.
    pub fn ended(&self, said: String) -> Ended {
        let list =
            |verb: &str| -> Vec<Value> { serde_json::from_str(&self.sandbox.succeeds(&[verb, "--json"])).unwrap() };
        Ended { said, report: self.sandbox.report(), iterations: list("history"), calls: list("calls") }
    }

    /// Asserts that the key is in no file of the project, no output and no request's body.
    fn check_key(&self, ended: &Ended) {
        assert!(!ended.said.contains(KEY), "{}", ended.said);
        for request in self.server.requests() {
            assert!(!request.body.to_string().contains(KEY));
            assert!(request.headers.values().any(|value| value.contains(KEY)), "the key travels in a header");
        }
        for entry in files(&self.sandbox.path("")) {
            let bytes = std::fs::read(&entry).unwrap();
            assert!(memchr::memmem::find(&bytes, KEY.as_bytes()).is_none(), "{} holds the key", entry.display());
        }
    }
}

/// Lists the files below a folder.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { found.extend(files(&entry)) } else { found.push(entry) }
    }
    found
}

impl Ended {
    /// Returns how each call ended, as `plan answered, code failed`.
    pub fn course(&self) -> String {
        let one = |call: &Value| {
            let kind = call["error_kind"].as_str().map_or_else(String::new, |kind| format!(" ({kind})"));
            let retry = if call["is_retry"] == true { "again " } else { "" };
            format!("{retry}{} {}{kind}", call["purpose"].as_str().unwrap(), call["status"].as_str().unwrap())
        };
        self.calls.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns the outcomes of the iterations whose variants came from models.
    pub fn tried(&self) -> Vec<String> {
        let of_models = self.iterations.iter().filter(|iteration| iteration["origin"] == "model");
        of_models.map(|iteration| iteration["outcome"].as_str().unwrap_or("-").to_owned()).collect()
    }

    /// Asserts that the session's costs are the sum of its calls, to the micro-dollar.
    fn check_money(&self) {
        let spent = |call: &Value| call["estimate_micro_usd"].as_u64().or(call["cost_micro_usd"].as_u64()).unwrap();
        let sum: u64 = self.calls.iter().map(spent).sum();
        let reported = self.report["cost"]["session"]["llm_usd"].as_f64().unwrap();
        assert_eq!((reported * 1e6).round() as u64, sum, "{}", self.report["cost"]);
    }
}

/// Returns a plan of one approach.
pub fn plan(form: &str, more: Value) -> Reply {
    let mut approach = json!({
        "claim": "One pass over the keys reads each of them once.", "mechanism": "data_reuse", "case": "s32",
        "speedup_low": 1.1, "speedup_high": 2.0, "form": form, "family": "plain", "how": "online softmax"
    });
    approach.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tokens(Reply::answer(json!({ "hypotheses": [approach] })))
}

/// Returns code.
pub fn code(form: &str, more: Value) -> Reply {
    let mut code = json!({ "form": form, "name": "one pass", "about": "Online softmax." });
    code.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tokens(Reply::answer(code))
}

/// Edits that make one pass of two.
pub fn one_pass() -> Value {
    json!({ "edits": [
        { "search": FIRST_PASS, "replace": "" },
        {
            "search": "        const float weight = expf(score * scale - most);\n        sum += weight;\n",
            "replace": "        const float next = fmaxf(most, score * scale);\n        const float rescale = expf(most - next);\n        \
                        const float weight = expf(score * scale - next);\n        most = next;\n        sum = sum * rescale + weight;\n        \
                        for (int d = 0; d < D; ++d) acc[d] *= rescale;\n"
        }
    ] })
}

/// Gives a reply plausible token counts.
pub fn tokens(reply: Reply) -> Reply {
    Reply { usage: Some(Tokens { input: 1234, cached: 100, cache_write: 0, output: 321 }), ..reply }
}

/// A script that answers plans and code in turn.
pub fn script(plans: Vec<Reply>, codes: Vec<Reply>) -> Script {
    let none = tokens(Reply::answer(json!({ "hypotheses": [] })));
    let rule = |contains: &str, replies, repeat| Rule { contains: contains.to_owned(), replies, repeat };
    let plans = plans.into_iter().chain([none]).collect();
    Script { rules: vec![rule("submit_plan", plans, true), rule("submit_code", codes, false)], ..Script::default() }
}
