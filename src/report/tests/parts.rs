//! Facts that appear only with a reason.

use super::*;

#[test]
fn the_start_of_a_session_is_reported_without_figures() {
    let mut record = record();
    record.iterations.clear();
    record.baselines.clear();
    let report = report(&record);
    assert_eq!(report.cases[0].best_us, None);
    assert!(report.to_markdown().unwrap().contains("no variant was correct"));
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
    let mut confirmed = iteration(IterationId(7), 48, Some(IterationId(6)), Outcome::Measured, won);
    confirmed.rationale.hypothesis.prediction = None;
    confirmed.score = Some(confirmed.rationale.hypothesis.score(confirmed.actual));
    confirmed.rationale.purpose = Purpose::Confirmation;
    record.iterations.extend([screened, confirmed]);
    let counted = |record: &SessionRecord| {
        let told = report(record).predictions;
        told.in_range + told.above + told.below + told.untested
    };
    let without = SessionRecord { iterations: record.iterations[..6].to_vec(), ..record.clone() };
    assert_eq!(counted(&record), counted(&without));
}

/// Sixty moves of one parameter are slower, as predicted. Three of another are slower than any prediction.
#[test]
fn a_slower_move_is_in_range_and_not_faster_and_a_change_that_always_fails_is_named() {
    let mut record = record();
    record.iterations.truncate(1);
    let claim = Prediction { median: Some(0.9), lo: 0.8, hi: 1.0, strength: Strength::Strong, model: None };
    for place in 0..63 {
        let us = if place < 60 { 88.0 } else { 160.0 };
        let measured = vec![found("b1h1s128", us, Verdict::Regressed, Some(80.0 / us), None)];
        let (id, parent) = (IterationId(place + 2), Some(IterationId(1)));
        let mut moved = iteration(id, 128 + place, parent, Outcome::Measured, measured);
        let (parameter, from, to) = if place < 60 { ("BLOCK", 64, 128 + place) } else { ("PAD", 8, 16) };
        moved.rationale.origin = Origin::Move { changes: vec![Change { parameter: parameter.to_owned(), from, to }] };
        moved.rationale.hypothesis.prediction = Some(claim);
        moved.score = Some(moved.rationale.hypothesis.score(moved.actual));
        record.iterations.push(moved);
    }
    // After the first 25 claims, ranges of the last ones would have been twice as wide.
    let early = |after: IterationId, claims: &[&IterationRecord]| {
        assert_eq!((after, claims.len(), claims[0].id), (IterationId(26), 25, IterationId(40)));
        vec![Some(Prediction { lo: 0.64, ..claim }); claims.len()]
    };
    let report = build(&ReportInput { known_after: &early, ..input(&record) });
    assert_eq!((report.predictions.in_range, report.predictions.below, report.predictions.faster), (60, 3, 0));
    let kept = &report.calibration.kept[0];
    assert_eq!((kept.kind, kept.claims, kept.faster, kept.enough), ("move", 63, 0, true));
    assert!((kept.learnt.unwrap()[0] - 0.5).abs() < 0.01, "{kept:?}");
    let pays: Vec<_> =
        report.calibration.pays.iter().map(|one| (one.parameter.as_deref(), one.tries, one.faster)).collect();
    assert_eq!(pays, [(None, 63, 0), (Some("BLOCK"), 60, 0), (Some("PAD"), 3, 0)]);
    let refuted = &report.calibration.refuted[0];
    assert_eq!((&*refuted.parameter, refuted.from, refuted.to, refuted.tries), ("PAD", 8, 16, 3));
}
