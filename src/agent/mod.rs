//! Decides what to try next: diagnosis, hypotheses and proposers.

mod bayes;
mod candidates;
pub mod cause_tests;
pub mod claims;
pub mod diagnosis;
mod effects;
mod evolution;
mod fault_injection;
mod feasibility;
mod forest;
mod initial_design;
mod interactive;
mod likely;
pub mod llm;
mod local;
mod model_search;
mod opening;
pub mod path;
mod place;
mod portfolio;
pub mod prediction;
mod random;
mod search_context;
mod surrogate;
#[cfg(test)]
mod tests;

pub use interactive::{Interactive, Tuned, Tuning};
pub use portfolio::Constants;
pub use search_context::SearchContext;

use crate::domain::history::History;
use crate::domain::proposal::Suggestion;
use crate::domain::text::names::did_you_mean;
use crate::error::{Error, error};
use diagnosis::Diagnosis;

/// Suggests the next variant.
pub trait Proposer: Send {
    /// Returns the name that `--proposer` takes.
    fn name(&self) -> &'static str;

    /// Suggests a configuration that has not been proposed yet. Returns `Ok(None)` if there is none, or none until the
    /// suggestions under way have results. An error is a mistake in a manifest.
    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, Error>;
}

/// The name of the fault-injection proposer. It needs the planted bugs among the families that a session can render.
pub const FAULT_INJECTION: &str = "fault-injection";

/// The names of all proposers.
pub const PROPOSERS: [&str; 7] = [PORTFOLIO, "local", "bayes", "evolution", LLM, "random", FAULT_INJECTION];

/// The name of the proposer that divides the budget over several ways to search.
pub const PORTFOLIO: &str = "portfolio";

/// The name of the proposer that follows language models. Where they have nothing to try, it searches like `portfolio`.
pub const LLM: &str = "llm";

/// The name of the proposer of interactive sessions, in which clients propose. A session is started with it by `optloop mcp`.
pub const INTERACTIVE: &str = "interactive";

/// Tells whether families come from the proposer of that name: from language models, or from clients.
pub fn writes_families(name: &str) -> bool {
    [LLM, INTERACTIVE].contains(&name)
}

/// Makes a portfolio with given constants.
pub fn portfolio(seed: u64, constants: Constants) -> Box<dyn Proposer> {
    Box::new(portfolio::Portfolio::new(PORTFOLIO, seed, constants))
}

/// Makes a proposer by name. The error names the nearest one.
pub fn proposer(name: &str, seed: u64) -> Result<Box<dyn Proposer>, Error> {
    match name {
        PORTFOLIO => Ok(portfolio(seed, Constants::default())),
        "local" => Ok(Box::new(local::Local::new("local", seed))),
        LLM => Ok(Box::new(portfolio::Portfolio::new(LLM, seed, Constants::default()))),
        "bayes" => Ok(Box::new(bayes::Bayes::new(seed))),
        "evolution" => Ok(Box::new(evolution::Evolution::new(seed))),
        "random" => Ok(Box::new(random::Random::new(seed))),
        // That of a session that is resumed without clients.
        INTERACTIVE => Ok(Box::new(Interactive::new(seed, Tuning::default()))),
        FAULT_INJECTION => Ok(Box::new(fault_injection::FaultInjection::new(seed))),
        "drill" => Err(error!("the proposer `drill` was renamed to `{FAULT_INJECTION}` in optloop 0.2")),
        _ => {
            let hint = did_you_mean(name, PROPOSERS);
            Err(error!("there is no proposer `{name}`{hint}; there are: {}", PROPOSERS.join(", ")))
        }
    }
}
