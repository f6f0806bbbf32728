//! Makes a large store from a small one: one session with nine tenths of the iterations, after many short ones.
//!
//! The rows of tests/history.db, which real searches recorded, are copied with other numbers, instants and times. They get
//! what a session on a GPU leaves: samples of each time, costs, and sources of the size of a real kernel. The long session
//! never tries a configuration twice. Few of its iterations win, and ever fewer, as in a real search.

use std::path::Path;

use optloop::store::Store;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Row, SqlitePool};

/// The size of a source: that of the larger committed winners, in bytes.
const SOURCE_BYTES: i64 = 12_000;

/// The samples of a time.
const SAMPLES: usize = 21;

/// The session that the long one is made from.
const LONGEST: i64 = 1;

/// Columns that number things, by table, with the table whose numbers they are.
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

/// The tables whose rows are numbered.
const COUNTED: [&str; 6] = ["sessions", "iterations", "comparisons", "costs", "phases", "journal"];

/// The tables that have rows for each iteration of the long session.
const OF_ITERATIONS: [&str; 6] = ["iterations", "hypotheses", "changed_parameters", "measurements", "costs", "journal"];

/// What becomes of a copy.
#[derive(Clone, Copy, PartialEq)]
enum Copy {
    /// All sessions, once more.
    Sessions,
    /// The iterations of one session, as further iterations of the long one.
    Iterations { long: i64, each: i64 },
}

/// Makes a store with a number of iterations.
pub async fn make(store: &Path, iterations: u64) {
    let making = store.with_extension("making");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history.db"), &making).unwrap();
    // Makes the newest schema.
    Store::open(&making).await.unwrap().close().await;
    multiply(&making, iterations.cast_signed()).await;
    std::fs::rename(making, store).unwrap();
}

/// Copies the sessions of a store, until it has as many iterations as wanted.
async fn multiply(path: &Path, iterations: i64) {
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(false);
    // A store that a crash spoils is made again.
    let options = options.journal_mode(SqliteJournalMode::Off).synchronous(SqliteSynchronous::Off);
    // Indexes grow at random places. They stay in memory.
    let options = options.pragma("cache_size", "-3000000").pragma("temp_store", "MEMORY");
    // A new connection would not know the transaction of the old one.
    let pool = SqlitePoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = pool.connect_with(options).await.unwrap();
    // They keep what is finished as it is, and write the journal, which is copied.
    let triggers =
        sqlx::query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetch_all(&pool).await.unwrap();
    for trigger in &triggers {
        execute(&pool, format!("DROP TRIGGER {}", trigger.get::<String, _>("name"))).await;
    }
    as_measured(&pool).await;
    let base = highest(&pool).await;
    let of = |table: &str| base[COUNTED.iter().position(|one| *one == table).expect("a counted table")];
    let sessions = statements(&pool, Copy::Sessions, &NUMBERED.map(|(table, _)| table), &base).await;
    for copy in 1..(iterations / 10 / of("iterations")).max(1) {
        run(&pool, &sessions, copy, copy).await;
    }
    let (long, each) = long_session(&pool).await;
    let more = statements(&pool, Copy::Iterations { long, each }, &OF_ITERATIONS, &base).await;
    let [first, last] = [highest(&pool).await[1], iterations].map(|number| number / each);
    for copy in 0..(last - first).max(1) {
        run(&pool, &more, copy, 0).await;
    }
    let ends = "UPDATE sessions SET status = 'finished', ended_at = started_at, stop_reason = 'the budget is used up',
                       wall_s = (SELECT TOTAL(wall_s) FROM iterations WHERE session_id = sessions.id) + 1.0";
    execute(&pool, format!("{ends} WHERE id = {long}")).await;
    for trigger in &triggers {
        execute(&pool, trigger.get("sql")).await;
    }
    pool.close().await;
}

