use super::*;
use crate::domain::measurement::conditions::{RecordedTime, compare, tests::conditions};
use crate::domain::statistics::rank_interval;
use crate::domain::statistics::synthetic::{Machine, Noise, repeats};

const ROUNDS: usize = 50;
const GROUP_SIZE: usize = 10;
const NS: f64 = 20_000.0;

/// A participant with these groups, also for tests of other modules.
pub(crate) fn participant(role: Role, groups_ns: Vec<f64>) -> Participant {
    Participant {
        role,
        name: format!("{role:?}"),
        iteration: None,
        timing: timing(&groups_ns),
        groups_ns,
        correctness: None,
        machine: None,
        energy_j: None,
        graph_node_ns: None,
        wrong: None,
    }
}

/// A comparison of these participants, also for tests of other modules.
pub(crate) fn comparison(participants: Vec<Participant>) -> Comparison {
    Comparison {
        conditions: conditions(),
        participants,
        group_size: GROUP_SIZE,
        discarded_rounds: 0,
        winners_curse: None,
        floor_ns: None,
        others: Vec::new(),
        wall_s: None,
    }
}

/// Uses the interval of ranks. The bootstrap's is as wide, but thousands of bootstraps would take minutes.
fn timing(samples: &[f64]) -> Timing {
    let interval_ns = rank_interval(samples).unwrap();
    Timing { interval_ns, ..Timing::modelled(median(samples).unwrap()) }
}

/// Compares kernels with these times on a machine with this noise.
fn simulate(noise: Noise, seed: u64, rounds: usize, kernels: &[(Role, f64)]) -> Comparison {
    let mut machine = Machine::new(noise, seed);
    let mut groups = vec![Vec::new(); kernels.len()];
    for round in 0..rounds {
        for index in order(kernels.len(), round) {
            groups[index].extend(median(&machine.samples(kernels[index].1, GROUP_SIZE)));
        }
    }
    comparison(kernels.iter().zip(groups).map(|(&(role, _), groups)| participant(role, groups)).collect())
}

/// Returns the seeds of simulated comparisons.
fn seeds() -> std::ops::Range<u64> {
    0..repeats(40, 200)
}

/// Returns in which share of comparisons `found` holds.
fn share(noise: Noise, other: (Role, f64), found: impl Fn(&Comparison, &Participant) -> bool) -> f64 {
    let kernels = [(Role::Challenger, NS), (Role::Control, NS), other];
    let comparisons = seeds().map(|seed| simulate(noise, seed, ROUNDS, &kernels));
    let found = comparisons.filter(|comparison| found(comparison, &comparison.participants[2])).count();
    found as f64 / seeds().count() as f64
}

#[test]
fn every_second_round_goes_backwards_and_every_pair_begins_with_another() {
    assert_eq!([order(3, 0), order(3, 1)], [[0, 1, 2], [2, 1, 0]]);
    assert_eq!([order(3, 2), order(3, 3)], [[1, 2, 0], [0, 2, 1]]);
    assert_eq!(order(3, 6), order(3, 0));
}

/// At most 5% of A/A comparisons may have a winner. With the noise of the A/A control added, nearly all have none.
#[test]
fn a_kernel_does_not_beat_itself() {
    for (name, noise) in Noise::KINDS {
        let called = share(noise, (Role::Incumbent, NS), |comparison, other| {
            comparison.beats(other) || comparison.loses_to(other)
        });
        assert!(called <= 0.01, "{name}: {called} of the A/A comparisons have a winner");
    }
}

/// Without the noise added, the interval of an A/A comparison misses 1 as often as a 95% interval may. Of 200,
/// that is binomial(200, 0.05), with mean 10 and standard deviation 3.1.
#[test]
fn the_interval_of_the_ratio_covers_the_true_ratio_as_often_as_it_says() {
    for (name, noise) in Noise::KINDS {
        let missed = share(noise, (Role::Incumbent, 1.02 * NS), |comparison, other| {
            let Interval { lo, hi } = comparison.over_challenger(other).unwrap().interval;
            !(lo..=hi).contains(&1.02)
        });
        assert!((repeats(0.0, 0.005)..=repeats(0.15, 0.1)).contains(&missed), "{name}: {missed} of the intervals");
    }
}

