//! A comparison: several kernels and baselines timed in turns, so that drift of the machine affects all of them alike.
//!
//! Participants take samples in groups. A round has one group of each participant. The order is reversed from one round
//! to the next (ABBA), so that a linear drift cancels over two rounds. What counts is the ratio of two participants
//! within a round.
//!
//! The ratio of a comparison is the median over pairs of rounds. Where a clock has two states, a change within a round
//! spoils that pair's ratio. A median tolerates that in up to half of the pairs; a mean does not. The Hodges-Lehmann
//! estimate is a little narrower on white noise, but tolerates it in less than a third.

mod enough;
#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};

use super::conditions::Conditions;
use super::correctness::Correctness;
use super::floor;
use crate::domain::device::machine::MachineSummary;
use crate::domain::ids::IterationId;
use crate::domain::statistics::sampling::Sampling;
use crate::domain::statistics::timing::Timing;
use crate::domain::statistics::{Interval, Ratio, median, median_interval, student_interval};

pub use enough::{Progress, is_over};

/// Fewest rounds from which a comparison has a ratio. They make six pairs, the fewest for which the median has a 95%
/// interval. With five pairs, even the extremes cover less than 95%.
pub const MIN_ROUNDS: usize = 12;

/// Smallest share by which two times can be told apart. The participants that sample before and after one leave a
/// trace. In 30 comparisons of a kernel with itself on an H200 (2026-11-21, `optloop bench`, 3.3 us), the ratio was
/// 0.9987 to 1.0003. Its intervals were narrower than that.
const RESOLUTION: f64 = 0.002;

/// The same for a baseline, which has its own tensors in another process. Two copies of a kernel of 3.9 us, each with
/// its own tensors, differed by 0.85% for as long as they lived (H200, 2026-11-21, 40 comparisons).
const ANOTHER_PROCESS: f64 = 0.01;

/// The slowdown relative to the challenger beyond which a participant gets smaller groups. The ratio of times that far
/// apart need not be known to a thousandth.
const SLOW: f64 = 2.0;

/// The factor from which two times are far apart. No GPU clock moves that far, so one or two samples show which is
/// faster.
pub const FAR: f64 = 10.0;

/// Shortest sample of a participant that skips most rounds when it is [`FAR`] times as slow as the challenger.
const LONG_NS: f64 = 10e6;

/// Rounds of a participant that is far behind: the fewest whose spread gives the ratio an interval.
pub const FAR_ROUNDS: usize = 2;

/// Share over the best screened time within which another time is a near tie. The two were screened once, minutes
/// apart. Each is off by 0.2% where screening ends as it should. The device's own samples of one kernel span 2.3% of
/// the median (1st to 99th percentile over 175 confirmations on an H200, 2026-11-20). Together that is 2.7%.
const NEAR_TIE: f64 = 0.03;

/// The role of a participant in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The subject of the comparison; always the first participant.
    Challenger,
    /// The challenger again, with its own code and workspaces (the A/A control). The difference between the two is
    /// noise.
    Control,
    /// What the challenger must beat.
    Incumbent,
    /// Another variant, too near to the challenger's time for a single measurement to separate them.
    NearTie,
    /// What a user would use instead.
    Baseline,
    /// A competing solution in PyTorch, captured in a graph as kernels are. It is on no record.
    Rival,
    /// One that cannot be captured, timed call by call.
    RivalByCall,
    /// The challenger as PyTorch calls it, through the op that optloop exports: what the calls of a rival are compared with.
    ChallengerByCall,
}

impl Role {
    /// Returns the word that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Challenger => "challenger",
            Self::Control => "control",
            Self::Incumbent => "incumbent",
            Self::NearTie => "near_tie",
            Self::Baseline => "baseline",
            Self::Rival => "rival",
            Self::RivalByCall => "rival_by_call",
            Self::ChallengerByCall => "challenger_by_call",
        }
    }

    /// Tells whether its samples are calls from the host. All others are replays of graphs.
    pub fn is_by_call(self) -> bool {
        matches!(self, Self::RivalByCall | Self::ChallengerByCall)
    }

    /// Tells whether a program in PyTorch runs it, in a process of its own.
    pub fn is_of_pytorch(self) -> bool {
        matches!(self, Self::Baseline | Self::Rival | Self::RivalByCall | Self::ChallengerByCall)
    }

    /// Tells whether it is one of a rival's comparison, which is on no record.
    fn is_unrecorded(self) -> bool {
        matches!(self, Self::Rival | Self::RivalByCall | Self::ChallengerByCall)
    }
}

