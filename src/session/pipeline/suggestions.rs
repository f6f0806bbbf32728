//! Batches of suggestions of the proposer. A suggestion without prospects is left out, and another one is drawn
//! ([decision 68](../../../docs/decisions/0068-variants-without-prospects.md)).
//!
//! A draw takes milliseconds, so it happens while the device evaluates a variant where that is possible. The state cannot
//! change meanwhile. What was drawn is noted afterwards.

use std::collections::HashSet;

use super::prospects;
use crate::agent::diagnosis::{self, Diagnosis};
use crate::domain::history::ConfigurationId;
use crate::domain::history::attempt::Attempt;
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::finding::Finding;
use crate::session::state::SessionState;

/// What the proposer came up with.
pub(in crate::session) enum Drawn {
    /// Nothing, until an iteration has ended.
    Nothing,
    /// A configuration that is not worth compiling. The search counts it as a failure, so that its like is proposed less.
    Pruned(ConfigurationId, Attempt),
    /// A suggestion that may be the fastest, or that is run in any case.
    Admitted(Box<Admitted>),
}

/// A suggestion that is worth compiling.
pub(in crate::session) struct Admitted {
    pub configuration: ConfigurationId,
    pub suggestion: Suggestion,
}

impl Drawn {
    /// Tells whether a suggestion is worth compiling.
    pub fn of(suggestion: Suggestion, state: &SessionState) -> anyhow::Result<Self> {
        let admitted = Admitted::of(suggestion, state)?;
        let Admitted { configuration, suggestion } = &admitted;
        if prospects::is_control(configuration) || !prospects::are_missing(state, suggestion) {
            return Ok(Self::Admitted(Box::new(admitted)));
        }
        let attempt = Attempt {
            iteration: None,
            family: suggestion.family.clone(),
            params: suggestion.params.clone(),
            cases: suggestion.cases.iter().map(|case| case.name.clone()).collect(),
            worked: false,
            gpu_s: 0.0,
        };
        Ok(Self::Pruned(*configuration, attempt))
    }
}

impl Admitted {
    /// Takes a suggestion that is not judged by its prospects.
    pub fn of(suggestion: Suggestion, state: &SessionState) -> anyhow::Result<Self> {
        let configuration = state.configuration_of(&suggestion)?;
        Ok(Self { configuration, suggestion })
    }
}

/// Returns the diagnosis for a proposer. `findings` are those about explained variants.
pub(in crate::session) fn diagnosis(state: &SessionState, findings: Vec<Finding>) -> Diagnosis {
    let setup = state.setup();
    Diagnosis { findings, ..diagnosis::diagnose(state.history(), &setup.workload, &setup.device) }
}

/// What was drawn since the state could last change.
#[derive(Default)]
pub(in crate::session) struct SuggestionBatch {
    drawn: Vec<Drawn>,
    configurations: HashSet<ConfigurationId>,
    admitted: usize,
    pruned: usize,
}

impl SuggestionBatch {
    /// Draws until there are `room` suggestions to compile, or `most` were left out, or the proposer has nothing. `draw` asks it
    /// for one more. Between two draws, other work gets its turn. If this future is dropped, what was drawn stays.
    pub async fn fill(
        &mut self,
        (room, most): (usize, usize),
        mut draw: impl FnMut(&Self) -> anyhow::Result<Drawn>,
    ) -> anyhow::Result<()> {
        while self.admitted < room && self.pruned < most {
            let drawn = draw(self)?;
            let is_over = matches!(drawn, Drawn::Nothing);
            match &drawn {
                Drawn::Nothing => {}
                Drawn::Pruned(configuration, _) => {
                    self.pruned += 1;
                    self.configurations.insert(*configuration);
                }
                Drawn::Admitted(one) => {
                    self.admitted += 1;
                    self.configurations.insert(one.configuration);
                }
            }
            self.drawn.push(drawn);
            if is_over {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Returns the configurations that were drawn.
    pub fn configurations(&self) -> &HashSet<ConfigurationId> {
        &self.configurations
    }

    /// Returns the number of suggestions to compile.
    pub fn admitted(&self) -> usize {
        self.admitted
    }

    /// Returns what was drawn, in order.
    pub fn into_drawn(self) -> Vec<Drawn> {
        self.drawn
    }
}
