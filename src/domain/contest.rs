//! A contest: several kernels and baselines timed in turns, so that drift of the machine meets all of them alike.
//!
//! Entrants sample in blocks. A round is one block of each, in an order that is reversed from one round to the next (ABBA), so
//! that over two rounds a linear drift cancels. What counts is the ratio of two entrants within a round.
//!
//! The ratio of a contest is the median over pairs of rounds. Where a clock has two states, a change within a round spoils that
//! pair's ratio, and a median bears that for up to half of the pairs; a mean does not, and the Hodges-Lehmann estimate, which
//! is a little narrower on white noise, bears it for less than a third.

use serde::{Deserialize, Serialize};

use super::conditions::Conditions;
use super::evaluation::{Correctness, Timing};
use super::floor;
use super::machine::MachineSummary;
use super::sampling::Sampling;
use super::statistics::{Interval, median, median_interval};

/// Rounds without which a contest has no ratio. They make six pairs, the fewest of which an interval of the median holds the
/// true one 95 times of 100: of five, even the extremes do not.
pub const LEAST_ROUNDS: usize = 12;

/// The least share by which two times can be told apart. Who sampled before an entrant, and who after, leaves a trace: in 30 contests
/// of a kernel with itself on an H200 (2026-11-21, `optloop bench`, 3.3 us), the ratio was 0.9987 to 1.0003 and its intervals
/// were narrower than that.
const RESOLUTION: f64 = 0.002;

/// The same for a baseline, whose tensors are its own, in another process. Two copies of a kernel of 3.9 us, each with tensors of its
/// own, differed by 0.85% as long as they lived (H200, 2026-11-21, 40 contests).
const ANOTHER_PROCESS: f64 = 0.01;

/// How many times as slow as the challenger an entrant may be for blocks of full size. Nobody needs the ratio of two times so far
/// apart to a thousandth.
const SLOW: f64 = 2.0;

/// Over how much of the best screened time another is still within the noise of it. Both were screened once, minutes apart:
/// each is off by 0.2% where screening ends as it should, and the device's own samples of one kernel span 2.3% of the median
/// (1st to 99th percentile over 175 confirmations on an H200, 2026-11-20). Together that is 2.7%.
const NEAR_TIE: f64 = 0.03;

/// What an entrant stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the contest is about: always the first entrant.
    Challenger,
    /// The challenger again, with its own code and workspaces: what the two differ by is noise (the A/A control).
    Twin,
    /// What the challenger must beat.
    Incumbent,
    /// Another variant, too near to the challenger's time for a single measurement to part them.
    Rival,
    /// What a user would use instead.
    Baseline,
}

impl Role {
    /// Returns the word that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Challenger => "challenger",
            Self::Twin => "twin",
            Self::Incumbent => "incumbent",
            Self::Rival => "rival",
            Self::Baseline => "baseline",
        }
    }
}

/// One side of a contest, with its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// What it stands for.
    pub role: Role,
    /// For people: the variant's family and hash, or the baseline's backend.
    pub name: String,
    /// The iteration that brought it, where there is one.
    pub iteration: Option<i64>,
    /// Every sample of the rounds that count, in order.
    pub timing: Timing,
    /// Median of its block in each round that counts.
    pub blocks_ns: Vec<f64>,
    /// How close its timed output came; none for a baseline.
    pub correctness: Option<Correctness>,
    /// What the GPU was doing during its blocks, where NVML tells.
    pub machine: Option<MachineSummary>,
    /// Energy of one execution, where it was measured.
    pub energy_j: Option<f64>,
}

/// A contest that was held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// Under which the times were taken.
    pub conditions: Conditions,
    /// The entrants, the challenger first.
    pub entrants: Vec<Entrant>,
    /// Samples of one block.
    pub block: usize,
    /// Rounds thrown away because the GPU was throttled in one of their blocks.
    pub discarded_rounds: usize,
    /// The challenger's median over its median in screening: above 1, it had looked faster than it is.
    ///
    /// This is the winner's curse. What gets into a contest was chosen for its screened time, and of many variants that are
    /// alike the one is chosen whose noise was kindest. So a screened time flatters the winner by about the noise of screening,
    /// the more so the more variants there were, and only the contest's figures are reported.
    pub shrinkage: Option<f64>,
    /// No correct kernel is faster than this.
    pub floor_ns: Option<f64>,
    /// Other processes that were on the GPU, for people.
    pub others: Vec<String>,
}

