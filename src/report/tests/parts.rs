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
    let section = markdown.split("## ").find(|section| section.starts_with("Diagnosis")).unwrap();
    insta::assert_snapshot!(section, @"
    Diagnosis

    - `serialised-grid` in tiled (2 iterations): the work grows 64-fold.
    - `serialised-grid` in split-k (1 iteration): the work grows 8-fold.
    ");
    assert!(!report(&record()).to_markdown().unwrap().contains("Diagnosis"));
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
fn predictions_that_were_too_high_are_owned_up_to() {
    let mut record = record();
    for iteration in &mut record.iterations {
        iteration.score = Some(Score::Below);
    }
    let steps = report(&record).next_steps.join("\n");
    assert!(steps.contains("100% of the tested claims were below their predicted range"), "{steps}");
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
        told.in_range + told.above + told.below + told.untested
    };
    let without = SessionRecord { iterations: record.iterations[..6].to_vec(), ..record.clone() };
    assert_eq!(counted(&record), counted(&without));
}
