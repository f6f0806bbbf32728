//! Faults around a session: workers that die at every stage, damaged pipes, compilers without memory, killed parents,
//! storms of signals. All run through the command line, on the fake device.

mod compilers;
mod lanes;
mod orphans;
mod processes;
mod self_checks;
mod signals;
mod workers;

use std::process::Output;

use crate::common::Sandbox;

/// A project with short time limits everywhere.
fn hasty() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        "config.toml",
        "[worker]\nstep_timeout = '3s'\n[benchmark]\nconfirmation_samples = 20\nmax_confirmation = '2s'\n",
    );
    sandbox
}

/// Runs a session in which the fake device meets injected faults, one line per fault; see
/// `src/runner/device/fake/script.rs`.
fn session_with(sandbox: &Sandbox, faults: &str) -> Output {
    sandbox.write(".optloop/faults", faults);
    let start =
        ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--iterations", "8", "--case", "s64"];
    sandbox.command(&start).env("OPTLOOP_FAKE_FAULTS", sandbox.path(".optloop/faults")).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the faults that the session never met.
fn unmet(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path(".optloop/faults")).unwrap()
}
