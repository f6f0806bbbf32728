//! An untrusted project: its links, its store, its repository, and the environment variables that it gets.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tempfile::TempDir;

use crate::common::Sandbox;

const STORE: &str = ".optloop/optloop.db";

/// Starts a session that must be refused with one sentence.
fn refused(sandbox: &Sandbox) -> String {
    let said = sandbox.fails(&["start", "--device", "fake", "--workload", "small", "--iterations", "2"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// Makes a project in which a name is a link to a folder elsewhere, and starts a session there.
fn linked(name: &str, to: &str) -> String {
    let (sandbox, outside) = (Sandbox::new(), TempDir::new().unwrap());
    fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
    symlink(outside.path().join(to), sandbox.path(name)).unwrap();
    let said = refused(&sandbox);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "something was written there");
    let made = fs::read_dir(sandbox.path(".optloop")).map_or(0, |entries| entries.count());
    assert!(made <= 1, "something was written here");
    said.replace(&outside.path().canonicalize().unwrap().display().to_string(), "OUTSIDE")
}

#[test]
fn nothing_is_written_through_a_link_out_of_the_project() {
    insta::assert_snapshot!(linked(".optloop", ""), @"2 error: PROJECT/.optloop is a link out of the project, to OUTSIDE: remove it");
    insta::assert_snapshot!(linked(".optloop", "not-there"), @"2 error: PROJECT/.optloop is a link to nothing: remove it");
    insta::assert_snapshot!(linked(".optloop/reports", ""), @"2 error: PROJECT/.optloop/reports is a link out of the project, to OUTSIDE: remove it");
    insta::assert_snapshot!(linked(".optloop/session.lock", "not-there"), @"2 error: PROJECT/.optloop/session.lock is a link to nothing: remove it");
    insta::assert_snapshot!(linked(STORE, "not-there"), @"2 error: PROJECT/.optloop/optloop.db is a link to nothing: remove it");
    insta::assert_snapshot!(linked("kernels/variants", ""), @"2 error: PROJECT/kernels/variants is a link out of the project, to OUTSIDE: remove it");
}

#[test]
fn no_store_is_read_through_a_link_out_of_the_project_or_made_in_gits_folder() {
    let (theirs, mine) = (Sandbox::new(), Sandbox::new());
    assert!(mine.session("1", &[]).status.success());
    symlink(mine.path(".optloop"), theirs.path(".optloop")).unwrap();
    let said = theirs.fails(&["history"]);
    assert!(said.starts_with("2 error: ") && said.contains(".optloop is a link out of the project"), "{said}");
    fs::remove_file(theirs.path(".optloop")).unwrap();
    theirs.write("config.toml", "[store]\npath = '.GIT/info/attributes'\n");
    insta::assert_snapshot!(refused(&theirs), @"2 error: PROJECT/config.toml: store.path must not lie in git's own folder");
}

/// Runs SQL in a project's store, as any program could.
fn sql(sandbox: &Sandbox, statements: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(sandbox.path(STORE));
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
        sqlx::raw_sql(statements).execute(&pool).await.unwrap();
        pool.close().await;
    });
}

#[test]
fn a_store_that_acts_by_itself_is_refused_by_readers_and_writers() {
    let with = |statements: &'static str| {
        let sandbox = Sandbox::new();
        assert!(sandbox.session("1", &[]).status.success());
        sql(&sandbox, statements);
        let said = refused(&sandbox);
        assert_eq!(sandbox.fails(&["history"]), said);
        said
    };
    insta::assert_snapshot!(with("CREATE TRIGGER liar AFTER INSERT ON iterations BEGIN DELETE FROM costs; END"), @"1 error: cannot open the store PROJECT/.optloop/optloop.db: it has the trigger `liar`, which optloop has not made and which would act by itself: move the store away, or use another path");
    insta::assert_snapshot!(with("CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"), @"1 error: cannot open the store PROJECT/.optloop/optloop.db: it has the view `endless`, which optloop has not made and which would act by itself: move the store away, or use another path");
    insta::assert_snapshot!(with("CREATE VIRTUAL TABLE words USING fts5(word)"), @"1 error: cannot open the store PROJECT/.optloop/optloop.db: it has the virtual table `words`, which optloop has not made and which would act by itself: move the store away, or use another path");
    // The triggers of optloop itself are recognised by their text.
    let said = with(
        "DROP TRIGGER finished_iteration_stays; CREATE TRIGGER finished_iteration_stays AFTER INSERT ON iterations BEGIN DELETE FROM costs; END",
    );
    assert!(said.contains("trigger `finished_iteration_stays`"), "{said}");

    let sandbox = Sandbox::new();
    assert!(sandbox.session("1", &[]).status.success());
    sql(&sandbox, "CREATE TABLE mine (x); CREATE INDEX mine_too ON iterations (id)");
    sandbox.succeeds(&["history"]);
    assert!(sandbox.session("1", &[]).status.success(), "what only holds rows does no harm");
}

/// SQLite rolls a journal back before it reads anything. Then it deletes the file that the journal names.
#[test]
fn a_journal_that_came_with_a_store_deletes_nothing() {
    let (sandbox, mine) = (Sandbox::new(), TempDir::new().unwrap());
    assert!(sandbox.session("1", &[]).status.success());
    let precious = mine.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    let name = precious.to_str().unwrap().as_bytes();
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let big_endian = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let pages = u32::try_from(fs::metadata(sandbox.path(STORE)).unwrap().len() / 4096).unwrap();
    // No page to restore; sectors of 512 bytes, pages of 4096. The name follows on the page of the locks.
    let mut journal = [&magic[..], &big_endian(&[0, 0, pages, 512, 4096])].concat();
    journal.resize(512, 0);
    journal.extend(big_endian(&[0x4000_0000 / 4096 + 1]));
    journal.extend(name);
    journal.extend(big_endian(&[name.len() as u32, name.iter().map(|&byte| u32::from(byte)).sum()]));
    journal.extend(magic);
    fs::write(sandbox.path(&format!("{STORE}-journal")), journal).unwrap();
    insta::assert_snapshot!(refused(&sandbox), @"1 error: cannot open the store PROJECT/.optloop/optloop.db: PROJECT/.optloop/optloop.db-journal names another file, which SQLite would delete: remove it, or use another path");
    assert!(precious.exists());
}

