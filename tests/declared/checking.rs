//! `optloop check` on a project's own op: its oracle runs with consent only, and is checked itself.

use super::{call, project};

const ORACLE: &str = "kernels/ops/rms-norm/oracle.py";

/// Checks the workload on a virtual GPU, after a line was added to the oracle.
fn with_line(line: &str) -> String {
    let sandbox = project();
    sandbox.replace(ORACLE, "    return", &format!("    {line}\n    return"));
    let (code, found, _) = call(&sandbox, &["check", "small", "--device", "virtual", "--trust"]);
    format!("{code} {found}")
}

#[test]
fn an_oracle_runs_with_consent_only_and_the_rest_is_checked_without() {
    let sandbox = project();
    let (code, found, _) = call(&sandbox, &["check", "small", "--device", "virtual"]);
    insta::assert_snapshot!(format!("{code} {found}"), @"");
    let (code, found, _) = call(&sandbox, &["check", "small", "--device", "virtual", "--trust"]);
    insta::assert_snapshot!(format!("{code} {found}"), @"");
}

#[test]
fn what_an_oracle_does_wrong_is_shown_with_its_line() {
    insta::assert_snapshot!(with_line("print('hello')"), @"");
    insta::assert_snapshot!(with_line("raise ValueError('no')"), @"");
    insta::assert_snapshot!(with_line("x = x + np.random.rand()"), @"");
    insta::assert_snapshot!(with_line("import os; os._exit(3)"), @"");
    insta::assert_snapshot!(with_line("x = 2 * x"), @"");
}
