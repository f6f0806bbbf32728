//! The time of `history`, `sessions` and `report` in a large store.
//!
//! `cargo bench --bench history [-- ITERATIONS]` makes a store of 1,000,000 iterations and times whole commands, from the
//! start of the process to its end. The store is kept in the target folder and used again. It takes 15 GB.
//!
//! tests/history.db has three sessions of 248 iterations in all, which real searches recorded. Their rows are copied with
//! other numbers, instants and times, and their sources are padded to the size of a real kernel. Limits are checked: 300 ms
//! for `history`, 2 s for `report`.
//!
//! On 2 cores of an AMD EPYC with 24 GB (release build, 2026-11-23), with 1,000,000 iterations in 12,099 sessions:
//!
//! | command | first | median | processor time |
//! |---|--:|--:|--:|
//! | `history` | 477 ms | 83 ms | 122 ms |
//! | `history 6049 --sort time --limit 20` | 94 ms | 84 ms | 85 ms |
//! | `history --all --sort time --limit 50` | 67 ms | 54 ms | 57 ms |
//! | `show 500` | 121 ms | 89 ms | 92 ms |
//! | `sessions --limit 20` | 4.7 s | 1.7 s | 1.9 s |
//! | `report 6049` | 1.6 s | 1.7 s | 1.8 s |
//!
//! The first call reads from the disk what later ones find in memory. Most of the time of `sessions` and `report` goes into
//! the results and costs of all 12,099 sessions.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use optloop::store::Store;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Row, SqlitePool};
use tempfile::TempDir;

/// The size of a source: that of the larger committed winners, in bytes.
const SOURCE_BYTES: i64 = 12_000;

/// How often each command is timed.
const TIMES: usize = 5;

/// Columns that number things, by table, with what is added to them in each copy: a multiple of a session's rows.
const NUMBERED: [(&str, &[(&str, &str)]); 13] = [
    ("sessions", &[("id", "sessions")]),
    ("baselines", &[("session_id", "sessions")]),
    ("iterations", &[("id", "iterations"), ("session_id", "sessions"), ("parent_id", "iterations")]),
    ("hypotheses", &[("iteration_id", "iterations"), ("relative_to", "iterations")]),
    ("changed_parameters", &[("iteration_id", "iterations")]),
    ("measurements", &[("iteration_id", "iterations")]),
    ("commits", &[("iteration_id", "iterations")]),
    ("disqualifications", &[("iteration_id", "iterations")]),
    (
        "comparisons",
        &[
            ("id", "comparisons"),
            ("iteration_id", "iterations"),
            ("session_id", "sessions"),
            ("winner_id", "iterations"),
        ],
    ),
    ("participants", &[("comparison_id", "comparisons"), ("iteration_id", "iterations")]),
    ("costs", &[("id", "costs"), ("session_id", "sessions"), ("iteration_id", "iterations")]),
    ("phases", &[("id", "phases"), ("session_id", "sessions")]),
    ("journal", &[("seq", "journal"), ("session_id", "sessions"), ("iteration_id", "iterations")]),
];

/// A project in a temporary folder, as `optloop init` makes it.
struct Project {
    folder: TempDir,
}

