//! Decides what to try next: diagnosis, hypotheses and proposers.

pub mod diagnosis;
mod drill;
mod effects;
mod landscape;
mod local;
mod opening;
mod prediction;
mod random;
#[cfg(test)]
mod tests;

pub use landscape::Landscape;

use crate::domain::history::History;
use crate::domain::names::did_you_mean;
use crate::domain::proposal::Idea;
use diagnosis::Diagnosis;

/// Suggests the next variant.
pub trait Proposer: Send {
    /// Returns the name that `--proposer` takes.
    fn name(&self) -> &'static str;

    /// Suggests a point that has not been proposed yet, or `Ok(None)` when it finds none, or none before the ideas that are under way
    /// have taught something. An error is a mistake in a manifest.
    fn propose(
        &mut self,
        landscape: &Landscape<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Idea>, String>;
}

/// The proposer of drills, which needs the project's specimens among the families that a session can render.
pub const DRILL: &str = "drill";

/// The names of all proposers.
pub const PROPOSERS: [&str; 3] = ["local", "random", DRILL];

/// Makes a proposer by name; the error names the nearest one.
pub fn proposer(name: &str, seed: u64) -> Result<Box<dyn Proposer>, String> {
    match name {
        "local" => Ok(Box::new(local::Local::new(seed))),
        "random" => Ok(Box::new(random::Random::new(seed))),
        DRILL => Ok(Box::new(drill::Drill::new(seed))),
        _ => {
            let hint = did_you_mean(name, PROPOSERS);
            Err(format!("there is no proposer `{name}`{hint}; there are: {}", PROPOSERS.join(", ")))
        }
    }
}
