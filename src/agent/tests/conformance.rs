//! Rules that every proposer follows, whatever its strategy.

use std::collections::HashSet;

use super::*;
use crate::agent::{PROPOSERS, proposer};
use crate::domain::claims::hypothesis::Reference;
use crate::domain::claims::prediction::Prediction;
use crate::domain::space::Space;
use crate::domain::statistics::synthetic::repeats;
use crate::domain::variant::Params;

/// Makes a scene with two sources (D = 4 and D = 16). A tile must not be longer than the sequence, so the two cases
/// with D = 16 have different valid configurations.
fn scene() -> Scene {
    let cases = [("s4d4", 4, 4), ("s8", 8, 16), ("s64", 64, 16)];
    let slow = family("slow", &[("TILE", &[4, 8, 16, 32]), ("THREADS", &[32, 64, 128])], "TILE <= Sq");
    let fast = family("fast", &[("TILE", &[4, 8, 64]), ("WARPS", &[1, 2, 4])], "TILE <= Sq && WARPS * 8 <= Sq + 8");
    Scene::new(&cases, vec![slow, fast])
}

fn time(suggestion: &Suggestion, case: &Case) -> f64 {
    let threads = suggestion.params.get("THREADS").or(suggestion.params.get("WARPS")).copied().unwrap_or(1);
    1e5 * case.dims["Sq"] as f64 / (suggestion.params["TILE"] * threads) as f64
}

/// Returns every suggestion of a proposer until it has none, with two always under way.
fn scenario(scene: &mut Scene, name: &str, seed: u64) -> Vec<Suggestion> {
    let mut proposer = proposer(name, seed).unwrap();
    assert_eq!(proposer.name(), name);
    let mut suggestions: Vec<Suggestion> = Vec::new();
    let mut measured = 0;
    loop {
        let suggestion = scene.propose(proposer.as_mut());
        if suggestion.is_none() && measured == suggestions.len() {
            break;
        }
        // The proposer may have to wait for suggestions under way.
        if measured < suggestions.len() {
            scene.measure(&suggestions[measured], time);
            measured += 1;
        }
        suggestions.extend(suggestion);
    }
    assert_eq!(scene.propose(proposer.as_mut()), None, "the end is the end");
    suggestions
}

fn is_valid(scene: &Scene, family: &Family, params: &Params, case: &Case) -> bool {
    Space { family, case, dtype: scene.workload.dtype, device: &scene.device }.contains(params).unwrap()
}

/// Counts the configurations that are valid on a case, once for each source.
fn all_configurations(scene: &Scene) -> usize {
    let mut configurations = HashSet::new();
    for family in &scene.families {
        let parameters: Vec<_> = family.params.iter().collect();
        for (first, second) in
            parameters[0].1.values.iter().flat_map(|a| parameters[1].1.values.iter().map(move |b| (a, b)))
        {
            let params = Params::from([(parameters[0].0.clone(), *first), (parameters[1].0.clone(), *second)]);
            for case in scene.workload.cases.iter().filter(|case| is_valid(scene, family, &params, case)) {
                configurations.insert(ConfigurationId::new(&family.name, &family.specialization(case), &params));
            }
        }
    }
    configurations.len()
}

#[test]
fn a_small_space_is_proposed_completely_and_without_repeats() {
    for (name, seed) in PROPOSERS.iter().flat_map(|name| (0..repeats(3, 20)).map(move |seed| (name, seed))) {
        let mut scene = scene();
        let suggestions = scenario(&mut scene, name, seed);
        assert_eq!(suggestions.len(), all_configurations(&scene), "{name}, seed {seed}");
    }
}

#[test]
fn a_suggestion_is_valid_on_all_its_cases_and_they_share_a_source() {
    for name in PROPOSERS {
        let mut scene = scene();
        for suggestion in scenario(&mut scene, name, 1) {
            let family = scene.family(&suggestion.family);
            for case in &suggestion.cases {
                assert!(is_valid(&scene, family, &suggestion.params, case), "{name}: {suggestion:?}");
                assert_eq!(family.specialization(case), family.specialization(&suggestion.cases[0]), "{name}");
            }
            assert!(suggestion.params.keys().eq(family.params.keys()), "{name}: {suggestion:?}");
        }
    }
}

