//! The whole program is killed at random moments and resumes each time.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::record::{Record, commits, kept};
use super::running::{Running, no_orphans};
use crate::common::{Sandbox, is_nightly};

/// How often the session is killed: a hundred times in scripts/nightly, or as often as OPTLOOP_KILLS says.
fn deaths() -> u64 {
    let chosen = std::env::var("OPTLOOP_KILLS").ok().and_then(|kills| kills.parse().ok());
    chosen.unwrap_or(if is_nightly() { 100 } else { 15 })
}

/// A project whose cases share no source, so each is won on its own. It has more configurations than a hundred lives
/// can try.
pub fn project(config: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    if !config.is_empty() {
        sandbox.write("config.toml", &format!("{config}\n[git]\nbranch = ''\n"));
    }
    let shared = &crate::common::WORKLOAD[..crate::common::WORKLOAD.find("[[case]]").unwrap()];
    let cases: String = (1..=8).map(|n| format!("[[case]]\nname = 'd{n}'\nSq = 32\nSk = 32\nD = {n}\n")).collect();
    sandbox.write("kernels/workloads/small.toml", &format!("{shared}{cases}"));
    let many = format!("values = [0, {}]", (100..130).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0]", &many);
    sandbox.git(&["commit", "--quiet", "--all", "--message", "more cases and configurations"]);
    sandbox
}

/// Invariants after every death.
struct Witness {
    lasting: BTreeSet<String>,
    unlinked: BTreeSet<String>,
    kept: BTreeSet<String>,
}

impl Witness {
    /// Checks the state after a death. `went_on` is whether the session had reached a new iteration.
    fn observe(&mut self, sandbox: &Sandbox, went_on: bool) {
        let record = Record::of(sandbox);
        record.check();
        let lasting = record.lasting();
        let lost: Vec<&String> = self.lasting.difference(&lasting).collect();
        assert!(lost.is_empty(), "lost or changed: {lost:?}");
        let (links, made) = (record.links(), commits(sandbox));
        let by_winner: BTreeSet<&str> = made.iter().map(|winner| winner.rsplit_once(' ').unwrap().0).collect();
        assert_eq!(by_winner.len(), made.len(), "a winner is committed twice: {made:?}");
        let made: BTreeSet<String> = made.into_iter().collect();
        let nowhere: Vec<&String> = links.difference(&made).collect();
        assert!(nowhere.is_empty(), "linked to no commit: {nowhere:?}");
        let unlinked: BTreeSet<String> = made.difference(&links).cloned().collect();
        if went_on {
            let still: Vec<&String> = unlinked.intersection(&self.unlinked).collect();
            assert!(still.is_empty(), "not linked by the one that went on: {still:?}");
        }
        let kept = kept(sandbox);
        let has_ended = !made.is_empty();
        let lost: Vec<&String> = self.kept.difference(&kept).filter(|_| !has_ended).collect();
        assert!(lost.is_empty(), "no longer kept in git: {lost:?}");
        *self = Self { lasting, unlinked, kept };
    }
}

