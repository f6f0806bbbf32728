//! A contest: several kernels and baselines timed in turns, so that drift of the machine meets all of them alike.
//!
//! Entrants sample in blocks. A round is one block of each, in an order that is reversed from one round to the next (ABBA), so
//! that over two rounds a linear drift cancels. What counts is the ratio of two entrants within a round.

use serde::{Deserialize, Serialize};

use super::conditions::Conditions;
use super::evaluation::{Correctness, Timing};
use super::machine::MachineSummary;
use super::statistics::{Interval, median, median_interval};

/// What an entrant stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the contest is about: always the first entrant.
    Challenger,
    /// The challenger again, with its own code and buffers: what the two differ by is noise (the A/A control).
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

    /// Tells whether the challenger is faster than an entrant beyond the noise.
    pub fn beats(&self, other: &Entrant) -> bool {
        self.over_challenger(other).is_some_and(|ratio| ratio.interval.lo > 1.0 + self.noise())
    }
}

/// Returns the order in which entrants sample in a round: forwards, then backwards.
pub fn order(entrants: usize, round: usize) -> Vec<usize> {
    let forwards = 0..entrants;
    if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}

/// Returns the ratio of paired blocks, `over / under`, with the interval of its median over pairs of rounds.
///
/// Two rounds of opposite order make one pair: their logarithms are averaged, so that a linear drift cancels.
/// `None` without two rounds.
pub fn paired_ratio(over: &[f64], under: &[f64]) -> Option<Ratio> {
    let logs: Vec<f64> = over.iter().zip(under).map(|(over, under)| (over / under).ln()).collect();
    let pairs: Vec<f64> = logs.as_chunks::<2>().0.iter().map(|[a, b]| f64::midpoint(*a, *b)).collect();
    let interval = median_interval(&pairs)?;
    Some(Ratio { estimate: median(&pairs)?.exp(), interval: Interval { lo: interval.lo.exp(), hi: interval.hi.exp() } })
}
