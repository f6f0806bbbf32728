//! Predicts the speed-up of a suggestion over an earlier time from the results so far, so that claims can be scored.
//!
//! A Gaussian process over the timed configurations (`process`) gives an expected logarithm and its standard deviation.
//! The errors of earlier claims then shape the range (`calibration`), so that it covers as many outcomes as it states.

mod again;
mod calibration;
mod code;
mod process;

use crate::domain::claims::prediction::{Modelled, Prediction, Strength};
use crate::domain::family::Family;
use crate::domain::history::refuted::{Tries, ln_speedup};
use crate::domain::history::{CaseTime, Finished, History};
use crate::domain::proposal::origin::{Change, Origin};
use crate::domain::statistics::median;
use crate::domain::variant::Params;
pub use again::{again, known_after};
use calibration::Calibration;
pub use code::Built;
use process::Process;

/// How many parameters of a timed configuration may differ for it to count as similar.
const SIMILAR: usize = 2;

/// The standard deviation of a predicted logarithm that comes with its size. The process knows the spread between
/// configurations, but not that a change of 2x is harder to predict to a few percent than one of 1.1x: without this,
/// ranges of claims below 0.5x covered 67% of the outcomes of three sessions (H200, 2026-11-23, 52 claims).
const SD_PER_LN_CHANGE: f64 = 0.1;

/// A question about the speed-up of a suggestion.
pub struct Question<'a> {
    /// The family of the suggestion.
    pub family: &'a Family,
    /// Its configuration.
    pub params: &'a Params,
    /// The case.
    pub case: &'a str,
    /// The reference: an earlier iteration that has a time on the case.
    pub reference: &'a Finished,
    /// Where the suggestion comes from.
    pub origin: &'a Origin,
    /// Its code and its launch on the case, once it is compiled.
    pub built: Option<Built>,
}

impl Question<'_> {
    /// Returns the code of an earlier variant on a case, if that of the suggestion is known too.
    fn comparable(&self, other: &Finished, time: &CaseTime) -> Option<Built> {
        let (_, code) = self.built.zip(other.code)?;
        Some(Built { code, ctas: time.ctas, shape: time.shape })
    }
}

/// Predicts a speed-up. `families` are those of the history; times of others are ignored. None if the reference has no
/// time on the case, or if no configuration of the suggestion's family was ever timed.
pub fn predict(history: &History, families: &[Family], question: &Question<'_>) -> Option<Prediction> {
    let reference_ns = question.reference.time_ns(question.case)?;
    let process = Process::near(history, families, question)?;
    let expected = process.ln_time();
    let mean = reference_ns.ln() - expected.mean;
    let modelled = Modelled { mean, sd: expected.sd.hypot(SD_PER_LN_CHANGE * mean) };
    let (kind, family) = (question.origin.name(), &question.family.name);
    let range = Calibration::of(history, kind, family, question.params, modelled.mean).range(modelled);
    Some(Prediction {
        median: Some(range.median.exp()),
        lo: range.lo.exp(),
        hi: range.hi.exp(),
        strength: Strength::of(similar(history, question)),
        model: Some(modelled),
    })
}

/// Counts the timed configurations of the same family on the case that differ in few parameters. The reference itself
/// does not count.
pub fn similar(history: &History, question: &Question<'_>) -> usize {
    let is_similar = |other: &&Finished| {
        other.iteration != question.reference.iteration
            && other.family == question.family.name
            && other.time_ns(question.case).is_some()
            && differing(&other.params, question.params) <= SIMILAR
    };
    history.finished.iter().filter(is_similar).count()
}

/// Describes the results that a prediction rests on.
pub fn evidence(history: &History, question: &Question<'_>, changes: &[Change]) -> String {
    let mut parts = Vec::new();
    for change in changes {
        let tries = tries_of(history, &question.family.name, change);
        if let Some(middle) = median(&tries.ln_speedups) {
            parts.push(format!(
                "{} from {} to {} was faster in {} of {} tries, {:.2}x in the median",
                change.parameter,
                change.from,
                change.to,
                tries.faster(),
                tries.ln_speedups.len(),
                middle.exp()
            ));
        }
    }
    parts.push(match similar(history, question) {
        0 => "no similar configuration was timed".to_owned(),
        1 => "1 similar configuration was timed".to_owned(),
        count => format!("{count} similar configurations were timed"),
    });
    parts.join("; ")
}

/// Returns the results of one change of a family.
fn tries_of(history: &History, family: &str, change: &Change) -> Tries {
    let same = |finished: &&Finished| {
        finished.family == family && matches!(finished.rationale.origin.changes(), [one] if one == change)
    };
    let tried = history.finished.iter().filter(same);
    Tries { ln_speedups: tried.filter_map(|finished| ln_speedup(history, finished)).collect(), ..Tries::default() }
}

/// Counts the parameters in which two configurations of a family differ.
fn differing(one: &Params, other: &Params) -> usize {
    // Both are in the manifest's order, so that no name needs to be looked up.
    one.values().zip(other.values()).filter(|(a, b)| a != b).count()
}
