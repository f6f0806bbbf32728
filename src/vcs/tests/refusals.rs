//! Winners that cannot be committed. Nothing changes.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::*;

#[test]
fn a_winner_never_overwrites_an_edit_of_its_own_files() {
    let sandbox = Sandbox::new();
    sandbox.write(CU, "// mine\n");
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"`kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-00ff.cu` is there but not committed: commit it or restore it, because the winner would replace it");
    fs::remove_file(sandbox.path(CU)).unwrap();

    sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    sandbox.write(CU, "// mine\n");
    insta::assert_snapshot!(sandbox.refused(&winner("// faster\n")), @"`kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-00ff.cu` has changes that are not committed: commit it or restore it, because the winner would replace it");

    sandbox.git("add .");
    sandbox.write(CU, "// fast\n");
    insta::assert_snapshot!(sandbox.refused(&winner("// faster\n")), @"`kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-00ff.cu` has staged changes: commit it or restore it, because the winner would replace it");

    sandbox.git("reset --quiet --hard");
    fs::remove_file(sandbox.path(JSON)).unwrap();
    insta::assert_snapshot!(sandbox.refused(&winner("// faster\n")), @"`kernels/variants/nvidia-h200-132sm-140gib/attention/b1.json` is deleted: commit it or restore it, because the winner would replace it");
}

#[test]
fn a_failure_at_the_last_step_puts_everything_back() {
    let sandbox = Sandbox::new();
    sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    // A folder takes the place of the branch's log.
    fs::remove_file(sandbox.path(".git/logs/refs/heads/main")).unwrap();
    sandbox.write(".git/logs/refs/heads/main/in/the/way", "");
    sandbox.write("staged.txt", "two\n");
    sandbox.git("add staged.txt");
    let index = fs::read(sandbox.path(".git/index")).unwrap();
    let error = sandbox.repo().commit_winner(&winner("// faster\n")).unwrap_err().to_string();
    assert!(fs::read(sandbox.path(".git/index")).unwrap() == index);
    assert!(error.starts_with("could not move the branch to the commit: cannot create reflog"), "{error}");
    assert_eq!(sandbox.read(CU), "// fast\n");
    assert_eq!(sandbox.git("status --porcelain --untracked-files=all"), "M  staged.txt\n");
    sandbox.refused(&winner("// faster\n"));
}

#[test]
fn a_failure_between_the_two_files_leaves_neither() {
    let sandbox = Sandbox::unborn();
    let mut winner = winner("// fast\n");
    // The temporary name of `<case>.json` is longer than the 255 bytes of a file name, and the source comes first.
    winner.sidecar.measurement.case = "b".repeat(239).into();
    insta::assert_snapshot!(sandbox.refused(&winner).replace(&"b".repeat(239), "<case>"), @"could not write `<root>/kernels/variants/nvidia-h200-132sm-140gib/attention/<case>.json`: File name too long (os error 36)");
    assert!(!sandbox.path("kernels").exists());
}

#[test]
fn locks_and_unfinished_operations_are_respected() {
    let sandbox = Sandbox::new();
    sandbox.write(".git/index.lock", "");
    let error = sandbox.repo().commit_winner(&winner("// fast\n")).unwrap_err();
    assert!(matches!(error, VcsError::Locked(path) if path.ends_with(".git/index.lock")));
    assert!(sandbox.path(".git/index.lock").exists());
    fs::remove_file(sandbox.path(".git/index.lock")).unwrap();

    sandbox.write(".git/refs/heads/main.lock", "");
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"`<root>/.git/refs/heads/main.lock` exists: wait for the other git process, or delete the file if none is running");
    fs::remove_file(sandbox.path(".git/refs/heads/main.lock")).unwrap();

    sandbox.write(".git/MERGE_HEAD", &sandbox.git("rev-parse HEAD"));
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"a merge is in progress: finish it or abort it");
    fs::remove_file(sandbox.path(".git/MERGE_HEAD")).unwrap();

    fs::create_dir(sandbox.path(".git/rebase-merge")).unwrap();
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"a rebase is in progress: finish it or abort it");
}

/// `git status` and `git gc` hold a lock for some milliseconds.
#[test]
fn a_momentary_lock_is_waited_for() {
    for lock in ["HEAD.lock", "refs/heads/main.lock"] {
        let sandbox = Sandbox::new();
        let (index, lock) = (sandbox.path(".git/index.lock"), sandbox.path(&format!(".git/{lock}")));
        fs::write(&lock, "").unwrap();
        std::thread::scope(|scope| {
            // The index is locked first. From then on, the commit waits for the other lock.
            scope.spawn(|| {
                while !index.exists() {
                    std::thread::yield_now();
                }
                fs::remove_file(&lock).unwrap();
            });
            sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
        });
        assert_eq!(sandbox.git("log --format=%s -1").lines().count(), 1);
        assert_eq!(sandbox.git("status --porcelain"), "");
    }
}

