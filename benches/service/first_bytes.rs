//! The time to the first byte of each answer that a page needs.

use crate::large::{self, Project};
use crate::percentile_ms;
use crate::server::Server;

/// How often each answer is requested.
const TIMES: usize = 60;

/// How often an answer is requested that a process computes.
const FEW_TIMES: usize = 5;

const LIMIT_MS: f64 = 200.0;

/// Prints a table, and returns the paths that are over the limit.
pub fn measure(iterations: u64) -> Vec<String> {
    let store = large::store(iterations);
    let project = Project::new(Some(&store));
    let server = Server::start(&project);
    // The newest session is the long one. Of the others, the first of each three is the longest.
    let long = large::sessions(&store);
    let short = long / 6 * 3 + 1;
    let sessions = "/api/v1/projects/p/sessions";
    let all = "/api/v1/projects/p/iterations";
    let of_long = format!("{sessions}/{long}/iterations?limit=50");
    let pages = [
        "/".to_owned(),
        "/pages/main.js".to_owned(),
        "/api/v1/projects".to_owned(),
        "/api/v1/submissions?limit=50".to_owned(),
        format!("{sessions}?limit=50"),
        format!("{sessions}/{long}"),
        of_long.clone(),
        format!("{of_long}&reverse=true"),
        format!("{of_long}&sort=time"),
        format!("{of_long}&sort=speedup"),
        format!("{of_long}&case=b1h1s64&verdict=improved"),
        format!("{of_long}&origin=move"),
        format!("{all}?limit=50"),
        format!("{all}?limit=50&sort=time"),
        format!("{all}?limit=50&sort=speedup"),
        format!("{all}?limit=50&family=attention-mma"),
        format!("{all}?limit=50&verdict=improved"),
        format!("{all}?limit=1000"),
        format!("{all}/500"),
        format!("{all}/500/diff"),
        format!("{all}/{}", iterations / 2),
    ];
    let computed = [
        format!("{sessions}/{short}/report?format=html"),
        format!("{sessions}/{long}/report?format=html"),
        format!("/api/v1/projects/p/compare?what=sessions&a={short}&b={long}"),
    ];
    println!("\n{iterations} iterations in {long} sessions");
    println!("{:<66} {:>7} {:>7} {:>7} {:>9}", "first byte of", "median", "95th", "first", "KiB");
    let mut missed = Vec::new();
    let limits =
        pages.iter().map(|path| (path, TIMES, true)).chain(computed.iter().map(|path| (path, FEW_TIMES, false)));
    for (path, times, is_limited) in limits {
        let (first, bytes) = server.first_byte(path);
        let mut later: Vec<_> = (0..times).map(|_| server.first_byte(path).0).collect();
        let (median, high) = (percentile_ms(&mut later, 50), percentile_ms(&mut later, 95));
        let (first, kib) = (first.as_secs_f64() * 1e3, bytes as f64 / 1024.0);
        println!("{path:<66} {median:>4.0} ms {high:>4.0} ms {first:>4.0} ms {kib:>9.1}");
        if is_limited && high > LIMIT_MS {
            missed.push(path.clone());
        }
    }
    missed
}
