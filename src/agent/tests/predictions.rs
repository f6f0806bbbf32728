//! Predictions use the manifest at first and earlier results later.

use super::*;
use crate::agent::prediction::{along_parameter, at_random};
use crate::domain::hypothesis::{Hypothesis, Reference};
use crate::domain::ids::IterationId;
use crate::domain::origin::{Origin, Purpose};
use crate::domain::statistics::Interval;
use crate::domain::variant::Params;

/// Makes a history in which iteration 1 takes 1000 ns with BR = 1. Each later iteration changes one parameter and has
/// one of the given speed-ups.
fn history(parameter: &str, origin: &Origin, speedups: &[f64]) -> History {
    let mut scene = Scene::new(&[("c", 64, 16)], vec![family("f", &[("BR", &[1, 2]), ("BC", &[1, 2])], "BR > 0")]);
    let first = Params::from([("BR".to_owned(), 1), ("BC".to_owned(), 1)]);
    for (index, speedup) in [1.0].iter().chain(speedups).enumerate() {
        let mut params = first.clone();
        if index > 0 {
            params.insert(parameter.to_owned(), 2);
        }
        let hypothesis = Hypothesis {
            claim: "c".to_owned(),
            evidence: "e".to_owned(),
            case: "c".into(),
            predicted: Interval { lo: 1.0, hi: 1.0 },
            reference: if index > 0 { Reference::Iteration(IterationId(1)) } else { Reference::Incumbent },
        };
        let cases = scene.workload.cases.clone();
        let (family, purpose, origin) = ("f".to_owned(), Purpose::Screening, origin.clone());
        let suggestion = Suggestion { family, params, cases, hypothesis, parent: None, purpose, origin };
        scene.measure(&suggestion, |_, _| 1000.0 / speedup);
    }
    scene.history
}

fn along(history: &History, parameter: &str) -> (f64, f64, String) {
    let prediction = along_parameter(history, "f", parameter, "c", [1.3, 2.0]);
    (prediction.range.lo, prediction.range.hi, prediction.evidence)
}

#[test]
fn three_moves_leave_the_prior_and_four_replace_it_by_their_middle_half() {
    let three = history("BR", &Origin::Move { changes: Vec::new() }, &[0.5, 1.0, 1.5]);
    let prior = "no record of BR yet; the manifest expects 1.3 to 2 from a good change";
    assert_eq!(along(&three, "BR"), (0.5, 2.0, prior.to_owned()));

    // The middle half of 0.5, 1.0, 1.5, 2.0, 4.0 lies between the second and the fourth.
    let (lo, hi, evidence) =
        along(&history("BR", &Origin::Move { changes: Vec::new() }, &[0.5, 4.0, 1.0, 2.0, 1.5]), "BR");
    assert!((lo - 1.0).abs() < 1e-9 && (hi - 2.0).abs() < 1e-9, "{lo} to {hi}");
    assert_eq!(evidence, "5 earlier changes of BR gave 1.50x in the median");
}

#[test]
fn a_parameter_learns_nothing_from_moves_along_another() {
    let (lo, hi, _) = along(&history("BR", &Origin::Move { changes: Vec::new() }, &[3.0; 6]), "BC");
    assert_eq!((lo, hi), (0.5, 2.0));
}

#[test]
fn random_configurations_learn_from_random_configurations_only() {
    let range = |origin| at_random(&history("BR", &origin, &[0.5, 0.25, 0.5, 0.5]), "c").range;
    assert_eq!(range(Origin::Move { changes: Vec::new() }), Interval { lo: 0.05, hi: 1.0 });
    assert_eq!(range(Origin::Random), Interval { lo: 0.4375, hi: 0.5 });
}
