//! Tables of what was tried, for prompts: what models proposed and what became of it, and the fastest configurations of each
//! family with the effects of its parameters. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::domain::family::Family;
use crate::domain::history::refuted::ln_speedup;
use crate::domain::history::tested::{Trial, pairs};
use crate::domain::history::{CaseTime, Finished, History};
use crate::domain::ids::CaseName;
use crate::domain::proposal::origin::{Change, Origin, Purpose};
use crate::domain::variant::show_params;

/// The latest proposals that a prompt tells.
const PROPOSALS: usize = 24;

/// The parts of a modelled time that are told.
const PARTS: usize = 3;

/// The configurations of a family that are told for a case.
const CONFIGURATIONS: usize = 5;

/// The effects of a family's parameters that are told for a case, the largest first.
const EFFECTS: usize = 6;

/// The pairs of configurations that an effect needs. One pair may be chance.
const MIN_PAIRS: usize = 2;

/// Returns what models proposed and what was measured of it, the latest last. Empty if nothing was.
pub(in crate::session) fn proposals(history: &History) -> String {
    let is_proposal = |one: &&Finished| {
        matches!(one.rationale.origin, Origin::Model { .. })
            && one.rationale.purpose != Purpose::Confirmation
            && !one.times.is_empty()
    };
    let of_models: Vec<&Finished> = history.finished.iter().filter(is_proposal).collect();
    let latest = &of_models[of_models.len().saturating_sub(PROPOSALS)..];
    let mut table =
        "| # | case | claim | predicted | us | over what it changed | its family's best, us | fastest of all, us | \
                     slowest parts, us | those of the fastest |\n|--:|---|---|---|--:|--:|--:|--:|---|---|\n"
            .to_owned();
    for one in latest {
        let case = &one.rationale.hypothesis.case;
        let Some(time) = one.times.iter().find(|time| time.case == *case).or(one.times.first()) else { continue };
        let us = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{:.3}", ns / 1e3));
        let predicted =
            one.rationale.hypothesis.prediction.map(|range| format!("{:.2}x to {:.2}x", range.lo, range.hi));
        let record = history.fastest(&time.case);
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            one.iteration,
            time.case,
            one.rationale.hypothesis.claim.replace('|', "/"),
            predicted.as_deref().unwrap_or("-"),
            us(Some(time.median_ns)),
            ln_speedup(history, one).map_or("-".to_owned(), |ln| format!("{:.3}x", ln.exp())),
            us(history.fastest_of_family(&one.family, &time.case)),
            us(record.map(|(_, ns)| ns)),
            parts(time),
            record.and_then(|(fastest, _)| on_case(fastest, &time.case)).map_or("-".to_owned(), parts),
        );
    }
    if latest.is_empty() { String::new() } else { table }
}

fn on_case<'a>(one: &'a Finished, case: &str) -> Option<&'a CaseTime> {
    one.times.iter().find(|time| time.case == *case)
}

/// Names the parts that take longest, of the launch that does. The parts overlap.
fn parts(time: &CaseTime) -> String {
    let Some(launch) = time.profile.as_ref().and_then(|profile| profile.longest()) else { return "-".to_owned() };
    let mut parts: Vec<(&String, &f64)> = launch.parts_ns.iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(a.1));
    let told: Vec<String> = parts.iter().take(PARTS).map(|(name, ns)| format!("{name} {:.2}", **ns / 1e3)).collect();
    told.join(", ")
}

/// Returns the fastest configurations of each family on the cases, and the effects of its parameters.
pub(in crate::session) fn fastest(history: &History, families: &[&Family], cases: &[&CaseName]) -> String {
    let mut text = String::new();
    for case in cases {
        let trials = history.trials(case);
        for family in families {
            let mut tried: Vec<&Trial<'_>> = trials.iter().filter(|one| one.family == family.name).collect();
            if tried.is_empty() {
                continue;
            }
            tried.sort_by(|a, b| a.ns.total_cmp(&b.ns));
            let _ = writeln!(text, "- {case}, `{}`, {} configurations timed:", family.name, tried.len());
            for one in tried.iter().take(CONFIGURATIONS) {
                let _ = writeln!(text, "  - {:.3} us: {}", one.ns / 1e3, show_params(one.params));
            }
            let effects = effects(&tried);
            if !effects.is_empty() {
                let _ = writeln!(text, "  - speed-up by one parameter alone, median: {}", effects.join("; "));
            }
        }
    }
    text
}

/// Returns the effects of changes of one parameter that several pairs of configurations show, the largest first.
fn effects(tried: &[&Trial<'_>]) -> Vec<String> {
    let mut speedups: BTreeMap<(String, i64, i64), Vec<f64>> = BTreeMap::new();
    for (before, after, Change { parameter, from, to }) in pairs(tried) {
        if from < to {
            speedups.entry((parameter, from, to)).or_default().push(before.ns / after.ns);
        }
    }
    speedups.retain(|_, all| all.len() >= MIN_PAIRS);
    let of_change = |((parameter, from, to), mut all): ((String, i64, i64), Vec<f64>)| {
        all.sort_by(f64::total_cmp);
        let median = all[all.len() / 2];
        (median.ln().abs(), format!("{parameter} {from} to {to} {median:.2}x (n = {})", all.len()))
    };
    let mut effects: Vec<(f64, String)> = speedups.into_iter().map(of_change).collect();
    effects.sort_by(|a, b| b.0.total_cmp(&a.0));
    effects.into_iter().take(EFFECTS).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::domain::variant::Params;
    use crate::session::synthetic::{CASES, Scenario, setup};

    #[test]
    fn effects_come_from_pairs_that_differ_in_one_parameter() {
        let params = |tile, pad| Params::from_iter([("TILE".to_owned(), tile), ("PAD".to_owned(), pad)]);
        let timed = [(8.0, 16, 0), (4.0, 32, 0), (6.0, 16, 1), (3.0, 32, 1), (1.0, 64, 2)];
        let all = timed.map(|(ns, tile, pad)| (ns, params(tile, pad)));
        let trial = |(ns, params)| Trial {
            iteration: IterationId(1),
            family: "f",
            params,
            ns,
            ctas: None,
            profile: None,
            remedy: None,
        };
        let trials: Vec<Trial<'_>> = all.iter().map(|(ns, params)| trial((*ns, params))).collect();
        let tried: Vec<&Trial<'_>> = trials.iter().collect();
        assert_eq!(effects(&tried), ["TILE 16 to 32 2.00x (n = 2)", "PAD 0 to 1 1.33x (n = 2)"]);
    }

    #[test]
    fn the_fastest_configurations_of_a_family_come_first() {
        let mut told = Scenario::new(setup());
        told.screened(0, Purpose::Initial, [100, 100]);
        told.screened(1, Purpose::Screening, [50, 90]);
        let family = told.state.setup().families[0].clone();
        let text = fastest(told.state.history(), &[&family], &[&CASES[0].into()]);
        let places = ["2 configurations timed", "51.200 us", "102.400 us"].map(|part| text.find(part));
        assert!(places.is_sorted() && places[0].is_some(), "{text}");
        assert_eq!(proposals(told.state.history()), "", "no model proposed anything");
    }
}
