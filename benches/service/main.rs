//! How soon a service answers with a large store, and how soon an event reaches its clients.
//!
//! `cargo bench --bench service [-- ITERATIONS]` uses the store of the benchmark `history`, with 1,000,000 iterations. Limits
//! are checked: the first byte of an answer in 200 ms at the 95th percentile, and an event within 1 s, with a single client
//! and with 1,000. Answers that a process of their own computes (reports, comparisons of sessions) have no limit: pages show
//! them when they come.

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
