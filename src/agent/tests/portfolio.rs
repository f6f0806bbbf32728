//! Tests that the portfolio uses its budget well.

use super::local::{best_after, with_families};

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
    assert!(portfolio < 1.5, "{portfolio:.2} times the optimum");
    assert!(cost < random_cost, "it took {cost:.0} of the best, random {random_cost:.0}");
}
