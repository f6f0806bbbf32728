//! Causes of lost time: whether experiments have confirmed them, and what is left to try.

use super::*;
use crate::domain::finding::{Confidence, Finding, Remedy};
use crate::domain::tested::{CauseStatus, judge};
use crate::report::next_change;

/// A finding about iteration 3, the best variant of b1h1s128: 256 threads, 50 us. Its remedy has 512 threads.
fn finding(gain: f64) -> Finding {
    let params = IndexMap::from([("BLOCK".to_owned(), 512), ("PAD".to_owned(), 8)]);
    let remedy =
        Remedy { text: "set BLOCK from 256 to 512".to_owned(), family: "tiled".to_owned(), params: Some(params) };
    Finding {
        iteration: Some(IterationId(3)),
        family: "tiled".to_owned(),
        case: "b1h1s128".into(),
        rule: "too-few-blocks",
        cause: "the grid has 2 blocks on 58 SMs".to_owned(),
        mechanism: "an idle multiprocessor does nothing",
        kernel_change: "divide the work into more blocks",
        without_split: None,
        model_is_off: false,
        derivation: None,
        evidence: Vec::new(),
        confidence: Confidence::Medium,
        gain,
        remedies: vec![remedy],
    }
}

/// The record without iterations 4 and 5, and with a trial of a change by iteration 6.
fn with_trial(block: i64, us: f64, origin: Origin, parent: i64) -> SessionRecord {
    let mut record = record();
    record.iterations.truncate(3);
    let measured = vec![found("b1h1s128", us, Verdict::Regressed, None, None)];
    let trial = iteration(IterationId(6), block, Some(IterationId(parent)), Outcome::Measured, measured);
    record.iterations.push(IterationRecord { origin, ..trial });
    record
}

fn remedy(rule: &str) -> Origin {
    Origin::Remedy { rule: rule.to_owned(), changes: Vec::new() }
}

/// Iteration 3 was screened in 45 us.
#[test]
fn a_cause_survives_if_its_removal_brings_half_of_the_expected_gain() {
    let moved = || Origin::Move { changes: Vec::new() };
    let table = [
        ("half of 1.44x is 1.2x", 96, 37.0, remedy("too-few-blocks"), 3, 1.44, CauseStatus::Confirmed),
        ("more than 1.1x to the power of 1.5", 96, 37.0, remedy("too-few-blocks"), 3, 1.1, CauseStatus::Supported),
        ("as far above 1.01x, but only by noise", 96, 43.5, remedy("too-few-blocks"), 3, 1.01, CauseStatus::Confirmed),
        ("1.15x is less than half of it", 96, 39.1, remedy("too-few-blocks"), 3, 1.44, CauseStatus::NotConfirmed),
        ("no gain known, 3% faster", 96, 43.5, remedy("too-few-blocks"), 3, 1.0, CauseStatus::Confirmed),
        ("no gain known, 2% faster", 96, 44.1, remedy("too-few-blocks"), 3, 1.0, CauseStatus::NotConfirmed),
        ("of another rule", 96, 37.0, remedy("spills"), 3, 1.44, CauseStatus::NotTested),
        ("of another variant", 96, 37.0, remedy("too-few-blocks"), 2, 1.44, CauseStatus::NotTested),
        ("the finding's own remedy, however it was found", 512, 37.0, moved(), 2, 1.44, CauseStatus::Confirmed),
        ("another configuration", 96, 37.0, moved(), 3, 1.44, CauseStatus::NotTested),
    ];
    for (why, block, us, origin, parent, gain, status) in table {
        let record = with_trial(block, us, origin, parent);
        let tested = judge(&finding(gain), &record.iterations);
        assert_eq!(tested.status, status, "{why}: {tested:?}");
        assert_eq!(tested.iteration.is_some(), status != CauseStatus::NotTested, "{why}");
    }
}

/// One change made the variant 1.22 times as fast. Two causes could account for that, and a third one is refuted by it.
#[test]
fn an_experiment_that_bears_on_two_causes_confirms_neither() {
    let record = with_trial(512, 37.0, Origin::Move { changes: Vec::new() }, 2);
    let of = |rule, gain| Finding { rule, cause: format!("{rule} is slow"), ..finding(gain) };
    let findings = [of("too-few-blocks", 1.44), of("latency-bound", 1.1), of("spills", 3.0)];
    let report = report_with(&record, &findings);
    let told: Vec<String> = report.diagnoses[0]
        .findings
        .iter()
        .map(|one| format!("{} {:?} {:?}", one.rule, one.tested.status, one.tested.shared_with))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    too-few-blocks Supported ["latency-bound"]
    latency-bound Supported ["too-few-blocks"]
    spills NotConfirmed []
    "#);
    let text = report.to_markdown_details().unwrap();
    assert!(text.contains("gained 1.22× (iteration 6; this cause explains 1.10× of it; `too-few-blocks` could account for it, too, and it does not tell them apart)"), "{text}");
    assert_eq!(report_with(&record, &findings[..1]).diagnoses[0].findings[0].tested.status, CauseStatus::Confirmed);
}

