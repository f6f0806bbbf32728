//! What more of the same search would gain, extrapolated from the second half of this one.
//!
//! Improvements become rarer: ten recorded sessions of 7 minutes had found 43 of them when half of their search was
//! over, and 21 more at its end. If their rate falls with the time searched, as that of records does in a series of
//! random numbers (Arnold, Balakrishnan and Nagaraja, Records, 1998, chapter 2), each doubling of that time brings
//! equally many. So another session is expected to find as many as the second half of this one. Each improvement is taken
//! to be as large as the median of the late ones, or of the last few.

use super::contract::Outlook;
use super::gains::Gains;
use crate::domain::statistics::median;

/// The shortest second half from which to extrapolate, in seconds.
const MIN_S: f64 = 10.0;

/// Variants from which a shorter search is extrapolated: as many as a session needs to stop by itself (decision 62).
const MIN_TRIED: u64 = 30;

/// Improvements from which a size is taken if the second half had fewer: two large ones do not make a rule.
const LAST_GAINS: usize = 5;

/// Extrapolates over another session as long as this one, which took `wall_s` seconds, tried `tried` variants, and would
/// search as long. No search gains more than `room`, the distance to the floor. None if the search was too short.
pub(super) fn of(gains: &Gains<'_>, cases: usize, room: Option<f64>, (wall_s, tried): (f64, u64)) -> Option<Outlook> {
    let half_s = (gains.search_to_s - gains.search_from_s) / 2.0;
    if half_s < MIN_S && tried < MIN_TRIED || cases == 0 {
        return None;
    }
    let middle = gains.search_from_s + half_s;
    let late: Vec<f64> = gains.by_search().filter(|gain| gain.at_s > middle).map(|gain| gain.factor).collect();
    let last: Vec<f64> = gains.by_search().rev().take(LAST_GAINS).map(|gain| gain.factor).collect();
    let gain_size = median(if late.len() < LAST_GAINS { &last } else { &late });
    let most = room.unwrap_or(f64::INFINITY).max(1.0);
    let expected = gain_size.map_or(1.0, |size| (late.len() as f64 * size.ln() / cases as f64).exp().min(most));
    Some(Outlook {
        since_last_gain_s: gains.all.last().map(|last| (wall_s - last.at_s).max(0.0)),
        early_gains: (gains.by_search().count() - late.len()) as u64,
        late_gains: late.len() as u64,
        half_s,
        gain_size,
        expected,
    })
}

#[cfg(test)]
mod tests {
    use super::super::gains::Gain;
    use super::*;

    fn gains(times: &[f64]) -> Gains<'static> {
        let gain = |at_s: &f64| Gain { at_s: *at_s, case: "c", factor: 1.1, by_search: true };
        Gains { all: times.iter().map(gain).collect(), search_from_s: 0.0, search_to_s: 200.0 }
    }

    #[test]
    fn another_session_is_expected_to_find_as_many_as_the_second_half() {
        let told = |gains: &Gains<'_>, room| of(gains, 2, room, (220.0, 90)).unwrap();
        let outlook = told(&gains(&[20.0, 40.0, 120.0, 180.0]), None);
        assert_eq!((outlook.early_gains, outlook.late_gains, outlook.since_last_gain_s), (2, 2, Some(40.0)));
        assert!((outlook.expected - 1.1).abs() < 1e-9, "two improvements of 1.1 on one of two cases each");
        assert_eq!(told(&gains(&[120.0, 180.0]), Some(1.02)).expected, 1.02, "the floor is near");
        assert_eq!(told(&gains(&[]), None).expected, 1.0);
        assert_eq!(of(&gains(&[]), 0, None, (220.0, 90)), None);
        let short = Gains { search_to_s: 15.0, ..gains(&[]) };
        assert_eq!(of(&short, 2, None, (20.0, 29)), None, "too short and too few to extrapolate from");
    }
}
