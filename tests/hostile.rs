//! Hostile files and names: each gets one clear sentence and exit code 2, and nothing leaves the project.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::{self, Sandbox};
use tempfile::TempDir;

const WORKLOAD: &str = "kernels/workloads/small.toml";
const MANIFEST: &str = "templates/kernels/toy/family.toml";
const TEMPLATE: &str = "templates/kernels/toy/kernel.cu.tera";

/// Starts a session that must be refused before it begins, with one sentence.
fn refused(sandbox: &Sandbox, outside: &Path) -> String {
    let said = sandbox.fails(&["start", "--device", "fake", "--workload", "small", "--iterations", "2"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("2 error: "), "{said}");
    assert!(!sandbox.path(".optloop/optloop.db").exists(), "nothing was begun");
    said.replace(&outside.display().to_string(), "OUTSIDE")
}

/// Moves a file or folder of the project out of it, and leaves a link behind.
fn move_out(sandbox: &Sandbox, name: &str, outside: &TempDir) {
    let there = outside.path().join("moved");
    // Both temporary folders are on the same file system.
    fs::rename(sandbox.path(name), &there).unwrap();
    symlink(&there, sandbox.path(name)).unwrap();
}

#[test]
fn links_do_not_lead_out_of_the_project() {
    let moved = |name: &str| {
        let (sandbox, outside) = (Sandbox::new(), TempDir::new().unwrap());
        move_out(&sandbox, name, &outside);
        refused(&sandbox, &outside.path().canonicalize().unwrap())
    };
    insta::assert_snapshot!(moved(WORKLOAD), @"2 error: PROJECT/kernels/workloads/small.toml is a link out of the project, to OUTSIDE/moved: replace it with the file itself");
    insta::assert_snapshot!(moved("kernels"), @"2 error: PROJECT/kernels/workloads/small.toml is a link out of the project, to OUTSIDE/moved/workloads/small.toml: replace it with the file itself");
    insta::assert_snapshot!(moved(MANIFEST), @"2 error: PROJECT/templates/kernels/toy/family.toml is a link out of the project, to OUTSIDE/moved: replace it with the file itself");
    insta::assert_snapshot!(moved(TEMPLATE), @"2 error: PROJECT/templates/kernels/toy/kernel.cu.tera is a link out of the project, to OUTSIDE/moved: replace it with the file itself");
    insta::assert_snapshot!(moved("templates/kernels/toy"), @"2 error: PROJECT/templates/kernels/toy/family.toml is a link out of the project, to OUTSIDE/moved/family.toml: replace it with the file itself");
    insta::assert_snapshot!(moved("config.toml"), @"2 error: PROJECT/config.toml is a link out of the project, to OUTSIDE/moved: replace it with the file itself");
}

#[test]
fn fragments_do_not_lead_out_of_the_project() {
    let moved = |name: &str| {
        let (sandbox, outside) = (Sandbox::new(), TempDir::new().unwrap());
        sandbox.write("templates/kernels/common/mbarrier.cu.tera", "// waits\n");
        sandbox.write(TEMPLATE, &format!("<% include \"common/mbarrier.cu.tera\" %>\n{}", common::TEMPLATE));
        move_out(&sandbox, name, &outside);
        refused(&sandbox, &outside.path().canonicalize().unwrap())
    };
    insta::assert_snapshot!(moved("templates/kernels/common/mbarrier.cu.tera"), @"2 error: PROJECT/templates/kernels/common/mbarrier.cu.tera is a link out of the project, to OUTSIDE/moved: replace it with the file itself");
    insta::assert_snapshot!(moved("templates/kernels/common"), @"2 error: PROJECT/templates/kernels/common/mbarrier.cu.tera is a link out of the project, to OUTSIDE/moved/mbarrier.cu.tera: replace it with the file itself");
}

#[test]
fn fragments_that_include_ever_more_are_given_up() {
    let sandbox = Sandbox::new();
    for n in 0..1000 {
        let next = format!("<% include \"common/f{}.cu.tera\" %>\n", n + 1);
        sandbox.write(&format!("templates/kernels/common/f{n}.cu.tera"), &next);
    }
    sandbox.write(TEMPLATE, "<% include \"common/f0.cu.tera\" %>\n");
    insta::assert_snapshot!(refused(&sandbox, Path::new("/nowhere")), @"2 error: family `toy`: PROJECT/templates/kernels/common/f31.cu.tera: line 1: more than 32 fragments each include the next");
}

#[test]
fn a_baseline_is_a_program_of_the_project_or_of_the_path() {
    let with = |baseline: &str, file: &str| {
        let (sandbox, outside) = (Sandbox::new(), TempDir::new().unwrap());
        sandbox.replace(WORKLOAD, "dims = {", &format!("baseline = {baseline}\ndims = {{"));
        sandbox.write(file, "echo it runs >ran");
        move_out(&sandbox, file, &outside);
        let said = refused(&sandbox, &outside.path().canonicalize().unwrap());
        assert!(!sandbox.path("ran").exists());
        said
    };
    insta::assert_snapshot!(with("\"time.py\"", "kernels/baselines/time.py"), @"2 error: PROJECT/kernels/baselines/time.py is a link out of the project, to OUTSIDE/moved: replace it with the file itself");
    insta::assert_snapshot!(with("[\"./tools/time\"]", "tools/time"), @"2 error: PROJECT/./tools/time is a link out of the project, to OUTSIDE/moved: replace it with the file itself");
    insta::assert_snapshot!(with("[\"/bin/sh\"]", "x"), @"2 error: PROJECT/kernels/workloads/small.toml: baseline `/bin/sh`: name a program by its path below the project, or by its bare name in PATH");
    insta::assert_snapshot!(with("[\"a/../../b\"]", "x"), @"2 error: PROJECT/kernels/workloads/small.toml: baseline `a/../../b`: name a program by its path below the project, or by its bare name in PATH");
    insta::assert_snapshot!(with("\"../time.py\"", "x"), @"2 error: PROJECT/kernels/workloads/small.toml: baseline `../time.py`: name a file in kernels/baselines/, without a path");
}

/// Shell syntax in a command is passed to its program unchanged, because no shell runs it.
#[test]
fn nothing_is_run_through_a_shell() {
    let sandbox = Sandbox::new();
    sandbox.replace(
        WORKLOAD,
        "dims = {",
        "baseline = [\"echo; touch ran\", \"$(touch ran)\", \"`touch ran`\"]\ndims = {",
    );
    sandbox.write("config.toml", "[baseline]\nwrite = ['.']\n");
    let output = sandbox.session("1", &["--trust"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no baseline: `echo; touch ran` cannot be run"), "{said}");
    sandbox.replace(WORKLOAD, "\"echo; touch ran\"", "\"echo\"");
    assert!(sandbox.session("1", &["--trust"]).status.success());
    assert!(!sandbox.path("ran").exists());
}

/// The folder of the winners is a link. The winner is reported and kept in the store, but no file is written.
#[test]
fn winners_are_not_written_through_a_link() {
    let (sandbox, outside) = (Sandbox::new(), TempDir::new().unwrap());
    let device = Path::new(common::FAKE_WINNERS).parent().unwrap().to_str().unwrap();
    fs::create_dir_all(sandbox.path("kernels/variants")).unwrap();
    symlink(outside.path(), sandbox.path(device)).unwrap();
    let output = sandbox.session("8", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("not committed: ") && said.contains(&format!("`{device}` is a symbolic link")), "{said}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn files_that_are_not_text_are_refused_at_once() {
    let with = |name: &str, write: &dyn Fn(&Path)| {
        let sandbox = Sandbox::new();
        fs::remove_file(sandbox.path(name)).unwrap();
        write(&sandbox.path(name));
        refused(&sandbox, Path::new("/nowhere"))
    };
    // A sparse gigabyte, which takes no space on disk.
    let huge = |path: &Path| File::create(path).unwrap().set_len(1 << 30).unwrap();
    insta::assert_snapshot!(with(WORKLOAD, &huge), @"2 error: PROJECT/kernels/workloads/small.toml is larger than the limit of 1 MiB: name another file, or make it smaller");
    insta::assert_snapshot!(with(TEMPLATE, &huge), @"2 error: PROJECT/templates/kernels/toy/kernel.cu.tera is larger than the limit of 1 MiB: name another file, or make it smaller");
    insta::assert_snapshot!(with("config.toml", &huge), @"2 error: PROJECT/config.toml is larger than the limit of 1 MiB: name another file, or make it smaller");

    // A pipe without a writer.
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    insta::assert_snapshot!(with(WORKLOAD, &pipe), @"2 error: Failed to read PROJECT/kernels/workloads/small.toml: it is not a file");
    insta::assert_snapshot!(with(MANIFEST, &pipe), @"2 error: Failed to read PROJECT/templates/kernels/toy/family.toml: it is not a file");
    let folder = |path: &Path| fs::create_dir(path).unwrap();
    insta::assert_snapshot!(with(TEMPLATE, &folder), @"2 error: Failed to read PROJECT/templates/kernels/toy/kernel.cu.tera: it is not a file");

    let bytes = |bytes: &'static [u8]| move |path: &Path| fs::write(path, bytes).unwrap();
    insta::assert_snapshot!(with(WORKLOAD, &bytes(b"name = \"small\"\nabout = \"\xff\"\n")), @"2 error: PROJECT/kernels/workloads/small.toml: line 2: a byte that is not UTF-8: this is not a text file");
    insta::assert_snapshot!(with(TEMPLATE, &bytes(b"// a\n// b\n\0")), @"2 error: PROJECT/templates/kernels/toy/kernel.cu.tera: line 3: a NUL byte: this is not a text file");
    insta::assert_snapshot!(with("config.toml", &bytes(b"\xfe\xff[\0]")), @"2 error: PROJECT/config.toml: line 1: a byte that is not UTF-8: this is not a text file");
}

#[test]
fn depth_is_bounded() {
    let with = |name: &str, key: &str| {
        let sandbox = Sandbox::new();
        let text = fs::read_to_string(sandbox.path(name)).unwrap();
        sandbox.write(name, &format!("{key} = {}{}\n{text}", "[".repeat(50_000), "]".repeat(50_000)));
        refused(&sandbox, Path::new("/nowhere"))
    };
    insta::assert_snapshot!(with("config.toml", "deep"), @"2 error: PROJECT/config.toml: line 1: cannot recurse further; max recursion depth met");
    insta::assert_snapshot!(with(WORKLOAD, "deep"), @"2 error: PROJECT/kernels/workloads/small.toml: line 1: cannot recurse further; max recursion depth met");
    insta::assert_snapshot!(with(MANIFEST, "deep"), @"2 error: PROJECT/templates/kernels/toy/family.toml: line 1: cannot recurse further; max recursion depth met");

    let sandbox = Sandbox::new();
    sandbox.replace(MANIFEST, "TILE * THREADS <= 8192", &format!("{}1{} > 0", "(".repeat(10_000), ")".repeat(10_000)));
    let said = refused(&sandbox, Path::new("/nowhere"));
    assert!(said.contains("Expression exceeds maximum complexity"), "{said:.300}");

    sandbox.write("deep.json", &"[".repeat(500_000));
    insta::assert_snapshot!(sandbox.fails(&["compare", "deep.json", "deep.json"]), @"2 error: deep.json is not the sidecar of a winner: must be a text, but is a list at line 1 column 1");
}

#[test]
fn names_that_are_more_than_names_are_refused() {
    let renamed = |from: &str, to: &str| {
        let sandbox = Sandbox::new();
        sandbox.replace(WORKLOAD, from, to);
        refused(&sandbox, Path::new("/nowhere"))
    };
    insta::assert_snapshot!(renamed("name = \"s64\"", "name = \"s64\\u0000\""), @"2 error: PROJECT/kernels/workloads/small.toml: line 15: `name` has the control character U+0000: remove it");
    insta::assert_snapshot!(renamed("name = \"small\"", "name = \"s64\\n\""), @"2 error: PROJECT/kernels/workloads/small.toml: line 2: `name` has a line break: write it on one line");
    for name in ["con", "..", "-rf", "a/b", "", "com1", "S64", "a b"] {
        let said = renamed("name = \"s64\"", &format!("name = \"{name}\""));
        assert!(said.contains("use 1 to 64 of a-z, 0-9 and `-`, because it is used as a file name"), "{said}");
        let said = renamed("name = \"small\"", &format!("name = \"{name}\""));
        assert!(said.contains("use 1 to 64 of a-z, 0-9 and `-`, because it is used as a folder name"), "{said}");
    }
    let sandbox = Sandbox::new();
    let manifest = |from: &str, to: &str| {
        sandbox.write(MANIFEST, common::MANIFEST);
        sandbox.replace(MANIFEST, from, to);
        refused(&sandbox, Path::new("/nowhere"))
    };
    insta::assert_snapshot!(manifest("name = \"toy\"", "name = \"../toy\""), @"2 error: PROJECT/templates/kernels/toy/family.toml: name `../toy`: use 1 to 64 of a-z, 0-9 and `-`, because it is a folder name");
    insta::assert_snapshot!(manifest("[params.FAULT]", "[params.\"A\\nB\"]"), @r"2 error: PROJECT/templates/kernels/toy/family.toml: line 18: the key has a line break: write it on one line; `A\nB`: use 1 to 64 letters, digits and `_`, because it is used in the source; launch argument `FAULT` names nothing (did you mean `CAUSAL`?)");
    insta::assert_snapshot!(manifest("kernel = \"toy\"", "kernel = \"toy\\u0000\""), @r"2 error: PROJECT/templates/kernels/toy/family.toml: line 27: `kernel` has the control character U+0000: remove it; `toy\u{0}`: use 1 to 64 letters, digits and `_`, because it is used in the source");
}

#[test]
fn names_on_the_command_line_lead_nowhere() {
    let sandbox = Sandbox::new();
    let start = |more: &[&str]| sandbox.fails(&[&["start", "--device", "fake"], more].concat());
    insta::assert_snapshot!(start(&["--workload", "../../etc/passwd"]), @"2 error: there is no workload `../../etc/passwd`; kernels/workloads/ has: small");
    insta::assert_snapshot!(start(&["--workload", "small.toml"]), @"2 error: there is no workload `small.toml` (did you mean `small`?); kernels/workloads/ has: small");
    insta::assert_snapshot!(start(&["--workload", "small", "--case", ".."]), @"2 error: workload `small` has no case `..`; it has: s4d4, s64, s128");
    insta::assert_snapshot!(start(&["--workload", "small", "--family", "../toy"]), @"2 error: there is no family `../toy`; templates/kernels/ has: toy");
    insta::assert_snapshot!(start(&["--workload", "-rf"]), @"2 error: unexpected argument '-r' found; run it with `--help` for a list");
    insta::assert_snapshot!(start(&["--worklaod", "small"]), @"2 error: unexpected argument '--worklaod' found; a similar argument exists: '--workload'; run it with `--help` for a list");
    insta::assert_snapshot!(start(&["--iterations", "many"]), @"2 error: invalid value 'many' for '--iterations <N>': use a whole number without a sign, such as 7");
    insta::assert_snapshot!(start(&["--seed", "-1"]), @"2 error: invalid value '-1' for '--seed <SEED>': use a whole number without a sign, such as 7");
    insta::assert_snapshot!(start(&["--seed", "18446744073709551616"]), @"2 error: invalid value '18446744073709551616' for '--seed <SEED>': it is too large");
    let without = Sandbox::without_repository();
    insta::assert_snapshot!(without.fails(&["audit", "--device", "virtual"]), @"2 error: there is no kernel in tests/audit/: optloop audit tests optloop's own checks, so run it in a clone of its repository");
    insta::assert_snapshot!(sandbox.fails(&["strat"]), @"2 error: there is no verb `strat` (did you mean `start`?); run it with `--help` for a list");
    insta::assert_snapshot!(sandbox.fails(&["show"]), @"2 error: the following required arguments were not provided: <ITERATION>; run it with `--help` for a list");
    insta::assert_snapshot!(sandbox.fails(&["report", "--format", "xml"]), @"2 error: invalid value 'xml' for '--format <FORMAT>': expected md, html, json or csv; run it with `--help` for a list");

    let output = sandbox.command(&["start", "--workload"]).arg(OsStr::from_bytes(b"\xff\xfe")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap().trim_end(), @"error: invalid UTF-8 was detected in one or more arguments; run it with `--help` for a list");
    assert!(sandbox.succeeds(&["--help"]).contains("Usage:"), "help is what it was");
}

#[test]
fn numbers_at_the_edges_are_refused() {
    let case = |from: &str, to: &str| {
        let sandbox = Sandbox::new();
        sandbox.replace(WORKLOAD, from, to);
        refused(&sandbox, Path::new("/nowhere"))
    };
    insta::assert_snapshot!(case("Sq = 64", "Sq = 9223372036854775807"), @"2 error: PROJECT/kernels/workloads/small.toml: case `s64`: `Sq` = 9223372036854775807 is out of range 1 to 1048576");
    insta::assert_snapshot!(case("Sq = 64", "Sq = 9223372036854775808"), @"2 error: PROJECT/kernels/workloads/small.toml: line 14: must be a whole number from -2^63 to 2^63 - 1, but is 9223372036854775808");
    insta::assert_snapshot!(case("Sq = 64", "Sq = -9223372036854775808"), @"2 error: PROJECT/kernels/workloads/small.toml: case `s64`: `Sq` = -9223372036854775808 is out of range 1 to 1048576");
    insta::assert_snapshot!(case("Sq = 64", "Sq = 1e3"), @"2 error: PROJECT/kernels/workloads/small.toml: line 14: must be a whole number, but is 1000.0");
    insta::assert_snapshot!(case("relative_l2 = 1e-3", "relative_l2 = nan"), @"2 error: PROJECT/kernels/workloads/small.toml: tolerance: both values must be between 0 and 0.5");
    let sandbox = Sandbox::new();
    let manifest = |from: &str, to: &str| {
        sandbox.write(MANIFEST, common::MANIFEST);
        sandbox.replace(MANIFEST, from, to);
        refused(&sandbox, Path::new("/nowhere"))
    };
    insta::assert_snapshot!(manifest("values = [0]\ndefault = 0", "values = [9223372036854775807]\ndefault = 9223372036854775807"), @"2 error: family `toy` has no launch plan on case `s4d4`: argument `FAULT` = 9223372036854775807 does not fit an int");
    insta::assert_snapshot!(manifest("TILE * THREADS <= 8192", "TILE * 9223372036854775807 <= 8192"), @"2 error: family `toy`: expression `TILE * 9223372036854775807 <= 8192`: Multiplication overflow: 64 * 9223372036854775807 (line 1, position 6)");
    insta::assert_snapshot!(manifest("requires_sm = 80", "requires_sm = -1"), @"2 error: PROJECT/templates/kernels/toy/family.toml: line 6: must be a whole number from 0 to 2^32 - 1, but is -1");
}
