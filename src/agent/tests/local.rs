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

/// Three families of 15,625 points, of which the best is a hundred times as fast as the worst, on shapes whose best points differ a
/// little.
fn time_of_families(idea: &Idea, case: &Case) -> f64 {
    let slowness = match idea.family.as_str() {
        "plain" => 100.0,
        "good" => 1.6,
        _ => 1.0,
    };
    let shape = f64::from(case.dims["D"].ilog2()) - 4.0;
    let bests = [1.0, 3.0, 2.0, shape, 4.0 - shape, 2.0];
    let rank = |axis: &str| VALUES.iter().position(|value| *value == idea.params[axis]).unwrap() as f64;
    let off: f64 = AXES.iter().zip(bests).map(|(axis, best)| 1.0 + 0.25 * (rank(axis) - best).abs()).product();
    1e3 * slowness * off
}

/// Returns the best time over the optimum, the mean over shapes and sessions, and what the evaluations took over one of the best.
fn with_families(name: &str, evaluations: usize) -> (f64, f64) {
    let cases = [("d16", 64, 16), ("d32", 64, 32), ("d64", 64, 64), ("d128", 64, 128)];
    let (mut log, mut cost) = (0.0, 0.0);
    for seed in 0..20 {
        let families = ["plain", "good", "best"]
            .map(|family_name| family(family_name, &AXES.map(|axis| (axis, VALUES)), "P1 > 0"));
        let mut scene = Scene::new(&cases, families.into());
        let mut proposer = proposer(name, seed).unwrap();
        for _ in 0..evaluations {
            let idea = scene.propose(proposer.as_mut()).unwrap();
            cost += time_of_families(&idea, &idea.cases[0]) / 1e3 / 20.0;
            scene.measure(&idea, time_of_families);
        }
        let best = cases.map(|(case, ..)| scene.history.fastest(case).unwrap().1 / 1e3);
        log += best.iter().map(|best| best.ln()).sum::<f64>() / 4.0 / 20.0;
    }
    (log.exp(), cost)
}

/// What a short session is about: the right family soon, and what one shape has taught on the next.
#[test]
fn of_several_families_on_several_shapes_local_search_finds_the_best_and_spends_little_on_the_slow() {
    let (local, local_cost) = with_families("local", 120);
    let (random, random_cost) = with_families("random", 120);
    assert!(local < 1.3 && local < 0.6 * random, "{local:.2} times the optimum, random {random:.2}");
    // Nearly all of it is the opening's.
    assert!(local_cost < 0.3 * random_cost, "it took {local_cost:.0} of the best, random {random_cost:.0}");
}
