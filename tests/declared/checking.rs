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
    insta::assert_snapshot!(format!("{code} {found}"), @"
    0 note   small: nothing was run, because you have not trusted the oracle of
           workload `small`'s op, `python3 kernels/ops/rms-norm/oracle.py`:
           `optloop trust` shows it and asks
    ");
    let (code, found, _) = call(&sandbox, &["check", "small", "--device", "virtual", "--trust"]);
    insta::assert_snapshot!(format!("{code} {found}"), @"0 ok     rms-norm-rows on small: right on r4n64, r8n500");
}

#[test]
fn what_an_oracle_does_wrong_is_shown_with_its_line() {
    insta::assert_snapshot!(with_line("print('hello')"), @"
    0 ok     rms-norm-rows on small: right on r4n64, r8n500
    note   small: the oracle of op `rms-norm` prints, which is not shown elsewhere:
           hello
    ");
    insta::assert_snapshot!(with_line("raise ValueError('no')"), @"
    1 wrong  small: case `r4n64`: the oracle of op `rms-norm` failed: ValueError: no
           (oracle.py, line 5)
    ");
    insta::assert_snapshot!(with_line("x = x + np.random.rand()"), @"
    1 wrong  small: case `r4n64`: the oracle of op `rms-norm` returned two results
           for the same inputs: it must depend on its arguments alone, so remove
           random numbers and state
    ");
    insta::assert_snapshot!(with_line("import os; os._exit(3)"), @"
    1 wrong  small: case `r4n64`: the oracle of op `rms-norm` failed: it ended
           without an error message
    ");
    // It disagrees with the kernel.
    let said = with_line("w = 2 * w");
    assert!(said.starts_with("1 wrong  rms-norm-rows on small: wrong: relative error"), "{said}");
    assert!(said.replace("\n       ", " ").contains("; element 0 of row 0 is "), "{said}");
}
