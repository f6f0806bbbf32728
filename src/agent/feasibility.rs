//! How likely configurations are to work: to compile, to launch and to be right.
//!
//! A forest for each family learns which of its configurations worked, on all cases together. A case counts by the
//! dimensions that are compiled in. All ways to search ask the same question of the search context
//! ([`SearchContext::is_open`]), so none of them proposes what is likely to fail while there is anything else.

use std::collections::HashMap;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::SmallRng;

use super::SearchContext;
use super::forest::Forest;
use super::likely::{Likely, LikelyByFamily};
use super::surrogate::Encoding;
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::history::attempt::Attempt;

/// The lowest probability to work at which a configuration is tried. Where less than half of a family works, its own
/// share counts instead: the better half of a bad space is still searched.
const LIKELY: f64 = 0.5;

/// The share of proposals for which failures do not count. They find out where a forest is wrong.
const UNGUARDED: f64 = 0.02;

/// Observations of the family's share that are added to each leaf. One failure alone says little.
const SMOOTHING: f64 = 1.0;

/// The most attempts that a forest learns from, half of them the latest ones. Its cost grows with their number.
const MAX_ATTEMPTS: usize = 400;

/// A forest grows again after this share of new attempts. Until 32, it is each one.
const REGROWN_SHARE: f64 = 1.0 / 32.0;

/// What a search has learnt about failures.
#[derive(Default)]
pub(super) struct Feasibility {
    families: HashMap<String, OfFamily>,
    /// The attempts of the history that were learnt from.
    seen: usize,
}

/// The attempts of a family.
struct OfFamily {
    encoding: Encoding,
    features: Vec<Vec<f64>>,
    /// 1 for each attempt that worked, else 0.
    worked: Vec<f64>,
    grown_at: usize,
    likely: Option<Arc<Likely>>,
}

impl Feasibility {
    /// Returns a context in which configurations that are likely to fail are not open. Now and then, all of them are.
    pub fn avoiding<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        rng: &mut SmallRng,
    ) -> SearchContext<'a> {
        self.learn(context, history, rng);
        if rng.random_bool(UNGUARDED) {
            return context.avoiding(LikelyByFamily::new());
        }
        let known = self.families.iter().filter_map(|(name, of)| Some((name.clone(), Arc::clone(of.likely.as_ref()?))));
        context.avoiding(known.collect())
    }

    fn learn(&mut self, context: &SearchContext<'_>, history: &History, rng: &mut SmallRng) {
        for attempt in history.attempts.iter().skip(self.seen) {
            self.add(context, attempt);
        }
        self.seen = history.attempts.len();
        // In the order of the families: a map has none, and a seed must always give the same suggestions.
        for family in &context.families {
            if let Some(of_family) = self.families.get_mut(&family.name) {
                of_family.grow(rng);
            }
        }
    }

    fn add(&mut self, context: &SearchContext<'_>, attempt: &Attempt) {
        let case = context.workload.cases.iter().find(|case| attempt.cases.contains(&case.name));
        let family = context.families.iter().find(|family| family.name == attempt.family);
        let Some((family, case)) = family.zip(case) else { return };
        let of_family = self.families.entry(family.name.clone()).or_insert_with(|| OfFamily::new(family));
        of_family.features.push(of_family.encoding.features(&attempt.params, &family.specialization(case)));
        of_family.worked.push(f64::from(u8::from(attempt.worked)));
    }
}

impl OfFamily {
    fn new(family: &Family) -> Self {
        let encoding = Encoding::of(family);
        Self { encoding, features: Vec::new(), worked: Vec::new(), grown_at: 0, likely: None }
    }

    /// Grows the forest again if there is enough to learn.
    fn grow(&mut self, rng: &mut SmallRng) {
        let count = self.worked.len();
        let share = self.worked.iter().sum::<f64>() / count as f64;
        let new = count - self.grown_at;
        if share >= 1.0 || new == 0 || (new as f64) < self.grown_at as f64 * REGROWN_SHARE {
            return;
        }
        let latest = count.saturating_sub(MAX_ATTEMPTS / 2);
        let stride = latest.div_ceil(MAX_ATTEMPTS / 2).max(1);
        let chosen: Vec<usize> = (0..latest).step_by(stride).chain(latest..count).collect();
        let rows: Vec<&[f64]> = chosen.iter().map(|at| self.features[*at].as_slice()).collect();
        let worked: Vec<f64> = chosen.iter().map(|at| self.worked[*at]).collect();
        let forest = Forest::grow(&rows, &worked, SMOOTHING, rng);
        self.likely = Some(Arc::new(Likely::new(self.encoding.clone(), forest, share.min(LIKELY))));
        self.grown_at = count;
    }
}