/// One side of a comparison, with its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Participant {
    /// The role of the participant.
    pub role: Role,
    /// The variant's family and hash, or the baseline's backend; for display.
    pub name: String,
    /// The iteration that measured the variant, where there is one.
    pub iteration: Option<IterationId>,
    /// Every sample of the rounds that count, in order, in nanoseconds.
    pub timing: Timing,
    /// Median of the participant's group in each round that counts, in nanoseconds.
    pub groups_ns: Vec<f64>,
    /// How close the timed output came to the oracle; none for a baseline.
    pub correctness: Option<Correctness>,
    /// What the GPU was doing during the participant's groups, where NVML tells.
    pub machine: Option<MachineSummary>,
    /// Energy of one execution in joules, where it was measured.
    pub energy_j: Option<f64>,
    /// The control of its process: the time of an empty kernel as a node of a graph, in nanoseconds, as its groups
    /// found it. None if its program does not report it.
    #[serde(default)]
    pub graph_node_ns: Option<f64>,
    /// Why a rival's output is wrong, in one sentence. None if it is right, and for all others: they have no time then.
    #[serde(default)]
    pub wrong: Option<String>,
}

/// A finished comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The conditions under which the times were taken.
    pub conditions: Conditions,
    /// The participants, the challenger first.
    pub participants: Vec<Participant>,
    /// Samples of one group.
    pub group_size: usize,
    /// Rounds discarded because the GPU was throttled in one of their groups.
    pub discarded_rounds: usize,
    /// The challenger's median over its median in screening. Above 1, screening made it look faster than it is.
    ///
    /// This is the winner's curse. A variant enters a comparison because of its screened time. Of many variants that
    /// are alike, the one with the luckiest noise is chosen. So a screened time flatters the winner by about the noise
    /// of screening, and more so the more variants there were. Only the comparison's figures are reported.
    pub winners_curse: Option<f64>,
    /// Floor of the case in nanoseconds: no correct kernel is faster.
    pub floor_ns: Option<f64>,
    /// Other processes on the GPU, for display.
    pub others: Vec<String>,
    /// Seconds from the start of the comparison's process to its last check; none for records made before this was
    /// kept.
    pub wall_s: Option<f64>,
}

impl Comparison {
    /// Returns the subject of the comparison.
    pub fn challenger(&self) -> Option<&Participant> {
        self.participants.first()
    }

    /// Tells whether a participant has a role.
    pub fn has(&self, role: Role) -> bool {
        self.participants.iter().any(|participant| participant.role == role)
    }

    /// Returns the first participant in a role, with its time over the challenger's.
    pub fn against(&self, role: Role) -> Option<(&Participant, Ratio)> {
        let other = self.participants.iter().find(|participant| participant.role == role)?;
        Some((other, self.over_challenger(other)?))
    }

    /// Returns a participant's time over the challenger's. Above 1, the challenger is faster. Calls are compared with calls, and
    /// graphs with graphs.
    pub fn over_challenger(&self, other: &Participant) -> Option<Ratio> {
        let challenger = match other.role {
            Role::ChallengerByCall => return None,
            Role::RivalByCall => self.participants.iter().find(|one| one.role == Role::ChallengerByCall)?,
            _ => self.challenger()?,
        };
        paired_ratio(&other.groups_ns, &challenger.groups_ns)
    }

    /// Returns the comparison without its rivals, as it is recorded.
    pub fn recorded(&self) -> Self {
        let mut recorded = self.clone();
        recorded.participants.retain(|one| !one.role.is_unrecorded());
        recorded
    }

    /// Returns the noise: how far from 1 the interval of the A/A control reaches. 0 without a control.
    pub fn noise(&self) -> f64 {
        self.against(Role::Control).map_or(0.0, |(_, ratio)| noise(ratio))
    }

    /// Returns how far from 1 a ratio must be to count: beyond the noise and beyond the resolution of a comparison.
    fn margin(&self, other: &Participant) -> f64 {
        let least = if other.role.is_of_pytorch() { ANOTHER_PROCESS } else { RESOLUTION };
        self.noise().max(least)
    }

    /// Tells whether the challenger is faster than a participant beyond the noise.
    pub fn beats(&self, other: &Participant) -> bool {
        self.over_challenger(other).is_some_and(|ratio| ratio.interval.lo > 1.0 + self.margin(other))
    }

    /// Tells whether the challenger is slower than a participant beyond the noise.
    pub fn loses_to(&self, other: &Participant) -> bool {
        self.over_challenger(other).is_some_and(|ratio| ratio.interval.hi < 1.0 - self.margin(other))
    }

    /// Tells whether the challenger's time is below the floor. That is an error of the measurement, not a win.
    pub fn below_floor(&self) -> bool {
        self.challenger().is_some_and(|challenger| self.is_below_floor(challenger))
    }

