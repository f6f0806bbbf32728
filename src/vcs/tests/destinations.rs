//! Where the commit of a session goes.

use super::*;

/// Returns the reference and the description of a destination, or the refusal.
fn destination(sandbox: &Sandbox, branch: Option<&str>) -> String {
    let repo = sandbox.repo();
    let told = match repo.destination(branch) {
        Ok(destination) => format!("{}: {}", destination.reference(), repo.describe(&destination)),
        Err(reason) => reason.to_string(),
    };
    told.replace(&sandbox.root.path().canonicalize().unwrap().display().to_string(), "<root>")
}

#[test]
fn a_session_commits_to_the_branch_in_use_or_to_the_one_it_is_told() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(destination(&sandbox, None), @"refs/heads/main: branch main of <root>, which is checked out");
    insta::assert_snapshot!(destination(&sandbox, Some("main")), @"refs/heads/main: branch main of <root>, which is checked out");
    insta::assert_snapshot!(destination(&sandbox, Some("gpu/h200")), @"refs/heads/gpu/h200: the new branch gpu/h200 of <root>, which begins at HEAD");
    sandbox.git("branch other");
    insta::assert_snapshot!(destination(&sandbox, Some("other")), @"refs/heads/other: branch other of <root>, which is not checked out");
    sandbox.git("checkout --quiet --detach");
    insta::assert_snapshot!(destination(&sandbox, None), @"HEAD: the detached HEAD of <root>");
}

#[test]
fn a_branch_that_cannot_get_a_commit_is_refused_before_the_session() {
    let sandbox = Sandbox::new();
    for name in ["", "a..b", "-x", "HEAD", "a b", "refs/heads/main", "x.lock"] {
        let said = destination(&sandbox, Some(name));
        assert!(said.starts_with(&format!("`{name}` is not a valid name of a branch")), "{said}");
    }
    sandbox.git("worktree add --quiet -b side linked");
    insta::assert_snapshot!(destination(&sandbox, Some("side")), @"branch `side` is checked out in `<root>/linked`, whose files would no longer match it: choose another branch with --commit-to");
    // The other way round: the main working tree has the branch.
    let linked = Repo::discover(&sandbox.path("linked")).unwrap();
    assert!(matches!(linked.destination(Some("main")), Err(VcsError::CheckedOut { .. })));
    assert_eq!(linked.destination(None).unwrap().name(), "side");
    insta::assert_snapshot!(destination(&Sandbox::unborn(), Some("new")), @"the repository has no commit yet, at which branch `new` could begin: make a first commit");
    assert_eq!(Sandbox::unborn().repo().destination(Some("main")).unwrap().reference(), "refs/heads/main");
}

#[test]
fn a_new_branch_begins_at_head_and_is_not_checked_out() {
    let sandbox = Sandbox::new();
    sandbox.write("staged.txt", "two\n");
    sandbox.git("add staged.txt");
    let (repo, before) = (sandbox.repo(), sandbox.state());
    let destination = repo.destination(Some("new")).unwrap();
    repo.create(&destination).unwrap();
    // A process that died after this left the branch.
    repo.create(&destination).unwrap();
    assert_eq!(sandbox.git("rev-parse new"), sandbox.git("rev-parse main"));
    assert_eq!(sandbox.git("symbolic-ref HEAD"), "refs/heads/main\n");
    assert_eq!(sandbox.state(), before);
    // A folder of branches has the name.
    sandbox.git("branch folder/branch");
    let taken = repo.destination(Some("folder")).unwrap();
    assert!(repo.create(&taken).unwrap_err().to_string().starts_with("could not create the branch: "));
}
