//! Handling of answers: parameters, edits, kernels, families, and their corrections.

use serde_json::json;

use super::{APIS, FIRST_PASS, MANIFEST, Reply, Scenario, TEMPLATE, apis, code, one_pass, plan, script, tokens};

/// The template of one pass, with the block's size as a parameter.
fn family() -> (String, String) {
    let manifest = MANIFEST
        .replace("params = {}\n", "")
        .replace("[[launch]]", "[params.THREADS]\nvalues = [8, 16, 32]\ndefault = 32\nabout = \"threads\"\nexpect = [1.0, 2.0]\n[[launch]]")
        .replace("ceil_div(Sq, 32)", "ceil_div(Sq, THREADS)")
        .replace("block = [\"32\"]", "block = [\"THREADS\"]");
    (manifest, TEMPLATE.replace("blockIdx.x * 32", "blockIdx.x * <$ THREADS $>"))
}

#[test]
fn an_edit_that_improves_a_kernel_is_committed_with_its_family() {
    for api in APIS {
        let scenario = Scenario::new(api, script(vec![plan("edits", json!({}))], vec![code("edits", one_pass())]), "");
        let ended = scenario.ends_well(&["--iterations", "2"]);
        assert_eq!(
            (ended.course().as_str(), ended.tried()),
            ("plan answered, code answered", vec!["measured".to_owned()])
        );
        let case = &ended.report["cases"][0];
        assert!(case["variant"]["family"].as_str().unwrap().starts_with("llm-one-pass-"), "{case}");
        assert!(case["commit"].is_string(), "{case}");
        let family = case["variant"]["family"].as_str().unwrap();
        let files = scenario.sandbox.git(&["ls-files", "templates/kernels"]);
        assert!(files.contains(&format!("templates/kernels/{family}/family.toml")), "{files}");
        let shown = scenario.sandbox.succeeds(&["show", &case["iteration"].to_string()]);
        assert!(shown.contains("One pass over the keys"), "{shown}");
    }
}

#[test]
fn a_whole_kernel_is_tried_unless_its_machine_code_is_known() {
    for &api in apis() {
        let source = TEMPLATE.replace("<$ D $>", "16").replace("<$ CAUSAL $>", "true");
        let kernel = |source: String| code("kernel", json!({ "manifest": MANIFEST, "source": source }));
        let renamed = kernel(source.replace("most", "largest"));
        let other = kernel(source.replace(FIRST_PASS, "").replace("expf(score * scale - most)", "expf(score * scale)"));
        let codes = vec![renamed, other];
        let scenario = Scenario::new(api, script(vec![plan("kernel", json!({}))], codes), "");
        let ended = scenario.ends_well(&["--iterations", "3"]);
        assert!(!ended.course().contains("repair"), "it is not wrong, so a correction is not worth its money");
        assert_eq!(ended.tried(), ["pruned"], "{}", ended.said);
        let shown = scenario.sandbox.succeeds(&["show", "2"]);
        assert!(shown.contains("it has the machine code and the launches of iteration 1"), "{shown}");
    }
}

#[test]
fn a_new_family_is_searched_by_the_program() {
    for &api in apis() {
        let (manifest, source) = family();
        let answer = code("family", json!({ "manifest": manifest, "source": source }));
        let scenario = Scenario::new(api, script(vec![plan("family", json!({}))], vec![answer]), "");
        let ended = scenario.ends_well(&["--iterations", "4"]);
        let of_family = ended.iterations.iter().filter(|one| one["family"].as_str().unwrap().starts_with("llm-"));
        let (own, others): (Vec<_>, Vec<_>) = of_family.partition(|one| one["origin"] == "model");
        assert!(own.len() == 1 && !others.is_empty(), "{own:?} and {others:?}: {}", ended.said);
    }
}

