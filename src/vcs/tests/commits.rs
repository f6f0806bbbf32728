//! Winners that are committed.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;
use crate::domain::device::TimeSource;
use crate::domain::device::gpu_state::Graphs;
use crate::domain::sidecar::SidecarRatio;
use crate::domain::statistics::{Interval, Ratio};
use crate::domain::variant::VariantHash;

#[test]
fn a_winner_becomes_a_commit_of_two_files() {
    let sandbox = Sandbox::new();
    let id = sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("rev-parse main").trim(), id.0);
    insta::assert_snapshot!(sandbox.git("show --numstat --format=%an%n%B").replace('\t', " "), @"
    Ada
    attention/b1: 123.4 -> 98.70 us (1.25x)

    Family:     fa2-mma
    Parameters: WARPS=4 BC=64
    Variant:    00ff
    Before:     123.4 us (95% interval 123.1 to 123.9, 500 samples)
    After:      98.70 us (95% interval 98.50 to 98.90, 500 samples)
    Baseline:   torch flash, 150.0 us (1.52x, not in one run)
    Device:     NVIDIA H200, measured, other graphs loaded
    Found by:   session 3, iteration 17


    101 0 kernels/variants/nvidia-h200-132sm-140gib/attention/b1.json
    1 0 kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-00ff.cu
    ");
    assert_eq!(sandbox.read(CU), "// fast\n");
    assert_eq!(serde_json::from_str::<crate::domain::sidecar::Sidecar>(&sandbox.read(JSON)).unwrap(), sidecar());
    // `diff-files` trusts the index without looking at contents.
    assert_eq!(["status --porcelain", "diff-files"].map(|command| sandbox.git(command)), ["", ""]);
    assert_eq!(sandbox.git("fsck --strict --no-dangling"), "");
    let reason = "optloop: attention/b1: 123.4 -> 98.70 us (1.25x)\n";
    assert_eq!(sandbox.git("reflog -1 --format=%gs HEAD"), reason);
    assert_eq!(sandbox.git("reflog -1 --format=%gs main"), reason);
}

