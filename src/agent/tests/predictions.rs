//! Predictions learn: their ranges become narrower, have their stated coverage, and score better than "no change".

use super::*;
use crate::agent::prediction::{Question, predict};
use crate::agent::proposer;
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::claims::prediction::{COVERAGE, Crps, Prediction, Strength};
use crate::domain::history::Finished;
use crate::domain::history::refuted::ln_speedup;
use crate::domain::proposal::Rationale;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::statistics::synthetic::repeats;
use crate::domain::variant::Params;

const VALUES: &[i64] = &[1, 2, 4, 8, 16];
const PARAMETERS: [&str; 6] = ["P1", "P2", "P3", "P4", "P5", "P6"];

/// Parameters of very different effects, an interaction, and 1% of noise that is always the same for a configuration.
fn time(suggestion: &Suggestion, case: &Case) -> f64 {
    let rank = |parameter: &str| VALUES.iter().position(|value| *value == suggestion.params[parameter]).unwrap() as f64;
    let worth: f64 = [("P1", 3.0, 0.4), ("P2", 1.0, 0.1), ("P3", 2.0, 0.02), ("P4", 2.0, 0.0)]
        .iter()
        .map(|(parameter, best, effect)| 1.0 + effect * (rank(parameter) - best).abs())
        .product();
    let valley = 1.0 + 0.3 * (rank("P5") - rank("P6")).abs();
    let hash = suggestion.params.values().fold(7_i64, |sum, value| sum.wrapping_mul(31).wrapping_add(*value));
    1e3 * case.dims["Sq"] as f64 * worth * valley * (1.0 + 0.01 * ((hash % 100) as f64 / 50.0 - 1.0))
}

/// Returns the claims of a session of `local`: each with its outcome.
fn claims(seed: u64, evaluations: usize) -> Vec<(Prediction, f64)> {
    let family = family("f", &PARAMETERS.map(|parameter| (parameter, VALUES)), "P1 > 0");
    let mut scene = Scene::new(&[("short", 64, 16), ("long", 512, 16)], vec![family]);
    let mut proposer = proposer("local", seed).unwrap();
    for _ in 0..evaluations {
        let suggestion = scene.propose(proposer.as_mut()).unwrap();
        scene.measure(&suggestion, time);
    }
    let claim = |finished: &Finished| {
        Some((finished.rationale.hypothesis.prediction?, ln_speedup(&scene.history, finished)?.exp()))
    };
    scene.history.finished.iter().filter_map(claim).collect()
}

#[test]
fn ranges_have_their_stated_coverage_become_narrower_and_beat_no_change() {
    let sessions: Vec<_> = (0..repeats(2, 8)).map(|seed| claims(seed, 150)).collect();
    let all: Vec<_> = sessions.iter().flatten().collect();
    let covered = all.iter().filter(|(prediction, actual)| prediction.covers(*actual)).count();
    let coverage = covered as f64 / all.len() as f64;
    assert!((coverage - COVERAGE).abs() < 0.08, "{coverage:.2} of {}", all.len());

    let width = |claims: &[(Prediction, f64)]| {
        claims.iter().map(|(prediction, _)| prediction.width().ln()).sum::<f64>() / claims.len() as f64
    };
    let (first, last): (Vec<_>, Vec<_>) =
        sessions.iter().map(|claims| (width(&claims[..15]), width(&claims[claims.len() - 15..]))).unzip();
    let (first, last) = (first.iter().sum::<f64>(), last.iter().sum::<f64>());
    assert!(last < 0.5 * first, "{first:.2} at first, {last:.2} at last");

    let scores = all.iter().filter_map(|(prediction, actual)| Crps::of(Some(*prediction), Some(*actual)));
    let (own, no_change): (Vec<_>, Vec<_>) = scores.map(|crps| (crps.prediction, crps.no_change)).unzip();
    let (own, no_change) = (own.iter().sum::<f64>(), no_change.iter().sum::<f64>());
    assert!(own < 0.7 * no_change, "{own:.2} against {no_change:.2}");
}

/// Makes a scene of two cases that do not share a source, in which a family has these times: `(case, P1, ns)`.
fn timed(timed: &[(usize, i64, f64)]) -> Scene {
    let families = ["f", "g"].map(|name| family(name, &[("P1", VALUES), ("P2", VALUES)], "P1 > 0"));
    let mut scene = Scene::new(&[("narrow", 64, 16), ("wide", 64, 64)], families.into());
    for (case, value, ns) in timed {
        let case = scene.workload.cases[*case].clone();
        let suggestion = Suggestion {
            family: "f".to_owned(),
            params: Params::from([("P1".to_owned(), *value), ("P2".to_owned(), 1)]),
            rationale: Rationale {
                hypothesis: Hypothesis::without_claim(
                    "c".to_owned(),
                    "e".to_owned(),
                    case.name.clone(),
                    Reference::Incumbent,
                ),
                parent: None,
                purpose: Purpose::Screening,
                origin: Origin::Random,
            },
            cases: vec![case],
        };
        scene.measure(&suggestion, |_, _| *ns);
    }
    scene
}

/// Returns what is predicted for a family with P1 = 2 on the wide case, over the first iteration there.
fn predicted(scene: &Scene, family: &str) -> Option<Prediction> {
    let reference = scene.history.finished.iter().find(|finished| finished.time_ns("wide").is_some())?;
    let params = Params::from([("P1".to_owned(), 2), ("P2".to_owned(), 1)]);
    let (family, origin) = (scene.family(family), &Origin::Random);
    let question = Question { family, params: &params, case: "wide", reference, origin, built: None };
    predict(&scene.history, &scene.families, &question)
}

#[test]
fn what_a_configuration_was_worth_on_another_case_is_expected_of_it() {
    let here = (1, 1, 1000.0);
    let alone = predicted(&timed(&[here]), "f").unwrap();
    assert!((alone.median.unwrap() - 1.0).abs() < 0.1 && alone.strength == Strength::Prior, "{alone:?}");
    let twice_as_fast = predicted(&timed(&[(0, 1, 100.0), (0, 2, 50.0), here]), "f").unwrap();
    assert!(twice_as_fast.median.unwrap() > 1.2, "{twice_as_fast:?}");
    assert!(twice_as_fast.width() < alone.width(), "{twice_as_fast:?}");
}

#[test]
fn nothing_is_predicted_of_a_family_that_was_never_timed() {
    assert_eq!(predicted(&timed(&[(1, 1, 1000.0)]), "g"), None);
}