/// Iteration 3 has `PAD` = 8. A new kernel's split is an idea unless the family's own is slower.
#[test]
fn a_split_that_is_slower_in_the_family_is_no_idea_for_a_new_kernel() {
    let mut found = finding(1.44);
    found.kernel_change = "use smaller tiles or a split";
    found.without_split = Some("use smaller tiles");
    found.remedies[0].params.as_mut().unwrap().insert("PAD".to_owned(), 16);
    let record = with_trial(96, 47.0, Origin::Move { changes: Vec::new() }, 2);
    let predicted = |median: f64| {
        move |_: &Finding, _: &Remedy| {
            Some(Prediction { median: Some(median), lo: 0.5, hi: 1.5, strength: Strength::Strong, model: None })
        }
    };
    let idea = |record: &SessionRecord, median| {
        let predict = predicted(median);
        next_change::kernel_change(&found, &ReportInput { predict: &predict, ..input(record) })
    };
    assert_eq!([idea(&record, 0.8), idea(&record, 1.2)], ["use smaller tiles", "use smaller tiles or a split"]);
    let mut measured = record.clone();
    measured.iterations[3].params.insert("PAD".to_owned(), 12);
    assert_eq!(idea(&measured, 1.2), "use smaller tiles", "47 us instead of 45 us");
}

/// Returns what a summary says of the first kernel, with the list of causes.
fn slow_of(summary: &str) -> &str {
    let items = summary.split("\n- ");
    items.into_iter().find(|item| item.starts_with("**What was slow, and why.**")).unwrap()
}

