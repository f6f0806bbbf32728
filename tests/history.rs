//! What `history`, `show`, `sessions` and `calls` list, and how: in 80 columns, in colour, as JSON and as CSV.

use serde_json::Value;

use crate::common::Sandbox;

/// A project with two sessions.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        let output = sandbox.session("20", &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    sandbox
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    serde_json::from_str(&sandbox.succeeds(&[arguments, &["--json"]].concat())).unwrap()
}

/// Returns the lines of CSV, each with its fields.
fn csv(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Vec<String>> {
    let text = sandbox.succeeds(&[arguments, &["--csv"]].concat());
    let reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.into_bytes().leak() as &[u8]);
    reader.into_records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

#[test]
fn lists_fit_80_columns_and_are_plain_where_no_terminal_is() {
    let sandbox = sandbox();
    let lists: [&[&str]; 6] = [
        &["history", "--by", "kind"],
        &["history", "--by", "parameter"],
        &["sessions"],
        // Sources and the compiler's log have lines of their own.
        &["show", "1", "--brief"],
        &["show", "18", "--brief"],
        &["calls"],
    ];
    for list in lists {
        let shown = sandbox.succeeds(list);
        let widest = shown.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 80, "{list:?} is too wide: {widest}");
        assert!(!shown.contains('\u{1b}'), "{list:?}");
    }
    // Programs read what is piped, so parameters are whole.
    let row = sandbox.succeeds(&["history"]);
    assert!(row.contains("TILE=64 THREADS=32 FAULT=0: ") && !row.contains("..."), "{row}");
    let coloured = |more: &[(&str, &str)]| {
        let output = sandbox.command(&["history"]).envs(more.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("\u{1b}[32mimproved\u{1b}[0m")
    };
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]) && !coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn a_history_is_filtered_sorted_and_shown_in_parts() {
    let sandbox = sandbox();
    let all = json(&sandbox, &["history"]);
    assert!(all.iter().all(|row| row["session"] == 2));
    let column = |rows: &[Value], name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        column(&json(&sandbox, &["history", "--limit", "3", "--offset", "2"]), "iteration"),
        column(&all[2..5], "iteration")
    );
    let fastest = json(&sandbox, &["history", "1", "--case", "s128", "--sort", "time"]);
    let times: Vec<f64> = fastest.iter().map(|row| row["best_ns"].as_f64().unwrap()).collect();
    assert!(times.len() > 3 && times.is_sorted() && fastest.iter().all(|row| row["case"] == "s128"), "{fastest:?}");
    let mut slowest = json(&sandbox, &["history", "1", "--case", "s128", "--sort", "time", "--reverse"]);
    slowest.reverse();
    assert_eq!(column(&slowest, "best_ns"), column(&fastest, "best_ns"));

    let every = json(&sandbox, &["history", "--all"]);
    assert_eq!(every.len(), all.len() + json(&sandbox, &["history", "1"]).len());
    let of_two = |rows: &[Value]| rows.iter().filter(|row| row["session"] == 2).count();
    let second = json(&sandbox, &["sessions"])[1]["started_at"].as_str().unwrap().to_owned();
    let since = json(&sandbox, &["history", "--all", "--since", &second]);
    assert_eq!((since.len(), of_two(&since)), (all.len(), all.len()));
    let origin = all.iter().find(|row| row["origin"] == "committed_winner").expect("the second session knows winners");
    let of_origin = json(&sandbox, &["history", "--origin", "committed_winner"]);
    assert!(of_origin.contains(origin) && of_origin.len() < all.len());
    assert_eq!(json(&sandbox, &["history", "--all", "--proposer", "local"]).len(), every.len());

    // The order of names is that of their numbers.
    let of_first: Vec<&Value> =
        all.iter().filter(|row| row["iteration"] == all[0]["iteration"]).map(|row| &row["case"]).collect();
    assert!(
        of_first.is_sorted_by_key(|case| ["s4d4", "s64", "s128"].iter().position(|name| *name == **case)),
        "{of_first:?}"
    );

    let output = sandbox.optloop(&["history", "--limit", "2"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 3);
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"there are more rows: `--offset 2` shows them, and `--limit` sets how many are shown");
    insta::assert_snapshot!(sandbox.fails(&["history", "--family", "tyo", "--all"]), @"2 error: no session tried the family `tyo`; there was: toy");
    insta::assert_snapshot!(sandbox.fails(&["history", "--since", "yesterday"]), @"2 error: invalid value 'yesterday' for '--since <WHEN>': write a date such as 2026-11-20, an instant such as 2026-11-20T10:00, or a duration such as 2d; run it with `--help` for a list");
}

#[test]
fn csv_has_the_columns_of_the_json() {
    let sandbox = sandbox();
    for list in [&["history", "--all"][..], &["sessions"], &["history", "--by", "mechanism"]] {
        let (objects, lines) = (json(&sandbox, list), csv(&sandbox, list));
        assert_eq!(lines.len(), objects.len() + 1, "{list:?}");
        let mut names: Vec<&String> = objects[0].as_object().unwrap().keys().collect();
        let mut headings: Vec<&String> = lines[0].iter().collect();
        names.sort();
        headings.sort();
        assert_eq!(names, headings, "{list:?}");
    }
    assert_eq!(sandbox.succeeds(&["calls", "--csv"]), "", "no rows");
}

#[test]
fn sessions_are_filtered_and_sorted() {
    let sandbox = sandbox();
    let numbers = |arguments: &[&str]| {
        let sessions = json(&sandbox, &[&["sessions"], arguments].concat());
        sessions.iter().map(|session| session["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((numbers(&["--reverse"]), numbers(&["--limit", "1"])), (vec![2, 1], vec![1]));
    assert_eq!((numbers(&["--status", "finished"]), numbers(&["--status", "killed"])), (vec![1, 2], vec![]));
    assert_eq!((numbers(&["--workload", "small"]), numbers(&["--workload", "large"])), (vec![1, 2], vec![]));
    assert_eq!(numbers(&["--sort", "best"]), [1, 2], "the second one could hardly win more");
    assert!(numbers(&["--since", "3026-01-01"]).is_empty());
}

/// A user who has no language model needs no word about them.
#[test]
fn language_models_are_mentioned_where_they_cost_something() {
    let sandbox = sandbox();
    for list in [&["sessions"][..], &["show", "1"], &["report"]] {
        assert!(!sandbox.succeeds(list).to_lowercase().contains("language model"), "{list:?}");
    }
}

/// The verb `show` of one iteration that was tried on several cases.
#[test]
fn an_iteration_is_shown_on_one_case() {
    let sandbox = sandbox();
    let several = json(&sandbox, &["history", "1", "--case", "s64"])[0]["iteration"].to_string();
    let shown = sandbox.succeeds(&["show", &several, "--case", "s64", "--brief"]);
    assert!(shown.contains("s64") && !shown.contains("s128 ") && !shown.contains("Source:"), "{shown}");
    insta::assert_snapshot!(sandbox.fails(&["show", "1", "--case", "s46"]), @"2 error: iteration 1 did not reach `s46` (did you mean `s4d4`?); it reached s4d4");
}
