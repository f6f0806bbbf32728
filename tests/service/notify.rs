//! `[notify]`: who is told the end of a session.

use std::fs;

use serde_json::Value;

use crate::common::Sandbox;

#[test]
fn a_trusted_program_is_told_the_end_of_a_session_and_gets_no_key() {
    let sandbox = Sandbox::new();
    sandbox.write("tell.sh", "cat >told.json; env >told.env\n");
    sandbox.write("config.toml", "[notify]\ncommand = ['sh', 'tell.sh']\n");
    let start = ["start", "--device", "fake", "--workload", "small", "--iterations", "2"];
    insta::assert_snapshot!(sandbox.fails(&start), @"2 error: this project chooses what you have not trusted: the program `sh tell.sh` at the end of a session (notify.command in config.toml); `optloop trust` shows it and asks, `--trust` trusts it");
    sandbox.trust();
    let output = sandbox.command(&start).env("SOME_API_KEY", "canary-7f3a9c51e0b84d26").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_str(&fs::read_to_string(sandbox.path("told.json")).unwrap()).unwrap();
    assert_eq!(
        (&told["event"], &told["session"], &told["status"]),
        (&"session_ended".into(), &1.into(), &"finished".into())
    );
    assert!(!fs::read_to_string(sandbox.path("told.env")).unwrap().contains("canary"));

    // Nobody listens. The session ends all the same.
    sandbox.write("config.toml", "[notify]\nwebhook = 'http://127.0.0.1:1/secret-path'\n");
    let output = sandbox.optloop(&[&start[..], &["--trust"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("the webhook failed: it cannot be reached"), "{said}");
    assert!(!said.contains("secret-path: "), "{said}");
}