/// Also where a virtual device explains nothing in the background.
#[test]
fn a_plan_is_told_what_was_measured_of_earlier_proposals_and_why_the_fastest_is_slow() {
    for &api in apis() {
        let plans = vec![plan("edits", json!({})), plan("edits", json!({ "claim": "A second idea." }))];
        let scenario = Scenario::new(api, script(plans, vec![code("edits", one_pass())]), "");
        // What the search tries between two plans.
        let (manifest, source) = family();
        let manifest =
            manifest.replace("[8, 16, 32]", "[2, 4, 8, 16, 32]").replace("name = \"plain\"", "name = \"wide\"");
        scenario.sandbox.write("templates/kernels/wide/family.toml", &manifest);
        scenario.sandbox.write("templates/kernels/wide/kernel.cu.tera", &source);
        let ended = scenario.ends_well(&["--iterations", "9"]);
        let own = ended.iterations.iter().find(|one| one["origin"] == "model").unwrap();
        let requests = scenario.server.requests();
        let prompts = requests.iter().map(|request| request.body.to_string());
        let plans: Vec<String> = prompts.filter(|body| body.contains("submit_plan")).collect();
        let [first, second, ..] = &plans[..] else { panic!("{} plans: {}", plans.len(), ended.said) };
        assert!(!first.contains("## Your proposals, and what was measured"), "{first}");
        for part in ["## Your proposals, and what was measured", "One pass over the keys reads each of them once."] {
            assert!(second.contains(part), "{part}: {second}");
        }
        let us = format!("| {:.3} |", own["best_ns"].as_f64().unwrap() / 1e3);
        assert!(second.contains(&us), "{us}: {second}");
        for part in ["## Diagnosis of the fastest variants", "## The fastest configurations of each family"] {
            assert!(first.contains(part) && second.contains(part), "{part}: {first}");
        }
    }
}

#[test]
fn parameters_need_no_second_call() {
    for &api in apis() {
        let (manifest, source) = family();
        let asked = plan("parameters", json!({ "family": "wide", "parameters": { "THREADS": 8 } }));
        let scenario = Scenario::new(api, script(vec![asked], vec![]), "");
        scenario
            .sandbox
            .write("templates/kernels/wide/family.toml", &manifest.replace("name = \"plain\"", "name = \"wide\""));
        scenario.sandbox.write("templates/kernels/wide/kernel.cu.tera", &source);
        let ended = scenario.ends_well(&["--iterations", "4"]);
        assert_eq!(ended.course().split(", ").next(), Some("plan answered"));
        assert_eq!(ended.tried(), ["measured"], "{}", ended.said);
    }
}

#[test]
fn compile_errors_and_wrong_results_are_repaired_within_the_allowed_rounds() {
    for &api in apis() {
        let broken = |with: &str| code("edits", json!({ "edits": [{ "search": "float sum = 0", "replace": with }] }));
        let codes = vec![broken("float sum = x"), broken("float sum = 1"), code("edits", one_pass())];
        let scenario = Scenario::new(api, script(vec![plan("edits", json!({}))], codes), "");
        let ended = scenario.ends_well(&["--iterations", "4"]);
        assert_eq!(ended.tried(), ["rejected_by_compiler", "wrong", "measured"], "{}", ended.said);
        assert!(
            ended.course().starts_with("plan answered, code answered, repair answered, repair answered"),
            "{}",
            ended.course()
        );
        let repairs = scenario.server.requests();
        let sent =
            repairs.iter().map(|request| request.body.to_string()).find(|body| body.contains("correction 1 of 3"));
        assert!(sent.unwrap().contains("identifier"), "the compiler's message is in the prompt");

        let codes = (0..9).map(|n| broken(&format!("float sum = x{n}"))).collect();
        let scenario = Scenario::new(api, script(vec![plan("edits", json!({}))], codes), "repair_rounds = 2");
        let ended = scenario.ends_well(&["--iterations", "8"]);
        assert_eq!(ended.tried(), ["rejected_by_compiler"; 3], "two corrections, and no more: {}", ended.said);
    }
}

#[test]
fn an_inapplicable_edit_is_returned_to_the_model_without_an_iteration() {
    for &api in apis() {
        let missing = code("edits", json!({ "edits": [{ "search": "no such line", "replace": "" }] }));
        let same =
            code("edits", json!({ "edits": [{ "search": "float sum = 0", "replace": "float  sum = 0 /* zero */" }] }));
        let codes = vec![missing, same, code("edits", one_pass())];
        let scenario = Scenario::new(api, script(vec![plan("edits", json!({}))], codes), "");
        let ended = scenario.ends_well(&["--iterations", "2"]);
        assert_eq!(ended.tried(), ["measured"], "{}", ended.said);
        assert_eq!(ended.course(), "plan answered, code answered, repair answered, repair answered");
        let bodies: Vec<String> = scenario.server.requests().iter().map(|request| request.body.to_string()).collect();
        assert!(bodies.iter().any(|body| body.contains("`search` does not occur there")));
        assert!(bodies.iter().any(|body| body.contains("it is the same as the family `plain`")));
    }
}

/// Adds a family whose search space can be edited.
pub(super) fn add_wide(scenario: &Scenario) {
    let (manifest, source) = family();
    let manifest = manifest.replace("[8, 16, 32]", "[2, 4, 8, 16, 32]").replace("name = \"plain\"", "name = \"wide\"");
    scenario.sandbox.write("templates/kernels/wide/family.toml", &manifest);
    scenario.sandbox.write("templates/kernels/wide/kernel.cu.tera", &source);
}

