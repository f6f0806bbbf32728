//! Repairs after a process was killed in the middle of a commit.

use super::families::with_family;
use super::sources::{source, won};
use super::*;
use crate::domain::ids::{IterationId, SessionId};
use crate::vcs::index::LockedIndex;
use crate::vcs::journal::Journal;

/// Returns the changes of a winner's commit.
fn changes(repo: &Repo, winner: &Winner) -> Vec<FileChange> {
    let (head, files) = (repo.head_commit().unwrap(), repo.files_of(winner).unwrap());
    let changes = repo.changes(&[&files], &repo.tree_of(head.as_ref()).unwrap(), true);
    changes.unwrap_or_else(|refused| panic!("{refused:?}"))
}

/// Leaves the locks, the files and the index of a process that was killed before it moved HEAD.
fn die_half_way(sandbox: &Sandbox, winner: &Winner) {
    let repo = sandbox.repo();
    let changes = changes(&repo, winner);
    let journal = Journal::of(&repo, "refs/heads/main", &changes);
    for FileChange { path, after, .. } in &changes {
        match after {
            Some(contents) => {
                sandbox.write(path.to_str().unwrap(), std::str::from_utf8(&contents.bytes).unwrap());
            }
            None => fs::remove_file(sandbox.path(path.to_str().unwrap())).unwrap(),
        }
    }
    sandbox.git("add kernels");
    if winner.family.is_some() {
        sandbox.git("add templates");
    }
    sandbox.write("kernels/variants/nvidia-h200-132sm-140gib/attention/.b1.json.optloop-tmp", "{");
    sandbox.write(".git/.index.lock.1.optloop-tmp", "{");
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
    assert!(!sandbox.path("kernels").exists() && !sandbox.path(".git/index.lock").exists());
    assert!(!sandbox.state().contains("litter: true"));

    sandbox.repo().commit_winner(&winner("// first\n")).unwrap();
    die_half_way(&sandbox, &winner("// never committed either\n"));
    sandbox.repo().recover().unwrap();
    assert_eq!(sandbox.git("status --porcelain"), "");
    assert_eq!(sandbox.read(CU), "// first\n");
}

#[test]
fn a_family_that_a_killed_commit_has_left_is_undone() {
    let sandbox = Sandbox::new();
    die_half_way(&sandbox, &with_family("// never committed\n"));
    assert!(sandbox.path("templates/kernels/found/family.toml").exists());
    sandbox.write("templates/kernels/found/.kernel.cu.tera.optloop-tmp", "//");
    sandbox.repo().recover().unwrap();
    assert_eq!(sandbox.git("status --porcelain --untracked-files=all"), "");
    assert!(!sandbox.path("kernels").exists() && !sandbox.path("templates").exists());

    die_half_way(&sandbox, &with_family("// never committed\n"));
    sandbox.write("templates/kernels/mine/family.toml", "mine\n");
    let id = sandbox.repo().commit_winner(&with_family("// fast\n")).unwrap();
    assert_eq!(sandbox.git("rev-parse main").trim(), id.0);
    assert_eq!(sandbox.git("status --porcelain"), "?? templates/kernels/mine/\n");
}

#[test]
fn a_source_that_a_killed_commit_has_removed_comes_back() {
    let sandbox = Sandbox::new();
    sandbox.repo().commit_winner(&won("b1", "aa")).unwrap();
    die_half_way(&sandbox, &won("b1", "bb"));
    assert!(!sandbox.path(&source("aa")).exists());
    sandbox.repo().recover().unwrap();
    assert_eq!(sandbox.git("status --porcelain"), "");
    assert_eq!((sandbox.read(&source("aa")), sandbox.path(&source("bb")).exists()), ("// aa\n".to_owned(), false));

    // It died after HEAD had moved, so removed files stay removed.
    let id = sandbox.repo().commit_winner(&won("b1", "cc")).unwrap();
    let journal = serde_json::json!({
        "about": "", "reference": "refs/heads/main", "files": [], "removed": [source("aa")], "folders": []
    });
    sandbox.write(".git/index.lock", &journal.to_string());
    sandbox.repo().recover().unwrap();
    assert_eq!((sandbox.git("rev-parse main").trim(), sandbox.git("status --porcelain").as_str()), (id.0.as_str(), ""));
}

/// As version 0.1.0 wrote it.
#[test]
fn a_journal_without_removals_is_read() {
    let sandbox = Sandbox::new();
    let journal = r#"{"about": "", "reference": "refs/heads/main", "files": [], "folders": []}"#;
    sandbox.write(".git/index.lock", journal);
    sandbox.repo().recover().unwrap();
    assert!(!sandbox.path(".git/index.lock").exists());
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
fn a_recovery_that_fails_is_tried_again_by_the_next() {
    let sandbox = Sandbox::new();
    die_half_way(&sandbox, &winner("// never committed\n"));
    std::fs::remove_file(sandbox.path(JSON)).unwrap();
    std::fs::create_dir(sandbox.path(JSON)).unwrap();
    let error = sandbox.repo().recover().unwrap_err().to_string();
    assert!(error.contains("it is not a regular file"), "{error}");
    assert!(sandbox.path(".git/index.lock").exists());
    std::fs::remove_dir(sandbox.path(JSON)).unwrap();
    let id = sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("rev-parse main").trim(), id.0);
    assert_eq!(sandbox.git("status --porcelain"), "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_repository_below_a_folder_that_is_not_utf_8_gets_its_winner_and_its_recovery() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    let project = sandbox.root.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&project).unwrap();
    let repo = Repo::discover(&project).unwrap();
    let changes = changes(&repo, &winner("// fast\n"));
    let journal = serde_json::to_string(&Journal::of(&repo, "refs/heads/main", &changes)).unwrap();
    sandbox.write(".git/index.lock", &journal);
    repo.commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("status --porcelain"), "");
    assert!(project.join(CU).is_file());
}

#[test]
fn what_libgit2_writes_is_flushed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo();
    assert!(repo.git.config().unwrap().get_bool("core.fsyncObjectFiles").unwrap());
    let (known, _) = sandbox.try_git_in("", "config core.fsyncObjectFiles");
    assert!(!known, "it is for this process alone");
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
    let journal = Journal::of(&repo, "refs/heads/main", &changes(&repo, &winner("// slowly\n")));
    let alive = LockedIndex::lock(repo.git.path(), &journal).unwrap();
    repo.recover().unwrap();
    assert!(matches!(sandbox.repo().commit_winner(&winner("// fast\n")), Err(VcsError::Locked(_))));
    drop(alive);
    let id = sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    let found = sandbox.repo().commits_of(SessionId(3), "refs/heads/main").unwrap();
    assert_eq!(
        (&found[0].commit, found[0].iteration, found[0].case.as_str(), found.len()),
        (&id, IterationId(17), "b1", 1)
    );
    assert_eq!(sandbox.repo().commits_of(SessionId(4), "refs/heads/main").unwrap(), []);
}