    fn is_below_floor(&self, participant: &Participant) -> bool {
        self.floor_ns.is_some_and(|floor_ns| floor::refutes(floor_ns, participant.timing.median_ns))
    }
}

/// Returns how far from 1 the interval of an A/A control's ratio reaches.
fn noise(control: Ratio) -> f64 {
    f64::max((control.interval.hi - 1.0).abs(), (1.0 - control.interval.lo).abs())
}

/// Returns the indices of the near ties that beat the challenger beyond the noise, the fastest first. Where there are
/// none, the challenger stays incumbent, because it has the earlier claim.
pub fn beating(comparison: &Comparison) -> Vec<usize> {
    let participants = comparison.participants.iter().enumerate();
    let mut near_ties: Vec<(usize, f64)> = participants
        .filter(|(_, participant)| participant.role == Role::NearTie && comparison.loses_to(participant))
        .filter(|(_, near_tie)| !comparison.is_below_floor(near_tie))
        .filter_map(|(index, near_tie)| Some((index, comparison.over_challenger(near_tie)?.estimate)))
        .collect();
    near_ties.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    near_ties.into_iter().map(|(index, _)| index).collect()
}

/// Tells whether a screened time is too near to the best one for screening to separate them.
pub fn near_tie(screened_ns: f64, best_ns: f64) -> bool {
    screened_ns <= best_ns * (1.0 + NEAR_TIE)
}

/// Returns how many samples one group of each participant has, given how long one sample of each takes. The first
/// participant is the challenger.
///
/// A group has as many samples as requested, but few enough for [`MIN_ROUNDS`] rounds. A participant that takes more
/// than twice the challenger's time gets fewer. Otherwise an initial kernel of 64 ms would add a minute to every
/// comparison, although the challenger wins without it.
pub fn group_sizes(requested: usize, sampling: &Sampling, sample_ns: &[f64]) -> Vec<usize> {
    let most = (sampling.min_samples / MIN_ROUNDS).clamp(1, requested.max(1));
    let challenger_ns = sample_ns.first().copied().unwrap_or_default();
    let share = |ns: &f64| (SLOW * challenger_ns / ns).min(1.0);
    sample_ns.iter().map(|ns| ((most as f64 * share(ns)) as usize).max(1)).collect()
}

/// Returns the most rounds in which each participant takes part, given how long one sample of each takes. The first
/// participant is the challenger. A participant that is far behind it and has long samples skips most rounds.
///
/// Otherwise an initial kernel of 2 s would add a minute to every comparison, only to show that it is thousands of
/// times slower.
pub fn rounds(sample_ns: &[f64]) -> Vec<usize> {
    let challenger_ns = sample_ns.first().copied().unwrap_or_default();
    let far = |ns: f64| ns >= LONG_NS && ns >= FAR * challenger_ns;
    sample_ns.iter().map(|ns| if far(*ns) { FAR_ROUNDS } else { usize::MAX }).collect()
}

/// Returns the order in which participants sample in a round: forwards, then backwards. The first and the last
/// participant of a round follow themselves where the order turns. Every pair of rounds starts with a different
/// participant, so that this favours none of them.
pub fn order(participants: usize, round: usize) -> Vec<usize> {
    let first = round / 2;
    let forwards = (0..participants).map(|place| (first + place) % participants);
    if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}

/// Returns the ratio of paired groups, `over / under`, with the interval of its median over pairs of rounds.
///
/// Two rounds of opposite order make one pair. Their logarithms are averaged, so that a linear drift cancels. A last
/// round without its counterpart is left out. Below [`MIN_ROUNDS`], only times that are far apart have a ratio.
pub fn paired_ratio(over: &[f64], under: &[f64]) -> Option<Ratio> {
    let logs: Vec<f64> = over.iter().zip(under).map(|(over, under)| (over / under).ln()).collect();
    let pairs: Vec<f64> = logs.as_chunks::<2>().0.iter().map(|[a, b]| f64::midpoint(*a, *b)).collect();
    if pairs.len() < MIN_ROUNDS / 2 {
        return ratio_of_few(&logs);
    }
    let interval = median_interval(&pairs)?;
    Some(Ratio { estimate: median(&pairs)?.exp(), interval: Interval { lo: interval.lo.exp(), hi: interval.hi.exp() } })
}

/// Returns the ratio of times that are far apart, from a few rounds. `None` if any part of the interval is near 1: such
/// times need more rounds.
fn ratio_of_few(logs: &[f64]) -> Option<Ratio> {
    let (mean, Interval { lo, hi }) = student_interval(logs)?;
    let far = lo > SLOW.ln() || hi < -SLOW.ln();
    far.then(|| Ratio { estimate: mean.exp(), interval: Interval { lo: lo.exp(), hi: hi.exp() } })
}
