//! Replays recorded sessions through the predictions: each suggestion is predicted from the results before it, as a
//! session would, and the claims are judged as a report judges them.
//!
//! `OPTLOOP_STORES=a.db:b.db cargo test --test integration calibration:: -- --ignored --nocapture` prints, for each
//! session of the stores, the coverage, the widths and the scores by kind and by predicted speed-up, and what of their widths is left
//! in the last claims, compared with what the same claims would have been early in the session.

use std::path::Path;
use std::time::{Duration, Instant};

use optloop::agent::prediction::{again, known_after};
use optloop::catalog::Project;
use optloop::domain::family::Family;
use optloop::domain::history::History;
use optloop::domain::proposal::origin::Purpose;
use optloop::domain::record::SessionRecord;
use optloop::report::contract::Calibration;
use optloop::report::{ReportInput, build};
use optloop::store::Store;

/// Predictions whose configuration has been changed by a newer manifest are left out.
#[test]
#[ignore = "needs recorded stores, named by OPTLOOP_STORES"]
fn recorded_sessions_are_predicted_as_they_went() {
    let stores = std::env::var("OPTLOOP_STORES").expect("OPTLOOP_STORES names stores, separated by colons");
    let families = Project::find(Some(Path::new(env!("CARGO_MANIFEST_DIR")))).unwrap().families().unwrap().sound;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for path in stores.split(':') {
        let store = runtime.block_on(Store::open_existing(Path::new(path))).unwrap();
        for session in runtime.block_on(store.sessions()).unwrap() {
            let mut record = runtime.block_on(store.session_record(session.id)).unwrap();
            let (count, took) = predict_again(&mut record, &families);
            let history = History::of(&record);
            let input = ReportInput {
                record: &record,
                facts: &[],
                families: &[],
                dims: &[],
                independent_dims: &[],
                is_valid: &|_, _, _| false,
                findings: &[],
                began: &[],
                predict: &|_, _| None,
                known_after: &|earlier, claims| known_after(&record, &families, &history, earlier, claims),
            };
            println!("{path}, session {}: {count} predictions in {took:?}", session.id);
            print(&build(&input).calibration);
        }
    }
}

/// Replaces the prediction of every iteration with the current model's. Returns their number and the time that they
/// took.
fn predict_again(record: &mut SessionRecord, families: &[Family]) -> (usize, Duration) {
    let mut history = History::default();
    let (mut count, mut took) = (0, Duration::ZERO);
    for iteration in &mut record.iterations {
        let makes_claims = ["move", "coverage", "warm_start"].contains(&iteration.rationale.origin.name());
        let reference = iteration.rationale.hypothesis.reference.iteration();
        let reference = reference.and_then(|reference| history.iteration(reference));
        let prediction =
            match reference.filter(|_| makes_claims && iteration.rationale.purpose != Purpose::Confirmation) {
                Some(reference) => {
                    let begun = Instant::now();
                    let prediction = again(&history, families, iteration, reference);
                    took += begun.elapsed();
                    count += usize::from(prediction.is_some());
                    prediction
                }
                None => None,
            };
        iteration.rationale.hypothesis.prediction = prediction;
        iteration.score = iteration.score.map(|_| iteration.rationale.hypothesis.score(iteration.actual));
        history.learn_recorded(iteration);
    }
    (count, took)
}

fn print(calibration: &Calibration) {
    println!(
        "kind | median | claims | coverage (95%) | width, first to last | last claims, known early | CRPS, \"no change\" | difference | faster"
    );
    for kept in &calibration.kept {
        let end = |end: Option<f64>| end.map_or_else(|| "*".to_owned(), |end| end.to_string());
        let band = kept.band.map_or_else(|| "all".to_owned(), |[lo, hi]| format!("{} to {}", end(lo), end(hi)));
        let ([coverage_lo, coverage_hi], [difference, lo, hi]) = (kept.coverage_ci, kept.crps_difference);
        let learnt = kept.early_width.zip(kept.learnt);
        let learnt =
            learnt.map_or_else(String::new, |(early, [left, ..])| format!("{early:.3} ({:.0}%)", 100.0 * left));
        println!(
            "{} | {band} | {} | {:.3} ({coverage_lo:.3} to {coverage_hi:.3}) | {:.3} to {:.3} | {learnt} | {:.3}, {:.3} | \
             {difference:.3} ({lo:.3} to {hi:.3}) | {}",
            kept.kind,
            kept.claims,
            kept.coverage,
            kept.first_width,
            kept.last_width,
            kept.crps,
            kept.crps_no_change,
            kept.faster,
        );
    }
    let changes: usize = calibration.refuted.iter().map(|refuted| refuted.tries).sum();
    println!("{} refuted changes, tried {changes} times\n", calibration.refuted.len());
}
