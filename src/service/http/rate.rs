//! Limits how many requests a client may send: a bucket of tokens for each, which fills over time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Requests at once, after a pause.
const BURST: f64 = 200.0;

/// Requests per second in the long run. A page sends a handful when it opens.
const PER_SECOND: f64 = 50.0;

/// The most clients that are known at once. A client that is forgotten has a full bucket.
const MAX_CLIENTS: usize = 10_000;

/// The buckets of all clients.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    /// Takes a token of a client. Returns whether there was one.
    pub fn admit(&self, client: &str, now: Instant) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_CLIENTS && !buckets.contains_key(client) {
            buckets.retain(|_, bucket| bucket.at_time(now).left < BURST);
            if buckets.len() >= MAX_CLIENTS {
                return false;
            }
        }
        let full = Bucket { left: BURST, at: now };
        let bucket = buckets.entry(client.to_owned()).or_insert(full);
        *bucket = bucket.at_time(now);
        let is_admitted = bucket.left >= 1.0;
        if is_admitted {
            bucket.left -= 1.0;
        }
        is_admitted
    }
}

impl Bucket {
    fn at_time(self, now: Instant) -> Self {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        Self { left: (self.left + seconds * PER_SECOND).min(BURST), at: now }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_that_sends_too_much_waits_and_others_do_not() {
        let (rates, now) = (Rates::default(), Instant::now());
        assert!((0..200).all(|_| rates.admit("a", now)));
        assert!(!rates.admit("a", now) && rates.admit("b", now));
        let later = now + Duration::from_millis(100);
        assert_eq!((0..10).filter(|_| rates.admit("a", later)).count(), 5);
    }
}