/// Gives the recorded sessions what a session on a GPU would have.
async fn as_measured(pool: &SqlitePool) {
    execute(pool, format!("UPDATE iterations SET source = source || printf('%.*c', {SOURCE_BYTES}, ' ')")).await;
    execute(pool, "UPDATE environments SET device = json_set(device, '$.time_source', 'measured')".to_owned()).await;
    // A virtual GPU costs nothing, so nothing was recorded.
    let costs = "INSERT INTO costs (session_id, iteration_id, kind, seconds, usd)
                 SELECT session_id, id, 'gpu', wall_s, wall_s / 3600.0 * 3.5 FROM iterations WHERE wall_s IS NOT NULL";
    execute(pool, costs.to_owned()).await;
    // A virtual GPU has one time, without noise.
    for run in ["screening", "confirmation"] {
        let timed =
            format!("SELECT iteration_id, case_name, {run}_median_ns AS ns FROM measurements WHERE ns NOT NULL");
        for row in sqlx::query(AssertSqlSafe(timed)).fetch_all(pool).await.unwrap() {
            let (median, middle) = (row.get::<f64, _>("ns"), SAMPLES / 2);
            let sample = |place: usize| median * (1.0 + 0.001 * (place as f64 - middle as f64));
            let raw: Vec<u8> = (0..SAMPLES).flat_map(|place| (sample(place) as f32).to_le_bytes()).collect();
            sqlx::query(AssertSqlSafe(format!(
                "UPDATE measurements SET {run}_samples = ?, {run}_raw_ns = ?, {run}_ci_lo_ns = ?, {run}_ci_hi_ns = ?
                 WHERE iteration_id = ? AND case_name = ?"
            )))
            .bind(SAMPLES as i64)
            .bind(raw)
            .bind(sample(middle - 4))
            .bind(sample(middle + 4))
            .bind(row.get::<i64, _>("iteration_id"))
            .bind(row.get::<String, _>("case_name"))
            .execute(pool)
            .await
            .unwrap();
        }
    }
}

/// Begins the long session. Returns its number, and how many iterations the session has that it is made from.
async fn long_session(pool: &SqlitePool) -> (i64, i64) {
    let long = highest(pool).await[0] + 1;
    for (table, key) in [("sessions", "id"), ("baselines", "session_id"), ("phases", "session_id")] {
        let columns: Vec<String> =
            columns(pool, table).await.into_iter().filter(|c| table != "phases" || c != "id").collect();
        let values: Vec<String> =
            columns.iter().map(|column| if column == key { long.to_string() } else { column.clone() }).collect();
        let (columns, values) = (columns.join(", "), values.join(", "));
        execute(pool, format!("INSERT INTO {table} ({columns}) SELECT {values} FROM {table} WHERE {key} = {LONGEST}"))
            .await;
    }
    let each = sqlx::query_scalar("SELECT COUNT(*) FROM iterations WHERE session_id = ?").bind(LONGEST);
    (long, each.fetch_one(pool).await.unwrap())
}

/// Makes the rows of a copy in one transaction. `sessions` is the number of the copy of the sessions.
async fn run(pool: &SqlitePool, statements: &[String], copy: i64, sessions: i64) {
    execute(pool, "BEGIN".to_owned()).await;
    for statement in statements {
        // Every power of two wins.
        let factor = match copy & (copy - 1) {
            0 => format!("{:.6}", 0.98_f64.powi(copy.trailing_zeros().cast_signed())),
            _ => format!("(1.05 + 0.0004 * ((iteration_id * 7919 + {copy} * 31) % 1000))"),
        };
        let statement = statement.replace("$FACTOR", &factor);
        let statement = statement.replace("$WINS", if copy & (copy - 1) == 0 { "1" } else { "0" });
        execute(pool, statement.replace("$COPY", &copy.to_string()).replace("$SESSIONS", &sessions.to_string())).await;
    }
    execute(pool, "COMMIT".to_owned()).await;
}

