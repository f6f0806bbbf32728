//! The corpus beside this file, replayed on the virtual H200, and the outcome of entries with a wrong manifest.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{Sandbox, is_nightly};
use serde_json::Value;

/// A kernel that writes zeros, with the given lines in its manifest.
fn zeros(lines: &str) -> String {
    format!(
        r#"/*
about = "Writes zeros."
{lines}
workload = "small"
case = {{ B = 1, H = 2, Sq = 4, Sk = 4, D = 16, CAUSAL = 0 }}
constants = ["D"]

[[launch]]
kernel = "zeros"
grid = ["Sq", "B * H"]
block = ["D"]
args = ["o", "Sq"]
*/
extern "C" __global__ void zeros(unsigned short* o, int Sq) {{
    o[(blockIdx.y * Sq + blockIdx.x) * <$ D $> + threadIdx.x] = 0;
}}
"#
    )
}

/// Makes a project with the repository's workloads and corpus.
fn with_the_corpus() -> Sandbox {
    let sandbox = Sandbox::without_repository();
    for (folder, extension) in [("kernels/workloads", "toml"), ("tests/audit", "cu"), ("tests/audit/prelude", "cu")] {
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|found| found == extension) {
                let name = path.file_name().unwrap().to_str().unwrap();
                sandbox.write(&format!("{folder}/{name}"), &fs::read_to_string(&path).unwrap());
            }
        }
    }
    sandbox
}

