use super::*;
use crate::agent::{cause_tests, proposer};
use crate::domain::proposal::finding::{CauseTest, Confidence, Finding, Remedy};
use crate::domain::variant::Params;

fn remedy(family: &str, n: i64, p: i64) -> Remedy {
    let params = Params::from([("N".to_owned(), n), ("P".to_owned(), p)]);
    Remedy { text: format!("use {family}"), family: family.to_owned(), params: Some(params) }
}

fn finding(rule: &'static str, remedies: Vec<Remedy>) -> Finding {
    Finding {
        iteration: Some(IterationId(1)),
        family: "slow".to_owned(),
        case: "a".into(),
        rule,
        cause: "it waits".to_owned(),
        mechanism: "waiting",
        kernel_change: "wait less",
        model_is_off: false,
        evidence: Vec::new(),
        confidence: Confidence::Medium,
        gain: 2.0,
        remedies,
        tested: CauseTest::none(2.0, true),
    }
}

#[test]
fn each_cause_is_tested_once_by_a_change_of_the_explained_kernel_itself() {
    let parameters: [(&str, &[i64]); 2] = [("N", &[1, 2, 4]), ("P", &[1, 2])];
    let mut scene =
        Scene::new(&[("a", 64, 64)], ["slow", "fast"].map(|name| family(name, &parameters, "N * P <= 8")).into());
    let initial = scene.propose(&mut *proposer("local", 1).unwrap()).unwrap();
    scene.measure(&initial, |_, _| 1e6);
    let findings = [
        finding("few-blocks", vec![remedy("fast", 1, 1), remedy("slow", 2, 1), remedy("slow", 4, 1)]),
        finding("another-kernel", vec![remedy("fast", 1, 1)]),
        finding("conflicts", vec![remedy("slow", 1, 2)]),
    ];
    let mut tested = Vec::new();
    loop {
        let context =
            SearchContext::new(&scene.workload, &scene.families, &scene.searched, &scene.known, &scene.device);
        let Some(test) = cause_tests::next(&context, &findings, &scene.history).unwrap() else { break };
        assert_eq!((test.rationale.parent, test.rationale.purpose), (Some(IterationId(1)), Purpose::Screening));
        let configuration = scene.configuration(&test);
        assert!(scene.history.proposed.insert(configuration));
        let Origin::Remedy { rule, .. } = test.rationale.origin else { panic!("{:?}", test.rationale.origin) };
        tested.push((rule, test.family, show_params(&test.params)));
    }
    let slow = |rule: &str, params: &str| (rule.to_owned(), "slow".to_owned(), params.to_owned());
    assert_eq!(tested, [slow("few-blocks", "N=2 P=1"), slow("conflicts", "N=1 P=2")]);
}

#[test]
fn a_kernel_that_is_far_behind_is_not_mended() {
    let mut scene =
        Scene::new(&[("a", 64, 64)], ["slow", "fast"].map(|name| family(name, &[("N", &[1, 2])], "N <= 2")).into());
    let mut local = proposer("local", 1).unwrap();
    for us in [1000.0, 100.0] {
        let next = scene.propose(&mut *local).unwrap();
        scene.measure(&next, |_, _| us * 1e3);
    }
    let of_n = Remedy { params: Some([("N".to_owned(), 2)].into()), ..remedy("slow", 2, 1) };
    let findings = [finding("few-blocks", vec![of_n])];
    let context = SearchContext::new(&scene.workload, &scene.families, &scene.searched, &scene.known, &scene.device);
    let is_far = scene.history.iteration(IterationId(1)).is_some_and(|one| scene.history.is_far_behind(one, "a"));
    assert!(is_far && cause_tests::next(&context, &findings, &scene.history).unwrap().is_none());
}

/// N = 2 and P = 2 gain, and P = 4 loses. So N = 2 and P = 2 are tried together, once.
#[test]
fn what_gained_against_several_causes_is_tried_together() {
    let parameters: [(&str, &[i64]); 2] = [("N", &[1, 2, 4]), ("P", &[1, 2, 4])];
    let mut scene = Scene::new(&[("a", 64, 64)], vec![family("slow", &parameters, "N * P <= 8")]);
    let initial = scene.propose(&mut *proposer("local", 1).unwrap()).unwrap();
    scene.measure(&initial, |_, _| 1e6);
    let causes = [("few-blocks", remedy("slow", 2, 1), 4e5), ("conflicts", remedy("slow", 1, 2), 5e5)];
    let slower = ("barriers", remedy("slow", 1, 4), 2e6);
    let all: Vec<_> = causes.into_iter().chain([slower]).collect();
    let findings: Vec<Finding> = all.iter().map(|(rule, remedy, _)| finding(rule, vec![remedy.clone()])).collect();
    let mut tested = Vec::new();
    loop {
        let context =
            SearchContext::new(&scene.workload, &scene.families, &scene.searched, &scene.known, &scene.device);
        let Some(test) = cause_tests::next(&context, &findings, &scene.history).unwrap() else { break };
        let Origin::Remedy { rule, .. } = &test.rationale.origin else { panic!("{:?}", test.rationale.origin) };
        tested.push((rule.clone(), show_params(&test.params)));
        let configuration = scene.configuration(&test);
        assert!(scene.history.proposed.insert(configuration), "it is proposed once");
        let ns = all.iter().find(|(name, ..)| name == rule).map_or(2e5, |(.., ns)| *ns);
        scene.measure(&test, |_, _| ns);
    }
    let [.., last] = &tested[..] else { panic!("{tested:?}") };
    assert_eq!(tested.len(), 4, "{tested:?}");
    assert_eq!(*last, ("all".to_owned(), "N=2 P=2".to_owned()));
}