/// Returns the statements that make the rows of one more copy. `$COPY` stands for its number.
async fn statements(pool: &SqlitePool, copy: Copy, tables: &[&str], base: &[i64; 6]) -> Vec<String> {
    let now = highest(pool).await;
    let mut statements = Vec::new();
    for table in tables {
        let (_, numbered) = NUMBERED.iter().find(|(name, _)| name == table).expect("every table is numbered");
        let columns = columns(pool, table).await;
        let place = |of: &str| COUNTED.iter().position(|one| *one == of).expect("a counted table");
        let values: Vec<String> = columns
            .iter()
            .map(|column| {
                let of = numbered.iter().find(|(name, _)| name == column).map(|(_, of)| *of);
                match (copy, of) {
                    (Copy::Iterations { long, .. }, Some("sessions")) => long.to_string(),
                    (Copy::Iterations { each, .. }, Some("iterations")) => {
                        format!("{column} + {} + $COPY * {each}", now[place("iterations")])
                    }
                    // Not all rows of these are copied. SQLite numbers the others.
                    (Copy::Iterations { .. }, Some(_)) => "NULL".to_owned(),
                    (Copy::Sessions, Some(of)) => format!("{column} + $COPY * {}", base[place(of)]),
                    (_, None) => value(table, column, copy, base),
                }
            })
            .collect();
        let key = numbered[0].0;
        let rows = match (copy, *table) {
            (Copy::Sessions, _) => format!("{key} <= {}", base[place(numbered[0].1)]),
            (Copy::Iterations { .. }, "iterations") => format!("session_id = {LONGEST}"),
            (Copy::Iterations { .. }, _) => {
                format!("iteration_id IN (SELECT id FROM iterations WHERE session_id = {LONGEST})")
            }
        };
        let (columns, values) = (columns.join(", "), values.join(", "));
        statements.push(format!("INSERT INTO {table} ({columns}) SELECT {values} FROM {table} WHERE {rows}"));
    }
    statements
}

/// Returns the expression of a column that numbers nothing.
fn value(table: &str, column: &str, copy: Copy, base: &[i64; 6]) -> String {
    let is_time = ["median_ns", "_lo_ns", "_hi_ns"].iter().any(|end| column.ends_with(end));
    match (copy, column) {
        // The rest of the journal's key is a number for these.
        (Copy::Sessions, "detail") => format!(
            "CASE kind WHEN 'final' THEN detail + $COPY * {} WHEN 'booked' THEN detail + $COPY * {} ELSE detail END",
            base[2], base[3]
        ),
        (_, "started_at" | "ended_at") => {
            format!("strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '+' || ($COPY * 30) || ' minutes')")
        }
        (Copy::Sessions, _) if is_time => format!("{column} * (0.8 + 0.0004 * (($COPY * 7919) % 1000))"),
        (Copy::Iterations { .. }, _) if is_time && table == "measurements" => {
            format!("{column} * $FACTOR")
        }
        (Copy::Iterations { each, .. }, "ordinal") => format!("ordinal + $COPY * {each}"),
        (Copy::Iterations { .. }, "hash") => "substr(hash, 1, 24) || printf('%08x', $COPY)".to_owned(),
        // Further parameters: a space in which no point is tried twice, and every point has neighbours.
        (Copy::Iterations { .. }, "params") => {
            let digits = (0..4).map(|digit| format!("'$.D{digit}', $COPY / {} % 10", 10_i64.pow(digit)));
            format!("json_set(params, {})", digits.collect::<Vec<_>>().join(", "))
        }
        // A session begins once.
        (Copy::Iterations { .. }, "purpose") => {
            "CASE WHEN $COPY > 0 AND purpose IN ('initial', 'remeasurement') THEN 'screening' ELSE purpose END"
                .to_owned()
        }
        (Copy::Iterations { .. }, "origin") => r#"CASE WHEN $COPY > 0 AND origin ->> 'kind' IN
             ('initial_kernel', 'committed_winner', 'family_default') THEN '{"kind":"random"}' ELSE origin END"#
            .to_owned(),
        (Copy::Iterations { .. }, "verdict") => {
            "CASE WHEN $COPY = 0 OR verdict NOT IN ('start', 'improved') THEN verdict
             WHEN $WINS AND verdict = 'improved' THEN verdict ELSE 'regressed' END"
                .to_owned()
        }
        _ => column.to_owned(),
    }
}

async fn columns(pool: &SqlitePool, table: &str) -> Vec<String> {
    // Generated columns are not in this list.
    let columns = sqlx::query(AssertSqlSafe(format!("SELECT name FROM pragma_table_info('{table}')")));
    columns.fetch_all(pool).await.unwrap().iter().map(|row| row.get("name")).collect()
}

/// Returns the highest number in use, for each of the counted tables.
async fn highest(pool: &SqlitePool) -> [i64; 6] {
    let mut highest = [0; 6];
    for (place, table) in COUNTED.iter().enumerate() {
        let key = if *table == "journal" { "seq" } else { "id" };
        let query = format!("SELECT COALESCE(MAX({key}), 0) FROM {table}");
        highest[place] = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(pool).await.unwrap();
    }
    highest
}

async fn execute(pool: &SqlitePool, statement: String) {
    sqlx::raw_sql(AssertSqlSafe(statement.clone()))
        .execute(pool)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}
