//! When a comparison has enough rounds.

use super::{MIN_ROUNDS, RESOLUTION, Role, noise, paired_ratio};
use crate::domain::statistics::Ratio;
use crate::domain::statistics::sampling::Sampling;

/// The distance of a ratio from 1, as a multiple of its uncertainty, at which more samples would change neither the
/// decision nor what a reader makes of the gain. Both are logarithms.
///
/// Without this rule, three comparisons with an initial kernel 500 times as slow took up to 1,780 samples and 6 s, because
/// the medians of the fast kernels were known to 0.1% only then. After 300 samples, their ratios to the baseline were 1.31 to
/// 1.36, and within 0.3% of the last ones (H100, 2026-11-26, `optloop start --workload attention-fp16-d64`).
const CLEAR: f64 = 10.0;

/// One side of a comparison in progress.
pub struct Progress<'a> {
    /// The role of the participant.
    pub role: Role,
    /// The samples so far, in nanoseconds.
    pub samples_ns: &'a [f64],
    /// The median of each group so far, in nanoseconds.
    pub groups_ns: &'a [f64],
    /// Executions in one sample.
    pub launches: u32,
    /// Samples of one group.
    pub group_size: usize,
    /// Whether it takes part in every round. One that is far behind skips most of them.
    pub is_in_every_round: bool,
}

