//! The costs of a session besides its device and compilers: memory and processor time of the orchestrator itself.
//!
//! `cargo bench --bench orchestrator [-- ITERATIONS]` runs a session of 5,000 iterations on the fake device, twice. The
//! first run compiles 5,000 sources and takes some minutes. The second finds them in the cache, so only its wall time
//! is meaningful. Limits are checked: memory flat within 20 MB, and less than 5 ms of processor time for each
//! iteration.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use common::Sandbox;
use optloop::domain::ids::SessionId;
use optloop::runner::toolchain::Toolchain;
use optloop::store::Store;

/// Rows of the table.
const ROWS: u64 = 10;

/// The most that memory may grow after the first row, in KiB. By then every part of a session has been used.
const MOST_GROWTH_KB: u64 = 20 * 1024;

/// The most processor time that an iteration may take, in milliseconds.
const MOST_CPU_MS: f64 = 5.0;

/// Ticks per second of the times in `/proc/PID/stat`. Linux shows them to programs in hundredths, whatever its own
/// tick.
const TICKS_PER_S: f64 = 100.0;

/// The resources that the orchestrator has used up to one iteration.
struct Row {
    iterations: u64,
    rss_kb: u64,
    cpu_s: f64,
    wall_s: f64,
}

fn main() {
    // Cargo adds the argument `--bench`.
    let most = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(5000);
    // A separate cache, which the first run fills and the second uses.
    let _ = std::fs::remove_dir_all(cache());
    let runs = ["every source is compiled", "every source is in the cache"].map(|run| {
        let (rows, device_s) = session(most);
        print(run, &rows, device_s);
        rows
    });
    runs.iter().for_each(|rows| check(rows));
}

/// Runs a session and samples its process ten times. Returns the samples and the device time in seconds.
fn session(most: u64) -> (Vec<Row>, f64) {
    let sandbox = project();
    let toolchain = Toolchain::find_or_fetch().expect("NVRTC is needed");
    let mut command =
        sandbox.command(&["start", "--device", "fake", "--workload", "small", "--seed", "1", "--budget", "10h"]);
    command.args(["--json", "--iterations", &most.to_string()]);
    command.env("XDG_CACHE_HOME", cache());
    command.env("CUDA_HOME", toolchain.include.parent().expect("headers lie in a toolkit"));
    let started = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn().expect("optloop can be run");
    let mut rows = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("it has a pipe")).lines() {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let iterations = event["finished"].as_u64().unwrap_or(0);
        if event["event"] == "iteration" && iterations.is_multiple_of((most / ROWS).max(1)) {
            let (rss_kb, cpu_s) = used(child.id());
            rows.push(Row { iterations, rss_kb, cpu_s, wall_s: started.elapsed().as_secs_f64() });
        }
    }
    assert!(child.wait().unwrap().success());
    (rows, device_s(&sandbox))
}

fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("orchestrator")
}

/// Returns the total device time of the session's iterations, in seconds.
fn device_s(sandbox: &Sandbox) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open_existing(&sandbox.path(".optloop/optloop.db")).await.unwrap();
        let record = store.session_record(SessionId(1)).await.unwrap();
        record.iterations.iter().filter_map(|iteration| iteration.device_s).sum()
    })
}

/// Makes a project with a space of tens of thousands of configurations.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    let parameter = |name: &str| {
        format!(
            "[params.{name}]\nvalues = [0, 1, 2, 3, 4, 5, 6, 7]\ndefault = 0\nabout = \"nothing\"\nexpect = [1.0, 1.1]\n"
        )
    };
    let parameters: String = ["X", "Y", "Z", "W"].map(parameter).concat();
    sandbox.replace("templates/kernels/toy/family.toml", "[[constraint]]", &format!("{parameters}[[constraint]]"));
    sandbox
}

/// Returns resident memory in KiB and processor time in seconds of a process, without its children.
fn used(pid: u32) -> (u64, f64) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("Linux is needed");
    let status = read("status");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    let stat = read("stat");
    // The name in parentheses may contain spaces. User and system time are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(')').expect("a process has a name");
    let ticks: f64 = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
    (rss.trim().trim_end_matches(" kB").parse().unwrap(), ticks / TICKS_PER_S)
}

fn print(run: &str, rows: &[Row], device_s: f64) {
    println!("{run}\n\niterations   RSS MB   CPU ms each   wall ms each");
    let mut before = &Row { iterations: 0, rss_kb: 0, cpu_s: 0.0, wall_s: 0.0 };
    for row in rows {
        let each_ms = |now: f64, then: f64| (now - then) * 1e3 / (row.iterations - before.iterations) as f64;
        let (cpu_ms, wall_ms) = (each_ms(row.cpu_s, before.cpu_s), each_ms(row.wall_s, before.wall_s));
        println!("{:>10} {:>8.1} {cpu_ms:>13.2} {wall_ms:>14.2}", row.iterations, row.rss_kb as f64 / 1024.0);
        before = row;
    }
    println!("\nof the wall time, the device had {:.2} ms an iteration\n", device_s * 1e3 / before.iterations as f64);
}

fn check(rows: &[Row]) {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { panic!("no row") };
    let growth_kb = rows.iter().map(|row| row.rss_kb.saturating_sub(first.rss_kb)).max().unwrap_or(0);
    let cpu_ms = (last.cpu_s - first.cpu_s) * 1e3 / (last.iterations - first.iterations).max(1) as f64;
    assert!(growth_kb <= MOST_GROWTH_KB, "memory grew by {growth_kb} KiB");
    assert!(cpu_ms <= MOST_CPU_MS, "an iteration costs {cpu_ms:.2} ms");
}
