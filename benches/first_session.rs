//! What the README's session tries within its 30 s.
//!
//! `cargo bench --bench first_session` runs the first command of README.md on the virtual H200. Its seed is random, so few of
//! its kernels are in the cache. It needs NVRTC, which the first session fetches, and two idle cores. A limit is checked: at
//! least 100 variants.
//!
//! On 2 cores of an AMD EPYC that other builds kept busy (load 3.5, release build, empty cache, 2026-11-30): 147 iterations in 30 s, of which
//! the best is 1.12 times as fast as the committed winner.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The fewest variants that a newcomer's first session tries.
const LEAST: u64 = 100;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let said = readme.lines().find_map(|line| line.strip_prefix("cargo run --release -- ")).expect("README's command");
    let folder = tempfile::tempdir().unwrap();
    let cloned =
        Command::new("git").args(["clone", "--quiet"]).arg(root).arg(folder.path().join("p")).status().unwrap();
    assert!(cloned.success());
    let output = Command::new(env!("CARGO_BIN_EXE_optloop"))
        .args(said.split_whitespace())
        .args(["--device", "virtual:h200", "--json"])
        .current_dir(folder.path().join("p"))
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .output()
        .unwrap();
    let events = String::from_utf8(output.stdout).unwrap();
    let ended: Value = serde_json::from_str(events.lines().last().expect("events")).unwrap();
    let iterations = ended["iterations"].as_u64().unwrap();
    println!("{iterations} iterations in {:.1} s: {}", ended["wall_s"].as_f64().unwrap(), ended["reason"]);
    for case in ended["cases"].as_array().unwrap() {
        println!("{}: {} -> {} us, {}", case["case"], case["before_us"], case["now_us"], case["result"]);
    }
    assert!(iterations >= LEAST, "a first session that tries fewer than {LEAST} variants searches too little");
}
