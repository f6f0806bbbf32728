//! Parts of a report that appear only with a reason.

use super::*;
use crate::domain::finding::{Confidence, Evidence, Remedy, Source};

#[test]
fn the_start_of_a_session_is_reported_without_figures() {
    let mut record = record();
    record.iterations.clear();
    record.baselines.clear();
    let report = report(&record);
    assert_eq!(report.cases[0].best_us, None);
    assert!(report.to_markdown().unwrap().contains("No variant was correct."));
}

/// Of each variant, the report shows the cause with its evidence and the next change.
#[test]
fn a_report_explains_the_initial_kernel_and_the_best_variants() {
    let finding = |iteration, gain| Finding {
        iteration: Some(iteration),
        family: "tiled".to_owned(),
        case: "b1h1s128".into(),
        rule: "too-few-blocks",
        cause: "the grid has 2 blocks on 58 SMs".to_owned(),
        mechanism: "a multiprocessor without a block has nothing to do",
        evidence: vec![
            Evidence { source: Source::Launch, supports: true, text: "97% of the SMs are idle".to_owned() },
            Evidence {
                source: Source::Times,
                supports: false,
                text: "4 times the work takes 4 times as long".to_owned(),
            },
        ],
        confidence: Confidence::Medium,
        gain,
        remedies: vec![Remedy {
            text: "set BLOCK from 64 to 16: 8 blocks instead of 2".to_owned(),
            family: "tiled".to_owned(),
            params: None,
        }],
    };
    let mut record = record();
    record.iterations[0].origin = Origin::InitialKernel;
    let ids: Vec<_> = record.iterations.iter().map(|iteration| iteration.id).collect();
    let found = [finding(ids[0], 29.0), finding(ids[1], 1.5)];
    let markdown = report_with(&record, &found).to_markdown().unwrap();
    let section = markdown.split("## ").find(|section| section.starts_with("Why kernels are slow")).unwrap();
    insta::assert_snapshot!(section, @"");
    assert!(!report(&record).to_markdown().unwrap().contains("Why kernels are slow"));
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