/// Tells whether a comparison is complete. The challenger is the first side.
///
/// It is complete after at least [`MIN_ROUNDS`] rounds and the fewest samples, once all ratios are clear, once every
/// participant with groups of full size has a precise median, or once one participant may take no more samples.
///
/// A participant with smaller groups is more than twice as slow as the challenger. Its ratio need not be precise. Waiting for
/// its precision made comparisons with an initial kernel of some ms take 6 to 8 s instead of one (H200, 2026-11-22, `optloop
/// start --workload attention-fp16-d64`).
pub fn is_over(sides: &[Progress<'_>], sampling: &Sampling) -> bool {
    let regular = || sides.iter().filter(|side| side.is_in_every_round);
    let largest = regular().map(|side| side.group_size).max().unwrap_or(1);
    let share = |side: &Progress<'_>| sampling.share(side.group_size, largest);
    let has_least = |side: &Progress<'_>| side.samples_ns.len() >= MIN_ROUNDS * side.group_size;
    let is_full = |side: &&Progress<'_>| side.group_size == largest;
    regular().all(has_least)
        && (regular().any(|side| share(side).is_exhausted(side.samples_ns, side.launches))
            || regular().filter(is_full).all(|side| sampling.is_enough(side.samples_ns))
            || (regular().filter(is_full).all(|side| side.samples_ns.len() >= sampling.min_samples)
                && are_clear(sides)))
}

/// Tells whether the ratio of every participant is [`CLEAR`], given its interval, the noise of the A/A control and the
/// resolution of a comparison. A comparison with nothing but a control has no such ratio.
fn are_clear(sides: &[Progress<'_>]) -> bool {
    let Some((challenger, others)) = sides.split_first() else { return false };
    let ratio = |side: &Progress<'_>| paired_ratio(side.groups_ns, challenger.groups_ns);
    let noises =
        others.iter().filter(|side| side.role == Role::Control).map(|side| ratio(side).map_or(f64::INFINITY, noise));
    let noise = noises.fold(0.0, f64::max);
    // The ratio of a call is to another call.
    let has_ratio = |side: &&Progress<'_>| side.role != Role::Control && !side.role.is_by_call();
    let mut rivals = others.iter().filter(has_ratio).peekable();
    rivals.peek().is_some() && rivals.all(|side| ratio(side).is_some_and(|ratio| is_clear(ratio, noise)))
}

fn is_clear(Ratio { estimate, interval }: Ratio, noise: f64) -> bool {
    let half_width = (interval.hi / interval.lo).ln() / 2.0;
    estimate.ln().abs() >= CLEAR * half_width.max(noise).max(RESOLUTION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::statistics::median;

    const SAMPLING: Sampling = Sampling { min_samples: 20, max_samples: 40, relative_error: 0.01, max_ns: 1e9 };

    /// Tells whether a comparison of participants with these samples is over. The first is the challenger.
    fn is_over_after(sides: &[(Role, &[f64])], launches: &[u32], group_sizes: &[usize], sampling: &Sampling) -> bool {
        let groups_ns: Vec<Vec<f64>> = sides
            .iter()
            .zip(group_sizes)
            .map(|((_, samples_ns), size)| samples_ns.chunks(*size).filter_map(median).collect())
            .collect();
        let sides: Vec<Progress<'_>> = sides
            .iter()
            .zip(&groups_ns)
            .zip(launches.iter().zip(group_sizes))
            .map(|((&(role, samples_ns), groups_ns), (&launches, &group_size))| Progress {
                role,
                samples_ns,
                groups_ns,
                launches,
                group_size,
                is_in_every_round: true,
            })
            .collect();
        is_over(&sides, sampling)
    }

    #[test]
    fn a_comparison_goes_on_until_every_participant_is_precise_or_one_may_take_no_more() {
        let (precise, vague) = (vec![100.0; 20], [[90.0, 110.0]; 10].concat());
        let over = |[challenger, other]: [&[f64]; 2], launches: [u32; 2]| {
            let sides = [(Role::Challenger, challenger), (Role::Incumbent, other)];
            is_over_after(&sides, &launches, &[1, 1], &SAMPLING)
        };
        assert!(over([&precise, &precise], [1, 1]));
        assert!(!over([&precise, &vague], [1, 1]), "one is not precise");
        assert!(!over([&precise, &precise[..19]], [1, 1]), "one has less than the least");
        assert!(over([&precise, &[100.0; 40]], [1, 1]));
        assert!(over([&vague, &vague.repeat(2)], [1, 1]), "no more than the most");
        assert!(over([&precise, &vague], [1, 500_000]), "2,000 ns of 500,000 launches each are a second");
        assert!(!over([&precise, &vague], [1, 499_999]));
        let sampling = Sampling { min_samples: 60, max_samples: 200, ..SAMPLING };
        let slow = |slow: &[f64]| {
            let sides = [(Role::Challenger, [100.0; 60].as_slice()), (Role::Incumbent, slow)];
            is_over_after(&sides, &[1, 1], &[4, 2], &sampling)
        };
        assert!(!slow(&[1e5; 23]) && slow(&[1e5; 24]), "a slow participant needs only the least rounds");
        assert!(slow(&[[0.9e5, 1.1e5]; 12].concat()), "its time need not be precise");
        let endless = Sampling { max_ns: 1.0, ..sampling };
        let rounds = |rounds| is_over_after(&[(Role::Challenger, &vec![100.0; rounds * 4])], &[1], &[4], &endless);
        assert!(!rounds(MIN_ROUNDS - 1) && rounds(MIN_ROUNDS), "time does not end it before there is an interval");
    }

    /// The samples of all participants move together by 4%, as those of a clock with two states, so that no median is
    /// precise.
    #[test]
    fn a_comparison_ends_early_if_its_ratios_are_clear() {
        let moving =
            |ns: f64| -> Vec<f64> { (0..24).map(|round| ns * (1.0 + 0.04 * f64::from(round / 2 % 2))).collect() };
        let over = |sides: &[(Role, f64)]| {
            let samples: Vec<_> = sides.iter().map(|(role, ns)| (*role, moving(*ns))).collect();
            let sides: Vec<(Role, &[f64])> =
                samples.iter().map(|(role, samples)| (*role, samples.as_slice())).collect();
            is_over_after(&sides, &vec![1; sides.len()], &vec![1; sides.len()], &SAMPLING)
        };
        let [challenger, control, baseline] =
            [(Role::Challenger, 100.0), (Role::Control, 100.5), (Role::Baseline, 130.0)];
        assert!(over(&[challenger, control, baseline]));
        assert!(!over(&[challenger, control]), "a control has nothing to show");
        assert!(
            !over(&[challenger, control, (Role::Incumbent, 104.0), baseline]),
            "4% is not far beyond a noise of 0.5%"
        );
        assert!(over(&[challenger, (Role::Incumbent, 104.0), baseline]), "there is no noise to exceed");
        assert!(!over(&[challenger, (Role::Incumbent, 100.0)]), "equal times are not clear");
    }
}
