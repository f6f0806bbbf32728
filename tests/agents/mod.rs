//! Interactive sessions: coding agents as clients of `optloop mcp`, in real processes over standard input and output.

mod attacks;
mod client;
mod http;
mod proposer;

use serde_json::{Value, json};

use self::client::Client;
use crate::common::Sandbox;

/// An evaluation of edits of a family, with a claim.
fn edits(base: &str, search: &str, replace: &str, configurations: &Value) -> Value {
    json!({
        "claim": format!("{replace} is faster"), "speedup_low": 1.01, "speedup_high": 1.5, "base": base, "name": "a change",
        "edits": [{ "search": search, "replace": replace }], "configurations": configurations,
    })
}

#[test]
fn a_kernel_goes_from_the_task_to_a_commit() {
    let sandbox = Sandbox::with_attention();
    let mut client = Client::start(&sandbox, &["--case", "s64", "--device", "virtual", "--budget", "5m"]);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "task",
            "source",
            "evaluate",
            "history",
            "compare",
            "submit",
            "diagnose",
            "sass",
            "experiment",
            "tune",
            "tune_status",
            "finish"
        ]
    );
    for tool in &tools {
        assert!(tool["inputSchema"]["type"] == "object" && tool["outputSchema"]["type"] == "object", "{tool}");
    }

    let task = client.gets("task", json!({}));
    assert_eq!((&task["workload"], &task["times"]), (&json!("small"), &json!("modelled")));
    assert!(task["cases"][0]["floor_us"].as_f64().unwrap() > 0.0, "{task}");
    assert!(task["contract"].as_str().unwrap().contains("- `q`: "), "{task}");
    let source = client.gets("source", json!({ "family": "attention-scalar" }));
    let template = source["template"].as_str().unwrap();
    let shared = "    extern __shared__ __align__(16) unsigned char shared[];";
    let line = 1 + template.lines().position(|line| line.ends_with(shared)).unwrap();

    // A mistake is shown at its line of the template.
    let broken = edits("attention-scalar", shared, "    int nothing = missing;\n", &json!([]));
    let broken = client.gets("evaluate", broken)["evaluations"][0].clone();
    let mistake = broken["errors"].as_array().unwrap().iter().find(|error| error["line"] == line).unwrap();
    assert!(mistake["message"].as_str().unwrap().contains("identifier \"missing\" is undefined"), "{broken}");
    assert!(mistake["file"].as_str().unwrap().starts_with("template of llm-a-change-"), "{broken}");
    // One that computes something else is shown with its shape.
    let wrong = edits(
        "attention-scalar",
        "o += (head * Sq + block_row) * D;",
        "o += (head * Sq + block_row) * D; scale *= 2;",
        &json!([]),
    );
    let wrong = client.gets("evaluate", wrong)["evaluations"][0].clone();
    assert_eq!((&wrong["failure"]["outcome"], &wrong["failure"]["dims"]["Sq"]), (&json!("wrong"), &json!(64)));

    // A real change, in two configurations.
    let fast = json!([{ "BR": 16, "THREADS": 64, "TPR": 4, "BC": 32 }, { "BR": 8, "TPR": 4, "THREADS": 32 }]);
    let edited = edits(
        "attention-scalar",
        "copy_rows_at<D, PITCH, THREADS>(k_tile",
        "copy_rows_at<D, PITCH, (THREADS)>(k_tile",
        &fast,
    );
    let evaluated = client.call("evaluate", edited);
    let evaluations = evaluated.result["evaluations"].as_array().unwrap();
    let [own, refused] = &evaluations[..] else { panic!("{}", evaluated.text) };
    assert_eq!(refused["problem"], "`BR` = 8 is not one of [1, 4, 16, 32, 64]", "{}", evaluated.text);
    assert_eq!(own["cases"][0]["verdict"], "improved", "{}", evaluated.text);
    assert_eq!(own["claim"]["predicted"], json!([1.01, 1.5]));
    let iteration = own["iteration"].as_i64().unwrap();
    let record = &evaluated.structured["record"][0];
    assert_eq!((&record["iteration"], &record["is_confirmed"]), (&json!(iteration), &json!(true)));

    let about = json!({ "iteration": iteration });
    let diagnosis = client.gets("diagnose", about.clone());
    assert!(!diagnosis["cases"][0]["parts"].as_array().unwrap().is_empty(), "{diagnosis}");
    assert_eq!(client.gets("experiment", about.clone())["ablations"][0]["case"], "s64");
    assert!(client.gets("source", about.clone())["source"].as_str().unwrap().contains("(THREADS)>(k_tile"));
    let initial = json!({ "iteration": iteration, "with": 1 });
    assert!(client.gets("compare", initial)["cases"][0]["ratio"].as_f64().unwrap() > 1.0);
    let attempts = client.gets("history", json!({ "case": "s64" }));
    assert_eq!(attempts["attempts"][0]["iteration"], iteration);
    assert_eq!(attempts["failed"].as_array().unwrap().len(), 3, "{attempts}");
    assert!(client.call("submit", about).text.starts_with("it is the incumbent on each of its cases"));
    let family = own["family"].as_str().unwrap();
    client.gets("tune", json!({ "family": family, "configurations": 2 }));
    assert!(client.gets("tune_status", json!({ "family": family }))["left"].as_u64().unwrap() <= 2);
    drop(client.call("sass", json!({ "iteration": iteration, "lines": "1..50" })));

    let end = client.gets("finish", json!({}));
    let commit = end["committed"][0]["commit"].as_str().unwrap();
    assert!(sandbox.git(&["log", "--format=%H"]).starts_with(commit), "{end}");
    assert!(sandbox.path(&format!("templates/kernels/{family}/family.toml")).exists(), "the family is committed, too");
    assert_eq!(client.leave(), Some(0));
    // The record is the one that every verb reads.
    let shown: Value = serde_json::from_str(&sandbox.succeeds(&["show", &iteration.to_string(), "--json"])).unwrap();
    assert_eq!(shown["iteration"]["hypothesis"]["claim"], "copy_rows_at<D, PITCH, (THREADS)>(k_tile is faster");
}

