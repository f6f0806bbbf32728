//! The proposer of an interactive session: clients propose, and it only measures where the search stands and tunes the families that
//! they name.

use std::sync::{Arc, Mutex, PoisonError};

use super::diagnosis::Diagnosis;
use super::initial_design::{InitialDesign, Next};
use super::portfolio::{Constants, Portfolio};
use super::{INTERACTIVE, Proposer, SearchContext};
use crate::domain::history::History;
use crate::domain::proposal::Suggestion;
use crate::error::Error;

/// What clients have asked to be tuned. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Tuning(Arc<Mutex<Option<Tuned>>>);

/// A family whose parameters are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuned {
    /// Its name.
    pub family: String,
    /// The configurations that are still to be proposed.
    pub left: u64,
}

impl Tuning {
    /// Has a family tuned with so many configurations. It takes the place of one that was tuned before.
    pub fn begin(&self, family: String, configurations: u64) {
        self.set(Some(Tuned { family, left: configurations }));
    }

    /// Returns what is being tuned.
    pub fn now(&self) -> Option<Tuned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, tuned: Option<Tuned>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tuned.filter(|tuned| tuned.left > 0);
    }
}

/// See the module's documentation.
pub struct Interactive {
    initial_design: InitialDesign,
    portfolio: Portfolio,
    tuning: Tuning,
}

impl Interactive {
    /// Makes a proposer that tunes what it is told to. Its random choices are determined by `seed`.
    pub fn new(seed: u64, tuning: Tuning) -> Self {
        let portfolio = Portfolio::new(INTERACTIVE, seed, Constants::default());
        Self { initial_design: InitialDesign::default(), portfolio, tuning }
    }
}

impl Proposer for Interactive {
    fn name(&self) -> &'static str {
        INTERACTIVE
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, Error> {
        // The defaults of all families would take the device for minutes where times are modelled. Clients choose.
        let initial = context.initial_family();
        let design = initial.map_or_else(|| context.clone(), |family| context.of_family(family));
        match self.initial_design.next(&design, history, under_way)? {
            Next::Suggestion(suggestion) => return Ok(Some(*suggestion)),
            Next::Wait => return Ok(None),
            Next::Done => {}
        }
        let Some(Tuned { family, left }) = self.tuning.now() else { return Ok(None) };
        let Some(tuned) = context.family(&family) else { return Ok(None) };
        let suggestion = self.portfolio.propose(&context.of_family(tuned), diagnosis, history, under_way)?;
        // With nothing under way, no result will bring another suggestion.
        let left = match &suggestion {
            Some(_) => left - 1,
            None if under_way == 0 => 0,
            None => left,
        };
        self.tuning.set(Some(Tuned { family, left }));
        Ok(suggestion)
    }
}
