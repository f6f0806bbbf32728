//! The terms on which a session uses language models.

use super::models::money::Price;
use super::proposal::lessons::Lessons;

/// The models that a session may call, and their limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// The models with their prices, the preferred one first. Empty if the session uses none.
    pub models: Vec<(String, Price)>,
    /// Calls at once.
    pub concurrency: usize,
    /// How often a failed answer goes back to the model.
    pub repair_rounds: u32,
    /// The largest share of iterations whose variants come from models.
    pub share: f64,
    /// The most tokens of one prompt.
    pub context_tokens: usize,
    /// The most tokens of one answer.
    pub max_output_tokens: u32,
    /// Whether prompts contain sources. Otherwise models may only propose parameters.
    pub sends_source: bool,
    /// Whether prompts contain profiles.
    pub profiling: bool,
    /// Whether prompts contain the diagnosis.
    pub diagnosis: bool,
    /// The lessons of earlier sessions. None if prompts do not contain them.
    pub lessons: Option<Lessons>,
}

impl Terms {
    /// Returns the terms of a session without language models.
    pub fn none() -> Self {
        Self {
            models: Vec::new(),
            concurrency: 0,
            repair_rounds: 0,
            share: 0.0,
            context_tokens: 0,
            max_output_tokens: 0,
            sends_source: false,
            profiling: false,
            diagnosis: false,
            lessons: None,
        }
    }

    /// Returns the price of a model.
    pub fn price(&self, model: &str) -> Option<&Price> {
        self.models.iter().find(|(name, _)| name == model).map(|(_, price)| price)
    }
}
