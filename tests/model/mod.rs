//! Checks that the timing model ranks configurations like times measured on an H200 (docs/data/).
//!
//! Needs no GPU. Compiles every configuration of the table with NVRTC, executes sampled blocks on the virtual GPU, and
//! models the time. The model was fitted on other configurations. docs/model.md has the table that this prints:
//! `cargo test --test integration model:: -- --nocapture`.

mod rank;
mod simulate;
mod table;

use std::path::Path;

use rayon::prelude::*;

use rank::{median, regret, spearman};
use simulate::Lab;
use table::Table;

/// Minimum rank correlation on a case.
const MIN_CORRELATION: f64 = 0.85;

/// How many of the model's best configurations are considered.
const FIRST: usize = 5;

/// Maximum ratio of the best of them to the best of all.
const MAX_REGRET: f64 = 0.10;

/// How well the model ranks one case.
struct Score {
    case: String,
    configurations: usize,
    correlation: f64,
    /// How much slower the best of the first [`FIRST`] is than the best of all.
    regret: f64,
    /// Median of modelled over measured.
    ratio: f64,
    /// Median of the larger over the smaller of the two, after dividing out that ratio.
    spread: f64,
}

impl Score {
    fn of(case: &str, pairs: &[(f64, f64)]) -> Self {
        let (modelled, measured): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let ratio = median(pairs.iter().map(|(modelled, measured)| modelled / measured));
        let off = |(modelled, measured): &(f64, f64)| (modelled / measured / ratio).ln().abs();
        Self {
            case: case.to_owned(),
            configurations: pairs.len(),
            correlation: spearman(&modelled, &measured),
            regret: regret(&modelled, &measured, FIRST),
            ratio,
            spread: median(pairs.iter().map(off)).exp(),
        }
    }

    fn print(&self) {
        let Self { case, configurations, correlation, regret, ratio, spread } = self;
        let regret = 100.0 * regret;
        println!("| {case} | {configurations} | {correlation:.3} | {regret:.1}% | {ratio:.2} | {spread:.2} |");
    }
}

#[test]
fn the_model_ranks_configurations_as_an_h200_does() {
    for score in scores("docs/data/h200-attention-fp16-d64.csv") {
        assert!(score.configurations >= 60, "{}: {} configurations", score.case, score.configurations);
        assert!(score.correlation >= MIN_CORRELATION, "{}: Spearman {:.3}", score.case, score.correlation);
        assert!(score.regret <= MAX_REGRET, "{}: the first {FIRST} are {:.3} off", score.case, score.regret);
    }
}

#[test]
#[ignore = "takes twice as long and says nothing new: the configurations that the model was fitted on"]
fn the_model_ranks_what_it_was_fitted_on() {
    let scores = scores("docs/data/h200-attention-fp16-d64-fitted.csv");
    assert!(scores.iter().all(|score| score.correlation >= MIN_CORRELATION && score.regret <= MAX_REGRET));
}

/// Models every configuration of a table of the project, prints the quality on each case, and returns it.
fn scores(path: &str) -> Vec<Score> {
    let table = Table::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    let lab = Lab::open(&table.workload);
    // Modelled and measured times, per configuration and case.
    let times: Vec<Vec<Option<(f64, f64)>>> = table.rows.par_iter().map(|row| times(&lab, &table.cases, row)).collect();

    println!("| case | configurations | Spearman | best of the top {FIRST} | modelled / measured | spread |");
    println!("|---|---|---|---|---|---|");
    let score = |(column, case): (usize, &String)| {
        let pairs: Vec<(f64, f64)> = times.iter().filter_map(|row| row[column]).collect();
        Score::of(case, &pairs)
    };
    let scores: Vec<Score> = table.cases.iter().enumerate().map(score).collect();
    scores.iter().for_each(Score::print);
    scores
}

fn times(lab: &Lab, cases: &[String], row: &table::Row) -> Vec<Option<(f64, f64)>> {
    let time = |(case, measured): (&String, &Option<f64>)| {
        let measured = (*measured)?;
        Some((lab.modelled_ns(row, lab.workload.case(case).unwrap()), measured))
    };
    cases.iter().zip(&row.measured_ns).map(time).collect()
}
