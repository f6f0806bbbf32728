//! Tests the diagnosis with launch plans of this project's families and times of an H200, 2026-11-20,
//! `attention-fp16-d64`.

use std::path::Path;

use super::*;
use crate::agent::diagnosis::findings;
use crate::catalog::Project;
use crate::domain::finding::Finding;
use crate::domain::history::{CaseTime, Finished};
use crate::domain::hypothesis::{Hypothesis, Reference};
use crate::domain::ids::IterationId;
use crate::domain::origin::{Origin, Purpose};

/// Diagnoses the default configuration of a family, given its times in microseconds. The blocks come from its launch
/// plans.
fn diagnosed(workload: &str, family: &str, times_us: &[(&str, f64)]) -> Vec<Finding> {
    let project = Project::find(Some(Path::new(env!("CARGO_MANIFEST_DIR")))).unwrap();
    let workload = project.workload(workload).unwrap();
    let families = [project.families().unwrap(), project.planted_bugs().unwrap()].concat();
    let family = families.iter().find(|other| other.name == family).unwrap();
    let device = DeviceInfo::of_arch("sm_90a").unwrap();
    let time = |(case, us): &(&str, f64)| {
        let dims = workload.case(case).unwrap();
        let plan = family.plan(&family.defaults(), dims, workload.op, workload.dtype, &device).unwrap();
        CaseTime { case: (*case).into(), median_ns: us * 1e3, ctas: plan.ctas(), profile: None, screened_only: false }
    };
    let hypothesis = Hypothesis::without_claim(
        "a default configuration".to_owned(),
        "none".to_owned(),
        "b1h1s128".into(),
        Reference::Incumbent,
    );
    let times = times_us.iter().map(time).collect();
    let finished = Finished {
        iteration: IterationId(1),
        purpose: Purpose::Screening,
        origin: Origin::FamilyDefault,
        family: family.name.clone(),
        params: family.defaults(),
        hypothesis,
        times,
        hash: VariantHash::of(""),
    };
    findings(&History { finished: vec![finished], ..History::default() }, &workload, &device)
}

const CAUSAL: &str = "attention-fp16-d64";

const GRID_BUG: [(&str, f64); 7] = [
    ("b1h1s128", 41.04),
    ("b4h1s128", 160.39),
    ("b4h4s128", 635.55),
    ("b8h8s128", 2531.0),
    ("b8h8s256", 4895.7),
    ("b1h8s512", 1207.4),
    ("b16h8s512", 19_497.6),
];

#[test]
fn a_grid_without_batch_and_heads_is_found() {
    let findings = diagnosed(CAUSAL, "attention-grid-bug", &GRID_BUG);
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].family.as_str(), findings[0].rule), ("attention-grid-bug", "serialised-grid"));
    insta::assert_snapshot!(findings[0].evidence, @"from b1h1s128 to b8h8s128 the work grows 64-fold and the time 61.7-fold, but the grid stays at 2 blocks on 132 SMs: independent work runs sequentially inside the blocks instead of in parallel across the grid");
}

#[test]
fn a_slow_kernel_that_fills_the_grid_is_not() {
    let times = [
        ("b1h1s128", 517.49),
        ("b4h4s128", 518.83),
        ("b8h8s128", 521.92),
        ("b8h8s256", 1174.9),
        ("b1h8s512", 2045.3),
        ("b16h8s512", 9264.4),
    ];
    assert_eq!(diagnosed(CAUSAL, "attention-scalar", &times), []);
}

/// It takes twice as long for 64 times the work: the blocks are few, but they share the work well.
#[test]
fn a_fixed_grid_whose_time_does_not_follow_the_work_is_not() {
    assert_eq!(diagnosed(CAUSAL, "attention-grid-bug", &[("b1h1s128", 41.0), ("b8h8s128", 82.0)]), []);
}

/// Each query has four times the keys, with the same 8 blocks. No independent work is done in sequence.
#[test]
fn a_longer_walk_over_the_keys_is_not() {
    let times = [("b4h1s128", 1000.0), ("b1h1s512", 4000.0)];
    assert_eq!(diagnosed("attention-fp16-d64-full", "attention-scalar", &times), []);
}
