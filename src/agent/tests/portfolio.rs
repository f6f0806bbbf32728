//! Tests that the portfolio uses its budget well.

use super::local::{mean_of_best, with_families};

#[test]
fn the_portfolio_beats_local_search_with_the_same_number_of_evaluations() {
    let (portfolio, local) = (mean_of_best("portfolio"), mean_of_best("local"));
    assert!(portfolio < local, "the portfolio reached {portfolio:.0} ns, local {local:.0}");
}

#[test]
fn evolution_beats_random_configurations() {
    let (evolution, random) = (mean_of_best("evolution"), mean_of_best("random"));
    assert!(evolution < 0.9 * random, "evolution reached {evolution:.0} ns, random {random:.0}");
}

#[test]
fn of_several_families_the_portfolio_finds_the_best_and_spends_little_on_the_slow() {
    let (portfolio, cost) = with_families("portfolio", 120);
    let (_, random_cost) = with_families("random", 120);
    assert!(portfolio < 1.5, "{portfolio:.2} times the optimum");
    assert!(cost < random_cost, "it took {cost:.0} of the best, random {random_cost:.0}");
}
