//! Instants of the system's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::macros::datetime;

/// The last instant that RFC 3339 can write.
const LAST: OffsetDateTime = datetime!(9999-12-31 23:59:59.999 UTC);

/// Returns the current instant. A clock that is out of the years 1970 to 9999 counts as their first or last instant:
/// `OffsetDateTime::now_utc` would panic.
pub fn now() -> OffsetDateTime {
    of(SystemTime::now())
}

fn of(time: SystemTime) -> OffsetDateTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let instant = time::Duration::try_from(since).ok().and_then(|since| OffsetDateTime::UNIX_EPOCH.checked_add(since));
    instant.map_or(LAST, |instant| instant.min(LAST))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wrong_clock_is_an_instant_too() {
        let year = 365 * 86_400;
        let at = |seconds: u64| of(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
        assert_eq!(at(1_795_860_000), "2026-11-28 10:00:00.0 +00:00:00");
        assert_eq!([at(8000 * year), at(9000 * year)], ["9964-09-09 0:00:00.0 +00:00:00".to_owned(), LAST.to_string()]);
        assert_eq!(of(UNIX_EPOCH - Duration::from_secs(year)), OffsetDateTime::UNIX_EPOCH);
    }
}
