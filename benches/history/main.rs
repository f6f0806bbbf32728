//! The time of `history`, `sessions` and `report` in a large store.
//!
//! `cargo bench --bench history [-- ITERATIONS]` makes a store of 1,000,000 iterations and times whole commands, from the
//! start of the process to its end. The store is kept in the target folder and used again. It takes 15 GB.
//!
//! tests/history.db has three sessions of 248 iterations in all, which real searches recorded. Their rows are copied with
//! other numbers, instants and times, and their sources are padded to the size of a real kernel. Limits are checked: 300 ms
//! for `history`, 2 s for `report`.
//!
//! On 2 cores of an AMD EPYC with 24 GB (release build, 2026-11-23), with 1,000,000 iterations in 1,210 sessions (13.3 GiB),
//! of which the newest has 900,081 and session 604 has 157:
//!
//! | command | first | median | processor time | limit |
//! |---|--:|--:|--:|--:|
//! | `history` | 124 ms | 88 ms | 92 ms | 300 ms |
//! | `history --sort speedup --limit 20` | 588 ms | 65 ms | 93 ms | 300 ms |
//! | `history --by kind` | 2.1 s | 104 ms | 223 ms | 300 ms |
//! | `history --all --sort time --limit 50` | 44 ms | 44 ms | 43 ms | 300 ms |
//! | `history --all --family attention-mma --limit 50` | 4.6 s | 152 ms | 398 ms | 300 ms |
//! | `show 500` | 47 ms | 59 ms | 53 ms | 300 ms |
//! | `sessions --limit 20` | 3.2 s | 386 ms | 527 ms | 2 s |
//! | `report` | 12.4 s | 1.5 s | 3.2 s | 2 s |
//! | `report --format html` | 1.4 s | 1.5 s | 2.3 s | 2 s |
//! | `report 604` | 390 ms | 416 ms | 425 ms | 2 s |
//! | `report --compare 604 1210` | 1.7 s | 1.9 s | 2.7 s | 2 s |
//!
//! The limits hold for the median. The first call reads from the disk what later ones find in memory; for a report on a
//! session of 900,000 iterations, that takes 12 s.

#[path = "../large/mod.rs"]
mod large;

use std::process::Stdio;
use std::time::{Duration, Instant};

use large::Project;

/// How often each command is timed.
const TIMES: usize = 5;

fn main() {
    // Cargo adds the argument `--bench`.
    let most = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(1_000_000);
    let store = large::store(most);
    let project = Project::new(Some(&store));
    let bytes = std::fs::metadata(&store).unwrap().len();
    let sessions = large::sessions(&store);
    println!("{most} iterations, {sessions} sessions, {:.1} GiB\n", bytes as f64 / f64::from(1 << 30));
    println!("{:<62} {:>9} {:>9} {:>9} {:>9}", "command", "first ms", "median ms", "CPU ms", "limit ms");
    // The newest session is the long one. Of the others, the first of each three is the longest.
    let (long, short) = (sessions.to_string(), (sessions / 6 * 3 + 1).to_string());
    let limit = |ms: u64| Some(Duration::from_millis(ms));
    let (lists, reports) = (limit(300), limit(2000));
    let commands: [(&[&str], Option<Duration>); 25] = [
        (&["history"], lists),
        (&["history", "--json", "--limit", "1000"], lists),
        (&["history", "--case", "b1h1s64"], lists),
        (&["history", "--case", "b1h1s64", "--verdict", "improved"], lists),
        (&["history", "--sort", "time", "--limit", "20"], lists),
        (&["history", "--sort", "speedup", "--limit", "20"], lists),
        (&["history", "--origin", "warm_start"], lists),
        (&["history", "--origin", "move", "--json", "--limit", "1000"], lists),
        (&["history", "--by", "kind"], lists),
        (&["history", "--by", "mechanism"], lists),
        (&["history", "--by", "parameter", "--json"], lists),
        (&["history", &short], lists),
        (&["history", "--all", "--reverse", "--limit", "50"], lists),
        (&["history", "--all", "--sort", "time", "--limit", "50"], lists),
        (&["history", "--all", "--family", "attention-mma", "--limit", "50"], lists),
        (&["history", "--all", "--verdict", "improved", "--limit", "50"], lists),
        (&["show", "500"], lists),
        (&["sessions", "--limit", "20"], reports),
        (&["report"], reports),
        (&["report", "--format", "html"], reports),
        (&["report", "--format", "json"], reports),
        (&["report", &short], reports),
        (&["report", &short, "--format", "html"], reports),
        (&["report", "--all"], reports),
        (&["report", "--compare", &short, &long], reports),
    ];
    let mut missed = Vec::new();
    for (arguments, limit) in commands {
        let before = children_cpu_s();
        let [first, median] = timed(&project, arguments).map(|time| time.as_secs_f64() * 1e3);
        let cpu = (children_cpu_s() - before) * 1e3 / (TIMES + 1) as f64;
        let shown = limit.map_or("-".to_owned(), |limit| limit.as_millis().to_string());
        println!("{:<62} {first:>9.0} {median:>9.0} {cpu:>9.0} {shown:>9}", arguments.join(" "));
        if limit.is_some_and(|limit| median > limit.as_secs_f64() * 1e3) {
            missed.push(arguments.join(" "));
        }
    }
    assert!(missed.is_empty(), "over the limit: {missed:?}");
}

/// Returns the time of the first call and the median of the later ones.
fn timed(project: &Project, arguments: &[&str]) -> [Duration; 2] {
    let call = || {
        let started = Instant::now();
        let status = project.command(arguments).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{arguments:?}");
        started.elapsed()
    };
    let first = call();
    let mut later: Vec<Duration> = (0..TIMES).map(|_| call()).collect();
    later.sort();
    [first, later[TIMES / 2]]
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