fn main() {
    // Cargo adds the argument `--bench`.
    let most = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(1_000_000);
    let store = kept(most);
    if !store.exists() {
        let started = Instant::now();
        make(&store, most);
        println!("made the store in {:.0} s", started.elapsed().as_secs_f64());
    }
    let project = Project::new(&store);
    let bytes = std::fs::metadata(&store).unwrap().len();
    let sessions = sessions(&store);
    println!("{most} iterations, {sessions} sessions, {:.1} GiB\n", bytes as f64 / f64::from(1 << 30));
    println!("{:<62} {:>9} {:>9} {:>9} {:>9}", "command", "first ms", "median ms", "CPU ms", "limit ms");
    // The first of each three sessions is the longest.
    let middle = (sessions / 6 * 3 + 1).to_string();
    let limit = |ms: u64| Some(Duration::from_millis(ms));
    let commands: [(&[&str], Option<Duration>); 13] = [
        (&["history"], limit(300)),
        (&["history", &middle], limit(300)),
        (&["history", &middle, "--sort", "time", "--limit", "20"], limit(300)),
        (&["history", &middle, "--case", "b1h1s64", "--verdict", "improved"], limit(300)),
        (&["history", "--all", "--limit", "50"], limit(300)),
        (&["history", "--all", "--reverse", "--limit", "50"], limit(300)),
        (&["history", "--all", "--sort", "time", "--limit", "50"], limit(300)),
        (&["history", "--all", "--family", "attention-mma", "--limit", "50"], None),
        (&["history", "--all", "--verdict", "improved", "--limit", "50"], None),
        (&["show", "500"], limit(300)),
        (&["sessions", "--limit", "20"], None),
        (&["report", &middle], limit(2000)),
        (&["report", &middle, "--format", "json"], limit(2000)),
    ];
    let mut missed = Vec::new();
    for (arguments, limit) in commands {
        let before = children_cpu_s();
        let [first, median] = project.timed(arguments).map(|time| time.as_secs_f64() * 1e3);
        let cpu = (children_cpu_s() - before) * 1e3 / (TIMES + 1) as f64;
        let shown = limit.map_or("-".to_owned(), |limit| limit.as_millis().to_string());
        println!("{:<62} {first:>9.0} {median:>9.0} {cpu:>9.0} {shown:>9}", arguments.join(" "));
        if limit.is_some_and(|limit| median > limit.as_secs_f64() * 1e3) {
            missed.push(arguments.join(" "));
        }
    }
    assert!(missed.is_empty(), "over the limit: {missed:?}");
}

impl Project {
    /// Makes a project that uses a store.
    fn new(store: &Path) -> Self {
        let project = Self { folder: TempDir::new().unwrap() };
        assert!(project.command(&["init", "project"]).status().unwrap().success());
        let config = project.folder.path().join("project/config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        let path = format!("path = '{}'", store.display());
        std::fs::write(&config, text.replace("path = \".optloop/optloop.db\"", &path)).unwrap();
        assert!(project.command(&["trust", "--yes"]).status().unwrap().success());
        project
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_optloop"));
        let project = self.folder.path().join("project");
        command.args(arguments).env("XDG_STATE_HOME", self.folder.path()).stdout(Stdio::null());
        command.current_dir(if project.exists() { &project } else { self.folder.path() });
        command
    }

    /// Returns the time of the first call and the median of the later ones.
    fn timed(&self, arguments: &[&str]) -> [Duration; 2] {
        let call = || {
            let started = Instant::now();
            let status = self.command(arguments).stderr(Stdio::null()).status().unwrap();
            assert!(status.success(), "{arguments:?}");
            started.elapsed()
        };
        let first = call();
        let mut later: Vec<Duration> = (0..TIMES).map(|_| call()).collect();
        later.sort();
        [first, later[TIMES / 2]]
    }
}

/// Returns the processor time of the children that have ended, in seconds. It tells a slow command from a busy machine.
fn children_cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux is needed");
    // The name in parentheses may contain spaces. User and system time of children are the 14th and 15th field after it.
    let (_, fields) = stat.rsplit_once(')').expect("a process has a name");
    let ticks: f64 = fields.split_whitespace().skip(13).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
    // Linux shows times to programs in hundredths of a second, whatever its own tick.
    ticks / 100.0
}

/// Returns where the store is kept.
fn kept(iterations: u64) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{iterations}.db"))
}

/// Runs a future on this thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Returns the number of sessions of a store.
fn sessions(store: &Path) -> u64 {
    wait(async {
        let pool = SqlitePoolOptions::new().connect_with(SqliteConnectOptions::new().filename(store)).await.unwrap();
        highest(&pool, "sessions").await.cast_unsigned()
    })
}

/// Copies the recorded sessions until there are enough iterations.
fn make(store: &Path, iterations: u64) {
    let making = store.with_extension("making");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history.db"), &making).unwrap();
    wait(async {
        // Makes the newest schema.
        Store::open(&making).await.unwrap().close().await;
        multiply(&making, iterations).await;
    });
    std::fs::rename(making, store).unwrap();
}

