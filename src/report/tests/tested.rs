//! What is left to do about causes of lost time, and what the report recommends.

use super::*;
use crate::domain::proposal::finding::{Finding, Remedy};
use crate::report::contract::{Next, StepKind};

/// A finding about iteration 3, the best variant of b1h1s128: 256 threads, 50 us. Its remedy has 512 threads.
fn with_remedy(gain: f64) -> Finding {
    let params = IndexMap::from([("BLOCK".to_owned(), 512), ("PAD".to_owned(), 8)]);
    let remedy =
        Remedy { text: "set BLOCK from 256 to 512".to_owned(), family: "tiled".to_owned(), params: Some(params) };
    Finding { remedies: vec![remedy], ..finding("b1h1s128", 3, "too-few-blocks", gain) }
}

/// The record without iterations 4 and 5.
fn without_trial() -> SessionRecord {
    let mut record = record();
    record.iterations.truncate(3);
    record
}

fn with_trial(us: f64) -> SessionRecord {
    let mut record = without_trial();
    let measured = vec![found("b1h1s128", us, Verdict::Regressed, None, None)];
    record.iterations.push(iteration(IterationId(6), 512, Some(IterationId(2)), Outcome::Measured, measured));
    record
}

/// Iteration 3 was screened in 45 us.
#[test]
fn what_is_left_to_do_is_a_change_or_why_there_is_none() {
    let next = |finding: Finding, record: &SessionRecord| {
        report_with(record, &[finding]).diagnoses[0].findings[0].next.clone()
    };
    let Next::Try { remedy, expected } = next(with_remedy(1.4), &without_trial()) else { panic!("not tried") };
    assert_eq!((&*remedy.text, expected), ("set BLOCK from 256 to 512", None));
    let Next::Tried { iteration, speedup } = next(with_remedy(1.4), &with_trial(44.5)) else { panic!("tried") };
    assert_eq!((iteration, speedup.map(|by| (100.0 * by).round())), (IterationId(6), Some(101.0)));
    assert_eq!(next(finding("b1h1s128", 3, "too-few-blocks", 1.4), &without_trial()), Next::Nothing);
    let write = Remedy { text: "write a kernel".to_owned(), family: "tiled".to_owned(), params: None };
    let unknown = Finding { remedies: vec![write.clone()], ..with_remedy(1.4) };
    assert_eq!(next(unknown, &without_trial()), Next::Write { remedy: write });
    let mut wrong = with_trial(44.5);
    wrong.iterations[3].measurements[0].screening = None;
    assert_eq!(next(with_remedy(1.4), &wrong), Next::Tried { iteration: IterationId(6), speedup: None });
}

#[test]
fn an_untried_remedy_is_recommended_with_one_command() {
    let record = without_trial();
    let report = report_with(&record, &[with_remedy(1.44)]);
    let experiment = report.advice.next.experiment.as_ref().unwrap();
    assert_eq!((experiment.source, &*experiment.case, experiment.params["BLOCK"]), ("remedy", "b1h1s128", 512));
    assert!((experiment.expected - 1.44_f64.powf(0.6)).abs() < 1e-9, "weighted with medium confidence");
    assert_eq!(report.advice.then.as_ref().map(|then| then.kind), Some(StepKind::GoOn));
    let page = report.to_markdown().unwrap();
    let next = page.lines().find(|line| line.starts_with("**Next")).unwrap();
    insta::assert_snapshot!(next, @"**Next: try BLOCK 256 to 512 on b1h1s128** (1.24× expected, 3 s and $0.0002), else continue this search. `optloop bench tiled:BLOCK=512,PAD=8 --workload attention-fp16-d64 --case b1h1s128 --against 3`");
}

/// A prediction below 1 takes the experiment out of the decision. So does an experiment that refuted the cause.
#[test]
fn a_remedy_that_is_expected_to_fail_and_one_against_a_refuted_cause_are_not_recommended() {
    let record = without_trial();
    let slower = Prediction { median: Some(0.8), lo: 0.7, hi: 0.9, strength: Strength::Strong, model: None };
    let predict = |_: &Finding, _: &Remedy| Some(slower);
    let findings = [with_remedy(1.44)];
    let report = build(&ReportInput { findings: &findings, predict: &predict, ..input(&record) });
    assert_eq!(report.advice.next.kind, StepKind::GoOn);
    let mut refuted = with_remedy(1.44);
    refuted.tested.status = crate::domain::proposal::finding::CauseStatus::NotConfirmed;
    assert_eq!(report_with(&record, &[refuted]).advice.next.kind, StepKind::GoOn);
}
