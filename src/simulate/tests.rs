//! Tests on small made-up spaces whose figures can be computed by hand or by counting.

use serde_json::{Value, json};

use super::*;
use crate::domain::statistics::synthetic::repeats;
use crate::spaces::{RecordedSpace, Searchable, parse};

/// Makes a space of one parameter with the given times in milliseconds. None fails.
fn line(times_ms: &[Option<f64>]) -> RecordedSpace {
    let values: Vec<usize> = (0..times_ms.len()).collect();
    let entry = |(x, ms): (usize, &Option<f64>)| {
        (x.to_string(), json!({ "X": x, "time": ms.map_or(json!("CompilationFailedConfig"), |ms| json!(ms)) }))
    };
    let entries: serde_json::Map<String, Value> = times_ms.iter().enumerate().map(entry).collect();
    let cache = json!({ "tune_params_keys": ["X"], "tune_params": { "X": values }, "cache": entries });
    parse("line", cache.to_string().as_bytes()).unwrap()
}

/// Makes a space of three parameters with 512 configurations, a basin around (5, 2, 3), and a failure in every seventh.
fn basin() -> Searchable {
    let mut entries = serde_json::Map::new();
    for (number, (a, b, c)) in (0..8).flat_map(|a| (0..8).flat_map(move |b| (0..8).map(move |c| (a, b, c)))).enumerate()
    {
        let ms = 1.0 + 0.1 * f64::from((a - 5) * (a - 5) + (b - 2) * (b - 2)) + 0.3 * f64::from((c - 3_i32).abs());
        let time = if number % 7 == 0 { json!("RuntimeFailedConfig") } else { json!(ms) };
        entries.insert(format!("{a},{b},{c}"), json!({ "A": a, "B": b, "C": c, "time": time }));
    }
    let values: Vec<i32> = (0..8).collect();
    let cache = json!({
        "tune_params_keys": ["A", "B", "C"],
        "tune_params": { "A": values, "B": values, "C": values },
        "cache": entries,
    });
    Searchable::new(parse("basin", cache.to_string().as_bytes()).unwrap()).unwrap()
}

/// Runs a proposer, and returns the best time after each evaluation.
fn best_ns(name: &str, seed: u64, searched: &Searchable, evaluations: usize) -> Vec<f64> {
    run(agent::proposer(name, seed).unwrap(), searched, evaluations, 1).unwrap().best_ns
}

