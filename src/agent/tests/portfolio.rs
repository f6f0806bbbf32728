//! Tests that the portfolio uses its budget well.

use super::local::{best_after, with_families};
use super::*;
use crate::agent::proposer;

#[test]
fn the_portfolio_beats_local_search_with_the_same_number_of_evaluations() {
    let mean = |name: &str| ((0..8).map(|seed| best_after(name, seed, 60)).sum::<f64>() / 8.0).exp();
    let (portfolio, local) = (mean("portfolio"), mean("local"));
    assert!(portfolio < local, "the portfolio reached {portfolio:.0} ns, local {local:.0}");
}

#[test]
fn evolution_beats_random_configurations() {
    let mean = |name: &str| ((0..8).map(|seed| best_after(name, seed, 60)).sum::<f64>() / 8.0).exp();
    let (evolution, random) = (mean("evolution"), mean("random"));
    assert!(evolution < 0.9 * random, "evolution reached {evolution:.0} ns, random {random:.0}");
}

#[test]
fn of_several_families_the_portfolio_finds_the_best_and_spends_little_on_the_slow() {
    let (portfolio, cost) = with_families("portfolio", 120);
    let (_, random_cost) = with_families("random", 120);
    assert!(portfolio < 1.3, "{portfolio:.2} times the optimum");
    assert!(cost < 0.3 * random_cost, "it took {cost:.0} of the best, random {random_cost:.0}");
}

/// Returns how many of 60 suggestions fail where the configurations that would be the fastest fail.
fn failures(name: &str, seed: u64) -> usize {
    let values: Vec<i64> = (1..=16).collect();
    let mut scene = Scene::new(&[("c", 64, 16)], vec![family("f", &[("A", &values), ("B", &values)], "A > 0")]);
    let mut proposer = proposer(name, seed).unwrap();
    let mut failures = 0;
    for _ in 0..60 {
        let suggestion = scene.propose(proposer.as_mut()).unwrap();
        if suggestion.params["A"] > 8 {
            scene.fail(&suggestion);
            failures += 1;
        } else {
            scene.measure(&suggestion, |suggestion, _| 1e4 / (suggestion.params["A"] + 1) as f64);
        }
    }
    failures
}

#[test]
fn configurations_like_those_that_failed_are_avoided() {
    let sum = |name: &str| (0..6).map(|seed| failures(name, seed)).sum::<usize>();
    let (portfolio, random) = (sum("portfolio"), sum("random"));
    assert!(10 * portfolio < 7 * random, "{portfolio} failures, random {random}");
}