fn rows(json: &str) -> Vec<Value> {
    json.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(rows: &'a [Value], kinds: &[&str]) -> Vec<&'a Value> {
    rows.iter().filter(|row| kinds.contains(&row["kind"].as_str().unwrap())).collect()
}

/// The cheats of docs/audit.md in host code; a variant has no host code.
const HOST_ONLY: [u64; 3] = [2, 9, 17];

/// What the gate replays: a cheating or broken kernel for each answer that a virtual GPU can give, and honest ones of
/// several kinds.
const SENTINELS: [&str; 21] = [
    "does-not-compile",
    "launch-from-the-device",
    "infinite-loop",
    "race",
    "ragged-tail-unwritten",
    "nan-in-masked-tiles",
    "zeros",
    "scales-its-queries",
    "writes-past-the-end",
    "dithered-rounding",
    "right-once",
    "cached-by-pointer",
    "no-maximum",
    "fixed-heads",
    "plain",
    "plain-fp32",
    "wgmma",
    "split-keys",
    "decode-programmatic",
    "message-without-fence",
    "tensor-maps",
];

/// All entries that cheat or are broken are caught, by a check that their file names, and no honest one is. The corpus
/// has those of the 24 listed cheats that device code can express.
#[test]
fn the_corpus_is_answered_as_its_files_say() {
    let sandbox = with_the_corpus();
    // Entries that hang take this long, and honest ones a fraction of it.
    let step_timeout = if is_nightly() { "120s" } else { "6s" };
    sandbox.write(
        "config.toml",
        &format!("[worker]\nstep_timeout = '{step_timeout}'\n[benchmark]\nmax_confirmation = '3s'\n"),
    );
    let mut arguments = vec!["audit", "--device", "virtual", "--seed", "1", "--json"];
    if !is_nightly() {
        arguments.extend(SENTINELS.iter().flat_map(|name| ["--only", name]));
    }
    let output = sandbox.optloop(&arguments);
    let rows = rows(&String::from_utf8(output.stdout).unwrap());
    let wrong: Vec<_> = rows.iter().filter(|row| row["right"] != true).collect();
    assert!(output.status.success(), "{}\n{wrong:#?}", String::from_utf8_lossy(&output.stderr));

    let bad = of_kind(&rows, &["cheat", "broken"]);
    if !is_nightly() {
        let answers: BTreeSet<&str> = bad.iter().map(|row| row["answer"].as_str().unwrap()).collect();
        let checks = ["written", "finite", "accuracy", "inputs", "repeatable", "probe", "hidden"];
        assert!(checks.iter().all(|check| answers.contains(format!("wrong/{check}").as_str())), "{answers:?}");
        return;
    }
    let shown = |rows: &[&Value]| rows.iter().filter(|row| row["left_out"].is_null()).count();
    assert!(bad.len() >= 30 && shown(&bad) >= 30, "{} of {}", shown(&bad), bad.len());
    assert!(bad.iter().all(|row| row["answer"] != "passed"), "{bad:#?}");
    let honest = of_kind(&rows, &["honest"]);
    assert!(shown(&honest) >= 10 && honest.iter().all(|row| row["left_out"].is_string() || row["answer"] == "passed"));

    let numbers = bad.iter().flat_map(|row| row["cheats"].as_array().unwrap()).map(|number| number.as_u64().unwrap());
    let wanted: BTreeSet<u64> = (1..=24).filter(|number| !HOST_ONLY.contains(number)).collect();
    assert_eq!(numbers.collect::<BTreeSet<_>>(), wanted);
}

#[test]
fn a_kernel_that_is_mislabelled_makes_the_audit_fail() {
    let sandbox = Sandbox::without_repository();
    sandbox.write("tests/audit/right.cu", &zeros("kind = \"cheat\"\ncheats = [13]\ncaught_by = [\"wrong/accuracy\"]"));
    insta::assert_snapshot!(sandbox.succeeds(&["audit", "--device", "virtual", "--seed", "1"]), @"
    kernel  kind   answer          said
    right   cheat  wrong/accuracy  relative error 1.00e0 over the output (tolerance 1e-3), 1.00e0 in its...

    1 of 1 cheating or broken kernels and 0 of 0 honest ones were caught on the virtual H200; 0 were skipped there
    ");

    sandbox.write("tests/audit/by-another-check.cu", &zeros("kind = \"broken\"\ncaught_by = [\"crashed\"]"));
    sandbox.write("tests/audit/not-honest.cu", &zeros("kind = \"honest\""));
    let output = sandbox.optloop(&["audit", "--device", "virtual", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"
    kernel            kind    answer              said
    right             cheat   wrong/accuracy      relative error 1.00e0 over the output (tolerance 1e-3), 1.00e0 in its...
    by-another-check  broken  wrong/accuracy (!)  expected: crashed
    not-honest        honest  wrong/accuracy (!)  expected: passed

    2 of 2 cheating or broken kernels and 1 of 1 honest ones were caught on the virtual H200; 0 were skipped there
    ");
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"
    auditing 3 kernels on the virtual H200
    error: kernels with answers that their files do not list: by-another-check, not-honest
    ");

    // A single kernel is judged the same alone.
    sandbox.succeeds(&["audit", "--device", "virtual", "--only", "right"]);
    let row = rows(&sandbox.succeeds(&["audit", "--device", "virtual", "--only", "right", "--json", "--seed", "1"]))
        .remove(0);
    insta::assert_json_snapshot!(row, @r#"
    {
      "about": "Writes zeros.",
      "answer": "wrong/accuracy",
      "cheats": [
        13
      ],
      "device": "virtual H200",
      "expected": [
        "wrong/accuracy"
      ],
      "kernel": "right",
      "kind": "cheat",
      "left_out": null,
      "message": "relative error 1.00e0 over the output (tolerance 1e-3), 1.00e0 in its worst row 7 (tolerance 4e-3); element 0 of row 0 is 0 by the kernel and -1.1059506 by the oracle",
      "right": true
    }
    "#);
}

#[test]
fn a_kernel_that_the_device_cannot_run_is_skipped_with_the_reason() {
    let sandbox = Sandbox::without_repository();
    let lines = "kind = \"cheat\"\ncaught_by = [\"cheated/memoization\"]\nnot_modelled = \"times are computed\"";
    sandbox.write("tests/audit/a.cu", &zeros(lines));
    insta::assert_snapshot!(sandbox.succeeds(&["audit", "--device", "virtual"]), @"
    kernel  kind   answer    said
    a       cheat  left out  times are computed

    0 of 0 cheating or broken kernels and 0 of 0 honest ones were caught on the virtual H200; 1 were skipped there
    ");
}

#[test]
fn mistakes_in_the_corpus_are_one_sentence() {
    let sandbox = Sandbox::without_repository();
    let audit = |sandbox: &Sandbox| sandbox.fails(&["audit", "--device", "virtual"]);
    sandbox.write("tests/audit/note.txt", "not a kernel");
    insta::assert_snapshot!(audit(&sandbox), @"2 error: there is no kernel in tests/audit/: optloop audit tests optloop's own checks, so run it in a clone of its repository");
    let told = |text: &str| {
        sandbox.write("tests/audit/a.cu", text);
        audit(&sandbox)
    };
    insta::assert_snapshot!(told("__global__ void a() {}"), @"2 error: PROJECT/tests/audit/a.cu: it does not begin with a comment `/* … */` that contains its manifest as TOML");
    insta::assert_snapshot!(told(&zeros("kind = \"cheap\"")), @"2 error: PROJECT/tests/audit/a.cu: line 3: unknown variant `cheap`, expected one of `cheat`, `broken`, `honest` (did you mean `cheat`?)");
    insta::assert_snapshot!(told(&zeros("kind = \"cheat\"")), @"2 error: PROJECT/tests/audit/a.cu: `caught_by` is missing: list the expected answers");
    insta::assert_snapshot!(told(&zeros("kind = \"honest\"\ncaught_by = [\"crashed\"]")), @"2 error: PROJECT/tests/audit/a.cu: an honest kernel must not have `caught_by`: remove it");
    insta::assert_snapshot!(told(&zeros("kind = \"cheat\"\ncaught_by = [\"wrong\"]")), @"2 error: PROJECT/tests/audit/a.cu: `caught_by`: `wrong` is not an answer; use rejected_by_compiler, crashed, timed_out, out_of_memory, or wrong/CHECK and cheated/CHECK with one of written, finite, accuracy, inputs, guard_regions, repeatable, timed, held_out_inputs, probe, hidden, memoization, sanitizer, machine_code, floor");
    insta::assert_snapshot!(told(&zeros("kind = \"honest\"\nop = \"attention\"")), @"2 error: PROJECT/tests/audit/a.cu: `op` is derived from the file and its workload: remove it");
    insta::assert_snapshot!(told(&zeros("kind = \"honest\"\nshared = 4")), @"2 error: PROJECT/tests/audit/a.cu: unknown field `shared`, expected one of `name`, `about`, `op`, `dtypes`, `compute`, `requires_sm`, `constants`, `headers`, `params`, `derived`, `constraint`, `opening`, `workspace`, `tensor_map`, `launch` (did you mean `headers`?)");
    sandbox.write("tests/audit/prelude/row.cu", "");
    insta::assert_snapshot!(told(&zeros("kind = \"honest\"\nprelude = [\"rows\"]")), @"2 error: PROJECT/tests/audit/a.cu: there is no prelude `rows` (did you mean `row`?); tests/audit/prelude/ has: row");
    insta::assert_snapshot!(told(&zeros("kind = \"honest\"").replace("Sq = 4", "Sq = 0")), @"2 error: PROJECT/tests/audit/a.cu: case `a`: `Sq` = 0 is out of range 1 to 1048576");
    insta::assert_snapshot!(told(&zeros("kind = \"honest\"").replace("\"small\"", "\"smal\"")), @"2 error: PROJECT/tests/audit/a.cu: there is no workload `smal` (did you mean `small`?); kernels/workloads/ has: small");
    insta::assert_snapshot!(told(&zeros("kind = \"honest\"").replace("\"B * H\"", "\"B * G\"")), @"2 error: PROJECT/tests/audit/a.cu: expression `B * G`: there is no `G`");
    sandbox.write("tests/audit/a.cu", &zeros("kind = \"honest\""));
    insta::assert_snapshot!(sandbox.fails(&["audit", "--device", "virtual", "--only", "b"]), @"2 error: there is no kernel `b` in tests/audit/");
}
