//! Parts of a report that appear only with a reason.

use super::*;
use crate::domain::finding::{Confidence, Evidence, EvidenceSource, Remedy};

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
        kernel_change: "divide the work into more blocks",
        without_split: None,
        model_is_off: false,
        derivation: None,
        evidence: vec![
            Evidence { source: EvidenceSource::Launch, supports: true, text: "97% of the SMs are idle".to_owned() },
            Evidence {
                source: EvidenceSource::Times,
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
    let found = [finding(ids[0], 29.0), finding(ids[2], 1.5)];
    let markdown = report_with(&record, &found).to_markdown().unwrap();
    let section = markdown.split("## ").find(|section| section.starts_with("What was slow")).unwrap();
    insta::assert_snapshot!(section, @"
    What was slow, and why

    - The first kernels take 1.00× to 1.60× as long as the best ones, and 80.00× to 400× as long as the floor. They reach 0.01% to 0.04% of the arithmetic ceiling and 0.04% to 0.21% of the bandwidth of memory or L2. So neither of the two bounds them.

    **The first kernel** (`tiled`, iteration 1) on `b1h1s128`, where it is farthest from the floor. Possible gains are estimates without the cause. They overlap, so they do not multiply. *Confirmed*: a change of one parameter gained about what was expected (where that is 2.00×, from 1.41× to 2.83×). *Supported*: it gained more, or several parameters changed, or another cause could account for it, too. *Inconclusive*: several parameters gained more.

    1. **the grid has 2 blocks on 58 SMs** (`too-few-blocks`): a multiprocessor without a block has nothing to do.
       - Experiment: not tested: no parameter of this family removes it.
       - Possible gain 29.00×, confidence medium. Evidence: 97% of the SMs are idle. Against: 4 times the work takes 4 times as long.
    ");
    let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with("| b1h1s128 |")).take(2).collect();
    insta::assert_snapshot!(rows.join("\n"), @"
    | b1h1s128 | 80.00 | 50.00 | 1.60× (not in one run) | tiled | 25.00 (torch sdpa (flash)) | 0.50× (not in one run) | 1.000 (launch) | the grid has 2 blocks on 58 SMs; 65% not explained |
    | b1h1s128 | tiled | the grid has 2 blocks on 58 SMs | 1.50×, medium | 65% | not tested: no parameter of this family removes it | set BLOCK from 64 to 16: 8 blocks instead of 2 |
    ");
    let of_rest = |line: &&str| line.starts_with("| floor ") || line.starts_with("On ");
    insta::assert_snapshot!(markdown.lines().filter(of_rest).collect::<Vec<_>>().join("\n"), @"
    | floor | 1.000 | - | 50.00× is left. The cause found (the grid has 2 blocks on 58 SMs) accounts for 1.50×; the other 33.33× are not explained |
    On `b8h8s512`, no cause accounts for the distance to the floor, 400×. Hardware counters would tell more: `optloop start --workload attention-fp16-d64 --case b8h8s512 --budget 240s` reads those of its winner if `ncu` works, in at most 240 s and for $0.01.
    ");
    assert!(!report(&record).to_markdown().unwrap().contains("too-few-blocks"));
    let floor = |gain, confidence| {
        let page = report_with(&record, &[Finding { confidence, ..finding(ids[2], gain) }]).to_markdown().unwrap();
        page.lines().find_map(|line| line.strip_prefix("| floor | 1.000 | - | ")).unwrap().to_owned()
    };
    insta::assert_snapshot!([floor(1.5, Confidence::Low), floor(1.0, Confidence::Low)].join("\n"), @"
    50.00× is left. The cause found (the grid has 2 blocks on 58 SMs) accounts for 1.50× (low confidence); the other 33.33× are not explained |
    50.00× is left |
    ");
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
    let mut confirmed = iteration(IterationId(7), 48, Some(IterationId(6)), Outcome::Measured, won);
    confirmed.hypothesis.prediction = None;
    confirmed.score = Some(confirmed.hypothesis.score(confirmed.actual));
    record.iterations.extend([screened, IterationRecord { purpose: Purpose::Confirmation, ..confirmed }]);
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
        moved.origin = Origin::Move { changes: vec![Change { parameter: parameter.to_owned(), from, to }] };
        moved.hypothesis.prediction = Some(claim);
        moved.score = Some(moved.hypothesis.score(moved.actual));
        record.iterations.push(moved);
    }
    // After the first 25 claims, ranges of the last ones would have been twice as wide.
    let early = |after: IterationId, claims: &[&IterationRecord]| {
        assert_eq!((after, claims.len(), claims[0].id), (IterationId(26), 25, IterationId(40)));
        vec![Some(Prediction { lo: 0.64, ..claim }); claims.len()]
    };
    let report = build(&ReportInput { known_after: &early, ..input(&record) });
    assert_eq!((report.predictions.in_range, report.predictions.below, report.predictions.faster), (60, 3, 0));
    let text = report.to_markdown_details().unwrap();
    let from = text.find("| move |").unwrap();
    insta::assert_snapshot!(&text[from..text.find("## Time and cost").unwrap()].trim_end(), @"
    | move | all | 63 | 95% (87% to 98%) | 1.25× to 1.25× (100%, 100% to 100%) | 1.56× (50%, 50% to 50%) | 0.043 | 0.124 | -0.081 (-0.085 to -0.077) | 0 of 63 |
    | move | 0.80× to 0.95× | 63 | 95% (87% to 98%) | 1.25× to 1.25× (100%, 100% to 100%) | 1.56× (50%, 50% to 50%) | 0.043 | 0.124 | -0.081 (-0.085 to -0.077) | 0 of 63 |

    What paid, by mechanism and by parameter. A change of several parameters counts for its mechanism only.

    | Mechanism | Parameter | Tries | Faster | Median | Best |
    |---|---|--:|--:|--:|--:|
    | threads | all | 63 | 0 | 0.91× | 0.91× |
    | threads | `BLOCK` of tiled | 60 | 0 | 0.91× | 0.91× |
    | threads | `PAD` of tiled | 3 | 0 | 0.50× | 0.50× |

    Refuted changes, which were slower every time:

    - `PAD` of tiled from 8 to 16: refuted on 3 of 3, 0.50× in the median; not tried again on b1h1s128 without new evidence
    ");
}