#[test]
fn an_advantage_of_two_percent_is_found() {
    for (name, noise) in Noise::KINDS {
        let found = share(noise, (Role::Incumbent, 1.02 * NS), Comparison::beats);
        assert!(found >= 0.95, "{name}: {found} of the comparisons find it");
        let lost = share(noise, (Role::Incumbent, 0.98 * NS), Comparison::loses_to);
        assert!(lost >= 0.95, "{name}: {lost} of the comparisons find the disadvantage");
    }
}

/// The same kernel twice, 500 samples after 500 samples, as in tools that time one variant after the other.
#[test]
fn drift_misleads_two_series_but_not_a_comparison() {
    for (name, noise, least_fooled) in [("drift", Noise::DRIFT, 0.95), ("bimodal", Noise::BIMODAL, 0.4)] {
        let fooled = seeds().filter(|&seed| {
            let mut machine = Machine::new(noise, seed);
            let mut figure = || RecordedTime {
                conditions: conditions(),
                name: "a kernel".to_owned(),
                timing: timing(&machine.samples(NS, ROUNDS * GROUP_SIZE)),
            };
            let Interval { lo, hi } = compare(&figure(), &figure()).unwrap().interval;
            // A difference that would be worth a commit.
            hi < 0.995 || lo > 1.005
        });
        let fooled = fooled.count() as f64 / seeds().count() as f64;
        assert!(fooled >= least_fooled, "{name}: only {fooled} of the pairs of series look different by 0.5%");
        let called = share(noise, (Role::Incumbent, NS), |comparison, other| {
            let Interval { lo, hi } = comparison.over_challenger(other).unwrap().interval;
            hi < 0.995 || lo > 1.005
        });
        assert_eq!(called, 0.0, "{name}: so many comparisons look different by 0.5%");
    }
}

/// On a machine that only gets slower, two rounds cancel the drift.
#[test]
fn a_linear_drift_cancels() {
    let steep = Noise { drift: 0.1, ..Noise::default() };
    let kernels = [(Role::Challenger, NS), (Role::Incumbent, NS), (Role::Baseline, 2.0 * NS)];
    let comparison = simulate(steep, 0, MIN_ROUNDS, &kernels);
    let (_, one) = comparison.against(Role::Incumbent).unwrap();
    let (_, two) = comparison.against(Role::Baseline).unwrap();
    assert!((one.estimate - 1.0).abs() < 1e-5 && (two.estimate - 2.0).abs() < 1e-5, "{one:?} {two:?}");
    let within = comparison.participants[1].groups_ns[0] / comparison.participants[0].groups_ns[0];
    assert!(within > 1.0009, "without the second round it is {within}");
}

#[test]
fn a_comparison_of_too_few_rounds_has_no_ratio_and_no_winner() {
    let kernels = [(Role::Challenger, NS), (Role::Control, NS), (Role::Incumbent, 1.9 * NS)];
    let brief = simulate(Noise::WHITE, 0, MIN_ROUNDS - 1, &kernels);
    assert!(brief.against(Role::Incumbent).is_none() && !brief.beats(&brief.participants[2]));
    let enough = simulate(Noise::WHITE, 0, MIN_ROUNDS, &kernels);
    assert!(enough.beats(&enough.participants[2]));
}

