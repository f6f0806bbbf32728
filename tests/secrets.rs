//! Secrets of the environment: children do not get them, and no byte of one is kept or shown.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{self, Sandbox};

const CANARY: &str = "canary-7f3a9c51e0b84d26";

/// A baseline program that looks for secrets wherever a child of optloop can. It searches its own environment, that of
/// optloop and that of its other children, and writes down what it finds. It also fails with a secret in its message.
const THIEF: &str = r#"
env | grep -v '^SOME_API_KEY=' >own-environment
# Between it and the session is its guard.
session=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$PPID/status")
for status in /proc/[0-9]*/status; do
    if grep -q "^PPid:[[:space:]]*$session\$" "$status" 2>/dev/null; then
        tr '\0' '\n' <"${status%status}environ" >>environments 2>/dev/null
        tr '\0' ' ' <"${status%status}cmdline" >>children 2>/dev/null
    fi
done
read -r hello
tr '\0' '\n' <"/proc/$session/environ" 2>/dev/null | grep -q '^SOME_API_KEY=' && touch environment-of-the-session
# The user has agreed to give it this one.
echo "dying with $SOME_API_KEY" >&2
echo "{\"error\": \"the key is $SOME_API_KEY\"}"
"#;

/// The sources of some configurations do not compile, in ways that could show a secret.
const TEMPLATE: &str = r#"
<% if TILE == 8 %>#error "canary-7f3a9c51e0b84d26"
<% endif %>
<% if TILE == 16 %>#include "/proc/self/environ"
<% endif %>
"#;

#[test]
fn no_byte_of_a_secret_is_kept_or_shown() {
    let sandbox = Sandbox::new();
    sandbox.write("thief.sh", THIEF);
    sandbox.replace("kernels/workloads/small.toml", "dims = {", "baseline = [\"sh\", \"thief.sh\"]\ndims = {");
    let template = "templates/kernels/toy/kernel.cu.tera";
    sandbox.write(template, &format!("{TEMPLATE}{}", common::TEMPLATE));
    sandbox.write("config.toml", "[baseline]\nwrite = ['.']\nenv = ['SOME_API_KEY']\n");
    sandbox.trust();

    let start = ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--iterations", "40"];
    let mut said = Vec::new();
    for more in [&[][..], &["--json"]] {
        let output = sandbox
            .command(&[&start, more].concat())
            .envs([("SOME_API_KEY", CANARY), ("OPTLOOP_LOG", "trace"), ("CUDA_VISIBLE_DEVICES", "0")])
            .envs([("DATABASE_URL", "postgres://db/x"), ("CUDA_URL", "http://me:open@host/"), ("CUDA_COPY", CANARY)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        said.extend([output.stdout, output.stderr]);
    }
    let said: Vec<String> = said.into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect();

    // The session has got this far; everything that follows could contain the secret.
    let mask = "*".repeat(CANARY.len());
    assert!(said[1].contains(&format!("no baseline: the key is {mask}")), "{}", said[1]);
    assert!(said[1].contains("its source contains a secret from the environment"), "{}", said[1]);
    let read = |name: &str| fs::read_to_string(sandbox.path(name)).unwrap();
    assert!(read("children").contains("worker") && read("children").contains("compiler"), "{}", read("children"));
    // Where the kernel has Landlock, a baseline reads no other process's environment.
    let doctor = sandbox.succeeds(&["doctor"]);
    let has_landlock = !doctor.contains("no Landlock");
    assert!(!(has_landlock && sandbox.path("environment-of-the-session").exists()), "{doctor}");
    let others = fs::read_to_string(sandbox.path("environments")).unwrap_or_default();
    assert!(!has_landlock || others.is_empty(), "{others}");
    for environment in [others, read("own-environment")].iter().filter(|environment| !environment.is_empty()) {
        assert!(environment.contains("PATH=") && environment.contains("CUDA_VISIBLE_DEVICES=0"), "{environment}");
        assert!(
            !["DATABASE_URL", "CUDA_URL", "CUDA_COPY"].iter().any(|name| environment.contains(name)),
            "{environment}"
        );
    }

    assert!(said.iter().all(|text| !text.contains(CANARY)), "it is shown");
    for verb in [
        &["history"][..],
        &["show", "1"],
        &["report"],
        &["report", "--format", "json"],
        &["report", "--format", "html"],
        &["report", "--format", "csv"],
    ] {
        assert!(!sandbox.succeeds(verb).contains(CANARY), "{verb:?}");
    }
    // A secret that the user wrote down stays where it is.
    fs::remove_file(sandbox.path(template)).unwrap();
    let mut looked_at = 0;
    search(&sandbox.path("."), &mut looked_at);
    assert!(looked_at > 20, "{looked_at} files");
    let git = ["cat-file", "--batch", "--batch-all-objects"];
    let objects = Command::new("git").args(git).current_dir(sandbox.path(".")).output().unwrap().stdout;
    assert!(holds(&objects, "a project") && !holds(&objects, CANARY), "it is in an object of git");
}

#[test]
fn a_kernel_that_holds_a_secret_is_refused_before_anything_is_spent() {
    let sandbox = Sandbox::new();
    sandbox.write("templates/kernels/toy/kernel.cu.tera", &format!("// {CANARY}\n{}", common::TEMPLATE));
    let start = ["start", "--device", "fake", "--workload", "small"];
    let output = sandbox.command(&start).env("SOME_TOKEN", CANARY).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap().trim_end(), @"error: family `toy`: its source contains a secret from the environment: remove it");
    assert!(!sandbox.path(".optloop/optloop.db").exists());
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Looks for the canary in every file below a folder.
fn search(folder: &Path, looked_at: &mut usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, looked_at);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        assert!(!holds(&bytes, CANARY), "{} holds it", path.display());
        *looked_at += 1;
    }
}