#[test]
fn a_hypothesis_has_words_evidence_and_one_of_the_suggestions_cases_and_a_claim_has_a_range_over_an_iteration() {
    for name in PROPOSERS {
        for suggestion in scenario(&mut scene(), name, 2) {
            let claim = &suggestion.rationale.hypothesis;
            assert!(!claim.claim.is_empty() && !claim.evidence.is_empty(), "{name}: {claim:?}");
            if let Some(Prediction { lo, median: Some(median), hi, .. }) = claim.prediction {
                assert!(0.0 < lo && lo < median && median < hi, "{name}: {claim:?}");
                assert!(matches!(claim.reference, Reference::Iteration(_)), "{name}: {claim:?}");
            }
            let makes_none = ["initial_kernel", "committed_winner", "random", "injected_fault"];
            let claims_nothing = makes_none.contains(&suggestion.rationale.origin.name());
            assert!(!claims_nothing || claim.prediction.is_none(), "{name}: {suggestion:?}");
            assert!(suggestion.cases.iter().any(|case| case.name == claim.case), "{name}: {suggestion:?}");
        }
    }
}

#[test]
fn a_seed_always_gives_the_same_suggestions() {
    for name in PROPOSERS {
        let told = scenario(&mut scene(), name, 7);
        assert_eq!(told, scenario(&mut scene(), name, 7), "{name}");
        assert_ne!(told, scenario(&mut scene(), name, 8), "{name}");
    }
}

/// The initial kernel of each source, then the winners of earlier sessions on the cases that they won, then the other
/// family's default configurations, then those winners on other cases.
#[test]
fn a_session_opens_with_the_reference_then_the_known_winners() {
    for name in PROPOSERS {
        let mut scene = scene();
        let known = |case: &str, tile: i64| KnownWinner {
            case: case.into(),
            family: "fast".to_owned(),
            params: Params::from([("TILE".to_owned(), tile), ("WARPS".to_owned(), 2)]),
            hash: VariantHash::of(""),
            sidecar: std::path::PathBuf::new(),
            device: "NVIDIA H200".to_owned(),
            median_us: Some(1.0),
            here: true,
        };
        // The first two share a source. The third also fits s64. The last is no longer a configuration.
        scene.known = vec![known("s8", 8), known("s64", 8), known("s8", 4), known("s64", 64), known("s64", 5)];
        let suggestions = scenario(&mut scene, name, 3);
        let initial_design = suggestions[..8]
            .iter()
            .map(|i| format!("{} {} {}", i.family, i.rationale.hypothesis.case, show_params(&i.params)));
        assert_eq!(
            initial_design.collect::<Vec<_>>(),
            [
                "slow s4d4 TILE=4 THREADS=32",
                "slow s8 TILE=4 THREADS=32",
                "fast s8 TILE=8 WARPS=2",
                "fast s8 TILE=4 WARPS=2",
                "fast s64 TILE=64 WARPS=2",
                "fast s4d4 TILE=4 WARPS=1",
                "fast s8 TILE=4 WARPS=1",
                "fast s64 TILE=4 WARPS=2",
            ],
            "{name}"
        );
    }
}

/// A known winner must be beaten even if the user restricts the families to search.
#[test]
fn a_family_that_was_left_out_is_not_searched() {
    for name in PROPOSERS {
        let mut scene = scene();
        scene.searched = vec!["slow".to_owned()];
        let params = Params::from([("TILE".to_owned(), 64), ("WARPS".to_owned(), 4)]);
        let (case, family, hash) = ("s64".into(), "fast".to_owned(), VariantHash::of(""));
        scene.known = vec![KnownWinner {
            case,
            family,
            params,
            hash,
            sidecar: std::path::PathBuf::new(),
            device: "NVIDIA H200".to_owned(),
            median_us: Some(1.0),
            here: true,
        }];
        let others = scenario(&mut scene, name, 4).into_iter().filter(|suggestion| suggestion.family == "fast").count();
        assert_eq!(others, 1, "{name}");
    }
}

/// Speed-ups over the initial kernel have the same meaning in every session.
#[test]
fn the_initial_kernel_is_proposed_first_even_if_its_family_is_not_searched() {
    for name in PROPOSERS {
        let mut scene = scene();
        scene.searched = vec!["fast".to_owned()];
        let suggestions = scenario(&mut scene, name, 12);
        let slow = |suggestion: &&Suggestion| suggestion.family == "slow";
        let initial_design = suggestions.iter().take_while(slow).count();
        assert!(
            initial_design > 0 && suggestions.iter().filter(slow).count() == initial_design,
            "{name}: its default configurations and no more"
        );
    }
}
