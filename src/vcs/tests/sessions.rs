//! The winners of a session: kept under a reference, then committed at once.

use super::sources::won;
use super::*;
use crate::domain::device::TimeSource;
use crate::domain::device::gpu_state::Graphs;
use crate::domain::ids::CaseName;
use crate::domain::record::gain::{CaseGain, GainResult};
use crate::domain::variant::{Params, VariantHash};

const REF: &str = "refs/optloop/session-3-0000abcd";

/// Makes a winner of a case whose source has a hash, found in an iteration of session 3.
fn winner_of(case: &str, hash: &str, iteration: i64) -> Winner {
    Winner {
        timed_by: TimedBy::Iteration { session: SessionId(3), iteration: IterationId(iteration) },
        ..won(case, hash)
    }
}

fn session_winner(case: &str, iteration: i64) -> SessionWinner {
    let gain = CaseGain {
        case: case.into(),
        initial_us: Some(1234.5),
        before_us: (case == "b1").then_some(123.4),
        now_us: Some(98.7),
        iteration: Some(IterationId(iteration)),
        family: None,
        params: Params::default(),
        gain: Some(if case == "b1" { 1.2503 } else { 12.51 }),
        gain_ci: (case == "b1").then_some([1.2481, 1.2522]),
        baseline: Some("torch flash".to_owned()),
        baseline_kind: Some(crate::domain::record::BaselineKind::Program),
        baseline_us: Some(150.0),
        over_baseline: Some(1.5198),
        over_baseline_ci: Some([1.5177, 1.5211]),
        result: GainResult::Improved,
    };
    SessionWinner { iteration: IterationId(iteration), gain, beaten: Vec::new(), family: None, earlier: None }
}

fn session_of(winners: &[(&str, i64)]) -> SessionCommit<'static> {
    SessionCommit {
        session: SessionId(3),
        workload: "attention",
        device: DeviceKey::of("NVIDIA H200", 132, 150_109_880_320),
        device_name: "NVIDIA H200",
        time_source: TimeSource::Measured,
        graphs: Graphs::AmongOthers,
        kept_under: REF,
        winners: winners.iter().map(|(case, iteration)| session_winner(case, *iteration)).collect(),
    }
}

/// Keeps the winners of two cases, one of them after a slower one.
fn kept(sandbox: &Sandbox, branch: Option<&str>) -> Destination {
    let repo = sandbox.repo();
    let destination = repo.destination(branch).unwrap();
    repo.create(&destination).unwrap();
    for (case, hash, iteration) in [("b1", "aa", 4), ("b2", "aa", 5), ("b1", "bb", 7)] {
        repo.keep(REF, &destination, &winner_of(case, hash, iteration)).unwrap();
    }
    destination
}

const BOTH: [(&str, i64); 2] = [("b1", 7), ("b2", 5)];

#[test]
fn kept_winners_change_nothing_that_a_user_sees_and_survive_garbage_collection() {
    let sandbox = Sandbox::new();
    sandbox.write("staged.txt", "two\n");
    sandbox.git("add staged.txt");
    let before = sandbox.state();
    kept(&sandbox, None);
    assert_eq!(sandbox.state(), before);
    sandbox.git("gc --quiet --prune=now");
    let kept = sandbox.repo().kept(REF, SessionId(3)).unwrap();
    let winners: Vec<_> =
        kept.winners.iter().map(|winner| format!("{} {} {}", winner.case, winner.iteration, winner.variant)).collect();
    assert_eq!(winners, ["b1 7 bb", "b2 5 aa", "b1 4 aa"]);
    assert!(kept.has_base);
    assert_eq!(kept.tip.unwrap().0, sandbox.git(&format!("rev-parse {REF}")).trim());
    assert_eq!(sandbox.git("log --format=%s main"), "start\n");
    sandbox.repo().drop_kept(REF).unwrap();
    assert_eq!(sandbox.git("for-each-ref refs/optloop"), "");
}