/// Copies the sessions of a store, until it has as many iterations as wanted.
async fn multiply(path: &Path, iterations: u64) {
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(false);
    // A store that a crash spoils is made again.
    let options = options.journal_mode(SqliteJournalMode::Off).synchronous(SqliteSynchronous::Off);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    // They keep what is finished as it is, and write the journal, which is copied.
    let triggers =
        sqlx::query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetch_all(&pool).await.unwrap();
    for trigger in &triggers {
        execute(&pool, format!("DROP TRIGGER {}", trigger.get::<String, _>("name"))).await;
    }
    execute(&pool, format!("UPDATE iterations SET source = source || printf('%.*c', {SOURCE_BYTES}, ' ')")).await;
    // A virtual GPU costs nothing, so nothing was recorded.
    let costs = "INSERT INTO costs (session_id, iteration_id, kind, seconds, usd)
                 SELECT session_id, id, 'gpu', wall_s, wall_s / 3600.0 * 3.5 FROM iterations WHERE wall_s IS NOT NULL";
    execute(&pool, costs.to_owned()).await;
    let mut copies = Vec::new();
    for (table, numbered) in NUMBERED {
        copies.push(copy_of(&pool, table, numbered).await);
    }
    let copies_wanted = iterations.div_ceil(highest(&pool, "iterations").await.cast_unsigned());
    for copy in 1..copies_wanted {
        execute(&pool, "BEGIN".to_owned()).await;
        for statement in &copies {
            execute(&pool, statement.replace("$COPY", &copy.to_string())).await;
        }
        execute(&pool, "COMMIT".to_owned()).await;
    }
    for trigger in &triggers {
        execute(&pool, trigger.get("sql")).await;
    }
    pool.close().await;
}

/// Returns the statement that makes the rows of one more session in a table. `$COPY` stands for the number of the copy.
async fn copy_of(pool: &SqlitePool, table: &str, numbered: &[(&str, &str)]) -> String {
    let columns = sqlx::query(AssertSqlSafe(format!("SELECT name FROM pragma_table_info('{table}')")));
    let columns: Vec<String> = columns.fetch_all(pool).await.unwrap().iter().map(|row| row.get("name")).collect();
    let mut values = Vec::new();
    for column in &columns {
        let offset = numbered.iter().find(|(name, _)| name == column);
        values.push(match (offset, column.as_str()) {
            (Some((_, of)), _) => format!("{column} + $COPY * {}", highest(pool, of).await),
            // The rest of the journal's key is a number for these.
            (_, "detail") => {
                let (comparisons, costs) = (highest(pool, "comparisons").await, highest(pool, "costs").await);
                format!(
                    "CASE kind WHEN 'final' THEN detail + $COPY * {comparisons} WHEN 'booked' THEN detail + $COPY * {costs}
                     ELSE detail END"
                )
            }
            (_, "started_at" | "ended_at") => {
                format!("strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '+' || ($COPY * 30) || ' minutes')")
            }
            (_, time) if time.ends_with("median_ns") || time.ends_with("_lo_ns") || time.ends_with("_hi_ns") => {
                format!("{column} * (0.8 + 0.0004 * (($COPY * 7919) % 1000))")
            }
            _ => column.clone(),
        });
    }
    let first = numbered.iter().find(|(column, _)| *column == columns[0]).expect("a table's key is numbered");
    format!(
        "INSERT INTO {table} ({}) SELECT {} FROM {table} WHERE {} <= {}",
        columns.join(", "),
        values.join(", "),
        first.0,
        highest(pool, first.1).await
    )
}

/// Returns the highest number in use before anything is copied.
async fn highest(pool: &SqlitePool, table: &str) -> i64 {
    let key = if table == "journal" { "seq" } else { "id" };
    sqlx::query_scalar(AssertSqlSafe(format!("SELECT COALESCE(MAX({key}), 0) FROM {table}")))
        .fetch_one(pool)
        .await
        .unwrap()
}

async fn execute(pool: &SqlitePool, statement: String) {
    sqlx::raw_sql(AssertSqlSafe(statement.clone()))
        .execute(pool)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}
