//! How much work a source is. No record says how long people write, so this is a published rule of thumb.
//!
//! Basic COCOMO for small teams: 2.4 person-months for each thousand lines, to the power of 1.05 (Boehm, Software
//! Engineering Economics, 1981, chapter 5). It was fitted to programs of 2,000 lines and more, so a kernel's few hundred
//! lines extrapolate it, and only the order of magnitude means anything.

/// Hours in a week of work.
const HOURS_A_WEEK: f64 = 40.0;

/// Weeks in a person-month of 152 hours.
const WEEKS_A_MONTH: f64 = 152.0 / HOURS_A_WEEK;

/// What an hour of work costs, in US dollars: an assumption, which the report names, so that a reader can scale it.
pub(super) const USD_AN_HOUR: f64 = 100.0;

/// Days in a week of work.
const DAYS_A_WEEK: f64 = 5.0;

/// Returns the weeks that one person needs to write so many lines, without empty ones.
fn weeks(lines: u64) -> f64 {
    2.4 * (lines as f64 / 1e3).powf(1.05) * WEEKS_A_MONTH
}

/// Says how long one person needs to write so many lines: `3 weeks`, `2 days`.
pub(super) fn of_lines(lines: u64) -> String {
    let weeks = weeks(lines);
    let (count, unit) = if weeks < 1.5 { (weeks * DAYS_A_WEEK, "day") } else { (weeks, "week") };
    super::format::counted(count.round().max(1.0) as usize, unit)
}

/// Returns what so many lines cost to write, in US dollars.
pub(super) fn usd_of_lines(lines: u64) -> f64 {
    weeks(lines) * HOURS_A_WEEK * USD_AN_HOUR
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boehm's own example: 32,000 lines take 91 person-months.
    #[test]
    fn effort_grows_with_the_lines() {
        assert!((weeks(32_000) / WEEKS_A_MONTH - 91.0).abs() < 1.0);
        assert_eq!([1, 120, 339, 415].map(of_lines), ["1 day", "5 days", "3 weeks", "4 weeks"]);
    }
}
