//! Figures for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::schedule::Room;
use crate::domain::submission::SubmissionState;

/// What a service counts.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(String, u16), Requests>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Requests {
    count: u64,
    seconds: f64,
}

impl Metrics {
    /// Counts an answer. The route is a pattern of the API, so clients cannot make up new ones.
    pub fn count(&self, route: &str, status: u16, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = requests.entry((route.to_owned(), status)).or_default();
        counted.count += 1;
        counted.seconds += took.as_secs_f64();
    }

    /// Returns all figures in the text format. `open` are the open connections and event streams.
    pub fn text(&self, submissions: &[(SubmissionState, u64)], room: &Room, open: [usize; 2]) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in rows {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let states =
            submissions.iter().map(|(state, count)| (format!("{{state=\"{}\"}}", state.name()), *count as f64));
        family("optloop_submissions", "gauge", "Submissions in each state.", states.collect());
        let gpus = vec![(String::new(), room.gpus.len() as f64)];
        family("optloop_gpus", "gauge", "GPUs that the service uses.", gpus);
        let [connections, streams] = open.map(|open| vec![(String::new(), open as f64)]);
        family("optloop_http_connections", "gauge", "Open connections.", connections);
        family("optloop_event_streams", "gauge", "Open event streams.", streams);
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = |value: fn(&Requests) -> f64| {
            let labels = |(route, status): &(String, u16)| format!("{{route=\"{route}\",status=\"{status}\"}}");
            requests.iter().map(|(key, counted)| (labels(key), value(counted))).collect::<Vec<_>>()
        };
        family("optloop_http_requests_total", "counter", "Answered requests.", rows(|counted| counted.count as f64));
        let seconds = "Time until the first byte of the answers.";
        family("optloop_http_seconds_total", "counter", seconds, rows(|counted| counted.seconds));
        text
    }
}
