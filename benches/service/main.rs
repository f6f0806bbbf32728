//! How soon a service answers with a large store, and how soon an event reaches its clients.
//!
//! `cargo bench --bench service [-- ITERATIONS]` uses the store of the benchmark `history`, with 1,000,000 iterations. Limits
//! are checked: the first byte of an answer in 200 ms at the 95th percentile, and an event within 1 s, with a single client
//! and with 1,000. Answers that a process of their own computes (reports, comparisons of sessions) have no limit: pages show
//! them when they come.
//!
//! On 2 cores of an AMD EPYC with 24 GB (release build, 2026-11-23), with 1,000,000 iterations in 1,210 sessions:
//!
//! | first byte of | median | 95th percentile | first |
//! |---|--:|--:|--:|
//! | `/` | 5 ms | 9 ms | 6 ms |
//! | `/projects/p/sessions?limit=50` | 110 ms | 136 ms | 767 ms |
//! | `/projects/p/sessions/1210` | 103 ms | 138 ms | 131 ms |
//! | `/projects/p/sessions/1210/iterations?limit=50` | 8 ms | 9 ms | 12 ms |
//! | `/projects/p/iterations?limit=50&sort=speedup` | 9 ms | 10 ms | 49 ms |
//! | `/projects/p/iterations?limit=50&family=attention-mma` | 106 ms | 130 ms | 3.0 s |
//! | `/projects/p/iterations?limit=1000` | 20 ms | 21 ms | 23 ms |
//! | `/projects/p/iterations/500000` | 149 ms | 182 ms | 367 ms |
//! | `/projects/p/sessions/1210/report?format=html` | 1.2 s | 1.5 s | 7.1 s |
//!
//! The first call reads from the disk what later ones find in memory. One client gets an event 95 ms after it is in the log
//! (95th percentile; at most 101 ms). With 1,000 clients, it takes 260 ms (at most 283 ms), and the service uses 17% of a
//! core and 50 MiB.

mod events;
mod first_bytes;
#[path = "../large/mod.rs"]
mod large;
mod server;

fn main() {
    // Cargo adds the argument `--bench`.
    let iterations = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(1_000_000);
    let mut missed = first_bytes::measure(iterations);
    for streams in [1, 1000] {
        missed.extend(events::measure(streams));
    }
    assert!(missed.is_empty(), "over the limit: {missed:?}");
}

/// Returns a percentile of times, in milliseconds.
fn percentile_ms(times: &mut [std::time::Duration], percent: usize) -> f64 {
    times.sort();
    times[(times.len() * percent).div_ceil(100).max(1) - 1].as_secs_f64() * 1e3
}