#[test]
fn the_message_says_what_was_not_measured() {
    let winner = Winner { previous: None, baseline: None, ..winner("") };
    insta::assert_snapshot!(winner.message(false), @"
    attention/b1: 98.70 us, the first winner

    Family:     fa2-mma
    Parameters: WARPS=4 BC=64
    Variant:    00ff
    Before:     no incumbent
    After:      98.70 us (95% interval 98.50 to 98.90, 500 samples)
    Baseline:   no baseline measured
    Device:     NVIDIA H200, measured, other graphs loaded
    Found by:   session 3, iteration 17
    ");
}

/// A baseline is a program of the project, which names its backends.
#[test]
fn a_name_adds_no_lines_to_a_message() {
    let honest = winner("").message(false);
    let mut hostile = winner("");
    let text = "H200\nFound by:   session 9, iteration 1\u{202e}".to_owned();
    hostile.sidecar.environment.device.clone_from(&text);
    hostile.baseline = Some(BaselineTime { name: text, us: 150.0 });
    let said = hostile.message(false);
    assert_eq!(said.lines().count(), honest.lines().count(), "{said}");
    assert!(said.contains("Device:     H200 Found by:   session 9") && !said.contains('\u{202e}'), "{said}");
}

#[test]
fn ratios_of_one_run_stand_with_their_intervals_and_the_noise() {
    let speedup = Some(Ratio { estimate: 1.2503, interval: Interval { lo: 1.2481, hi: 1.2522 } });
    let mut winner = Winner { speedup, ..winner("") };
    let found = &mut winner.sidecar.measurement;
    found.noise = Some(0.0021);
    found.ratio_to_baseline =
        Some(SidecarRatio { name: "torch flash".to_owned(), estimate: 1.5198, lo: 1.5177, hi: 1.5211 });
    insta::assert_snapshot!(winner.message(false), @"
    attention/b1: 123.4 -> 98.70 us (1.25x)

    Family:     fa2-mma
    Parameters: WARPS=4 BC=64
    Variant:    00ff
    Before:     123.4 us (95% interval 123.1 to 123.9, 500 samples)
    After:      98.70 us (95% interval 98.50 to 98.90, 500 samples)
    Speed-up:   1.250x, 95% interval 1.248 to 1.252, in one run with the previous winner
    Baseline:   torch flash, 150.0 us (1.520x, 95% interval 1.518 to 1.521, in one run)
    Noise:      0.21% of the variant over itself in that run
    Device:     NVIDIA H200, measured, other graphs loaded
    Found by:   session 3, iteration 17
    ");
}

#[test]
fn a_modelled_winner_says_so_and_has_a_folder_of_its_own() {
    let device = DeviceKey::of("virtual H200", 132, 141_000_000_000);
    let mut winner = Winner { device, baseline: None, ..winner("// fast\n") };
    winner.sidecar.measurement.time_source = TimeSource::Modelled;
    winner.sidecar.measurement.graphs = Graphs::Alone;
    winner.sidecar.measurement.samples = 1;
    winner.sidecar.environment.device = "virtual H200".to_owned();
    winner.previous = winner.previous.map(|before| Figures { samples: 1, ..before });
    insta::assert_snapshot!(winner.message(false), @"
    attention/b1: 123.4 -> 98.70 us modelled (1.25x)

    Family:     fa2-mma
    Parameters: WARPS=4 BC=64
    Variant:    00ff
    Before:     123.4 us (modelled)
    After:      98.70 us (modelled)
    Baseline:   no baseline measured
    Device:     virtual H200, modelled
    Found by:   session 3, iteration 17
    ");
    let sandbox = Sandbox::new();
    sandbox.repo().commit_winner(&winner).unwrap();
    let files = sandbox.git("show --name-only --format=");
    insta::assert_snapshot!(files, @r"
    kernels/variants/virtual-h200-132sm-132gib/attention/b1.json
    kernels/variants/virtual-h200-132sm-132gib/attention/fa2-mma-00ff.cu
    ");
}

#[test]
fn what_the_user_has_staged_and_edited_stays_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.write("staged.txt", "two\n");
    sandbox.git("add staged.txt");
    sandbox.write("staged.txt", "tri\n");
    sandbox.write("edited.txt", "two\n");
    sandbox.write("kernels/untracked.txt", "new\n");
    sandbox.git("rm --quiet --cached edited.txt");
    sandbox.git("add --intent-to-add edited.txt");
    sandbox.git("update-index --index-version 4");
    let seen =
        || ["status --porcelain --untracked-files=all", "diff", "diff --cached"].map(|command| sandbox.git(command));
    let before = seen();
    sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(seen(), before);
    assert_eq!(["staged.txt", "edited.txt"].map(|file| sandbox.read(file)), ["tri\n", "two\n"]);
    assert_eq!(sandbox.git("show --name-only --format="), format!("{JSON}\n{CU}\n"));
}

#[test]
fn an_edit_as_fresh_as_the_index_is_still_seen() {
    let sandbox = Sandbox::new();
    // It is staged, then edited to the same length within one tick of the clock. So git remembers the same of both,
    // except for the contents. It happened an hour ago, because git compares whole seconds.
    sandbox.git("config core.checkStat minimal");
    sandbox.git("config core.trustctime false");
    let then = SystemTime::now() - Duration::from_secs(3600);
    let dated_then = |path: &str| {
        fs::File::options().write(true).open(sandbox.path(path)).unwrap().set_modified(then).unwrap();
    };
    sandbox.write("staged.txt", "two\n");
    dated_then("staged.txt");
    sandbox.git("add staged.txt");
    sandbox.write("staged.txt", "tri\n");
    dated_then("staged.txt");
    dated_then(".git/index");
    sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("status --porcelain"), "MM staged.txt\n");
}

#[test]
fn one_winner_follows_another_and_the_same_one_is_committed_once() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo();
    let first = repo.commit_winner(&winner("// fast\n")).unwrap();
    let second = repo.commit_winner(&winner("// faster\n")).unwrap();
    assert_eq!(repo.commit_winner(&winner("// faster\n")).unwrap(), second);
    assert_eq!(sandbox.git("rev-parse main~1").trim(), first.0);
    assert_eq!(sandbox.git("rev-list --count main").trim(), "3");
    assert_eq!(sandbox.read(CU), "// faster\n");
    assert_eq!(sandbox.git("status --porcelain"), "");
}

#[test]
fn commits_made_meanwhile_are_built_upon() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo();
    sandbox.git("commit --quiet --allow-empty -m meanwhile");
    sandbox.git("pack-refs --all");
    repo.commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("log --format=%s -2 --skip=1"), "meanwhile\nstart\n");
}

#[test]
fn the_first_commit_of_a_branch_can_be_a_winner() {
    let sandbox = Sandbox::unborn();
    let id = sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("rev-list main").trim(), id.0);
    assert_eq!(sandbox.git("ls-tree -r --name-only main"), format!("{JSON}\n{CU}\n"));
    assert_eq!(sandbox.git("status --porcelain"), "");
}

