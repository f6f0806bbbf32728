//! Predicts the speed-up of a suggestion from the results of similar ones, so that claims can be scored.

use crate::domain::history::{Finished, History};
use crate::domain::origin::Origin;
use crate::domain::statistics::{Interval, median, quantile};
use crate::domain::variant::Params;

/// A prediction with its evidence.
pub struct Prediction {
    /// The predicted range of speed-ups.
    pub range: Interval,
    /// The evidence, in words.
    pub evidence: String,
}

/// Results of one kind needed before they replace the prior.
const ENOUGH: usize = 4;

/// Predicts a move along one parameter from earlier such moves in this session, or else from the manifest's `expect`.
/// The prediction from earlier moves is the middle half of their speed-ups. The prior `[low, high]` is what a *good*
/// move brings. A move may also be bad, so the prediction reaches down to the reciprocal of `high`.
pub fn along_parameter(history: &History, family: &str, parameter: &str, case: &str, expect: [f64; 2]) -> Prediction {
    let seen: Vec<f64> =
        history.finished.iter().filter_map(|f| parameter_effect(history, f, family, parameter, case)).collect();
    from_record(seen, &format!("changes of {parameter}")).unwrap_or_else(|| Prediction {
        range: Interval { lo: 1.0 / expect[1], hi: expect[1] },
        evidence: format!(
            "no record of {parameter} yet; the manifest expects {} to {} from a good change",
            expect[0], expect[1]
        ),
    })
}

/// Predicts a random configuration from the results of earlier ones.
pub fn at_random(history: &History, case: &str) -> Prediction {
    let seen: Vec<f64> = history
        .finished
        .iter()
        .filter(|finished| finished.origin == Origin::Random)
        .filter_map(|finished| effect(history, finished, case))
        .collect();
    from_record(seen, "random configurations").unwrap_or_else(|| Prediction {
        range: Interval { lo: 0.05, hi: 1.0 },
        evidence: "no record yet; most random configurations are slower than a tuned one".to_owned(),
    })
}

fn from_record(mut seen: Vec<f64>, what: &str) -> Option<Prediction> {
    if seen.len() < ENOUGH {
        return None;
    }
    // Sort once here: the three functions below sort again, which is fast on sorted values.
    seen.sort_by(f64::total_cmp);
    let range = Interval { lo: quantile(&seen, 0.25)?, hi: quantile(&seen, 0.75)? };
    let evidence = format!("{} earlier {what} gave {:.2}x in the median", seen.len(), median(&seen)?);
    Some(Prediction { range, evidence })
}

fn parameter_effect(history: &History, finished: &Finished, family: &str, parameter: &str, case: &str) -> Option<f64> {
    let reference = history.iteration(finished.hypothesis.reference.iteration()?)?;
    let same_family = finished.family == family && reference.family == family;
    (same_family && only_moved(parameter, &reference.params, &finished.params))
        .then(|| effect(history, finished, case))?
}

/// Returns the speed-up of an iteration over the one that its hypothesis refers to. Uses the given case if both were
/// timed on it, or else the case of the hypothesis.
fn effect(history: &History, finished: &Finished, case: &str) -> Option<f64> {
    let reference = history.iteration(finished.hypothesis.reference.iteration()?)?;
    let time = |f: &Finished, case: &str| f.times.iter().find(|t| t.case == case).map(|t| t.median_ns);
    let on = |case: &str| Some(time(reference, case)? / time(finished, case)?);
    on(case).or_else(|| on(&finished.hypothesis.case))
}

/// Returns whether `parameter` is the only one that differs. Every proposal asks this of every iteration, so the common
/// "no" is fast.
fn only_moved(parameter: &str, from: &Params, to: &Params) -> bool {
    let moved = |name: &str| from.get(name) != to.get(name);
    from.contains_key(parameter) && moved(parameter) && from.keys().all(|name| name == parameter || !moved(name))
}
