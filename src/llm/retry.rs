//! Decides when a request is sent again.

use std::time::Duration;

use time::format_description::well_known::Rfc2822;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::failure::Failure;

/// The longest wait between attempts, unless the server asks for a longer one.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The longest wait that a server may ask for. If it asks for more, the call fails, and the session goes on without.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// Returns how long to wait before attempt `attempts + 1`, or `None` if there should be none. Only a request that cost
/// nothing is sent again. Otherwise each further attempt could cost as much as the reserve of the call. `base` is the
/// longest wait after the first attempt; `random` is between 0 and 1.
///
/// Exponential backoff with full jitter: <https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter>
pub(super) fn wait(failure: &Failure, attempts: u32, retries: u32, base: Duration, random: f64) -> Option<Duration> {
    if !failure.may_pass || failure.may_be_billed || attempts > retries {
        return None;
    }
    let longest = base.saturating_mul(1 << attempts.saturating_sub(1).min(20)).min(MAX_WAIT);
    let jitter = longest.mul_f64(random.clamp(0.0, 1.0));
    match failure.retry_after {
        Some(asked) if asked > MAX_RETRY_AFTER => None,
        // A server that asks many clients to wait for the same time should not get them all back at once.
        Some(asked) => Some(asked + jitter.min(Duration::from_secs(1))),
        None => Some(jitter),
    }
}

/// Reads a Retry-After header: seconds, or a date of HTTP (RFC 9110, 10.2.3).
pub(super) fn retry_after(header: &str, now: OffsetDateTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let http =
        format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");
    let date = PrimitiveDateTime::parse(header, http).map(PrimitiveDateTime::assume_utc);
    let date = date.or_else(|_| OffsetDateTime::parse(header, &Rfc2822)).ok()?;
    Some(Duration::try_from(date - now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-11-23 10:00:00 UTC);

    #[test]
    fn a_server_may_ask_to_wait_in_seconds_or_until_a_date() {
        let seconds = |header| retry_after(header, NOW).map(|wait| wait.as_secs());
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!(seconds("Mon, 23 Nov 2026 10:00:20 GMT"), Some(20));
        assert_eq!(seconds("Mon, 23 Nov 2026 09:00:00 GMT"), Some(0), "a date in the past");
        assert_eq!((seconds("soon"), seconds("-1"), seconds("1e9")), (None, None, None));
    }

    #[test]
    fn waits_grow_and_end() {
        let base = Duration::from_secs(1);
        let busy = |retry_after| Failure::of_status(429, "", retry_after);
        let waits = (1..=8).map(|attempts| wait(&busy(None), attempts, 7, base, 1.0).map(|wait| wait.as_secs()));
        let expected = [Some(1), Some(2), Some(4), Some(8), Some(16), Some(30), Some(30), None];
        assert_eq!(waits.collect::<Vec<_>>(), expected);
        assert_eq!(wait(&busy(None), 1, 7, base, 0.25), Some(Duration::from_millis(250)));
        assert_eq!(wait(&busy(Some(Duration::from_secs(9))), 1, 7, base, 0.5), Some(Duration::from_millis(9500)));
        assert_eq!(wait(&busy(Some(Duration::from_secs(121))), 1, 7, base, 0.5), None, "too long");
    }

    #[test]
    fn requests_that_may_have_been_billed_are_not_retried() {
        let again = |failure: Failure| wait(&failure, 1, 7, Duration::ZERO, 1.0).is_some();
        assert!([429, 500, 502, 503, 529].into_iter().all(|status| again(Failure::of_status(status, "", None))));
        assert!(
            ![301, 400, 401, 403, 404, 408, 504].into_iter().any(|status| again(Failure::of_status(status, "", None)))
        );
        assert!(!again(Failure::in_stream("overloaded_error", "busy")) && !again(Failure::protocol("x")));
    }
}
