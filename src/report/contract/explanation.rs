//! The parts of a report that explain its figures and say what to do next.

use indexmap::IndexMap;
use serde::Serialize;

use super::Ratio;
use crate::domain::ids::CaseName;

/// What a session began with on a case, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// `committed_winner`: the winner of an earlier session, measured again. `first_variant`: the first correct
    /// variant.
    pub began_with: &'static str,
    /// Its time.
    pub began_us: f64,
    /// That time over the best one. Null if the two may not be compared.
    pub ratio: Option<Ratio>,
    /// Whether the session has found a faster variant.
    pub improved: bool,
    /// Whether the best variant is another one, and the ratio does not tell which of the two is faster.
    pub tied: bool,
}

/// Where the winners of the improved cases come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ImprovedBy {
    /// Improved cases whose best variant the search found.
    pub search: u64,
    /// Improvements over the initial design that the search confirmed, on all cases. Several may be of one case.
    pub search_steps: u64,
    /// Improved cases whose best variant was in the initial design.
    pub initial_design: u64,
    /// Improved cases whose best variant was a near tie until the final.
    pub finals: u64,
}

/// A family that won a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WinningFamily {
    /// Its name.
    pub name: String,
    /// The number of cases that it won.
    pub cases: u64,
    /// What it does, in the words of its manifest.
    pub about: String,
    /// Lines of its CUDA source that are not empty.
    pub lines: u64,
}

/// What a case needs at least, and how near the best variant comes to each peak of the device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Roofline {
    /// Floating-point operations that the case needs.
    pub flop: f64,
    /// Fewest bytes that the inputs and the output have.
    pub bytes: f64,
    /// Arithmetic intensity: FLOP for each of these bytes.
    pub intensity: f64,
    /// The intensity from which arithmetic takes longer than the transfers.
    pub ridge: f64,
    /// What delivers the bytes in the case's cache regime: `L2` or `memory`.
    pub bytes_from: &'static str,
    /// The side of the ridge: `arithmetic`, or `bytes` if the transfers take longer than the arithmetic.
    pub side: &'static str,
    /// What sets the floor: `arithmetic`, `memory`, `L2` or `launch`.
    pub floor_limiter: &'static str,
    /// The least time that FMA pipes need for the arithmetic, without tensor cores, in microseconds. None if tensor cores do
    /// not compute in the workload's precision.
    pub fma_us: Option<f64>,
    /// FLOP/s of the best variant.
    pub flop_per_s: Option<f64>,
    /// Its share of the arithmetic peak.
    pub share_of_arithmetic: Option<f64>,
    /// Bytes/s of the best variant, counting only the bytes above.
    pub bytes_per_s: Option<f64>,
    /// Its share of the bandwidth of `bytes_from`.
    pub share_of_bandwidth: Option<f64>,
    /// The share of its time that an empty launch takes.
    pub share_of_launch: Option<f64>,
    /// The best time over the floor: no kernel gains more than this factor.
    pub times_of_floor: Option<f64>,
}

/// How times depend on one size of the workload while all others stay the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// The size that varies, such as `Sq = Sk` or `B x H`.
    pub varies: String,
    /// The sizes that stay the same.
    pub fixed: String,
    /// Whether its entries are independent of each other, such as batch and heads.
    pub independent: bool,
    /// The cases, the smallest size first.
    pub points: Vec<ScalingPoint>,
}

/// A case of a scaling.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalingPoint {
    /// The case.
    pub case: CaseName,
    /// The size that varies.
    pub value: i64,
    /// The case's work over the first point's.
    pub work: f64,
    /// The first correct variant of the case.
    pub first: Option<ScalingTime>,
    /// The best variant of the case.
    pub best: Option<ScalingTime>,
}

/// A time of a scaling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScalingTime {
    /// The time.
    pub us: f64,
    /// The time for each unit of the size that varies.
    pub us_per_unit: f64,
    /// Blocks of the largest launch.
    pub blocks: Option<u64>,
}

/// What a change of one parameter does, from pairs of configurations that differ in nothing else.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterEffect {
    /// The family.
    pub family: String,
    /// The parameter.
    pub parameter: String,
    /// What the parameter does.
    pub about: String,
    /// The value that the family's best configurations of the cases have most often.
    pub from: i64,
    /// Another value.
    pub to: i64,
    /// The median over all pairs of the time before the change over the time after it: above 1, the change helps.
    pub effect: f64,
    /// A quarter of the pairs is below this.
    pub lower_quartile: f64,
    /// A quarter of the pairs is above this.
    pub upper_quartile: f64,
    /// Pairs of configurations on the same case.
    pub pairs: u64,
    /// Cases with such a pair.
    pub cases: u64,
    /// Pairs in which the change is faster beyond the noise.
    pub faster: u64,
    /// Pairs in which it is slower beyond the noise.
    pub slower: u64,
    /// `helps`, `hurts`, `tied` (within the noise), `depends` (on the case), `mixed` or `few` (fewer than three pairs).
    pub verdict: &'static str,
    /// The same for each case.
    pub by_case: Vec<CaseEffect>,
    /// The cases on which the family's best configuration has the other value.
    pub used_on: Vec<CaseName>,
}

/// What a change of one parameter does on one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseEffect {
    /// The case.
    pub case: CaseName,
    /// The median over its pairs of the time before the change over the time after it.
    pub effect: f64,
    /// Pairs of configurations.
    pub pairs: u64,
    /// `helps`, `hurts` or `tied`, by the median and the noise.
    pub verdict: &'static str,
}

/// What the parameters are worth.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Parameters {
    /// The share by which two screening runs of one variant differ at most nine times of ten. Null if too few were
    /// repeated.
    pub noise: Option<f64>,
    /// Variants of which that is known.
    pub noise_pairs: u64,
    /// The effects, by family and parameter.
    pub effects: Vec<ParameterEffect>,
    /// What each parameter does, by family and parameter, for the families that were timed.
    pub about: IndexMap<String, IndexMap<String, String>>,
}

impl Parameters {
    /// Returns what a parameter of a family does.
    pub fn about(&self, family: &str, parameter: &str) -> Option<&str> {
        Some(self.about.get(family)?.get(parameter)?)
    }
}

/// A family that cannot compute some of the cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Excluded {
    /// The family.
    pub family: String,
    /// The cases.
    pub cases: Vec<CaseName>,
    /// Whether these are all cases of the session.
    pub all: bool,
    /// The reasons.
    pub why: Vec<String>,
}

/// What a kind of work took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseCost {
    /// The name, such as `acceptance`.
    pub phase: &'static str,
    /// Seconds.
    pub seconds: f64,
    /// Share of the session's time.
    pub share: f64,
    /// Its share of the device's cost, in US dollars.
    pub usd: f64,
}

/// Time and cost by phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phases {
    /// The phases. Their seconds add up to the session's.
    pub rows: Vec<PhaseCost>,
    /// Whether each step was timed. In sessions recorded before that was kept, screening includes the checks.
    pub complete: bool,
    /// Seconds for which the GPU executed kernels in samples that count. Null for modelled times, and where the report
    /// rests on an excerpt.
    pub timing_s: Option<f64>,
}
