//! `optloop bench` and `optloop reproduce` through the command line.

mod common;

use common::Sandbox;
use serde_json::Value;

const BENCH: [&str; 3] = ["--workload", "small", "--device"];

/// Calls `optloop bench` on the fake device.
fn bench(sandbox: &Sandbox, what: &str, more: &[&str]) -> String {
    sandbox.succeeds(&[&["bench", what, "--device", "fake", "--samples", "24"], more].concat())
}

#[test]
fn play() {
    let sandbox = Sandbox::new();
    println!("{}", bench(&sandbox, "toy:TILE=8,THREADS=128", &["--workload", "small", "--case", "s64", "--case", "s128"]));
    println!("{}", bench(&sandbox, "toy:TILE=8,THREADS=128", &["--workload", "small", "--case", "s128", "--repeat", "3", "--against", "toy:TILE=8,THREADS=128"]));
    println!("{}", bench(&sandbox, "toy:TILE=8,THREADS=128", &["--workload", "small", "--case", "s128", "--against", "toy:TILE=8,THREADS=128", "--json", "--regime", "both"]));
    assert!(sandbox.session("30", &[]).status.success());
    let out = sandbox.optloop(&["reproduce", "HEAD", "--device", "fake"]);
    println!("{}\n{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    println!("{}", bench(&sandbox, "small/s128", &[]));
    println!("{}", bench(&sandbox, "3", &[]));
    panic!();
}