/// How many times as fast one entrant is as another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The estimate: above 1, the challenger is the faster.
    pub estimate: f64,
    /// Its 95% interval.
    pub interval: Interval,
}

impl Contest {
    /// Returns what the contest is about.
    pub fn challenger(&self) -> Option<&Entrant> {
        self.entrants.first()
    }

    /// Returns the first entrant in a role, with its time over the challenger's.
    pub fn against(&self, role: Role) -> Option<(&Entrant, Ratio)> {
        let other = self.entrants.iter().find(|entrant| entrant.role == role)?;
        Some((other, self.over_challenger(other)?))
    }

    /// Returns an entrant's time over the challenger's: above 1, the challenger is the faster.
    pub fn over_challenger(&self, other: &Entrant) -> Option<Ratio> {
        paired_ratio(&other.blocks_ns, &self.challenger()?.blocks_ns)
    }

    /// Returns the noise: how far from 1 the interval of the A/A control reaches. 0 without a control.
    pub fn noise(&self) -> f64 {
        self.against(Role::Twin)
            .map_or(0.0, |(_, Ratio { interval, .. })| f64::max((interval.hi - 1.0).abs(), (1.0 - interval.lo).abs()))
    }

    /// Returns how far from 1 a ratio must be to be one: beyond the noise, and beyond the resolution of a contest.
    fn margin(&self, other: &Entrant) -> f64 {
        let least = if other.role == Role::Baseline { ANOTHER_PROCESS } else { RESOLUTION };
        self.noise().max(least)
    }

    /// Tells whether the challenger is faster than an entrant beyond the noise.
    pub fn beats(&self, other: &Entrant) -> bool {
        self.over_challenger(other).is_some_and(|ratio| ratio.interval.lo > 1.0 + self.margin(other))
    }

    /// Tells whether the challenger is slower than an entrant beyond the noise.
    pub fn loses_to(&self, other: &Entrant) -> bool {
        self.over_challenger(other).is_some_and(|ratio| ratio.interval.hi < 1.0 - self.margin(other))
    }

    /// Tells whether the challenger's time is below the floor: an error of the measurement, and no win.
    pub fn below_floor(&self) -> bool {
        self.challenger().is_some_and(|challenger| self.is_below_floor(challenger))
    }

    fn is_below_floor(&self, entrant: &Entrant) -> bool {
        self.floor_ns.is_some_and(|floor_ns| floor::refutes(floor_ns, entrant.timing.median_ns))
    }
}