/// An initial kernel of two seconds is a thousand times as slow as the challenger. Two rounds show that.
#[test]
fn a_participant_far_behind_takes_part_in_two_rounds() {
    assert_eq!(rounds(&[2e5, 2e5, 2e9, 3e5]), [usize::MAX, usize::MAX, FAR_ROUNDS, usize::MAX]);
    assert_eq!(rounds(&[2e5, 5e6]), [usize::MAX; 2], "it costs nothing to sample it in every round");
    assert_eq!(rounds(&[1e8, 9e8]), [usize::MAX; 2], "it is not far behind");
    for (name, noise) in Noise::KINDS {
        let missed = seeds().filter(|&seed| {
            let mut comparison = simulate(noise, seed, ROUNDS, &[(Role::Challenger, NS), (Role::Incumbent, 1e3 * NS)]);
            comparison.participants[1].groups_ns.truncate(FAR_ROUNDS);
            let (far, ratio) = comparison.against(Role::Incumbent).unwrap();
            assert!(comparison.beats(far), "{name}: {ratio:?}");
            !(ratio.interval.lo..=ratio.interval.hi).contains(&1e3)
        });
        let missed = missed.count() as f64 / seeds().count() as f64;
        assert!(missed <= 0.15, "{name}: {missed} of the intervals miss the true ratio");
    }
}

#[test]
fn a_sample_group_is_short_enough_for_the_required_rounds() {
    let sampling = Sampling { min_samples: 500, max_samples: 2000, relative_error: 0.001, max_ns: 60e9 };
    assert_eq!(group_sizes(10, &sampling, &[2e5, 4e5]), [10, 10]);
    assert_eq!(group_sizes(10, &Sampling { min_samples: 60, ..sampling }, &[2e5]), [5]);
    assert_eq!(group_sizes(10, &sampling, &[2e5, 8e5, 64e6]), [10, 5, 1], "a slow participant samples less");
    assert_eq!(group_sizes(10, &sampling, &[2e6, 2e6, 3e5]), [10, 10, 10], "the challenger never does");
}

#[test]
fn among_near_ties_the_challenger_stays_unless_a_near_tie_beats_it() {
    let settled = |seed, near_ties: [f64; 2]| {
        let [a, b] = near_ties.map(|share| (Role::NearTie, share * NS));
        let kernels = [(Role::Challenger, NS), (Role::Control, NS), (Role::Baseline, 0.5 * NS), a, b];
        beating(&simulate(Noise::ALL, seed, ROUNDS, &kernels)).first().copied().unwrap_or(0)
    };
    let all = repeats(20, 100);
    let count = |near_ties, expected| (0..all).filter(|&seed| settled(seed, near_ties) == expected).count() as u64;
    let kept = count([1.0, 1.0], 0);
    assert!(kept >= all * 98 / 100, "{kept} of {all} comparisons of equals leave the challenger, and never a baseline");
    let (first, second) = (count([0.98, 0.99], 3), count([0.99, 0.97], 4));
    assert!(first.min(second) >= all * 95 / 100, "{first} and {second} of {all} comparisons find the fastest");
    let kernels = [1.0, 0.9, 0.5, 0.7].map(|share| share * NS);
    let kernels =
        [Role::Challenger, Role::NearTie, Role::NearTie, Role::NearTie].into_iter().zip(kernels).collect::<Vec<_>>();
    assert_eq!(beating(&simulate(Noise::WHITE, 0, ROUNDS, &kernels)), [2, 3, 1], "all that beat it, the fastest first");
}

#[test]
fn a_near_tie_below_the_floor_does_not_win() {
    let kernels = [(Role::Challenger, NS), (Role::Control, NS), (Role::NearTie, 0.5 * NS)];
    let mut comparison = simulate(Noise::WHITE, 0, ROUNDS, &kernels);
    assert_eq!(beating(&comparison), [2]);
    comparison.floor_ns = Some(0.9 * NS);
    assert!(beating(&comparison).is_empty());
}

#[test]
fn only_a_time_clearly_below_the_floor_is_an_error() {
    let mut comparison = comparison(vec![participant(Role::Challenger, vec![NS; 12])]);
    assert!(!comparison.below_floor(), "no floor is known");
    comparison.floor_ns = Some(1.02 * NS);
    assert!(!comparison.below_floor());
    comparison.floor_ns = Some(1.04 * NS);
    assert!(comparison.below_floor());
}

#[test]
fn screened_times_within_three_percent_are_a_tie() {
    assert!(near_tie(102.9, 100.0) && near_tie(99.0, 100.0) && !near_tie(103.1, 100.0));
}