#[test]
fn a_winner_stays_inside_its_repository() {
    let sandbox = Sandbox::new();
    let outside = TempDir::new().unwrap();
    fs::create_dir(sandbox.path("kernels")).unwrap();
    symlink(outside.path(), sandbox.path("kernels/variants")).unwrap();
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"`kernels/variants` is a symbolic link: move it away, because winners are stored below it");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    fs::remove_file(sandbox.path("kernels/variants")).unwrap();

    symlink("/dev/null", sandbox.path("elsewhere")).unwrap();
    fs::create_dir_all(sandbox.path("kernels/variants/nvidia-h200-132sm-140gib/attention")).unwrap();
    fs::rename(sandbox.path("elsewhere"), sandbox.path(CU)).unwrap();
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"could not read `<root>/kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-00ff.cu`: it is not a regular file; move it away");
    fs::remove_dir_all(sandbox.path("kernels")).unwrap();

    sandbox.write("kernels", "a file\n");
    sandbox.git("add kernels");
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"`kernels` is a file: move it away, because winners are stored below it");
    fs::remove_file(sandbox.path("kernels")).unwrap();
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"`kernels` is staged as a file or submodule: move it away, because winners are stored below it");
    sandbox.git("reset --quiet --hard");

    fs::create_dir(sandbox.path("kernels")).unwrap();
    assert!(sandbox.try_git_in("kernels", "init --quiet").0);
    insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"`kernels` is a repository of its own: move it away, because winners are stored below it");

    let climbing = Winner { workload: "../../..".to_owned(), ..winner("") };
    insta::assert_snapshot!(sandbox.refused(&climbing), @"`../../..` cannot name a file: use letters, digits, `-`, `_` and `.`, and begin with a letter or digit");
}

#[test]
fn a_folder_without_a_usable_repository_is_told_apart() {
    let bare = TempDir::new().unwrap();
    Repository::init_bare(bare.path()).unwrap();
    let none = TempDir::new().unwrap();
    let error = |folder: &Path| match Repo::discover(folder) {
        Ok(_) => panic!("{} has a repository", folder.display()),
        Err(error) => error,
    };
    assert!(matches!(error(bare.path()), VcsError::Bare(_)));
    assert!(matches!(error(none.path()), VcsError::NoRepository(_)));
    assert!(matches!(error(&none.path().join("missing")), VcsError::File { .. }));
}

#[test]
fn a_pipe_in_a_repository_is_refused_before_git_waits_for_it() {
    let sandbox = Sandbox::new();
    sandbox.write("deep/project.toml", "");
    let refused = |folder: &str| {
        let error = Repo::discover(&sandbox.path(folder)).err().expect("git would wait").to_string();
        error.replace(&sandbox.root.path().canonicalize().unwrap().display().to_string(), "<root>")
    };
    for name in ["config", "HEAD", "index", "commondir", "objects/info/alternates", "refs/heads/b", "objects/00/11"] {
        let (file, kept) = (sandbox.path(".git").join(name), sandbox.path("kept"));
        let _ = fs::rename(&file, &kept);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert_eq!(
            refused("deep"),
            format!("`<root>/.git/{name}` is a pipe or a device, which git would wait for: remove it")
        );
        fs::remove_file(&file).unwrap();
        let _ = fs::rename(&kept, &file);
    }
    symlink("/dev/tty", sandbox.path(".git/shallow")).unwrap();
    insta::assert_snapshot!(refused(""), @"`<root>/.git/shallow` is a pipe or a device, which git would wait for: remove it");
    fs::remove_file(sandbox.path(".git/shallow")).unwrap();

    // A linked working tree reads the folder of the main one, too.
    sandbox.git("worktree add --quiet ../linked-of-the-pipes -b linked");
    let linked = sandbox.root.path().with_file_name("linked-of-the-pipes");
    assert!(Repo::discover(&linked).is_ok());
    assert!(Command::new("mkfifo").arg(sandbox.path(".git/packed-refs")).status().unwrap().success());
    let error = Repo::discover(&linked).err().expect("git would wait");
    fs::remove_dir_all(linked).unwrap();
    assert!(matches!(&error, VcsError::Waits(path) if path.ends_with("packed-refs")), "{error}");
}

#[test]
fn a_repository_that_cannot_be_written_is_told_so() {
    let sandbox = Sandbox::new();
    let git_dir = sandbox.path(".git");
    let writable = fs::metadata(&git_dir).unwrap().permissions();
    fs::set_permissions(&git_dir, fs::Permissions::from_mode(0o555)).unwrap();
    // Root ignores permissions.
    if fs::write(git_dir.join("probe"), "").is_err() {
        insta::assert_snapshot!(sandbox.refused(&winner("// fast\n")), @"could not create `<root>/.git/index.lock`: Permission denied (os error 13); make it writable for this user");
    }
    fs::set_permissions(&git_dir, writable).unwrap();
}

#[test]
fn an_index_that_libgit2_cannot_read_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.git("update-index --split-index");
    let refused = sandbox.refused(&winner("// fast\n"));
    assert!(refused.starts_with("could not read the index, which must be neither split nor sparse: "), "{refused}");
}

#[test]
fn a_conflict_in_a_winners_file_is_the_users_to_solve() {
    let sandbox = Sandbox::new();
    sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    sandbox.write(CU, "// mine\n");
    sandbox.git("stash --quiet");
    sandbox.repo().commit_winner(&winner("// faster\n")).unwrap();
    assert!(!sandbox.try_git_in("", "stash pop --quiet").0);
    insta::assert_snapshot!(sandbox.refused(&winner("// fastest\n")), @"`kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-00ff.cu` is in conflict: commit it or restore it, because the winner would replace it");
}
