//! Limits how many requests a client may send, and how many an address may send in vain: a bucket of tokens for each,
//! which fills over time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The requests of a client. A page sends a handful when it opens.
pub const REQUESTS: Rate = Rate { burst: 200.0, per_second: 50.0 };

/// The requests that an address may send without a right to be answered. A script that has lost its token tries again now
/// and then.
pub const FAILURES: Rate = Rate { burst: 60.0, per_second: 1.0 };

/// The most clients that are known at once. A client that is forgotten has a full bucket.
const MAX_CLIENTS: usize = 10_000;

/// How fast something may happen.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// How often at once, after a pause.
    burst: f64,
    /// How often per second in the long run.
    per_second: f64,
}

/// The buckets of all clients.
#[derive(Debug)]
pub struct Rates {
    rate: Rate,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    /// Makes full buckets.
    pub fn new(rate: Rate) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Takes a token of a client. Returns whether there was one.
    pub fn admit(&self, client: &str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_CLIENTS && !buckets.contains_key(client) {
            buckets.retain(|_, bucket| bucket.at_time(self.rate, now).left < self.rate.burst);
            if buckets.len() >= MAX_CLIENTS {
                return false;
            }
        }
        let full = Bucket { left: self.rate.burst, at: now };
        let bucket = buckets.entry(client.to_owned()).or_insert(full);
        *bucket = bucket.at_time(self.rate, now);
        let is_admitted = bucket.left >= 1.0;
        if is_admitted {
            bucket.left -= 1.0;
        }
        is_admitted
    }
}

impl Bucket {
    fn at_time(self, rate: Rate, now: Instant) -> Self {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        Self { left: (self.left + seconds * rate.per_second).min(rate.burst), at: now }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_that_sends_too_much_waits_and_others_do_not() {
        let (rates, now) = (Rates::new(REQUESTS), Instant::now());
        assert!((0..200).all(|_| rates.admit("a", now)));
        assert!(!rates.admit("a", now) && rates.admit("b", now));
        let later = now + Duration::from_millis(100);
        assert_eq!((0..10).filter(|_| rates.admit("a", later)).count(), 5);
    }
}