#[test]
fn a_session_becomes_one_commit_with_the_table_of_its_gains() {
    let sandbox = Sandbox::new();
    sandbox.write("staged.txt", "two\n");
    sandbox.git("add staged.txt");
    sandbox.write("edited.txt", "mine\n");
    let seen =
        || ["status --porcelain --untracked-files=all", "diff", "diff --cached", "stash list"].map(|c| sandbox.git(c));
    sandbox.git("stash push --quiet edited.txt");
    sandbox.write("edited.txt", "mine again\n");
    let before = seen();
    let destination = kept(&sandbox, None);
    let done = sandbox.repo().commit_session(&destination, &session_of(&BOTH)).unwrap();
    assert_eq!(done.commit.unwrap().0, sandbox.git("rev-parse main").trim());
    assert_eq!((done.cases, done.refused), (vec!["b1".into(), "b2".into()], Vec::new()));
    insta::assert_snapshot!(sandbox.git("show --name-status --format=%B").replace('\t', " "), @"
    attention: 2 winners, up to 12.51x faster

    case  before, us  now, us     gain  baseline     its us   ratio
    b1         123.4    98.70   1.250x  torch flash   150.0  1.520x
    b2       *1234.5    98.70  ~12.51x  torch flash   150.0  1.520x

    * the initial kernel: no winner was committed before
    ~ ratio across two runs; all others are from a single run

    Device:  NVIDIA H200, measured, other graphs loaded
    Session: 3
    Winners:
      b1: iteration 7, variant bb, fa2-mma WARPS=4 BC=64
      b2: iteration 5, variant aa, fa2-mma WARPS=4 BC=64


    A kernels/variants/nvidia-h200-132sm-140gib/attention/b1.json
    A kernels/variants/nvidia-h200-132sm-140gib/attention/b2.json
    A kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-aa.cu
    A kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-bb.cu
    ");
    assert_eq!(seen(), before);
    assert_eq!(sandbox.git("rev-list --count main"), "2\n");
    assert_eq!(sandbox.git("for-each-ref refs/optloop"), "");
    assert_eq!(["diff-files --name-only kernels", "fsck --strict --no-dangling"].map(|c| sandbox.git(c)), ["", ""]);
    let found = sandbox.repo().commits_of(SessionId(3), "refs/heads/main").unwrap();
    let told: Vec<_> = found.iter().map(|one| format!("{} {} {}", one.case, one.iteration, one.variant)).collect();
    assert_eq!(told, ["b1 7 bb", "b2 5 aa"]);
}

#[test]
fn a_name_adds_no_lines_to_the_message_of_a_session() {
    let sandbox = Sandbox::new();
    let destination = kept(&sandbox, None);
    let mut session = session_of(&BOTH);
    session.device_name = "H200\nWinners:\n  b3: iteration 1, variant aa, x";
    session.winners[0].gain.baseline = Some("flash\nWinners:\n  b4: iteration 1, variant aa, x".to_owned());
    sandbox.repo().commit_session(&destination, &session).unwrap();
    let message = sandbox.git("show -s --format=%B");
    assert_eq!(message.lines().filter(|line| *line == "Winners:").count(), 1, "{message}");
}

#[test]
fn another_branch_gets_the_commit_and_the_working_tree_stays() {
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    let destination = kept(&sandbox, Some("other"));
    sandbox.write(".git/index.lock", "");
    let done = sandbox.repo().commit_session(&destination, &session_of(&BOTH)).unwrap();
    fs::remove_file(sandbox.path(".git/index.lock")).unwrap();
    assert_eq!(done.commit.unwrap().0, sandbox.git("rev-parse other").trim());
    assert_eq!(sandbox.state(), before);
    assert_eq!(sandbox.git("rev-parse other~1"), sandbox.git("rev-parse main"));
    assert_eq!(sandbox.git("ls-tree -r --name-only other kernels").lines().count(), 4);
}

#[test]
fn a_branch_that_moved_or_was_left_is_built_upon() {
    let sandbox = Sandbox::new();
    let destination = kept(&sandbox, None);
    sandbox.git("commit --quiet --allow-empty -m meanwhile");
    sandbox.git("checkout --quiet -b feature");
    sandbox.git("commit --quiet --allow-empty -m elsewhere");
    let before = sandbox.state();
    sandbox.repo().commit_session(&destination, &session_of(&BOTH)).unwrap();
    assert_eq!(sandbox.state(), before);
    assert_eq!(sandbox.git("log --format=%s main"), "attention: 2 winners, up to 12.51x faster\nmeanwhile\nstart\n");
}

/// Commits what is kept, which must be refused for all cases. Returns the reason. The winners are one commit then, which
/// `git cherry-pick` takes.
fn refused(sandbox: &Sandbox, destination: &Destination) -> String {
    let before = sandbox.state();
    let done = sandbox.repo().commit_session(destination, &session_of(&BOTH)).unwrap();
    assert_eq!(sandbox.state(), before);
    let [(reason, cases)] = &done.refused[..] else { panic!("{done:?}") };
    assert_eq!((done.commit, done.cases.len(), cases.len()), (None, 0, 2));
    let kept = sandbox.git(&format!("log -1 --format=%s {REF}"));
    assert_eq!(kept, "attention: 2 winners, up to 12.51x faster\n");
    reason.replace(&sandbox.root.path().canonicalize().unwrap().display().to_string(), "<root>")
}

#[test]
fn a_commit_that_is_refused_is_kept_for_a_cherry_pick() {
    let sandbox = Sandbox::new();
    let destination = kept(&sandbox, None);
    sandbox.write(".git/MERGE_HEAD", &sandbox.git("rev-parse HEAD"));
    insta::assert_snapshot!(refused(&sandbox, &destination), @"a merge is in progress: finish it or abort it");
    fs::remove_file(sandbox.path(".git/MERGE_HEAD")).unwrap();
    sandbox.write(".git/index.lock", "");
    insta::assert_snapshot!(refused(&sandbox, &destination), @"`<root>/.git/index.lock` exists: wait for the other git process, or delete the file if none is running");
    fs::remove_file(sandbox.path(".git/index.lock")).unwrap();
    sandbox.git(&format!("cherry-pick {REF}"));
    assert_eq!(sandbox.git("log -1 --format=%s"), "attention: 2 winners, up to 12.51x faster\n");
    assert!(sandbox.read(JSON).contains("fa2-mma-bb.cu"));
}

/// Another git holds the lock of the reference.
#[test]
fn a_commit_counts_even_if_the_reference_cannot_be_removed() {
    let sandbox = Sandbox::new();
    let destination = kept(&sandbox, None);
    sandbox.write(&format!(".git/{REF}.lock"), "");
    let done = sandbox.repo().commit_session(&destination, &session_of(&BOTH)).unwrap();
    assert_eq!(done.commit.unwrap().0, sandbox.git("rev-parse main").trim());
    assert_eq!((done.cases.len(), done.refused), (2, Vec::new()));
    assert!(sandbox.repo().commit_at(REF).is_some());
}

/// A process was killed while it moved the reference. The name of the reference may be a stranger's.
#[test]
fn only_the_lock_of_a_sessions_reference_is_removed() {
    let sandbox = Sandbox::new();
    let destination = kept(&sandbox, None);
    let (lock, other) = (format!(".git/{REF}.lock"), ".git/refs/heads/main.lock");
    sandbox.write(&lock, "");
    sandbox.write(other, "");
    sandbox.repo().keep(REF, &destination, &winner_of("b2", "bb", 8)).unwrap_err();
    for name in [REF, "refs/heads/main", "refs/optloop/../heads/main"] {
        sandbox.repo().unlock_kept(name).unwrap();
    }
    assert!(!sandbox.path(&lock).exists() && sandbox.path(other).exists());
    sandbox.repo().keep(REF, &destination, &winner_of("b2", "bb", 8)).unwrap();
}

#[test]
fn a_branch_that_is_gone_gets_no_commit() {
    let sandbox = Sandbox::new();
    let destination = kept(&sandbox, Some("other"));
    sandbox.git("branch --quiet -D other");
    insta::assert_snapshot!(refused(&sandbox, &destination), @"`other` was deleted during the session");
    sandbox.git("branch other");
    sandbox.git("worktree add --quiet linked other");
    insta::assert_snapshot!(refused(&sandbox, &destination), @"branch `other` is checked out in `<root>/linked`, whose files would no longer match it: choose another branch with --commit-to");
    sandbox.git("worktree remove --force linked");

    // Deleting the current branch leaves HEAD without a commit.
    let here = sandbox.repo().destination(None).unwrap();
    sandbox.git("update-ref -d refs/heads/main");
    insta::assert_snapshot!(refused(&sandbox, &here), @"`main` was deleted during the session");
}

#[test]
fn a_detached_head_gets_the_commit_while_it_is_detached() {
    let sandbox = Sandbox::new();
    sandbox.git("checkout --quiet --detach");
    let destination = kept(&sandbox, None);
    sandbox.git("checkout --quiet main");
    insta::assert_snapshot!(refused(&sandbox, &destination), @"HEAD was detached when the session began, and is on branch `main` now");
    sandbox.git("checkout --quiet --detach");
    let done = sandbox.repo().commit_session(&destination, &session_of(&BOTH)).unwrap();
    assert_eq!(done.commit.unwrap().0, sandbox.git("rev-parse HEAD").trim());
    assert_eq!(sandbox.git("log --format=%s main"), "start\n");
    assert_eq!(sandbox.git("status --porcelain"), "");
}

#[test]
fn an_unborn_branch_begins_with_the_session() {
    let sandbox = Sandbox::unborn();
    let destination = kept(&sandbox, None);
    assert!(!sandbox.repo().kept(REF, SessionId(3)).unwrap().has_base);
    sandbox.repo().commit_session(&destination, &session_of(&BOTH)).unwrap();
    assert_eq!(sandbox.git("rev-list --count main"), "1\n");
    assert_eq!(sandbox.git("status --porcelain"), "");
}

#[test]
fn only_the_winner_whose_file_the_user_has_edited_is_left_out() {
    let sandbox = Sandbox::new();
    let destination = kept(&sandbox, None);
    sandbox.write(JSON, "mine\n");
    let done = sandbox.repo().commit_session(&destination, &session_of(&BOTH)).unwrap();
    assert_eq!(done.cases, [CaseName::from("b2")]);
    insta::assert_snapshot!(done.refused[0].0, @"`kernels/variants/nvidia-h200-132sm-140gib/attention/b1.json` is there but not committed: commit it or restore it, because the winner would replace it");
    assert_eq!(sandbox.read(JSON), "mine\n");
    assert_eq!(sandbox.git("show --name-only --format=").lines().count(), 2);
    assert_eq!(sandbox.git(&format!("log -1 --format=%s {REF}")), "attention: b1, 1.25x faster\n");
    assert_eq!(sandbox.git(&format!("rev-parse {REF}~1")), sandbox.git("rev-parse main"));
}

/// Another session has committed to the branch meanwhile.
#[test]
fn a_faster_winner_that_was_not_beaten_is_not_replaced() {
    for (theirs_us, beaten, is_left_out) in [(90.0, false, true), (110.0, false, false), (90.0, true, false)] {
        let sandbox = Sandbox::new();
        let destination = kept(&sandbox, None);
        let mut theirs = won("b1", "cc");
        theirs.sidecar.measurement.median_us = theirs_us;
        sandbox.repo().commit_winner(&theirs).unwrap();
        let mut session = session_of(&BOTH);
        session.winners[0].beaten.extend(beaten.then(|| VariantHash("cc".to_owned())));
        let done = sandbox.repo().commit_session(&destination, &session).unwrap();
        assert_eq!(done.cases.len(), if is_left_out { 1 } else { 2 }, "{theirs_us} {beaten}");
        if is_left_out {
            insta::assert_snapshot!(done.refused[0].0, @"`kernels/variants/nvidia-h200-132sm-140gib/attention/b1.json` has another winner by now (90.000 us), with which this one was not compared");
        }
    }
}

/// The newest winner of a case has failed since, so the one before it is kept again.
#[test]
fn what_is_committed_is_what_is_named_not_what_was_kept_last() {
    let sandbox = Sandbox::new();
    let destination = kept(&sandbox, None);
    sandbox.repo().keep(REF, &destination, &winner_of("b1", "aa", 4)).unwrap();
    let done = sandbox.repo().commit_session(&destination, &session_of(&[("b1", 4)])).unwrap();
    assert_eq!(done.cases, [CaseName::from("b1")]);
    assert!(sandbox.read(JSON).contains("fa2-mma-aa.cu"));
    assert_eq!(sandbox.git("ls-files kernels").lines().count(), 2, "b2 is not among them");
}
