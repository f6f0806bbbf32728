//! What the pictures of a report show.

use serde::Serialize;

use crate::domain::ids::{CaseName, IterationId};

/// How the best time of a case developed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// The case.
    pub case: CaseName,
    /// The first correct variant and every improvement on it, oldest first. The last one may be the final.
    pub steps: Vec<ProgressStep>,
    /// Some of the times that were tried, oldest first: at most 200, evenly chosen.
    pub tried: Vec<Tried>,
    /// How many times were tried.
    pub tried_in_all: u64,
}

/// A best time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgressStep {
    /// `start`, `improved` or `final`. A final times the best variant again.
    pub kind: &'static str,
    /// Seconds of the session until it was on record.
    pub at_s: f64,
    /// What the iterations had cost by then, in US dollars. At a final, what the session cost.
    pub cost_usd: f64,
    /// The time.
    pub us: f64,
    /// The iteration.
    pub iteration: IterationId,
    /// The family.
    pub family: String,
}

/// A time that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tried {
    /// Seconds of the session until it was on record.
    pub at_s: f64,
    /// What the iterations had cost by then, in US dollars.
    pub cost_usd: f64,
    /// The time.
    pub us: f64,
}

/// The samples behind the figures of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// The case.
    pub case: CaseName,
    /// Where the samples come from: `final`, `confirmation`, or `apart` if the times were taken one after the other.
    pub from: &'static str,
    /// What was sampled. The best variant is the first.
    pub sampled: Vec<Sampled>,
}

/// The samples of one kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sampled {
    /// `best`, `control`, `challenger`, `incumbent`, `near_tie` or `baseline`.
    pub role: &'static str,
    /// The variant's family and hash, or the baseline's name.
    pub name: String,
    /// How many samples there are.
    pub samples: u64,
    /// The 5%, 25%, 50%, 75% and 95% quantiles in microseconds.
    pub quantiles_us: [f64; 5],
    /// Some samples in microseconds, in the order of their measurement: at most 60, evenly chosen.
    pub some_us: Vec<f64>,
}

/// How the source of a winner came about, from the configuration that it was first changed from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lineage {
    /// The case.
    pub case: CaseName,
    /// Earlier steps that are left out, because the lineage is long.
    pub left_out: u64,
    /// The steps, oldest first. The last one is the winner.
    pub steps: Vec<LineageStep>,
}

/// A variant on the way to a winner.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineageStep {
    /// The iteration.
    pub iteration: IterationId,
    /// Where the configuration comes from, such as `family_default` or `move`.
    pub kind: &'static str,
    /// The family.
    pub family: String,
    /// The parameters that differ from the step before, such as `BLOCK 64 → 128`. For the first step, all of them.
    pub changes: Vec<String>,
    /// What was expected of it.
    pub claim: String,
    /// Its time on the case. Null if it was not timed there.
    pub us: Option<f64>,
    /// How its source differs from the step before. Null for the first step, for another family, and without sources.
    pub diff: Option<Diff>,
}

/// The difference of two sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Lines that were added.
    pub added: u64,
    /// Lines that were removed.
    pub removed: u64,
    /// The lines with three of their neighbours, as `diff -u` writes them, without a header.
    pub text: String,
    /// Whether lines at the end are left out.
    pub cut: bool,
}