#[test]
fn a_detached_head_moves_alone() {
    let sandbox = Sandbox::new();
    sandbox.git("checkout --quiet --detach");
    let id = sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("rev-parse HEAD").trim(), id.0);
    assert_eq!(sandbox.git("rev-parse main"), sandbox.git("rev-parse HEAD~1"));
    assert_eq!(sandbox.git("status --porcelain --branch"), "## HEAD (no branch)\n");
}

#[test]
fn a_linked_worktree_commits_to_its_own_branch() {
    let sandbox = Sandbox::new();
    sandbox.git("worktree add --quiet -b side linked");
    let id = Repo::discover(&sandbox.path("linked")).unwrap().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("rev-parse side").trim(), id.0);
    assert_eq!(sandbox.git("rev-parse main"), sandbox.git("rev-parse side~1"));
    assert_eq!(sandbox.try_git_in("linked", "status --porcelain"), (true, String::new()));
}

#[test]
fn a_project_can_be_a_subfolder_even_through_a_link() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("gpu/project")).unwrap();
    symlink(sandbox.path("gpu/project"), sandbox.path("shortcut")).unwrap();
    Repo::discover(&sandbox.path("shortcut")).unwrap().commit_winner(&winner("// fast\n")).unwrap();
    let expected = format!("gpu/project/{JSON}\ngpu/project/{CU}\n");
    assert_eq!(sandbox.git("show --name-only --format="), expected);
    assert_eq!(sandbox.git("status --porcelain"), "?? shortcut\n");
}

#[test]
fn neither_identity_nor_ignore_rules_nor_hooks_stop_a_commit() {
    let sandbox = Sandbox::new();
    // Empty values hide the configuration of the machine's user.
    sandbox.git("config user.name ");
    sandbox.git("config user.email ");
    sandbox.write(".git/info/exclude", "kernels\n");
    sandbox.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    fs::set_permissions(sandbox.path(".git/hooks/pre-commit"), fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    let people = sandbox.git("log -1 --format=%an,%ae,%cn,%ce");
    assert_eq!(people, "optloop,optloop@localhost,optloop,optloop@localhost\n");
    assert_eq!(sandbox.git("status --porcelain"), "");
}

#[test]
fn a_checkout_with_other_line_ends_is_no_edit() {
    let sandbox = Sandbox::new();
    sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    sandbox.git("config core.autocrlf true");
    fs::remove_file(sandbox.path(CU)).unwrap();
    sandbox.git(&format!("checkout --quiet {CU}"));
    assert_eq!(sandbox.read(CU), "// fast\r\n");
    sandbox.repo().commit_winner(&winner("// faster\n")).unwrap();
    assert_eq!(sandbox.git("status --porcelain"), "");
}

#[test]
fn what_a_killed_process_left_is_taken_up() {
    let sandbox = Sandbox::new();
    sandbox.write(CU, "// fast\n");
    sandbox.write(JSON, &sidecar().to_json().unwrap());
    sandbox.git("add kernels");
    sandbox.write("kernels/variants/nvidia-h200-132sm-140gib/attention/.fa2-mma-00ff.cu.optloop-tmp", "// fa");
    sandbox.write(".git/.index.optloop-tmp", "DIRC");
    sandbox.repo().commit_winner(&winner("// fast\n")).unwrap();
    assert_eq!(sandbox.git("status --porcelain"), "");
    assert_eq!(sandbox.git("show --name-only --format="), format!("{JSON}\n{CU}\n"));
}

/// The file may have come by a merge, and commits after it may have other winners.
#[test]
fn the_commit_that_introduced_a_winner_is_found_below_other_commits_and_merges() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo();
    let hash = sidecar().variant.hash;
    let introduced = |hash: &VariantHash| repo.introduced(Path::new(JSON), hash, None).unwrap();
    assert_eq!(introduced(&hash), None, "there is none yet");
    sandbox.git("checkout --quiet -b side");
    let commit = repo.commit_winner(&winner("one")).unwrap();
    assert_eq!(introduced(&hash), Some(commit.clone()));
    sandbox.git("checkout --quiet main");
    sandbox.git("commit --quiet --allow-empty -m meanwhile");
    sandbox.git("merge --quiet --no-edit side");
    sandbox.git("commit --quiet --allow-empty -m later");
    assert_eq!(introduced(&hash), Some(commit));
    assert_eq!(introduced(&VariantHash("another".to_owned())), None, "HEAD has another variant");
}
