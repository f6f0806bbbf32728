use super::*;
use crate::agent::path::{Begun, faster_step, next};
use crate::agent::proposer;
use crate::domain::proposal::Rationale;
use crate::domain::proposal::experiment::{Path, PathStep};
use crate::domain::variant::Params;

fn params(n: i64, p: i64, q: i64) -> Params {
    [("N", n), ("P", p), ("Q", q)].map(|(name, value)| (name.to_owned(), value)).into()
}

/// `P` = 4 alone is not valid, nor is `Q` = 4, but both together are. `N` is expected to gain.
#[test]
fn a_path_changes_one_parameter_at_a_time_or_two_where_it_must() {
    let parameters: [(&str, &[i64]); 3] = [("N", &[1, 2, 4]), ("P", &[1, 4]), ("Q", &[1, 4])];
    let mut scene = Scene::new(&[("a", 64, 64)], vec![family("f", &parameters, "P == Q")]);
    let initial = scene.propose(&mut *proposer("local", 1).unwrap()).unwrap();
    assert_eq!(initial.params, params(1, 1, 1));
    scene.measure(&initial, |_, _| 1e6);
    let fast = at_random(initial, params(4, 1, 1));
    scene.measure(&fast, |_, _| 1e5);

    let context = SearchContext::new(&scene.workload, &scene.families, &scene.searched, &scene.known, &scene.device);
    let (family, case) = (&scene.families[0], &scene.workload.cases[0]);
    let (from, to) = (&scene.history.finished[0], params(4, 4, 4));
    let step = |at: &Params, failed: &[&Params]| {
        let begun = Begun { from, to: &to, at, failed };
        next(&context, &scene.history, (family, case), &begun).unwrap()
    };
    let first = step(&from.params, &[]).unwrap();
    assert_eq!(first, params(4, 1, 1));
    assert_eq!(step(&first, &[]), Some(to.clone()), "P and Q change together");
    assert_eq!(step(&to, &[]), None, "the end");

    // After a failure, the path goes on around it, until there is no way left.
    let around = step(&from.params, &[&first]).unwrap();
    assert_eq!(around, params(1, 4, 4));
    assert_eq!(step(&from.params, &[&first, &around]), Some(to.clone()), "all at once");
    assert_eq!(step(&from.params, &[&first, &around, &to]), None);
}

/// The end of the path takes 100 us, and a step before it 90 us.
#[test]
fn a_step_that_is_faster_than_all_variants_is_proposed_once() {
    let parameters: [(&str, &[i64]); 3] = [("N", &[1, 2, 4]), ("P", &[1, 4]), ("Q", &[1, 4])];
    let mut scene = Scene::new(&[("a", 64, 64)], vec![family("f", &parameters, "true")]);
    let initial = scene.propose(&mut *proposer("local", 1).unwrap()).unwrap();
    scene.measure(&initial, |_, _| 1e6);
    let end = at_random(initial, params(4, 4, 1));
    scene.measure(&end, |_, _| 1e5);
    let path =
        Path { from: scene.history.finished[0].iteration, to: scene.history.finished[1].iteration, case: "a".into() };
    let mut walk = |params: Params, ns: f64| {
        scene.history.path_steps.push(PathStep { path: path.clone(), params, time_ns: Some(ns) });
        let context =
            SearchContext::new(&scene.workload, &scene.families, &scene.searched, &scene.known, &scene.device);
        let faster = faster_step(&context, &scene.history).unwrap();
        if let Some(faster) = &faster {
            let configuration = scene.configuration(faster);
            scene.history.proposed.insert(configuration);
        }
        faster
    };
    assert_eq!(walk(params(1, 4, 1), 2e5), None, "slower than the end");
    let faster = walk(params(4, 1, 1), 9e4).unwrap();
    assert_eq!((faster.params, faster.rationale.purpose), (params(4, 1, 1), Purpose::Screening));
    assert_eq!(faster.rationale.origin.changes().len(), 1, "what it changes in the end of the path");
    assert_eq!(walk(params(4, 4, 1), 1e5), None, "it is proposed once");
}

/// Suggests another configuration of a family, as the random search does.
fn at_random(like: Suggestion, params: Params) -> Suggestion {
    let rationale = Rationale { origin: Origin::Random, purpose: Purpose::Screening, ..like.rationale };
    Suggestion { params, rationale, ..like }
}