/// On a device that samples times, an iteration is confirmed when it is submitted, in a comparison.
#[test]
fn a_submission_is_compared_and_a_client_that_leaves_ends_the_session() {
    let sandbox = Sandbox::new();
    let mut client = Client::start(&sandbox, &["--case", "s64", "--device", "fake", "--budget", "5m"]);
    client.gets("task", json!({}));
    let faster = json!({
        "claim": "smaller tiles", "speedup_low": 1.1, "speedup_high": 9.0, "base": "toy",
        "configurations": [{ "TILE": 8, "THREADS": 64 }],
    });
    let own = client.gets("evaluate", faster)["evaluations"][0].clone();
    let iteration = own["iteration"].as_i64().unwrap();
    let submitted = client.gets("submit", json!({ "iteration": iteration }));
    let case = &submitted["cases"][0];
    assert_eq!((&case["verdict"], &case["confirmed"]), (&json!("improved"), &json!(true)), "{submitted}");
    assert!(case["over_base"]["ci"][0].as_f64().unwrap() > 1.0, "one run has timed both: {submitted}");
    let confirmation = submitted["iteration"].as_i64().unwrap();
    let compared = client.gets("compare", json!({ "iteration": confirmation, "with": 1 }));
    assert!(compared["cases"][0]["noise"].is_number(), "{compared}");
    // The same kernel is not measured twice.
    let again = json!({
        "claim": "again", "speedup_low": 1.0, "speedup_high": 1.1, "base": "toy",
        "configurations": [{ "TILE": 8, "THREADS": 64 }],
    });
    let again = client.gets("evaluate", again)["evaluations"][0].clone();
    assert_eq!((&again["iteration"], &again["was_known"]), (&json!(iteration), &json!(true)));
    assert_eq!(client.leave(), Some(0));
    assert!(sandbox.git(&["log", "--format=%s"]).contains("s64"), "what has won is committed");
    let sessions = sandbox.succeeds(&["sessions", "--json"]);
    assert!(sessions.contains("its clients have ended it"), "{sessions}");
}

/// After a kill, each evaluation is on record once, and `resume` commits the winners.
#[test]
fn nothing_is_lost_or_doubled_when_the_server_is_killed() {
    let sandbox = Sandbox::new();
    let mut client = Client::start(&sandbox, &["--case", "s64", "--device", "fake", "--budget", "5m"]);
    let faster = edits(
        "toy",
        "q[threadIdx.x * D] + FAULT",
        "FAULT + q[threadIdx.x * D]",
        &json!([{ "TILE": 8, "THREADS": 64 }, { "TILE": 16, "THREADS": 64 }]),
    );
    let evaluated = client.gets("evaluate", faster)["evaluations"].clone();
    let over = [&evaluated[0], &evaluated[1]].map(|one| one["claim"]["over"].as_str().unwrap());
    assert_eq!(over, ["iteration 1"; 2], "the first configuration is not the base of the second: {evaluated}");
    let iteration = evaluated[0]["iteration"].as_i64().unwrap();
    assert_eq!(client.gets("submit", json!({ "iteration": iteration }))["cases"][0]["verdict"], "improved");
    client.kill();
    sandbox.succeeds(&["resume"]);
    assert!(sandbox.git(&["log", "--format=%s"]).contains("s64"), "what has won is committed");
    let history: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
    let of_clients = history.as_array().unwrap().iter().filter(|one| one["claim"] == evaluated[0]["claim"]["text"]);
    assert_eq!(of_clients.count(), 2, "{history}");
    let calls: Value = serde_json::from_str(&sandbox.succeeds(&["calls", "--json"])).unwrap();
    assert_eq!(calls.as_array().unwrap().len(), 2, "{calls}");
}

#[test]
fn a_skill_is_written_and_no_file_is_overwritten() {
    let sandbox = Sandbox::new();
    sandbox.write(".mcp.json", "{}");
    let said = sandbox.succeeds(&["skill"]);
    assert_eq!(
        said,
        "wrote AGENTS.md\nkept .mcp.json, which is there already\nwrote .claude/skills/optloop/SKILL.md\n"
    );
    let read = |name: &str| std::fs::read_to_string(sandbox.path(name)).unwrap();
    assert_eq!(read(".mcp.json"), "{}");
    assert!(read(".claude/skills/optloop/SKILL.md").starts_with("---\nname: optloop\ndescription: "));
    sandbox.write("AGENTS.md", "mine");
    assert_eq!(sandbox.succeeds(&["skill"]).matches("kept").count(), 3);
    assert_eq!(read("AGENTS.md"), "mine");
    let outside = tempfile::tempdir().unwrap();
    std::fs::remove_dir_all(sandbox.path(".claude")).unwrap();
    std::os::unix::fs::symlink(outside.path(), sandbox.path(".claude")).unwrap();
    assert!(sandbox.fails(&["skill"]).contains("is a link out of the project"));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}