/// The first kernel took 80 us. Its family's best took 57.6 us, and another family's 50 us.
#[test]
fn what_the_parameters_of_the_first_kernel_gained_is_told_beside_the_estimates() {
    let mut record = record();
    record.iterations[0].origin = Origin::InitialKernel;
    record.iterations[2].family = "split-k".to_owned();
    let of = |rule, gain| Finding { rule, iteration: Some(IterationId(1)), ..finding(gain) };
    let summary = report_with(&record, &[of("too-few-blocks", 1.44), of("idle-warps", 1.2)]).summary;
    insta::assert_snapshot!(slow_of(&summary), @"
    **What was slow, and why.** The first kernel, `tiled` (Tiles of queries: keys are shared), takes 80.00 us on `b1h1s128`: 1.60× the winner's time and 80.00× the floor, which no correct kernel beats. Tuning all of its parameters gains 1.39×, and another family 1.15× more. Probable causes:
      1. the grid has 2 blocks on 58 SMs: possible gain 1.44×, medium confidence, not tested.
      2. the grid has 2 blocks on 58 SMs: possible gain 1.20×, medium confidence, not tested.
    ");
}

#[test]
fn a_cause_that_may_cost_more_than_the_first_three_is_named_too() {
    let mut record = record();
    record.iterations[0].origin = Origin::InitialKernel;
    let of = |rule: &'static str, gain| Finding {
        rule,
        cause: format!("{rule} is slow"),
        iteration: Some(IterationId(1)),
        ..finding(gain)
    };
    let large = Finding { confidence: Confidence::Low, ..of("too-few-blocks", 3.0) };
    let told = |large: &Finding| {
        let findings = [of("idle-warps", 1.44), of("spills", 1.2), of("barriers", 1.1), large.clone()];
        let summary = report_with(&record, &findings).summary;
        slow_of(&summary).split_once(" correct kernel beats. ").unwrap().1.to_owned()
    };
    insta::assert_snapshot!(told(&large), @"
    Probable causes:
      1. idle-warps is slow: possible gain 1.44×, medium confidence, not tested.
      2. spills is slow: possible gain 1.20×, medium confidence, not tested.
      3. barriers is slow: possible gain 1.10×, medium confidence, not tested.
      4. too-few-blocks is slow: possible gain 3.00×, low confidence, not tested.
    ");
    assert!(!told(&Finding { gain: 1.3, ..large }).contains("too-few-blocks"), "less than 1.44x");
}

/// The first kernel took 80 us. Of three changes of it, two of one parameter took 50 and 60 us, and one of both 10 us.
#[test]
fn the_summary_names_what_experiments_have_shown_and_nothing_inconclusive_beside_it() {
    let mut record = record();
    record.iterations[0].origin = Origin::InitialKernel;
    let mut trial = |id, block, pad, us| {
        let measured = vec![found("b1h1s128", us, Verdict::Regressed, None, None)];
        let mut trial = iteration(IterationId(id), block, None, Outcome::Measured, measured);
        trial.params.insert("PAD".to_owned(), pad);
        record.iterations.push(trial.clone());
        trial.params
    };
    let (wider, padded, both) = (trial(6, 512, 8, 50.0), trial(7, 64, 16, 60.0), trial(8, 512, 16, 10.0));
    let told = |findings: &[(&'static str, f64, Option<&Params>)]| {
        let of = |(rule, gain, params): &(&'static str, f64, Option<&Params>)| {
            let (iteration, cause) = (Some(IterationId(1)), format!("{rule} is slow"));
            let mut found = Finding { rule, cause, iteration, ..finding(*gain) };
            found.remedies[0].params = params.cloned();
            found
        };
        let findings: Vec<Finding> = findings.iter().map(of).collect();
        let summary = report_with(&record, &findings).summary;
        slow_of(&summary).split_once(" correct kernel beats. ").unwrap().1.to_owned()
    };
    let (blocks, barriers) = (("too-few-blocks", 3.0, Some(&both)), ("barriers", 1.2, None));
    let (warps, spills) = (("idle-warps", 1.6, Some(&wider)), |gain| ("spills", gain, Some(&padded)));
    insta::assert_snapshot!([
        told(&[blocks, barriers, spills(1.3), warps]),
        told(&[blocks, barriers, spills(1.1), warps]),
        told(&[blocks, barriers]),
    ].join("\n"), @"
    Causes, with what a change against each gained (gains overlap):
      1. idle-warps is slow: `BLOCK` 64 → 512 (threads of a block) gained 1.60× (1.60× expected).
      2. spills is slow: `PAD` 8 → 16 (padding of a row) gained 1.33× (1.30× expected).
      3. too-few-blocks is slow: possible gain 3.00×, medium confidence, and an experiment that changed several things at once gained 8.00×.
    Causes, with what a change against each gained (gains overlap):
      1. idle-warps is slow: `BLOCK` 64 → 512 (threads of a block) gained 1.60× (1.60× expected).
      2. spills is slow: `PAD` 8 → 16 (padding of a row) gained 1.33× (1.10× expected; the change may remove other causes, too).
      3. too-few-blocks is slow: possible gain 3.00×, medium confidence, and an experiment that changed several things at once gained 8.00×.
    Probable causes:
      1. too-few-blocks is slow: possible gain 3.00×, medium confidence, and an experiment that changed several things at once gained 8.00×.
      2. barriers is slow: possible gain 1.20×, medium confidence, no parameter removes it.
    ");
}

#[test]
fn no_experiment_is_found_for_a_cause_that_no_parameter_removes() {
    let mut finding = finding(1.44);
    finding.remedies[0].params = None;
    assert_eq!(
        judge(&finding, &with_trial(96, 37.0, remedy("spills"), 3).iterations).status,
        CauseStatus::NoExperiment
    );
}

#[test]
fn a_wrong_variant_and_an_experiment_on_other_shapes_test_nothing() {
    let mut record = with_trial(96, 37.0, remedy("too-few-blocks"), 3);
    record.iterations[3].purpose = Purpose::Confirmation;
    assert_eq!(judge(&finding(1.44), &record.iterations).status, CauseStatus::NotTested);
    record.iterations[3].purpose = Purpose::Screening;
    record.iterations[3].outcome = Some(Outcome::Crashed { case: "b1h1s128".into(), message: String::new() });
    assert_eq!(judge(&finding(1.44), &record.iterations).status, CauseStatus::NotTested);
}

/// The only configuration without the cause gave a wrong result. All parts of the report say so in the same words.
#[test]
fn a_change_that_was_not_correct_tests_nothing_and_is_not_called_untested() {
    let mut record = with_trial(512, 37.0, remedy("too-few-blocks"), 3);
    let wrong = record.iterations.last_mut().unwrap();
    let (case, message) = (CaseName::from("b1h1s128"), String::new());
    wrong.outcome = Some(Outcome::Wrong { case, check: Check::Accuracy, message });
    wrong.measurements[0].screening = None;
    let report = report_with(&record, &[finding(1.44)]);
    let failed = "tried, not correct (iteration 6)";
    let (page, details) = (report.to_markdown().unwrap(), report.to_markdown_details().unwrap());
    let next = "a new kernel could divide the work into more blocks";
    assert!(page.contains(&format!("| {failed} | {next} |")), "{page}");
    assert!(details.contains(&format!("Experiment: {failed}. Next: {next}.")), "{details}");
}

/// Both causes of the best variant were refuted: 45 us became 44.5 us.
#[test]
fn a_case_whose_causes_were_all_refuted_says_so() {
    let record = with_trial(512, 44.5, remedy("too-few-blocks"), 3);
    let page = report_with(&record, &[finding(1.44)]).to_markdown().unwrap();
    assert!(
        page.contains(
            "| tested, refuted: `too-few-blocks` | not known: experiments refuted all causes that rules found |"
        ),
        "{page}"
    );
}

#[test]
fn what_is_left_to_do_is_a_change_or_why_there_is_none() {
    let record = with_trial(512, 44.5, remedy("too-few-blocks"), 3);
    let next = |finding: &Finding, record: &SessionRecord| {
        next_change::of(finding, &input(record)).text(finding, &input(record))
    };
    let mut before = record.clone();
    before.iterations.truncate(3);
    assert_eq!(next(&finding(1.4), &before), "set BLOCK from 256 to 512");
    assert_eq!(next(&finding(1.4), &record), "tried: iteration 6, 1.01×");
    let without = |remedies| Finding { remedies, ..finding(1.4) };
    assert_eq!(
        next(&without(Vec::new()), &record),
        "none of its parameters removes it; a new kernel could divide the work into more blocks"
    );
    let write = Remedy { text: "write a kernel".to_owned(), family: "tiled".to_owned(), params: None };
    assert_eq!(next(&without(vec![write]), &record), "write a kernel");
    assert_eq!(
        next(&Finding { rule: "at-the-floor", ..without(Vec::new()) }, &record),
        "nothing: at most 1.40× is left above the floor"
    );
}

/// The recommended option, the next experiment, its command and the summary come from one decision.
#[test]
fn an_untried_remedy_is_the_recommendation_and_the_next_experiment() {
    let mut record = record();
    record.iterations.truncate(3);
    let findings = [finding(1.44)];
    let report = build(&ReportInput { findings: &findings, ..input(&record) });
    let next = report.next_experiment.clone().unwrap();
    assert_eq!((next.kind, &*next.case, next.configuration.unwrap().params["BLOCK"]), ("remedy", "b1h1s128", 512));
    // 50 us / 1.44, and by the gain that is weighted with 0.6.
    assert_eq!(next.after_us.unwrap().map(|us| us.round()), [35.0, 40.0]);
    let chosen: Vec<(&str, bool)> = report
        .options
        .iter()
        .filter(|one| one.recommended || one.then)
        .map(|one| (one.kind, one.recommended))
        .collect();
    assert_eq!(chosen, [("experiment", true), ("go_on", false)]);
    assert!(report.summary.contains("**Recommendation: try one change on `b1h1s128` (set BLOCK from 256 to 512, expected 1.24× to 1.44×), then continue this search.**"), "{}", report.summary);
    // An experiment takes as long as the median iteration.
    let price = " The change costs 3 s and $0.0002. Continuing costs 55 min and $0.18.";
    assert!(report.summary.contains(price), "{}", report.summary);
    assert_eq!(report.cases[0].limited_by.as_deref(), Some("the grid has 2 blocks on 58 SMs"));
    assert!(
        report.summary.contains(
            "Probable cause: on `b1h1s128`, the grid has 2 blocks on 58 SMs (up to 1.44×, medium confidence)."
        )
    );
}

/// A prediction below 1 takes the experiment out of the decision, and says so.
#[test]
fn a_remedy_that_the_model_expects_to_fail_is_not_recommended() {
    let mut record = record();
    record.iterations.truncate(3);
    let findings = [finding(1.44)];
    let slower = Prediction { median: Some(0.8), lo: 0.7, hi: 0.9, strength: Strength::Strong, model: None };
    let predict = |_: &Finding, _: &Remedy| Some(slower);
    let report = build(&ReportInput { findings: &findings, predict: &predict, ..input(&record) });
    assert_eq!(report.next_experiment, None);
    assert!(report.options.iter().any(|one| one.recommended && one.kind == "go_on"));
    let told = &report.diagnoses[0].findings[0].next;
    assert_eq!(
        told,
        "no parameter helps (set BLOCK from 256 to 512: 0.70× to 0.90× predicted); a new kernel could divide the work into more blocks"
    );
}
