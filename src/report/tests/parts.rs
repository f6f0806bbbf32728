//! Parts of a report that appear only with a reason.

use super::*;

#[test]
fn the_start_of_a_session_is_reported_without_figures() {
    let mut record = record();
    record.iterations.clear();
    record.baselines.clear();
    let report = report(&record);
    assert_eq!(report.cases[0].best_us, None);
    assert!(report.to_markdown().unwrap().contains("No variant was correct."));
}

/// A family shows its worst evidence. Without findings there is no section.
#[test]
fn what_a_diagnosis_found_is_told_once_a_family() {
    let finding = |iteration, family: &str, severity| Finding {
        iteration,
        family: family.to_owned(),
        rule: "serialised-grid",
        severity,
        evidence: format!("the work grows {severity}-fold"),
    };
    let found = [
        finding(IterationId(1), "tiled", 16.0),
        finding(IterationId(2), "tiled", 64.0),
        finding(IterationId(3), "split-k", 8.0),
    ];
    let markdown = report_with(&record(), &found).to_markdown().unwrap();
    let section = markdown.split("## ").find(|section| section.starts_with("What was slow")).unwrap();
    insta::assert_snapshot!(section, @"
    What was slow, and why

    - `serialised-grid` in tiled (2 iterations): the work grows 64-fold.
    - `serialised-grid` in split-k (1 iteration): the work grows 8-fold.
    - The first kernel takes 1.00× to 1.60× as long as the best one. It reaches 0.01% to 0.04% of the arithmetic ceiling and 0.04% to 0.21% of the bandwidth, counting each byte once. Neither bounds it: it waits. Faster loads or more arithmetic alone would gain little.
    ");
    assert!(!report(&record()).to_markdown().unwrap().contains("serialised-grid"));
    insta::assert_json_snapshot!(report_with(&record(), &found).findings, @r#"
    [
      {
        "rule": "serialised-grid",
        "family": "tiled",
        "iterations": 2,
        "evidence": "the work grows 64-fold"
      },
      {
        "rule": "serialised-grid",
        "family": "split-k",
        "iterations": 1,
        "evidence": "the work grows 8-fold"
      }
    ]
    "#);
}

#[test]
fn refuted_predictions_are_owned_up_to() {
    let mut record = record();
    for iteration in &mut record.iterations {
        iteration.score = Some(Score::Refuted);
    }
    let steps = report(&record).next_steps.join("\n");
    assert!(steps.contains("100% of the tested predictions were refuted"), "{steps}");
}

/// A screening run and its confirmation are two iterations of one variant.
#[test]
fn a_confirmation_predicts_nothing() {
    let mut record = record();
    let won = vec![found("b1h1s128", 45.0, Verdict::Improved, Some(1.1), None)];
    let screened = iteration(
        IterationId(6),
        48,
        Some(IterationId(3)),
        Outcome::Measured,
        vec![found("b1h1s128", 45.0, Verdict::Tied, Some(1.1), None)],
    );
    let confirmed = iteration(IterationId(7), 48, Some(IterationId(6)), Outcome::Measured, won);
    record.iterations.extend([screened, IterationRecord { purpose: Purpose::Confirmation, ..confirmed }]);
    let counted = |record: &SessionRecord| {
        let told = report(record).predictions;
        told.confirmed + told.exceeded + told.refuted + told.untested
    };
    let without = SessionRecord { iterations: record.iterations[..6].to_vec(), ..record.clone() };
    assert_eq!(counted(&record), counted(&without));
}