/// Makes runs without failures.
fn runs(best_ns: &[Vec<f64>]) -> Vec<Run> {
    best_ns.iter().map(|best_ns| Run { best_ns: best_ns.clone(), failures: 0 }).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// Counts every order of four configurations: 1, 2, 4 and a failure, which counts as 4.
#[test]
fn random_search_is_expected_as_all_orders_of_the_configurations_are() {
    let times: [f64; 4] = [1.0, 2.0, 4.0, 4.0];
    let mut sums = [0.0; 4];
    let orders: Vec<[usize; 4]> = (0..256)
        .map(|code| [code % 4, code / 4 % 4, code / 16 % 4, code / 64])
        .filter(|order| (0..4).all(|place| order.contains(&place)))
        .collect();
    assert_eq!(orders.len(), 24);
    for order in &orders {
        let mut best = f64::INFINITY;
        for (sum, place) in sums.iter_mut().zip(order) {
            best = times[*place].min(best);
            *sum += best / 24.0;
        }
    }
    let space = line(&[Some(2.0), None, Some(1.0), Some(4.0)]);
    let expected = Expected::of(&space, 10);
    assert_eq!(expected.mean_ns().len(), 4, "the space has no more");
    for (mean_ns, sum) in expected.mean_ns().iter().zip(sums) {
        assert!(close(*mean_ns, sum * 1e6), "{:?} is not {sums:?}", expected.mean_ns());
    }
    let summary = Summary::of_random(&space, &expected);
    assert_eq!(summary.reached[0].evaluations, Some(2.0), "half of the orders have the best among the first two");
    assert!(close(summary.reached[0].share, 1.0));
    assert!(close(Summary::of_random(&space, &Expected::of(&space, 1)).reached[0].share, 0.25));
}

#[test]
fn the_score_is_zero_for_the_expected_curve_and_one_for_the_optimum_at_once() {
    let space = line(&(1..=40).map(|ms| Some(f64::from(ms))).collect::<Vec<_>>());
    let expected = Expected::of(&space, 30);
    let score = |best_ns: &[Vec<f64>]| Summary::of(&space, "p", &runs(best_ns), &expected).score;
    assert!(close(score(&[expected.mean_ns().to_vec()]), 0.0));
    assert!(close(score(&[vec![1e6; 30]]), 1.0));
    assert!(close(score(&[vec![1e6; 30], expected.mean_ns().to_vec()]), 0.5));
    assert!(score(&[vec![40e6; 30]]) < -1.0, "worse than random search");
    assert!(score(&[vec![f64::INFINITY; 30]]).is_finite(), "a run that finds nothing is as bad as the slowest");
}

#[test]
fn figures_are_medians_over_runs_and_none_where_most_runs_have_none() {
    let space = line(&(0..200).map(|x| Some(1.0 + f64::from(x) / 100.0)).collect::<Vec<_>>());
    let expected = Expected::of(&space, 60);
    let run = |first: usize| (0..60).map(|at| if at < first { 1.5e6 } else { 1.03e6 }).collect::<Vec<f64>>();
    let summary = Summary::of(&space, "p", &runs(&[run(9), run(29), run(60)]), &expected);
    let [five, one] = &summary.reached;
    assert_eq!((five.evaluations, one.evaluations, one.share), (Some(30.0), None, 0.0));
    assert!(close(five.share, 2.0 / 3.0));
    assert_eq!(summary.medians[2..], [None, None], "the runs are shorter");
    assert!(close(summary.medians[0].unwrap(), 1.5) && close(summary.medians[1].unwrap(), 1.03));
}

#[test]
fn every_proposer_searches_a_recording_and_a_run_depends_only_on_its_seed() {
    let searched = basin();
    for name in proposers() {
        let best = best_ns(name, 3, &searched, 120);
        assert_eq!(best, best_ns(name, 3, &searched, 120), "{name}");
        assert!(best.is_sorted_by(|earlier, later| earlier >= later), "{name}: the best time never grows");
        assert!(best[119].is_finite(), "{name}");
        if repeats(true, false) {
            continue;
        }
        let all = best_ns(name, 3, &searched, 600);
        assert_eq!(all[511], searched.space.optimum_ns(), "{name} reaches every configuration");
        assert_eq!(all.len(), 600, "{name}: the best time stands when nothing is left");
    }
}

/// Half of the space fails, on the far side of a product of two parameters, and the optimum is next to the edge.
#[test]
fn the_portfolio_avoids_failures_and_still_finds_the_optimum() {
    let mut entries = serde_json::Map::new();
    for (a, b, c) in (1..=8).flat_map(|a| (1..=8).flat_map(move |b| (0..16).map(move |c| (a, b, c)))) {
        let ms = 1.0 + 0.02 * f64::from(16 - a * b).abs() + 0.05 * f64::from((c - 11_i32).abs());
        let time = if a * b > 16 { json!("CompilationFailedConfig") } else { json!(ms) };
        entries.insert(format!("{a},{b},{c}"), json!({ "A": a, "B": b, "C": c, "time": time }));
    }
    let (few, many): (Vec<i32>, Vec<i32>) = ((1..=8).collect(), (0..16).collect());
    let cache = json!({
        "tune_params_keys": ["A", "B", "C"], "tune_params": { "A": few, "B": few, "C": many }, "cache": entries,
    });
    let edge = Searchable::new(parse("edge", cache.to_string().as_bytes()).unwrap()).unwrap();
    let count = repeats(2, 10);
    let failures = |name: &str| -> (f64, f64) {
        let runs: Vec<Run> =
            (0..count).map(|seed| run(agent::proposer(name, seed).unwrap(), &edge, 120, 1).unwrap()).collect();
        let over = runs.iter().map(|run| run.best_ns[119] / edge.space.optimum_ns()).sum::<f64>() / count as f64;
        (runs.iter().map(|run| run.failures as f64 / 120.0).sum::<f64>() / count as f64, over)
    };
    let ((portfolio, over), (random, _)) = (failures("portfolio"), failures("random"));
    assert!(portfolio < 0.5 * random, "portfolio {portfolio:.2}, random {random:.2}");
    assert!(over < 1.02, "{over:.3} times the optimum");
}

#[test]
fn lanes_evaluate_before_the_results_of_others_are_known() {
    let basin = basin();
    let reached = |lanes| run(agent::proposer("local", 1).unwrap(), &basin, 100, lanes).unwrap().best_ns;
    let (one, eight) = (reached(1), reached(8));
    assert_eq!((eight.len(), eight.last()), (100, one.last()), "both find the optimum");
    assert_ne!(one, eight, "what is suggested follows from what is known");
}

/// The initial design takes the middle, (3, 3, 3) or near it. A failure takes an evaluation and gives no time.
#[test]
fn a_failed_configuration_costs_an_evaluation() {
    let failing = Searchable::new(line(&[None, None, Some(1.0), None, None])).unwrap();
    let runs: Vec<Vec<f64>> = (0..20).map(|seed| best_ns("random", seed, &failing, 5)).collect();
    assert!(runs.iter().all(|best| best[0] == 1e6), "the middle works, and is first");
    let failing = Searchable::new(line(&[None, None, None, None, Some(1.0)])).unwrap();
    let runs: Vec<Vec<f64>> = (0..20).map(|seed| best_ns("random", seed, &failing, 5)).collect();
    assert!(runs.iter().all(|best| best[0].is_infinite() && best[4] == 1e6));
}

#[test]
fn local_search_scores_higher_than_random_search_and_random_draws_score_about_zero() {
    let effort = Effort { repeats: repeats(10, 40), evaluations: 100, seed: 1, lanes: 1 };
    let names = ["random".to_owned(), "local".to_owned()];
    let [exact, random, local] = simulate(&[basin()], &names, effort).unwrap().try_into().unwrap();
    assert_eq!((exact.proposer.as_str(), exact.score), ("random, exact", 0.0));
    assert!(local.score > random.score + 0.2, "local {:.3}, random {:.3}", local.score, random.score);
    assert!((0.05..0.25).contains(&random.failed), "one in seven fails: {:.3}", random.failed);
    let over = random.medians[1].unwrap() / exact.medians[1].unwrap();
    assert!((0.8..1.25).contains(&over), "the same median after 50 draws: {over:.3}");
}
