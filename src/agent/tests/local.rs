//! What `local` is for: it descends where `random` only looks around.

use super::*;
use crate::agent::proposer;

const AXES: [&str; 6] = ["P1", "P2", "P3", "P4", "P5", "P6"];
const VALUES: &[i64] = &[1, 2, 4, 8, 16];

/// A landscape of 15,625 points: four axes by themselves, and a valley that runs along the diagonal of the other two.
fn time(idea: &Idea, _: &Case) -> f64 {
    let rank = |axis: &str| VALUES.iter().position(|value| *value == idea.params[axis]).unwrap() as f64;
    let alone: f64 = [("P1", 3.0), ("P2", 1.0), ("P3", 4.0), ("P4", 2.0)]
        .iter()
        .map(|(axis, best)| 1.0 + 0.3 * (rank(axis) - best).abs())
        .product();
    let valley = 1.0 + (rank("P5") - rank("P6")).abs() + 0.2 * (4.0 - rank("P5"));
    1e4 * alone * valley
}

/// Returns the logarithm of the best time after so many evaluations.
fn best_after(name: &str, seed: u64, evaluations: usize) -> f64 {
    let family = family("f", &AXES.map(|axis| (axis, VALUES)), "P1 > 0");
    let mut scene = Scene::new(&[("c", 64, 16)], vec![family]);
    let mut proposer = proposer(name, seed).unwrap();
    for _ in 0..evaluations {
        let idea = scene.propose(proposer.as_mut()).unwrap();
        scene.measure(&idea, time);
    }
    scene.history.incumbents["c"].timing.median_ns.ln()
}

#[test]
fn local_search_beats_random_points_with_the_same_number_of_evaluations() {
    let mean = |name: &str| ((0..20).map(|seed| best_after(name, seed, 60)).sum::<f64>() / 20.0).exp();
    let (local, random) = (mean("local"), mean("random"));
    assert!(local < 0.9 * random, "local reached {local:.0} ns, random {random:.0} ns");
}
