//! What more of the same search would gain, extrapolated from the second half of this one.
//!
//! Improvements become rarer: ten recorded sessions of 7 minutes had found 43 of them when half of their search was
//! over, and 21 more at its end. If their rate falls with the time searched, as that of records does in a series of
//! random numbers (Arnold, Balakrishnan and Nagaraja, Records, 1998, chapter 2), each doubling of that time brings
//! equally many. So another session is expected to find as many as the second half of this one. They are counted as a
//! Poisson process. Each improvement is taken to be as large as the median of the late ones, or of the last few.

use super::contract::Outlook;
use super::gains::Gains;
use crate::domain::statistics::median;

/// The shortest second half from which to extrapolate, in seconds.
const MIN_S: f64 = 10.0;

/// Variants from which a shorter search is extrapolated: as many as a session needs to stop by itself (decision 62).
const MIN_TRIED: u64 = 30;

/// Improvements from which a size is taken if the second half had fewer: two large ones do not make a rule.
const LAST_GAINS: usize = 5;

/// The upper 95% limit of a Poisson mean where no event was counted: -ln(0.025).
const NONE_COUNTED: f64 = 3.689;

/// The 97.5% quantile of the normal distribution.
const NORMAL: f64 = 1.96;

/// Extrapolates over another session as long as this one, which took `wall_s` seconds, tried `tried` variants, and would
/// search as long. No search gains more than `room`, the distance to the floor. None if the search was too short.
pub(super) fn of(gains: &Gains<'_>, cases: usize, room: Option<f64>, (wall_s, tried): (f64, u64)) -> Option<Outlook> {
    let search_s = gains.search_to_s - gains.search_from_s;
    let late_s = search_s / 2.0;
    if late_s < MIN_S && tried < MIN_TRIED || cases == 0 {
        return None;
    }
    let middle = gains.search_from_s + late_s;
    let late: Vec<f64> = gains.by_search().filter(|gain| gain.at_s > middle).map(|gain| gain.factor).collect();
    let last: Vec<f64> = gains.by_search().rev().take(LAST_GAINS).map(|gain| gain.factor).collect();
    let gain_size = median(if late.len() < LAST_GAINS { &last } else { &late });
    let expected = late.len() as f64;
    let interval = poisson_interval(late.len());
    let most = room.unwrap_or(f64::INFINITY).max(1.0);
    let factor = |count: f64| gain_size.map_or(1.0, |size| (count * size.ln() / cases as f64).exp().min(most));
    Some(Outlook {
        share_after_last_gain: gains.all.last().map(|last| (1.0 - last.at_s / wall_s).clamp(0.0, 1.0)),
        early_gains: (gains.by_search().count() - late.len()) as u64,
        late_gains: late.len() as u64,
        late_from_s: middle,
        late_s,
        gain_size,
        more_s: wall_s,
        expected_gains: expected,
        expected_gains_ci: interval,
        factor: [factor(interval[0]), factor(expected), factor(interval[1])],
    })
}

/// Returns the 95% interval of a Poisson mean from one count, by Byar's approximation of the exact limits (Breslow and
/// Day, Statistical Methods in Cancer Research II, 1987, page 69).
fn poisson_interval(count: usize) -> [f64; 2] {
    let byar =
        |count: f64, sign: f64| count * (1.0 - 1.0 / (9.0 * count) + sign * NORMAL / (3.0 * count.sqrt())).powi(3);
    match count {
        0 => [0.0, NONE_COUNTED],
        _ => [byar(count as f64, -1.0).max(0.0), byar(count as f64 + 1.0, 1.0)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::gains::Gain;
    use super::*;

    /// The exact limits are those of tables, such as Breslow and Day's.
    #[test]
    fn the_interval_of_a_count_is_that_of_the_tables() {
        for (count, [lo, hi]) in [(0, [0.0, 3.69]), (1, [0.03, 5.57]), (4, [1.09, 10.24]), (10, [4.80, 18.39])] {
            let found = poisson_interval(count);
            assert!((found[0] - lo).abs() < 0.02 && (found[1] - hi).abs() < 0.03, "{count}: {found:?}");
        }
    }

    /// 100 s of initial design and 400 s of search. Two gains of 1.02 are in the last 200 s: two more are expected.
    #[test]
    fn late_gains_are_extrapolated_and_early_ones_are_not() {
        let gain = |at_s, factor| Gain { at_s, case: "c", factor, by_search: true };
        let all = vec![gain(150.0, 3.0), gain(350.0, 1.02), gain(480.0, 1.02)];
        let gains = Gains { all, search_from_s: 100.0, search_to_s: 500.0 };
        let outlook = of(&gains, 10, None, (500.0, 0)).unwrap();
        assert_eq!((outlook.late_gains, outlook.more_s, outlook.expected_gains), (2, 500.0, 2.0));
        assert_eq!(outlook.early_gains, 1);
        assert_eq!(outlook.late_from_s, 300.0);
        assert!((outlook.share_after_last_gain.unwrap() - 0.04).abs() < 1e-9);
        assert!((outlook.factor[1] - 1.02_f64.powf(0.2)).abs() < 1e-9);
        assert!(outlook.factor[0] < outlook.factor[1] && outlook.factor[1] < outlook.factor[2]);
        let near_the_floor = of(&gains, 10, Some(1.001), (500.0, 0)).unwrap();
        assert_eq!(near_the_floor.factor, [outlook.factor[0], 1.001, 1.001]);
        let short = Gains { all: Vec::new(), search_from_s: 0.0, search_to_s: 15.0 };
        assert_eq!(of(&short, 10, None, (15.0, 29)), None);
        assert_eq!(of(&short, 10, None, (15.0, 30)).unwrap().factor[1], 1.0, "enough variants, none of them faster");
    }
}
