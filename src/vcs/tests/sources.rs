//! Sources that cases share, and sources that no case needs any more.

use super::*;
use crate::domain::sidecar::Sidecar;
use crate::domain::variant::VariantHash;

const FOLDER: &str = "kernels/variants/nvidia-h200-132sm-140gib/attention";

/// Makes a winner of a case whose source has a hash.
pub(super) fn won(case: &str, hash: &str) -> Winner {
    let mut winner = winner(&format!("// {hash}\n"));
    winner.sidecar.variant.hash = VariantHash(hash.to_owned());
    winner.sidecar.source = Some(winner.sidecar.variant.source_name());
    winner.sidecar.measurement.case = case.into();
    winner
}

/// Returns the path of the source with a hash.
pub(super) fn source(hash: &str) -> String {
    format!("{FOLDER}/fa2-mma-{hash}.cu")
}

/// Returns the changes of the latest commit, one `<status> <name>` for each file.
fn changed(sandbox: &Sandbox) -> String {
    sandbox.git("show --name-status --no-renames --format=").replace(&format!("{FOLDER}/"), "").replace('\t', " ")
}

#[test]
fn a_source_stays_while_a_case_needs_it_and_goes_with_the_last() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo();
    let mut told = Vec::new();
    for (case, hash) in [("b1", "aa"), ("b2", "aa"), ("b1", "bb"), ("b2", "bb"), ("b2", "bb")] {
        repo.commit_winner(&won(case, hash)).unwrap();
        told.push(changed(&sandbox));
        assert_eq!(["status --porcelain", "diff-files"].map(|command| sandbox.git(command)), ["", ""]);
    }
    assert_eq!(told[..2], ["A b1.json\nA fa2-mma-aa.cu\n", "A b2.json\n"]);
    assert_eq!(told[2], "M b1.json\nA fa2-mma-bb.cu\n", "b2 needs the other one");
    assert_eq!(told[3], "M b2.json\nD fa2-mma-aa.cu\n");
    assert_eq!(told[4], told[3], "it is committed already");
    assert!(!sandbox.path(&source("aa")).exists());
    assert_eq!(sandbox.read(&source("bb")), "// bb\n");
}

#[test]
fn a_source_that_may_be_needed_is_not_removed() {
    let sandbox = Sandbox::new();
    sandbox.write(&format!("{FOLDER}/mine.cu"), "// no sidecar has ever named it\n");
    sandbox.repo().commit_winner(&won("b1", "aa")).unwrap();
    sandbox.write(&format!("{FOLDER}/b2.json"), "{ of a later version }");
    sandbox.git("add .");
    sandbox.git("commit --quiet -m mine");
    sandbox.repo().commit_winner(&won("b1", "bb")).unwrap();
    assert_eq!(changed(&sandbox), "M b1.json\nA fa2-mma-bb.cu\n");
    assert!(sandbox.path(&source("aa")).exists() && sandbox.path(&format!("{FOLDER}/mine.cu")).exists());
}

#[test]
fn a_source_that_the_user_has_edited_is_not_removed() {
    let sandbox = Sandbox::new();
    sandbox.repo().commit_winner(&won("b1", "aa")).unwrap();
    sandbox.write(&source("aa"), "// mine\n");
    insta::assert_snapshot!(sandbox.refused(&won("b1", "bb")), @"`kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-aa.cu` has changes that are not committed: commit it or restore it, because the winner would replace it");
    sandbox.git("add .");
    assert!(sandbox.refused(&won("b1", "bb")).contains("has staged changes"));

    // A user who has removed it has done what the commit does.
    sandbox.git("reset --quiet --hard");
    fs::remove_file(sandbox.path(&source("aa"))).unwrap();
    sandbox.repo().commit_winner(&won("b1", "bb")).unwrap();
    assert_eq!(changed(&sandbox), "M b1.json\nD fa2-mma-aa.cu\nA fa2-mma-bb.cu\n");
    assert_eq!(sandbox.git("status --porcelain"), "");
}

#[test]
fn a_failure_at_the_last_step_brings_the_removed_source_back() {
    let sandbox = Sandbox::new();
    sandbox.repo().commit_winner(&won("b1", "aa")).unwrap();
    // A folder takes the place of the branch's log.
    fs::remove_file(sandbox.path(".git/logs/refs/heads/main")).unwrap();
    sandbox.write(".git/logs/refs/heads/main/in/the/way", "");
    sandbox.refused(&won("b1", "bb"));
    assert_eq!((sandbox.read(&source("aa")), sandbox.path(&source("bb")).exists()), ("// aa\n".to_owned(), false));
}

#[test]
fn a_commits_winners_are_those_whose_sidecar_or_source_has_changed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo();
    repo.commit_winner(&won("b1", "aa")).unwrap();
    let of_head = || repo.winners_of("HEAD").unwrap().1.into_iter().map(|winner| winner.path).collect::<Vec<_>>();
    let paths = |cases: &[&str]| cases.iter().map(|case| format!("{FOLDER}/{case}.json")).collect::<Vec<_>>();
    assert_eq!(of_head(), paths(&["b1"]));
    repo.commit_winner(&won("b2", "aa")).unwrap();
    assert_eq!(of_head(), paths(&["b2"]), "the source was there before");
    sandbox.write(&source("aa"), "// by hand\n");
    sandbox.git("commit --quiet --all -m edited");
    assert_eq!(of_head(), paths(&["b1", "b2"]), "the source is that of both");
    let [first, _] = &repo.winners_of("HEAD").unwrap().1[..] else { panic!("two winners") };
    assert_eq!((first.workload.as_str(), first.case.as_str()), ("attention", "b1"));
    assert_eq!(first.source.as_deref(), Some("// by hand\n"));
}

/// History does not change, and neither do its messages.
#[test]
fn winners_of_version_0_1_0_are_found_in_their_commits() {
    let sandbox = Sandbox::new();
    let first = Sidecar { schema: "optloop.sidecar/1".to_owned(), source: None, ..sidecar() }.to_json().unwrap();
    for folder in ["kernels/variants/attention", "kernels/modelled/h200/attention"] {
        sandbox.write(&format!("{folder}/b1.json"), &first);
        sandbox.write(&format!("{folder}/b1.cu"), "// old\n");
        sandbox.git("add .");
        sandbox.git("commit --quiet -m old");
        let [winner] = &sandbox.repo().winners_of("HEAD").unwrap().1[..] else { panic!("one winner") };
        assert_eq!((winner.path.as_str(), winner.source.as_deref()), (&*format!("{folder}/b1.json"), Some("// old\n")));
    }
}
