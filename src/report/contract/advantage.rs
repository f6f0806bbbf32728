//! Why a best variant is faster than another one, as the contract gives it.

use serde::Serialize;

use crate::domain::ids::{CaseName, IterationId};

/// What a virtual GPU counted for the best variant of a case and for a slower one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advantage {
    /// The case.
    pub case: CaseName,
    /// What the slower variant is. Of `advantages`, what the session began with on the case: `committed_winner` or
    /// `first_variant`, or `slowest` (of those with counts) if that has no counts. Of `rival_advantages`: `rival`, the
    /// fastest variant of another family that has counts.
    pub role: &'static str,
    /// The slower variant.
    pub before: Counted,
    /// The best variant.
    pub after: Counted,
    /// The slower time over the best one.
    pub factor: f64,
    /// Whether the two took turns in one run. Otherwise the factor is of two runs.
    pub in_one_run: bool,
    /// Whether the slower variant is the fastest one of its family on the case.
    pub is_best_of_family: bool,
    /// Whether no variant of a third family is between the two.
    pub is_next_best: bool,
    /// The same by the model of the virtual GPU, which follows from the counts.
    pub modelled_factor: f64,
    /// Whether the counts explain the gain: the two factors, as logarithms, differ by at most a factor of 1.5.
    pub explained: bool,
    /// The counts of both.
    pub counts: Vec<Count>,
    /// What the counts say, in one or two sentences.
    pub reading: String,
}

/// A variant with counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    /// The iteration that measured it.
    pub iteration: IterationId,
    /// Its family.
    pub family: String,
    /// Its time.
    pub us: f64,
    /// Its time by the model of the virtual GPU.
    pub modelled_us: f64,
    /// The share of that time which its longest chain of dependent instructions takes, from 0 to 1.
    pub chain_share: f64,
}

/// One count of two variants, for the whole grid.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Count {
    /// `warp_instructions`, `shared_wavefronts`, `global_load_bytes`, `chain_ns` (the modelled time of the longest chain
    /// of dependent instructions), `tensor_share` (of the floating-point operations), `blocks` or `launches`.
    pub name: &'static str,
    /// For the slower variant.
    pub before: f64,
    /// For the best one.
    pub after: f64,
    /// Whether the two may be compared. Wavefronts of shared memory may not if one of the variants uses `wgmma`, whose reads are
    /// not counted.
    pub comparable: bool,
}

impl Count {
    /// Returns how many times smaller the count is for the best variant. None if there was nothing, if nothing is left, or
    /// if the two may not be compared.
    pub fn factor(&self) -> Option<f64> {
        (self.comparable && self.before > 0.0 && self.after > 0.0).then(|| self.before / self.after)
    }
}
