//! The time from an event in the log of a session to its arrival at every client that follows it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::large::Project;
use crate::percentile_ms;
use crate::server::Server;

/// How long the events of a running session are followed.
const FOLLOWED: Duration = Duration::from_secs(20);

const LIMIT_MS: f64 = 1000.0;

/// Follows a session on the fake device with this many clients. Prints how late events came, and returns what is over the
/// limit.
pub fn measure(streams: usize) -> Vec<String> {
    let project = Project::new(None);
    let server = Server::start(&project);
    let request = r#"{"project": "p", "request": {"workload": "attention-fp16-d64", "cases": ["b1h1s64"], "device": "fake", "budget": "1h"}}"#;
    assert!(answer(server.send("POST", "/api/v1/submissions", request).0).contains(" 201 "));
    let connections: Vec<_> = (0..streams).map(|_| server.send("GET", "/api/v1/submissions/1/events", "").0).collect();
    let opened = Instant::now();
    let log = project.path().parent().unwrap().join("optloop/service/logs/1.jsonl");
    let is_over = AtomicBool::new(false);
    let (written, received, usage) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| watch(&log, &is_over));
        let clients: Vec<_> = connections.into_iter().map(|stream| scope.spawn(|| follow(stream))).collect();
        let (before, _) = server.usage();
        std::thread::sleep(FOLLOWED);
        let (after, peak) = server.usage();
        assert!(answer(server.send("POST", "/api/v1/submissions/1/cancel", "{}").0).contains(" 200 "));
        let received: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        (writer.join().unwrap(), received, (after - before, peak))
    });
    let mut late = Vec::new();
    for (client, events) in received.iter().enumerate() {
        let ids: Vec<u64> = events.iter().map(|(id, _)| *id).collect();
        assert!(ids.iter().eq(written.keys()), "client {client} got {} of {} events", ids.len(), written.len());
        let new = events.iter().filter(|(id, _)| written[id] > opened);
        late.extend(new.map(|(id, came)| came.saturating_duration_since(written[id])));
    }
    let (median, high) = (percentile_ms(&mut late, 50), percentile_ms(&mut late, 95));
    let most = percentile_ms(&mut late, 100);
    println!("\n{streams} clients, {} events: each client got each event once", written.len());
    println!("  late by {median:.0} ms (median), {high:.0} ms (95th percentile), {most:.0} ms (most)");
    println!("  the service used {:.1} s of processor time in {FOLLOWED:?}, and {:.0} MiB", usage.0, usage.1);
    if most > LIMIT_MS { vec![format!("an event with {streams} clients")] } else { Vec::new() }
}

/// Looks at a log until `is_over`, and returns when each event was there, by the offset behind it.
fn watch(log: &Path, is_over: &AtomicBool) -> BTreeMap<u64, Instant> {
    let mut lines = BufReader::new(std::fs::File::open(log).unwrap());
    let (mut found, mut offset, mut line) = (BTreeMap::new(), 0, String::new());
    loop {
        let last_look = is_over.load(Ordering::Relaxed);
        while lines.read_line(&mut line).unwrap() > 0 {
            if line.ends_with('\n') {
                offset += line.len() as u64;
                found.insert(offset, Instant::now());
                line.clear();
            }
        }
        if last_look {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the ids of all events of a stream, and when they came.
fn follow(stream: TcpStream) -> Vec<(u64, Instant)> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| Some((line.strip_prefix("id: ")?.parse().ok()?, Instant::now()))).collect()
}

fn answer(stream: TcpStream) -> String {
    std::io::read_to_string(stream).unwrap()
}