#[test]
fn a_pipe_in_place_of_a_store_file_does_not_block() {
    for name in [STORE, ".optloop/optloop.db-journal", ".optloop/optloop.db-wal"] {
        let sandbox = Sandbox::new();
        assert!(sandbox.session("1", &[]).status.success());
        let path = sandbox.path(name);
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let said = refused(&sandbox);
        let why = match name {
            STORE => "store.path in config.toml names a pipe, not a regular file",
            _ => "is not a regular file: move it away, or use another path",
        };
        assert!(said.contains(&format!("PROJECT/{name}")) && said.contains(why), "{said}");
        assert_eq!(sandbox.fails(&["history"]), said);
    }
}

/// git itself adds a line for each commit.
#[test]
fn a_repository_whose_log_is_a_link_gets_no_commit() {
    let (sandbox, mine) = (Sandbox::new(), TempDir::new().unwrap());
    let file = mine.path().join("authorized_keys");
    fs::write(&file, "mine\n").unwrap();
    fs::remove_file(sandbox.path(".git/logs/HEAD")).unwrap();
    symlink(&file, sandbox.path(".git/logs/HEAD")).unwrap();
    let output = sandbox.session("12", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains(".git/logs/HEAD` leads out of the repository's folder"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
}

/// A hook, a filter and a monitor of the repository's own configuration, each of which leaves a trace.
#[test]
fn git_runs_nothing_of_a_repository() {
    let sandbox = Sandbox::new();
    sandbox.write("evil.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\ncat\n");
    let script = sandbox.path("evil.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    sandbox.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    for hook in ["pre-commit", "post-commit", "commit-msg", "reference-transaction", "post-index-change"] {
        fs::copy(script, sandbox.path(&format!(".git/hooks/{hook}"))).unwrap();
    }
    for key in
        ["filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv", "merge.evil.driver"]
    {
        sandbox.git(&["config", key, script]);
    }
    for key in ["core.fsmonitor", "core.sshCommand", "gpg.program", "core.editor", "credential.helper"] {
        sandbox.git(&["config", key, script]);
    }
    sandbox.git(&["config", "commit.gpgSign", "true"]);
    let output = sandbox.session("12", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ran = || sandbox.path("ran").exists() || sandbox.path(".git/hooks/ran").exists();
    assert!(!ran());
    assert!(fs::read_dir(sandbox.path(crate::common::FAKE_WINNERS)).unwrap().count() > 0, "winners were committed");
    // git itself runs them.
    sandbox.git(&["status"]);
    assert!(ran());
}

/// pip fetches NVRTC where there is no toolkit. It needs its index with the password, and nothing of the project.
#[test]
fn pip_gets_its_own_variables_and_a_folder_without_modules() {
    if ["/usr/local/cuda", "/opt/cuda"].iter().any(|toolkit| Path::new(toolkit).exists()) {
        return;
    }
    let (sandbox, programs) = (Sandbox::new(), TempDir::new().unwrap());
    let python = programs.path().join("python3");
    fs::write(&python, format!("#!/bin/sh\n(pwd; env) >{}\nexit 1\n", sandbox.path("seen").display())).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut compile = sandbox.command(&["compile", "--workload", "small"]);
    compile.env("PATH", format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap()));
    compile.env("XDG_CACHE_HOME", sandbox.path("cache")).env_remove("CUDA_HOME").env_remove("CUDA_PATH");
    compile.env("PIP_INDEX_URL", "https://me:opensesame@index/").env("DATABASE_URL", "postgres://db/x");
    assert!(!compile.status().unwrap().success());
    let seen = fs::read_to_string(sandbox.path("seen")).unwrap();
    assert!(seen.contains("PIP_INDEX_URL=https://me:opensesame@index/") && !seen.contains("DATABASE_URL"), "{seen}");
    let folder = seen.lines().next().unwrap();
    assert!(folder.contains("cache/optloop/fetch-"), "{folder}");
}

/// A store may come with a clone, and its texts are shown.
#[test]
fn texts_of_a_store_cannot_control_the_terminal() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("1", &[]).status.success());
    // The store's triggers keep rows as they were, so its author has to set them aside.
    let script = r#"
import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
triggers = store.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
for name, _ in triggers:
    store.execute(f"DROP TRIGGER {name}")
store.execute("UPDATE hypotheses SET claim = ?", ("x\x1b]0;title\x07\u202e\x9b2J",))
for _, sql in triggers:
    store.execute(sql)
store.commit()
"#;
    assert!(Command::new("python3").args(["-c", script]).arg(sandbox.path(STORE)).status().unwrap().success());
    for verb in [&["history"][..], &["show", "1"], &["report"], &["show", "1", "--json"]] {
        let said = sandbox.succeeds(verb);
        let unsafe_char = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!said.contains(unsafe_char), "{verb:?}: {said:?}");
    }
    let shown: serde_json::Value = serde_json::from_str(&sandbox.succeeds(&["show", "1", "--json"])).unwrap();
    assert!(shown.to_string().contains("title"), "{shown}");
}
