//! Runs proposers on recorded search spaces, and measures how fast they find good configurations.
//!
//! The proposers are those of a session and see the same context, history and diagnosis. docs/simulate.md defines the
//! figures.

mod expected;
mod run;
mod summary;
#[cfg(test)]
mod tests;

pub use expected::Expected;
pub use run::{Run, run};
pub use summary::{BUDGETS, Reached, Summary, WITHIN};

use rayon::prelude::*;

use crate::agent;
use crate::error::Error;
use crate::spaces::Searchable;

/// How often and how long every proposer runs on every space.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Runs of each proposer on each space, with one seed after the other.
    pub repeats: usize,
    /// Evaluations of each run.
    pub evaluations: usize,
    /// The seed of the first run.
    pub seed: u64,
    /// The devices of a session that evaluate at the same time.
    pub lanes: usize,
}

/// Returns the proposers that a recorded space can tell apart. A language model needs sources, and fault injection needs
/// families with planted bugs.
pub fn proposers() -> impl Iterator<Item = &'static str> {
    agent::PROPOSERS.into_iter().filter(|name| ![agent::LLM, agent::FAULT_INJECTION].contains(name))
}

/// Runs every proposer on every space, on all cores. Returns one summary for each pair, in the order of the spaces. The
/// first summary of a space is that of random search, computed exactly.
///
/// The error is one sentence about a proposer that cannot search a space.
pub fn simulate(spaces: &[Searchable], proposers: &[String], effort: Effort) -> Result<Vec<Summary>, Error> {
    let expected: Vec<Expected> =
        spaces.par_iter().map(|space| Expected::of(&space.space, effort.evaluations)).collect();
    let jobs: Vec<(usize, usize, u64)> = (0..spaces.len())
        .flat_map(|space| (0..proposers.len()).map(move |proposer| (space, proposer)))
        .flat_map(|(space, proposer)| (0..effort.repeats as u64).map(move |repeat| (space, proposer, repeat)))
        .collect();
    let curves = jobs.par_iter().map(|(space, proposer, repeat)| {
        let seed = effort.seed.wrapping_add(*repeat);
        run(agent::proposer(&proposers[*proposer], seed)?, &spaces[*space], effort.evaluations, effort.lanes)
    });
    let curves: Vec<Run> = curves.collect::<Result<_, _>>()?;
    let mut curves = curves.chunks(effort.repeats.max(1));
    let mut summaries = Vec::new();
    for (space, expected) in spaces.iter().zip(&expected) {
        summaries.push(Summary::of_random(&space.space, expected));
        for proposer in proposers {
            let runs = curves.next().unwrap_or_default();
            summaries.push(Summary::of(&space.space, proposer, runs, expected));
        }
    }
    Ok(summaries)
}