/// What the code is claimed to do is what is scored, and the search space of an edited family may change, too.
#[test]
fn code_restates_its_claim_and_may_edit_the_manifest() {
    for &api in apis() {
        let mut edits = one_pass();
        edits["manifest_edits"] = json!([{ "search": "16, 32]", "replace": "16, 32, 64]" }]);
        edits["parameters"] = json!({ "THREADS": 64 });
        edits["claim"] = "64 rows a block.".into();
        let scenario = Scenario::new(
            api,
            script(vec![plan("edits", json!({ "family": "wide" }))], vec![code("edits", edits)]),
            "",
        );
        add_wide(&scenario);
        let ended = scenario.ends_well(&["--iterations", "9"]);
        let own = ended.iterations.iter().find(|one| one["origin"] == "model").unwrap();
        assert_eq!((&own["claim"], &own["params"]), (&json!("64 rows a block."), &json!({ "THREADS": 64 })));
        assert_eq!(own["outcome"], "measured", "{}", ended.said);
    }
}

#[test]
fn what_a_model_asks_to_see_is_sent_twice_at_most() {
    for &api in apis() {
        let want = |what: &[&str]| tokens(Reply::answer(json!({ "want": what })));
        let first = want(&["source plain", "history plain s32", "diagnose 1", "experiment 1", "sass 1", "diagnose 7"]);
        let codes = vec![first, want(&["sass 7 1..9"]), want(&["source plain"]), code("edits", one_pass())];
        let scenario = Scenario::new(api, script(vec![plan("edits", json!({}))], codes), "");
        let ended = scenario.ends_well(&["--iterations", "2"]);
        assert_eq!(
            ended.course(),
            "plan answered, code answered, code answered, code answered, repair answered",
            "two rounds are free of corrections"
        );
        assert_eq!(ended.tried(), ["measured"], "{}", ended.said);
        let bodies: Vec<String> = scenario.server.requests().iter().map(|request| request.body.to_string()).collect();
        let informed: Vec<&String> = bodies.iter().filter(|body| body.contains("## What you asked to see")).collect();
        assert_eq!(informed.len(), 2);
        for part in [
            "1 configurations timed",
            "No experiment with it is on record.",
            "This cannot be looked up.",
            "Iteration 7 has no time on record in this session.",
            "There is no machine code: iteration 7 has no time on record in this session.",
        ] {
            assert!(informed[1].contains(part), "{part}: {}", informed[1]);
        }
    }
}

#[test]
fn an_approach_may_be_left_out_without_a_correction() {
    for &api in apis() {
        let skip = code("edits", json!({ "skip": "the record is already below its range" }));
        let plans = vec![plan("edits", json!({})), plan("edits", json!({ "claim": "A second idea." }))];
        let scenario = Scenario::new(api, script(plans, vec![skip, code("edits", one_pass())]), "");
        add_wide(&scenario);
        let ended = scenario.ends_well(&["--iterations", "9"]);
        assert!(!ended.course().contains("repair"), "{}", ended.course());
        let bodies: Vec<String> = scenario.server.requests().iter().map(|request| request.body.to_string()).collect();
        let told = "you left it out: the record is already below its range";
        assert!(bodies.iter().any(|body| body.contains("submit_plan") && body.contains(told)), "{}", ended.course());
    }
}

#[test]
fn a_session_is_told_which_claims_earlier_sessions_have_refuted() {
    for &api in apis() {
        let bold = plan("edits", json!({ "speedup_low": 3.0, "speedup_high": 4.0 }));
        let scenario = Scenario::new(api, script(vec![bold], vec![code("edits", one_pass())]), "");
        let first = scenario.ends_well(&["--iterations", "2"]);
        let own = first.iterations.iter().find(|one| one["origin"] == "model").unwrap();
        assert_eq!(own["score"], "below", "{own}");
        let asked = scenario.server.requests().len();
        scenario.ends_well(&["--iterations", "3"]);
        let requests = scenario.server.requests();
        let told = format!("refuted on s32 by iteration {}: One pass over the keys", own["iteration"]);
        let bodies: Vec<String> = requests[asked..].iter().map(|request| request.body.to_string()).collect();
        assert!(bodies.iter().any(|body| body.contains(&told)), "{bodies:?}");
        let of = |session: &str| scenario.sandbox.succeeds(&["history", session, "--by", "call"]);
        assert!(of("2").contains("0 proposals followed a lesson of earlier sessions"), "{}", of("2"));
    }
}
