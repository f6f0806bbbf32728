//! What a process leaves that is killed in the middle of a commit.

use super::*;
use crate::vcs::index::LockedIndex;
use crate::vcs::recovery::Journal;

/// Leaves what a process would that was killed before it could move HEAD: its locks, the files, the index.
fn die_half_way(sandbox: &Sandbox, winner: &Winner) {
    let repo = sandbox.repo();
    let files = repo.files(winner).unwrap();
    for file in &files {
        sandbox.write(file.path.to_str().unwrap(), std::str::from_utf8(&file.bytes).unwrap());
    }
    sandbox.git("add kernels");
    let journal = Journal::of(&repo, "refs/heads/main", &files);
    sandbox.write(".git/index.lock", &serde_json::to_string(&journal).unwrap());
    sandbox.write(".git/HEAD.lock", "");
    sandbox.write(".git/refs/heads/main.lock", "");
}

#[test]
fn what_a_killed_commit_has_left_is_undone() {
    let sandbox = Sandbox::new();
    die_half_way(&sandbox, &winner("// never committed\n"));
    sandbox.repo().recover().unwrap();
    assert_eq!(sandbox.git("status --porcelain"), "");
    assert!(!sandbox.path(CU).exists() && !sandbox.path(".git/index.lock").exists());

    sandbox.repo().commit_winner(&winner("// first\n")).unwrap();
    die_half_way(&sandbox, &winner("// never committed either\n"));
    sandbox.repo().recover().unwrap();
    assert_eq!(sandbox.git("status --porcelain"), "");
    assert_eq!(sandbox.read(CU), "// first\n");
}

#[test]
fn a_commit_undoes_what_a_killed_one_has_left_and_leaves_what_others_have() {
    let sandbox = Sandbox::new();
    sandbox.write("staged.txt", "two\n");
    sandbox.git("add staged.txt");
    die_half_way(&sandbox, &winner("// never committed\n"));
    let id = sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("rev-parse main").trim(), id.0);
    assert_eq!(sandbox.read(CU), "// fast\n");
    assert_eq!(sandbox.git("status --porcelain"), "M  staged.txt\n");
}

#[test]
fn a_file_that_somebody_has_edited_since_is_left_alone() {
    let sandbox = Sandbox::new();
    die_half_way(&sandbox, &winner("// never committed\n"));
    sandbox.write(CU, "// mine\n");
    sandbox.repo().recover().unwrap();
    assert_eq!(sandbox.read(CU), "// mine\n");
    assert_eq!(sandbox.git("status --porcelain --untracked-files=all"), format!("?? {CU}\n"));
}

#[test]
fn a_commit_whose_process_lives_is_not_undone() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo();
    let files = repo.files(&winner("// slowly\n")).unwrap();
    let alive = LockedIndex::lock(repo.git.path(), &Journal::of(&repo, "refs/heads/main", &files)).unwrap();
    repo.recover().unwrap();
    assert!(matches!(sandbox.repo().commit_winner(&winner("// fast\n")), Err(VcsError::Locked(_))));
    drop(alive);
    let id = sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    let found = sandbox.repo().commits_of(3).unwrap();
    assert_eq!((&found[0].commit, found[0].iteration, found[0].case.as_str(), found.len()), (&id, 17, "b1", 1));
    assert_eq!(sandbox.repo().commits_of(4).unwrap(), []);
}