/// Returns the index of the entrant that a contest among near-ties leaves as incumbent: the fastest of the rivals that beat the
/// challenger beyond the noise, or else the challenger, which has the earlier claim.
pub fn settle(contest: &Contest) -> usize {
    let entrants = contest.entrants.iter().enumerate();
    entrants
        .filter(|(_, entrant)| entrant.role == Role::Rival && contest.loses_to(entrant))
        .filter(|(_, rival)| !contest.is_below_floor(rival))
        .filter_map(|(index, rival)| Some((index, contest.over_challenger(rival)?.estimate)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map_or(0, |(index, _)| index)
}

/// Tells whether a screened time is too near to the best one for screening to part the two.
pub fn near_tie(screened_ns: f64, best_ns: f64) -> bool {
    screened_ns <= best_ns * (1.0 + NEAR_TIE)
}

/// Returns the samples of one block of each entrant, given how long one of its samples takes: as many as asked, but so few
/// that there are [`LEAST_ROUNDS`] rounds, and fewer the slower an entrant is beyond twice the challenger, which is the first.
///
/// Otherwise a seed kernel of 64 ms would take a minute for each contest with a challenger that needs none of it to win.
pub fn blocks(asked: usize, sampling: &Sampling, sample_ns: &[f64]) -> Vec<usize> {
    let most = (sampling.least / LEAST_ROUNDS).clamp(1, asked.max(1));
    let challenger_ns = sample_ns.first().copied().unwrap_or_default();
    let share = |ns: &f64| (SLOW * challenger_ns / ns).min(1.0);
    sample_ns.iter().map(|ns| ((most as f64 * share(ns)) as usize).max(1)).collect()
}

/// Tells whether a contest has all samples that it takes, given each entrant's samples, launches per sample and block: as soon
/// as every entrant has enough, or one of them may take no more, but not before there are [`LEAST_ROUNDS`] rounds. Smaller
/// blocks need as many rounds, so fewer samples.
pub fn is_over(samples_ns: &[impl AsRef<[f64]>], launches: &[u32], blocks: &[usize], sampling: &Sampling) -> bool {
    let largest = blocks.iter().copied().max().unwrap_or(1);
    let entrants = || {
        let series = samples_ns.iter().map(AsRef::as_ref).zip(launches);
        series.zip(blocks).map(|(series, &block)| (series, block, sampling.share(block, largest)))
    };
    entrants().all(|((samples, _), block, _)| samples.len() >= LEAST_ROUNDS * block)
        && (entrants().any(|((samples, &launches), _, sampling)| sampling.is_exhausted(samples, launches))
            || entrants().all(|((samples, _), _, sampling)| sampling.is_enough(samples)))
}

/// Returns the order in which entrants sample in a round: forwards, then backwards. Every pair of rounds begins with another
/// one: the first and the last of a round follow themselves at its end, which must not favour anyone.
pub fn order(entrants: usize, round: usize) -> Vec<usize> {
    let first = round / 2;
    let forwards = (0..entrants).map(|place| (first + place) % entrants);
    if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}

/// Returns the ratio of paired blocks, `over / under`, with the interval of its median over pairs of rounds.
///
/// Two rounds of opposite order make one pair: their logarithms are averaged, so that a linear drift cancels.
/// A last round without its counterpart is left out. `None` below [`LEAST_ROUNDS`].
pub fn paired_ratio(over: &[f64], under: &[f64]) -> Option<Ratio> {
    let logs: Vec<f64> = over.iter().zip(under).map(|(over, under)| (over / under).ln()).collect();
    let pairs: Vec<f64> = logs.as_chunks::<2>().0.iter().map(|[a, b]| f64::midpoint(*a, *b)).collect();
    if pairs.len() < LEAST_ROUNDS / 2 {
        return None;
    }
    let interval = median_interval(&pairs)?;
    Some(Ratio { estimate: median(&pairs)?.exp(), interval: Interval { lo: interval.lo.exp(), hi: interval.hi.exp() } })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::conditions::{Figure, compare, tests::conditions};
    use crate::domain::statistics::rank_interval;
    use crate::domain::synthetic::{Machine, Noise};

    const ROUNDS: usize = 50;
    const BLOCK: usize = 10;
    const NS: f64 = 20_000.0;

    /// An entrant with these blocks, for other modules' tests too.
    pub(crate) fn entrant(role: Role, blocks_ns: Vec<f64>) -> Entrant {
        Entrant {
            role,
            name: format!("{role:?}"),
            iteration: None,
            timing: timing(&blocks_ns),
            blocks_ns,
            correctness: None,
            machine: None,
            energy_j: None,
        }
    }

    /// A contest of these entrants, for other modules' tests too.
    pub(crate) fn contest(entrants: Vec<Entrant>) -> Contest {
        Contest {
            conditions: conditions(),
            entrants,
            block: BLOCK,
            discarded_rounds: 0,
            shrinkage: None,
            floor_ns: None,
            others: Vec::new(),
        }
    }

    /// The bootstrap's interval is of the same width, and thousands of them would take minutes.
    fn timing(samples: &[f64]) -> Timing {
        let interval_ns = rank_interval(samples).unwrap();
        Timing { interval_ns, ..Timing::modelled(median(samples).unwrap()) }
    }

    /// Holds a contest of kernels that take so long on a machine with such a noise.
    fn hold(noise: Noise, seed: u64, rounds: usize, kernels: &[(Role, f64)]) -> Contest {
        let mut machine = Machine::new(noise, seed);
        let mut blocks = vec![Vec::new(); kernels.len()];
        for round in 0..rounds {
            for index in order(kernels.len(), round) {
                blocks[index].extend(median(&machine.samples(kernels[index].1, BLOCK)));
            }
        }
        contest(kernels.iter().zip(blocks).map(|(&(role, _), blocks)| entrant(role, blocks)).collect())
    }

    /// Returns in how many of 200 contests `found` holds.
    fn of_200(noise: Noise, other: (Role, f64), found: impl Fn(&Contest, &Entrant) -> bool) -> usize {
        let kernels = [(Role::Challenger, NS), (Role::Twin, NS), other];
        let contests = (0..200).map(|seed| hold(noise, seed, ROUNDS, &kernels));
        contests.filter(|contest| found(contest, &contest.entrants[2])).count()
    }

    #[test]
    fn every_second_round_goes_backwards_and_every_pair_begins_with_another() {
        assert_eq!([order(3, 0), order(3, 1)], [[0, 1, 2], [2, 1, 0]]);
        assert_eq!([order(3, 2), order(3, 3)], [[1, 2, 0], [0, 2, 1]]);
        assert_eq!(order(3, 6), order(3, 0));
    }

    /// The issue allows a winner in 5% of A/A contests. Beyond the noise of the twin there is none in nearly all of them.
    #[test]
    fn a_kernel_does_not_beat_itself() {
        for (name, noise) in Noise::KINDS {
            let called =
                of_200(noise, (Role::Incumbent, NS), |contest, other| contest.beats(other) || contest.loses_to(other));
            assert!(called <= 2, "{name}: {called} of 200 A/A contests have a winner");
        }
    }

    /// Without the noise added, the interval of an A/A contest misses 1 as often as a 95% interval may: binomial(200, 0.05) has
    /// its mean at 10 and a standard deviation of 3.1.
    #[test]
    fn the_interval_of_the_ratio_covers_the_true_ratio_as_often_as_it_says() {
        for (name, noise) in Noise::KINDS {
            let missed = of_200(noise, (Role::Incumbent, 1.02 * NS), |contest, other| {
                let Interval { lo, hi } = contest.over_challenger(other).unwrap().interval;
                !(lo..=hi).contains(&1.02)
            });
            assert!((1..=20).contains(&missed), "{name}: {missed} of 200 intervals miss the true ratio");
        }
    }

    #[test]
    fn an_advantage_of_two_percent_is_found() {
        for (name, noise) in Noise::KINDS {
            let found = of_200(noise, (Role::Incumbent, 1.02 * NS), Contest::beats);
            assert!(found >= 190, "{name}: {found} of 200 contests find it");
            let lost = of_200(noise, (Role::Incumbent, 0.98 * NS), Contest::loses_to);
            assert!(lost >= 190, "{name}: {lost} of 200 contests find the disadvantage");
        }
    }

    /// The same kernel twice, 500 samples after 500 samples, as tools do that time one variant after the other.
    #[test]
    fn what_fools_two_series_one_after_the_other_does_not_fool_a_contest() {
        for (name, noise, least_fooled) in [("drift", Noise::DRIFT, 190), ("bimodal", Noise::BIMODAL, 80)] {
            let fooled = (0..200).filter(|&seed| {
                let mut machine = Machine::new(noise, seed);
                let mut figure = || Figure {
                    conditions: conditions(),
                    name: "a kernel".to_owned(),
                    timing: timing(&machine.samples(NS, ROUNDS * BLOCK)),
                };
                let Interval { lo, hi } = compare(&figure(), &figure()).unwrap().interval;
                // By as much as would be worth a commit.
                hi < 0.995 || lo > 1.005
            });
            let fooled = fooled.count();
            assert!(fooled >= least_fooled, "{name}: only {fooled} of 200 pairs of series look different by 0.5%");
            let called = of_200(noise, (Role::Incumbent, NS), |contest, other| {
                let Interval { lo, hi } = contest.over_challenger(other).unwrap().interval;
                hi < 0.995 || lo > 1.005
            });
            assert_eq!(called, 0, "{name}: so many contests look different by 0.5%");
        }
    }

    /// In a machine whose only fault is that it gets slower, two rounds make up for it.
    #[test]
    fn a_linear_drift_cancels() {
        let steep = Noise { drift: 0.1, ..Noise::default() };
        let kernels = [(Role::Challenger, NS), (Role::Incumbent, NS), (Role::Baseline, 2.0 * NS)];
        let contest = hold(steep, 0, LEAST_ROUNDS, &kernels);
        let (_, one) = contest.against(Role::Incumbent).unwrap();
        let (_, two) = contest.against(Role::Baseline).unwrap();
        assert!((one.estimate - 1.0).abs() < 1e-5 && (two.estimate - 2.0).abs() < 1e-5, "{one:?} {two:?}");
        let within = contest.entrants[1].blocks_ns[0] / contest.entrants[0].blocks_ns[0];
        assert!(within > 1.0009, "without the second round it is {within}");
    }

    #[test]
    fn a_contest_of_too_few_rounds_has_no_ratio_and_no_winner() {
        let kernels = [(Role::Challenger, NS), (Role::Twin, NS), (Role::Incumbent, 2.0 * NS)];
        let brief = hold(Noise::WHITE, 0, LEAST_ROUNDS - 1, &kernels);
        assert!(brief.against(Role::Incumbent).is_none() && !brief.beats(&brief.entrants[2]));
        let enough = hold(Noise::WHITE, 0, LEAST_ROUNDS, &kernels);
        assert!(enough.beats(&enough.entrants[2]));
    }

    #[test]
    fn a_block_is_so_short_that_there_are_enough_rounds() {
        let sampling = Sampling { least: 500, most: 2000, relative_error: 0.001, max_ns: 60e9 };
        assert_eq!(blocks(10, &sampling, &[2e5, 4e5]), [10, 10]);
        assert_eq!(blocks(10, &Sampling { least: 60, ..sampling }, &[2e5]), [5]);
        assert_eq!(blocks(10, &sampling, &[2e5, 8e5, 64e6]), [10, 5, 1], "a slow entrant samples less");
        assert_eq!(blocks(10, &sampling, &[2e6, 2e6, 3e5]), [10, 10, 10], "the challenger never does");
    }

    #[test]
    fn a_contest_goes_on_until_every_entrant_is_precise_or_one_may_take_no_more() {
        let sampling = Sampling { least: 20, most: 40, relative_error: 0.01, max_ns: 1e9 };
        let (precise, vague) = (vec![100.0; 20], [[90.0, 110.0]; 10].concat());
        let over =
            |samples: &[&Vec<f64>], launches: &[u32]| is_over(samples, launches, &vec![1; samples.len()], &sampling);
        assert!(over(&[&precise, &precise], &[1, 1]));
        assert!(!over(&[&precise, &vague], &[1, 1]), "one is not precise");
        assert!(!over(&[&precise, &precise[..19].to_vec()], &[1, 1]), "one has less than the least");
        assert!(over(&[&precise, &vec![100.0; 40]], &[1, 1]));
        assert!(over(&[&vague, &vague.repeat(2)], &[1, 1]), "no more than the most");
        assert!(over(&[&precise, &vague], &[1, 500_000]), "2,000 ns of 500,000 launches each are a second");
        assert!(!over(&[&precise, &vague], &[1, 499_999]));
        let sampling = Sampling { least: 60, most: 200, ..sampling };
        let slow = |fast, slow| is_over(&[vec![100.0; fast], vec![1e5; slow]], &[1, 1], &[4, 2], &sampling);
        assert!(!slow(60, 29) && slow(60, 30), "an entrant with half the block needs half the samples");
        let endless = Sampling { max_ns: 1.0, ..sampling };
        let rounds = |rounds| is_over(&[vec![100.0; rounds * 4]], &[1], &[4], &endless);
        assert!(!rounds(LEAST_ROUNDS - 1) && rounds(LEAST_ROUNDS), "time does not end it before there is an interval");
    }

    #[test]
    fn among_near_ties_the_challenger_stays_unless_a_rival_beats_it() {
        let settled = |seed, rivals: [f64; 2]| {
            let [a, b] = rivals.map(|share| (Role::Rival, share * NS));
            let kernels = [(Role::Challenger, NS), (Role::Twin, NS), (Role::Baseline, 0.5 * NS), a, b];
            settle(&hold(Noise::ALL, seed, ROUNDS, &kernels))
        };
        let count = |rivals, expected| (0..100).filter(|&seed| settled(seed, rivals) == expected).count();
        let kept = count([1.0, 1.0], 0);
        assert!(kept >= 98, "{kept} of 100 contests of equals leave the challenger, and never a baseline");
        let (first, second) = (count([0.98, 0.99], 3), count([0.99, 0.97], 4));
        assert!(first >= 95 && second >= 95, "{first} and {second} of 100 contests find the fastest");
    }

    #[test]
    fn a_rival_below_the_floor_does_not_win() {
        let kernels = [(Role::Challenger, NS), (Role::Twin, NS), (Role::Rival, 0.5 * NS)];
        let mut contest = hold(Noise::WHITE, 0, ROUNDS, &kernels);
        assert_eq!(settle(&contest), 2);
        contest.floor_ns = Some(0.9 * NS);
        assert_eq!(settle(&contest), 0);
    }

    #[test]
    fn only_what_is_clearly_below_the_floor_is_an_error() {
        let mut contest = contest(vec![entrant(Role::Challenger, vec![NS; 12])]);
        assert!(!contest.below_floor(), "no floor is known");
        contest.floor_ns = Some(1.02 * NS);
        assert!(!contest.below_floor());
        contest.floor_ns = Some(1.04 * NS);
        assert!(contest.below_floor());
    }

    #[test]
    fn screened_times_within_three_percent_are_a_tie() {
        assert!(near_tie(102.9, 100.0) && near_tie(99.0, 100.0) && !near_tie(103.1, 100.0));
    }
}
