//! Chooses the constants of the portfolio on all recorded spaces but one, and shows what they reach on the one left out.
//!
//! `cargo bench --bench leave_one_out -- FILE FILE... [repeats=16] [evaluations=100]`. Prints a table in Markdown: the
//! score P of docs/simulate.md for each choice on each space, then the choice for each space that is left out.

use std::path::Path;

use optloop::agent::{self, Constants};
use optloop::simulate::{Expected, Run, Summary, run};
use optloop::spaces::{self, Searchable};
use rayon::prelude::*;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |name: &str, default: usize| {
        let given = arguments.iter().find_map(|argument| argument.strip_prefix(name));
        given.map_or(default, |given| given.parse().expect("a number"))
    };
    let (repeats, evaluations) = (number("repeats=", 16), number("evaluations=", 100));
    let files = arguments.iter().filter(|argument| !argument.contains('='));
    let spaces: Vec<Searchable> =
        files.map(|file| Searchable::new(spaces::read(Path::new(file)).unwrap()).unwrap()).collect();
    assert!(spaces.len() > 1, "one space is left out, and others are needed to choose on");
    let choices = choices();
    let scores: Vec<Vec<Score>> = choices
        .iter()
        .map(|(_, constants)| spaces.iter().map(|space| score(*constants, space, repeats, evaluations)).collect())
        .collect();
    print_scores(&spaces, &choices, &scores);
    print_choices(&spaces, &choices, &scores);
}

/// The score of a choice on a space.
#[derive(Clone, Copy)]
struct Score {
    score: f64,
    /// Half of its 95% interval.
    error: f64,
}

/// Returns the constants in use and others, each of which differs in one of them.
fn choices() -> Vec<(String, Constants)> {
    let used = Constants::default();
    let mut choices = vec![("as used".to_owned(), used)];
    let mut add = |name: &str, constants: Constants| choices.push((name.to_owned(), constants));
    for initial in [5, 16] {
        add(&format!("initial {initial}"), Constants { initial, ..used });
    }
    for optimism in [0.75, 3.0] {
        add(&format!("optimism {optimism}"), Constants { optimism, ..used });
    }
    for failure in [1.0, 9.0] {
        add(&format!("failure {failure}"), Constants { failure, ..used });
    }
    for forest in [0.5, 0.95] {
        add(&format!("forest {forest}"), Constants { forest, ..used });
    }
    for exploration in [0.005, 0.1] {
        add(&format!("exploration {exploration}"), Constants { exploration, ..used });
    }
    for trust in [8.0, 128.0] {
        add(&format!("trust {trust}"), Constants { trust, ..used });
    }
    choices
}

fn score(constants: Constants, space: &Searchable, repeats: usize, evaluations: usize) -> Score {
    let runs: Vec<Run> = (1..=repeats as u64)
        .into_par_iter()
        .map(|seed| run(agent::portfolio(seed, constants), space, evaluations, 1).unwrap())
        .collect();
    let summary = Summary::of(&space.space, agent::PORTFOLIO, &runs, &Expected::of(&space.space, evaluations));
    let error = summary.score_interval.map_or(f64::NAN, |[lo, hi]| (hi - lo) / 2.0);
    Score { score: summary.score, error }
}

fn print_scores(spaces: &[Searchable], choices: &[(String, Constants)], scores: &[Vec<Score>]) {
    let names: Vec<&str> = spaces.iter().map(|space| space.space.name.as_str()).collect();
    println!("| constants | {} | mean |", names.join(" | "));
    println!("|---|{}", "--:|".repeat(names.len() + 1));
    for ((name, _), scores) in choices.iter().zip(scores) {
        let cells: Vec<String> =
            scores.iter().map(|Score { score, error }| format!("{score:.3} ± {error:.3}")).collect();
        println!("| {name} | {} | {:.3} |", cells.join(" | "), mean(scores.iter()));
    }
}

/// Prints the choice that is the best on all other spaces, for each space.
fn print_choices(spaces: &[Searchable], choices: &[(String, Constants)], scores: &[Vec<Score>]) {
    println!(
        "\n| left out | chosen on the others | score there | as used | difference, 95% interval |\n|---|---|--:|--:|--:|"
    );
    for (place, space) in spaces.iter().enumerate() {
        let elsewhere =
            |choice: usize| mean(scores[choice].iter().enumerate().filter(|(at, _)| *at != place).map(|(_, s)| s));
        let chosen = (0..choices.len()).max_by(|a, b| elsewhere(*a).total_cmp(&elsewhere(*b))).unwrap_or(0);
        let (there, used) = (scores[chosen][place], scores[0][place]);
        let (difference, error) = (there.score - used.score, there.error.hypot(used.error));
        println!(
            "| {} | {} | {:.3} | {:.3} | {:.3} to {:.3} |",
            space.space.name,
            choices[chosen].0,
            there.score,
            used.score,
            difference - error,
            difference + error
        );
    }
}

fn mean<'a>(scores: impl Iterator<Item = &'a Score>) -> f64 {
    let scores: Vec<f64> = scores.map(|score| score.score).collect();
    scores.iter().sum::<f64>() / scores.len() as f64
}
