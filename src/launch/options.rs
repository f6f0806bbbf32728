//! The options of a session.

use super::models;
use crate::agent;
use crate::config::Config;
use crate::domain::budget::Budget;
use crate::domain::budget::cost::Rate;
use crate::session::Options;

/// Makes the options of a session under the settings of a configuration.
pub fn options(config: &Config, budget: Budget, seed: u64, proposer: &str) -> anyhow::Result<Options> {
    let llm = models::terms(config, proposer)?;
    Ok(Options {
        budget,
        grace: config.grace(),
        min_gain: config.stop.min_gain,
        least_chance: config.session.least_chance,
        rate: Rate { gpu_usd_per_hour: config.cost.gpu_usd_per_hour },
        measuring: config.measuring(),
        first_look: budget.wall.mul_f64(config.validate.first_look_share),
        counters_share: config.counters.budget_share,
        ablations_share: config.ablations.budget_share,
        compilations: config.parallel_compilations(),
        compile_ahead: config.compiled_ahead(),
        seed,
        draws_anew: proposer == agent::INTERACTIVE,
        config: models::with_prices(config, &llm)?,
        oracle_on: None,
        submission: None,
        llm,
    })
}
