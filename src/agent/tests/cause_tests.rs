use super::*;
use crate::agent::{cause_tests, proposer};
use crate::domain::finding::{Confidence, Finding, Remedy};
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
        without_split: None,
        model_is_off: false,
        derivation: None,
        evidence: Vec::new(),
        confidence: Confidence::Medium,
        gain: 2.0,
        remedies,
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
        assert_eq!((test.parent, test.purpose), (Some(IterationId(1)), Purpose::Screening));
        let configuration = scene.configuration(&test);
        assert!(scene.history.proposed.insert(configuration));
        let Origin::Remedy { rule, .. } = test.origin else { panic!("{:?}", test.origin) };
        tested.push((rule, test.family, show_params(&test.params)));
    }
    let slow = |rule: &str, params: &str| (rule.to_owned(), "slow".to_owned(), params.to_owned());
    assert_eq!(tested, [slow("few-blocks", "N=2 P=1"), slow("conflicts", "N=1 P=2")]);
}
