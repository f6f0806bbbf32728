//! What a session does to a git repository, and what it leaves alone.

use serde_json::Value;

use crate::common::{FAKE_WINNERS, Sandbox};
use crate::durability::running::Running;

const START: [&str; 9] = ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--iterations", "30"];

fn refs(sandbox: &Sandbox) -> String {
    sandbox.git(&["for-each-ref", "--format=%(refname)", "refs/optloop"])
}

fn json_lines(text: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(text).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Leaves staged changes, edits, untracked files and a stash.
fn unfinished_work(sandbox: &Sandbox) {
    sandbox.write("notes.txt", "one\n");
    sandbox.write("kernels/mine.txt", "one\n");
    sandbox.git(&["add", "notes.txt", "kernels/mine.txt"]);
    sandbox.git(&["commit", "--quiet", "--message", "my work"]);
    sandbox.write("notes.txt", "stashed\n");
    sandbox.git(&["stash", "--quiet"]);
    sandbox.write("notes.txt", "staged\n");
    sandbox.git(&["add", "notes.txt"]);
    sandbox.write("notes.txt", "edited\n");
    sandbox.write("kernels/mine.txt", "edited\n");
    sandbox.write("kernels/variants/untracked.txt", "new\n");
}

/// Returns what git knows of the user's work.
fn work(sandbox: &Sandbox) -> [String; 5] {
    [
        sandbox.git(&["status", "--porcelain", "--untracked-files=all"]),
        sandbox.git(&["diff"]),
        sandbox.git(&["diff", "--cached"]),
        sandbox.git(&["stash", "list"]),
        sandbox.git(&["stash", "show", "--patch"]),
    ]
}

#[test]
fn a_session_leaves_one_commit_with_its_gains_and_the_users_work_as_it_was() {
    let sandbox = Sandbox::new();
    unfinished_work(&sandbox);
    let (before, head) = (work(&sandbox), sandbox.git(&["rev-parse", "HEAD"]));
    let output = sandbox.optloop(&[&START[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(work(&sandbox), before);
    assert_eq!(sandbox.git(&["rev-parse", "HEAD~1"]), head);
    assert_eq!(refs(&sandbox), "");

    // Several winners were kept on the way, one commit has the best of each case.
    let events = json_lines(&output.stdout);
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let (kept, committed, ended) = (of("kept"), of("committed"), of("ended"));
    let [committed] = committed[..] else { panic!("{committed:?}") };
    assert!(kept.len() >= committed["cases"].as_array().unwrap().len(), "{kept:?}");
    assert_eq!(committed["commit"], sandbox.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(committed["branch"], "main");

    // The table, the event, the sidecars and the report have the same figures.
    let message = sandbox.git(&["log", "-1", "--format=%B"]);
    let cases = ended[0]["cases"].as_array().unwrap();
    let report = sandbox.report();
    for case in committed["cases"].as_array().unwrap() {
        let name = case.as_str().unwrap();
        let gain = cases.iter().find(|gain| gain["case"] == name).unwrap();
        let row = message.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        let us = |us: &Value| match us.as_f64().unwrap() {
            us if us >= 100.0 => format!("{us:.1}"),
            us if us >= 10.0 => format!("{us:.2}"),
            us => format!("{us:.3}"),
        };
        let figures: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(figures[1..3], [format!("*{}", us(&gain["initial_us"])), us(&gain["now_us"])], "{row}: {gain}");
        let reported = report["cases"].as_array().unwrap().iter().find(|case| case["case"] == name).unwrap();
        assert_eq!(reported["commit"], committed["commit"]);
        // The store keeps samples with the precision of an f32.
        let close = |a: &Value, b: &Value| (a.as_f64().unwrap() / b.as_f64().unwrap() - 1.0).abs() < 1e-6;
        for (of_event, of_report) in [
            ("/now_us", "/best_us"),
            ("/initial_us", "/start_us"),
            ("/iteration", "/iteration"),
            ("/over_baseline", "/ratio_to_baseline/estimate"),
            ("/gain", "/change/ratio/estimate"),
        ] {
            let (told, reported) = (gain.pointer(of_event).unwrap(), reported.pointer(of_report).unwrap());
            assert!(close(told, reported), "{name}: {of_event} is {told}, {of_report} is {reported}");
        }
        assert_eq!(gain["result"], "improved");
        let sidecar = sandbox.json(&format!("{FAKE_WINNERS}/{name}.json"));
        let found = format!(
            "  {name}: iteration {}, variant {}",
            gain["iteration"],
            sidecar["variant"]["hash"].as_str().unwrap()
        );
        assert!(message.contains(&found), "{found} in {message}");
    }
    assert!(message.contains("Device:  fake device (no kernel was executed), modelled\nSession: 1\n"), "{message}");
    let summary = message.lines().next().unwrap();
    assert!(
        summary.starts_with("small: 2 winners, up to ") || summary.starts_with("small: 3 winners, up to "),
        "{summary}"
    );
    assert!(summary.len() < 72, "{summary}");
}

#[test]
fn a_killed_session_keeps_its_winners_and_a_resumption_commits_them() {
    let sandbox = Sandbox::new();
    let session = Running::start(&sandbox, &[&START[..], &["--json"]].concat());
    session.wait_for("kept");
    session.kill();
    sandbox.git(&["gc", "--quiet", "--prune=now"]);
    let reference = refs(&sandbox).trim().to_owned();
    assert!(reference.starts_with("refs/optloop/session-1-"), "{reference}");
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "1\n");
    let advice = format!(
        "session 1 has winners on no branch, under {reference}: `optloop resume 1` commits them, `git update-ref -d \
         {reference}` drops them"
    );
    assert!(sandbox.succeeds(&["sessions"]).contains(&advice), "{}", sandbox.succeeds(&["sessions"]));
    let listed: Value = serde_json::from_str(&sandbox.succeeds(&["sessions", "--json"])).unwrap();
    assert_eq!(listed[0]["kept_under"], reference);
    let output = sandbox.session("1", &["--case", "s4d4", "--no-commit"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains(&advice));

    let output = sandbox.optloop(&["resume", "1", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(json_lines(&output.stdout).iter().filter(|event| event["event"] == "committed").count(), 1);
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "2\n");
    assert_eq!((refs(&sandbox).as_str(), sandbox.git(&["status", "--porcelain"]).as_str()), ("", ""));
    assert!(!sandbox.succeeds(&["sessions"]).contains("on no branch"));
}

/// The user deletes what is kept. The store still knows every winner.
#[test]
fn winners_whose_reference_was_deleted_are_committed_all_the_same() {
    let sandbox = Sandbox::new();
    let session = Running::start(&sandbox, &[&START[..], &["--json"]].concat());
    session.wait_for("kept");
    session.kill();
    let reference = refs(&sandbox).trim().to_owned();
    sandbox.git(&["update-ref", "-d", &reference]);
    sandbox.succeeds(&["resume"]);
    let report = sandbox.report();
    let best = report["cases"].as_array().unwrap().iter().filter(|case| case["change"]["improved"] == true);
    assert!(best.clone().count() > 0 && best.into_iter().all(|case| case["commit"].is_string()), "{report}");
}

#[test]
fn ctrl_c_commits_the_winners_and_says_what_it_keeps() {
    let sandbox = Sandbox::new();
    // More configurations than the test lasts.
    let many = format!("values = [0, {}]", (100..2000).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0]", &many);
    sandbox.git(&["commit", "--quiet", "--all", "--message", "more configurations"]);
    let start = ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--budget", "10m", "--json"];
    let session = Running::start(&sandbox, &start);
    session.wait_for("kept");
    session.signal("INT");
    let (status, events, said) = session.end();
    assert!(status.success(), "{said}");
    assert!(
        said.contains(
            "stopping after the iteration in flight: its result is kept, the winners are committed, and the report is \
             written; interrupt again to abandon that iteration\n"
        ),
        "{said}"
    );
    assert_eq!(events.last().unwrap()["status"], "interrupted");
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "3\n");
    assert_eq!(refs(&sandbox), "");
}

#[test]
fn another_branch_gets_the_commit_without_being_checked_out() {
    let sandbox = Sandbox::new();
    unfinished_work(&sandbox);
    let (before, head) = (work(&sandbox), sandbox.git(&["rev-parse", "HEAD"]));
    let output = sandbox.optloop(&[&START[..], &["--case", "s128", "--commit-to", "kernels/fake"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let plan = String::from_utf8_lossy(&output.stdout);
    let plan = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plan.contains("winners one commit at the end, to the new branch kernels/fake of "), "{said}");
    assert!(said.contains(" to kernels/fake: s128\n"), "{said}");
    assert_eq!((work(&sandbox), sandbox.git(&["rev-parse", "HEAD"])), (before, head.clone()));
    assert!(!sandbox.path(FAKE_WINNERS).exists());
    assert_eq!(sandbox.git(&["rev-parse", "kernels/fake~1"]), head);
    let commit = sandbox.report()["cases"][0]["commit"].clone();
    assert_eq!(commit, sandbox.git(&["rev-parse", "kernels/fake"]).trim());
    // What the report suggests works.
    assert!(sandbox.succeeds(&["reproduce", commit.as_str().unwrap(), "--device", "fake"]).contains("holds"));
    assert_eq!(refs(&sandbox), "");
}

#[test]
fn a_branch_that_goes_away_meanwhile_costs_no_winner() {
    let sandbox = Sandbox::new();
    let session =
        Running::start(&sandbox, &[&START[..], &["--case", "s128", "--commit-to", "side", "--json"]].concat());
    session.wait_for("kept");
    sandbox.git(&["branch", "--quiet", "-D", "side"]);
    let (status, events, said) = session.end();
    assert!(status.success(), "{said}");
    let refused = events.iter().find(|event| event["event"] == "not_committed").unwrap();
    assert_eq!(refused["reason"], "`side` was deleted during the session");
    sandbox.git(&["cherry-pick", refused["kept_under"].as_str().unwrap()]);
    assert!(sandbox.path(&format!("{FAKE_WINNERS}/s128.json")).is_file());
}

#[test]
fn without_commits_git_stays_as_it_is() {
    let sandbox = Sandbox::new();
    let everything = || [sandbox.git(&["for-each-ref"]), sandbox.git(&["count-objects", "-v"])];
    let before = everything();
    let output = sandbox.session("20", &["--case", "s128", "--no-commit"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let plan = String::from_utf8_lossy(&output.stdout);
    assert!(plan.contains("winners   only to the store (--no-commit"), "{plan}");
    assert!(!said.contains("not committed"), "it is what the user wants: {said}");
    assert_eq!((everything(), sandbox.git(&["status", "--porcelain"])), (before, String::new()));
    let report = sandbox.report();
    assert_eq!(report["cases"][0]["commit"], Value::Null);
    assert_eq!(report["cases"][0]["change"]["improved"], true);
    // A resumption of such a session commits nothing either.
    let session = Running::start(&sandbox, &[&START[..], &["--no-commit", "--json"]].concat());
    session.wait_for("improved");
    session.kill();
    sandbox.succeeds(&["resume"]);
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn branches_that_cannot_get_the_commit_are_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    let refused = |branch: &str| sandbox.fails(&[&START[..], &["--commit-to", branch]].concat());
    insta::assert_snapshot!(refused("a..b"), @"2 error: `a..b` is not a valid name of a branch: use one like `optloop` or `kernels/h200`, without `refs/heads/`");
    sandbox.git(&["worktree", "add", "--quiet", "-b", "side", "linked"]);
    insta::assert_snapshot!(refused("side"), @"2 error: branch `side` is checked out in `PROJECT/linked`, whose files would no longer match it: choose another branch with --commit-to");
    let both = sandbox.fails(&[&START[..], &["--commit-to", "x", "--no-commit"]].concat());
    assert!(
        both.starts_with("2 error: the argument '--commit-to <BRANCH>' cannot be used with '--no-commit'"),
        "{both}"
    );
    let without = Sandbox::without_repository();
    let said = without.fails(&[&START[..], &["--commit-to", "x"]].concat());
    insta::assert_snapshot!(said, @"2 error: `PROJECT` is not in a git repository: run `git init` there, or work inside a repository");
    assert!(!sandbox.path(".optloop/optloop.db").exists());
}

/// One commit for each end of a session: the second has what was found since.
#[test]
fn an_interrupted_session_that_goes_on_adds_a_second_commit() {
    let sandbox = Sandbox::new();
    let session = Running::start(&sandbox, &[&START[..], &["--json"]].concat());
    session.wait_for("kept");
    session.signal("INT");
    assert!(session.end().0.success());
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "2\n");
    let output = sandbox.optloop(&["resume", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let committed = json_lines(&output.stdout).iter().filter(|event| event["event"] == "committed").count();
    assert!(committed <= 1);
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), format!("{}\n", 2 + committed));
    let report = sandbox.report();
    let best = report["cases"].as_array().unwrap().iter().filter(|case| case["change"]["improved"] == true);
    assert!(best.into_iter().all(|case| case["commit"].is_string()), "{report}");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
}

/// Returns a project whose config.toml names no branch.
fn usual() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.replace("config.toml", "[git]\nbranch = ''\n", "");
    sandbox.git(&["commit", "--quiet", "--all", "--message", "the usual way"]);
    sandbox
}

#[test]
fn winners_go_to_a_branch_that_is_not_checked_out_and_the_next_session_starts_from_them() {
    let sandbox = usual();
    unfinished_work(&sandbox);
    let (before, head) = (work(&sandbox), sandbox.git(&["rev-parse", "HEAD"]));
    let output = sandbox.optloop(&START);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("`git merge optloop/winners` brings them into yours"), "{said}");
    assert_eq!((work(&sandbox), sandbox.git(&["rev-parse", "HEAD"])), (before, head.clone()), "nothing of the user's");
    assert_eq!(sandbox.git(&["rev-parse", "optloop/winners~1"]), head);
    assert!(!sandbox.path(FAKE_WINNERS).exists());

    // It knows them, measures them again, and gains nothing on them.
    let again = sandbox.optloop(&[&START[..], &["--json"]].concat());
    let events = json_lines(&again.stdout);
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    assert!(!of("remeasured").is_empty(), "{events:?}");
    let cases = of("ended")[0]["cases"].as_array().unwrap();
    let known: Vec<&Value> = cases.iter().filter(|case| !case["before_us"].is_null()).collect();
    assert!(!known.is_empty() && known.iter().all(|case| case["gain"].as_f64() < Some(2.0)), "{cases:?}");
    let told = of("iteration");
    assert!(told.iter().any(|one| one["origin"] == "committed_winner"), "{told:?}");
    let history = sandbox.succeeds(&["history"]);
    assert!(history.contains(" measured again "), "{history}");
    let replays = |verdict: &str| {
        let decided = told.iter().filter(|one| one["origin"] == "committed_winner");
        decided.flat_map(|one| one["decisions"].as_array().unwrap()).filter(|one| one["verdict"] == verdict).count()
    };
    assert!(replays("measured_again") > 0 && replays("improved") == 0, "{told:?}");
    let rows: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
    assert!(rows.as_array().unwrap().iter().any(|row| row["verdict"] == "measured_again"), "{rows}");

    // A merge brings them in.
    sandbox.git(&["stash", "--quiet", "--include-untracked"]);
    sandbox.git(&["merge", "--quiet", "optloop/winners"]);
    assert!(sandbox.path(FAKE_WINNERS).exists());
}

#[test]
fn the_usual_branch_waits_for_a_first_commit_and_for_nothing_else() {
    let sandbox = usual();
    let to = |more: &[&str]| -> String {
        let plan = sandbox.optloop(&[&START[..], &["--dry-run", "--json"], more].concat());
        let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
        plan["commit_to"].as_str().unwrap_or("-").to_owned() + " " + plan["winners"].as_str().unwrap()
    };
    assert!(to(&[]).starts_with("refs/heads/optloop/winners one commit at the end, to the new branch"), "{}", to(&[]));
    assert!(to(&["--commit-here"]).starts_with("refs/heads/main "), "{}", to(&["--commit-here"]));
    sandbox.git(&["checkout", "--quiet", "--detach"]);
    assert!(to(&[]).starts_with("refs/heads/optloop/winners "), "{}", to(&[]));
    assert!(to(&["--commit-here"]).starts_with("HEAD "), "{}", to(&["--commit-here"]));
    sandbox.git(&["checkout", "--quiet", "-b", "optloop/winners"]);
    assert!(to(&[]).contains("branch optloop/winners of ") && to(&[]).ends_with("which is checked out"), "{}", to(&[]));
    sandbox.git(&["checkout", "--quiet", "main"]);
    sandbox.git(&["worktree", "add", "--quiet", "linked", "optloop/winners"]);
    assert!(to(&[]).starts_with("- only to the store: branch `optloop/winners` is checked out in "), "{}", to(&[]));

    let empty = Sandbox::without_repository();
    empty.replace("config.toml", "[git]\nbranch = ''\n", "");
    empty.git(&["init", "--quiet"]);
    let plan = empty.optloop(&[&START[..], &["--dry-run", "--json"]].concat());
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    assert_eq!(plan["commit_to"], "refs/heads/main", "there is no commit at which a branch could begin");
}
