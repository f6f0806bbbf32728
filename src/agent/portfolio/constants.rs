//! The constants of the portfolio that were chosen on recorded spaces.

/// Constants of a portfolio. docs/simulate.md says how they were chosen: `cargo bench --bench leave_one_out` shows what
/// others would reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// Timed configurations of a family on a case from which models are asked. Until then, configurations are
    /// random.
    pub initial: usize,
    /// Standard deviations below the expected logarithm at which a model judges a candidate.
    pub optimism: f64,
    /// Standard deviations of the times by which a candidate that surely fails is judged slower.
    pub failure: f64,
    /// The share of the forest among the proposals of models. The others are those of the process.
    pub forest: f64,
    /// The share of the budget for each way that asks no model, relative to that of the models.
    pub exploration: f64,
    /// Attempts for which a way is taken to gain as much as all do on average.
    pub trust: f64,
}

impl Default for Constants {
    fn default() -> Self {
        Self { initial: 8, optimism: 1.5, failure: 3.0, forest: 0.8, exploration: 0.025, trust: 32.0 }
    }
}