#[test]
fn a_session_killed_many_times_loses_and_duplicates_nothing() {
    let sandbox = project("");
    let mut rng = SmallRng::seed_from_u64(1);
    let mut witness = Witness { lasting: BTreeSet::new(), unlinked: BTreeSet::new(), kept: BTreeSet::new() };
    let start = [
        "start",
        "--device",
        "fake",
        "--workload",
        "small",
        "--seed",
        "1",
        "--budget",
        "10m",
        "--no-early-stop",
        "--json",
    ];
    let mut session = Running::start(&sandbox, &start);
    session.wait_for("started");
    for _ in 0..deaths() {
        let (mut left, at_a_win) = (rng.random_range(0..8), rng.random_bool(0.4));
        let mut went_on = false;
        while left > 0 {
            let Some(event) = session.next() else { break };
            let kind = event["event"].as_str().unwrap();
            went_on |= kind == "iteration";
            assert!(kind != "ended" && kind != "not_kept", "{event}");
            // The winner is kept in git at once.
            // A resumed session begins with what it knows of each case.
            let is_news = kind != "case";
            left = if at_a_win && kind == "improved" { 0 } else { left - i32::from(is_news) };
        }
        let heard = session.listen(Duration::from_micros(rng.random_range(0..20_000)));
        let (rest, said) = session.kill();
        went_on |= heard.iter().chain(&rest).any(|event| event["event"] == "iteration");
        let refused: Vec<_> = heard.iter().chain(&rest).filter(|event| event["event"] == "not_kept").collect();
        assert!(refused.is_empty(), "only optloop uses this repository: {refused:?}");
        assert!(!said.contains("error") && !said.contains("panicked"), "{said}");
        no_orphans(&sandbox);
        assert!(!sandbox.path(".git/index.lock").exists(), "the index is not touched before the end");
        witness.observe(&sandbox, went_on);
        session = Running::start(&sandbox, &["resume", "--json"]);
    }
    session.kill();
    let in_flight = Record::of(&sandbox).ask("SELECT hash FROM iterations WHERE ended_at IS NULL").len();
    eprintln!("of {} deaths: {in_flight} with an iteration in flight", deaths());
    assert_eq!(commits(&sandbox), [""; 0], "no branch has anything before the end");
    assert!(witness.kept.len() >= if is_nightly() { 8 } else { 1 }, "cases are won: {:?}", witness.kept);
    // Deaths during the commit at the end and before its links have their own tests.
    assert!(in_flight > 0 || !is_nightly(), "no death where it matters: kill more often");
    // The remaining time is too short for another iteration, so this life settles, commits and reports.
    let last = Running::start(&sandbox, &["resume", "--budget", "1s", "--json"]);
    let (status, events, said) = last.end();
    assert!(status.success(), "{said}");
    assert_eq!(events.last().unwrap()["status"], "finished", "{said}");
    witness.observe(&sandbox, true);
    assert_eq!(witness.unlinked, BTreeSet::new());
    no_orphans(&sandbox);

    let report = sandbox.report();
    assert_eq!(report["session"]["status"], "finished");
    for case in report["cases"].as_array().unwrap().iter().filter(|case| is_nightly() || case["commit"].is_string()) {
        assert!(case["speedup_over_start"].as_f64().unwrap() > 1.0, "{case}");
        assert!(case["commit"].is_string(), "the best of every case is in git: {case}");
    }
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    assert_eq!(sandbox.git(&["fsck", "--strict", "--no-dangling"]), "");
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "3\n", "one commit for the session");
    assert_eq!(sandbox.git(&["for-each-ref", "refs/optloop"]), "");
    let shares: f64 =
        Record::of(&sandbox).ask("SELECT CAST(TOTAL(wall_s) AS TEXT) FROM iterations")[0].parse().unwrap();
    assert!(report["session"]["wall_s"].as_f64().unwrap() >= shares * 0.999, "no iteration's time is given back");
    let said = sandbox.fails(&["resume"]);
    assert_eq!(said, "1 error: every session is finished, so there is none to resume: `optloop start` begins another");
}

#[test]
fn the_time_used_is_on_record_while_a_session_runs() {
    let sandbox = project("");
    let start = ["start", "--device", "fake", "--workload", "small", "--budget", "10m", "--no-early-stop", "--json"];
    let session = Running::start(&sandbox, &start);
    session.wait_for("started");
    let noted = || Record::of(&sandbox).ask("SELECT CAST(used_s AS TEXT) FROM sessions WHERE used_s > 1");
    while noted().is_empty() {
        session.listen(Duration::from_millis(100));
    }
    session.kill();
    let [noted] = &noted()[..] else { panic!("there is one session") };
    let session = Running::start(&sandbox, &["resume", "--budget", "1s", "--json"]);
    let (status, events, said) = session.end();
    assert!(status.success(), "{said}");
    assert!(events[0]["used_s"].as_f64().unwrap() >= noted.parse::<f64>().unwrap(), "{noted}: {events:?}");
}
