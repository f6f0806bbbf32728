//! What the parameters of a family are worth: the effect of each change, with all else equal.

use std::collections::{BTreeMap, BTreeSet};

use super::FamilyFacts;
use super::contract::{CaseEffect, ParameterEffect, Parameters};
use super::pairs::{Noise, Sample, alike, noise, samples};
use crate::domain::ids::CaseName;
use crate::domain::record::SessionRecord;
use crate::domain::statistics::quantile;

/// Fewest pairs from which an effect is judged.
pub(super) const MIN_PAIRS: usize = 3;

/// The share of the pairs that must agree before a change counts as helping or hurting.
const MAX_AGREE: f64 = 0.8;

/// A pair of configurations: the logarithm of the time before a change over the time after it, and the case.
type Pair<'a> = (f64, &'a str);

/// Returns the effects of all parameters of the families that were searched.
pub(super) fn of(record: &SessionRecord, families: &[FamilyFacts]) -> Parameters {
    let (samples, noise) = (samples(&record.iterations), noise(record));
    let names: BTreeSet<(&str, &String)> =
        samples.iter().flat_map(|sample| sample.params.keys().map(|name| (sample.family, name))).collect();
    let mut effects = Vec::new();
    for (family, parameter) in &names {
        let of_family: Vec<Sample<'_>> = samples.iter().filter(|one| one.family == *family).copied().collect();
        let pairs = pairs(&of_family, parameter);
        let best = best_of(&of_family);
        let Some(from) = usual(&best, parameter) else { continue };
        let about = families.iter().find(|one| one.name == *family).and_then(|one| one.parameters.get(*parameter));
        for ((_, to), pairs) in pairs.iter().filter(|((start, _), _)| *start == from) {
            let used_on = best.iter().filter(|(_, one)| one.params.get(*parameter) == Some(to));
            let used_on = used_on.map(|(case, _)| CaseName::from(*case)).collect();
            effects.extend(effect((family, parameter), about, (from, *to), pairs, used_on, noise));
        }
    }
    let timed = families.iter().filter(|one| names.iter().any(|(family, _)| *family == one.name));
    let about = timed.map(|one| (one.name.clone(), one.parameters.clone())).collect();
    Parameters { noise: noise.known, noise_pairs: noise.pairs as u64, effects, about }
}

/// Returns all pairs that differ in one parameter, by its values before and after.
fn pairs<'a>(samples: &[Sample<'a>], parameter: &str) -> BTreeMap<(i64, i64), Vec<Pair<'a>>> {
    let mut pairs: BTreeMap<(i64, i64), Vec<Pair<'a>>> = BTreeMap::new();
    for group in alike(samples, &[parameter]) {
        for before in &group {
            for after in group.iter().filter(|after| after.params[parameter] != before.params[parameter]) {
                let change = (before.params[parameter], after.params[parameter]);
                pairs.entry(change).or_default().push((before.ln_ns - after.ln_ns, before.case));
            }
        }
    }
    pairs
}

/// Returns the fastest configuration of each case.
fn best_of<'s, 'a>(samples: &'s [Sample<'a>]) -> BTreeMap<&'a str, &'s Sample<'a>> {
    let mut best: BTreeMap<&str, &Sample<'_>> = BTreeMap::new();
    for sample in samples {
        let of_case = best.entry(sample.case).or_insert(sample);
        if sample.ln_ns < of_case.ln_ns {
            *of_case = sample;
        }
    }
    best
}

/// Returns the value that a parameter has most often in the best configurations of the cases.
fn usual(best: &BTreeMap<&str, &Sample<'_>>, parameter: &str) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for value in best.values().filter_map(|sample| sample.params.get(parameter)) {
        *counts.entry(*value).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(value, count)| (*count, std::cmp::Reverse(*value))).map(|(value, _)| value)
}

fn effect(
    (family, parameter): (&str, &str),
    about: Option<&String>,
    (from, to): (i64, i64),
    pairs: &[Pair<'_>],
    used_on: Vec<CaseName>,
    noise: Noise,
) -> Option<ParameterEffect> {
    let logs: Vec<f64> = pairs.iter().map(|(ln, _)| *ln).collect();
    let at = |share: f64| quantile(&logs, share).map(f64::exp);
    let beyond = noise.share.ln_1p();
    let (faster, slower) =
        (pairs.iter().filter(|(ln, _)| *ln > beyond).count(), pairs.iter().filter(|(ln, _)| *ln < -beyond).count());
    let by_case = by_case(pairs, beyond);
    Some(ParameterEffect {
        family: family.to_owned(),
        parameter: parameter.to_owned(),
        about: about.cloned().unwrap_or_default(),
        from,
        to,
        effect: at(0.5)?,
        lower_quartile: at(0.25)?,
        upper_quartile: at(0.75)?,
        pairs: logs.len() as u64,
        cases: by_case.len() as u64,
        faster: faster as u64,
        slower: slower as u64,
        verdict: verdict((faster, slower, logs.len()), &by_case, &used_on),
        by_case,
        used_on,
    })
}

/// Returns the effect on each case.
fn by_case(pairs: &[Pair<'_>], beyond: f64) -> Vec<CaseEffect> {
    let mut logs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (ln, case) in pairs {
        logs.entry(case).or_default().push(*ln);
    }
    let effect = |(case, logs): (&str, Vec<f64>)| {
        let ln = quantile(&logs, 0.5)?;
        let verdict = match () {
            () if ln > beyond => "helps",
            () if ln < -beyond => "hurts",
            () => "tied",
        };
        Some(CaseEffect { case: case.into(), effect: ln.exp(), pairs: logs.len() as u64, verdict })
    };
    logs.into_iter().filter_map(effect).collect()
}

/// Judges a change over all pairs, unless the cases disagree. A value that the family's best configuration of a case uses
/// is not called harmful over all cases.
fn verdict(
    (faster, slower, pairs): (usize, usize, usize),
    by_case: &[CaseEffect],
    used_on: &[CaseName],
) -> &'static str {
    let agree = |count: usize| count as f64 >= MAX_AGREE * pairs as f64;
    let says = |verdict: &str| by_case.iter().any(|one| one.verdict == verdict);
    match () {
        () if pairs < MIN_PAIRS => "few",
        () if says("helps") && says("hurts") => "depends",
        () if says("hurts") && !used_on.is_empty() => "depends",
        () if agree(faster) => "helps",
        () if agree(slower) => "hurts",
        () if agree(pairs - faster - slower) => "tied",
        () => "mixed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::domain::measurement::evaluation::Outcome;
    use crate::domain::measurement::verdict::Verdict;
    use crate::domain::variant::Params;
    use crate::report::tests::{found, iteration, record};

    /// Of three pairs each, PAD 8 -> 0 makes nothing faster, and PAD 8 -> 4 changes nothing.
    #[test]
    fn an_effect_is_the_median_over_pairs_with_all_else_equal() {
        let mut record = record();
        record.iterations.clear();
        let mut add = |block: i64, pad: i64, us: f64| {
            let number = record.iterations.len() as i64 + 1;
            let found = vec![found("b1h1s128", us, Verdict::Tied, None, None)];
            let mut one = iteration(IterationId(number), block, None, Outcome::Measured, found);
            one.params.insert("PAD".to_owned(), pad);
            one.hash = crate::domain::variant::VariantHash::of(&format!("{block} {pad}"));
            record.iterations.push(one);
        };
        for (block, us) in [(64, 10.0), (128, 20.0), (256, 40.0)] {
            add(block, 8, us);
            add(block, 0, us * 1.25);
            add(block, 4, us * 1.001);
        }
        let effects = of(&record, &[]).effects;
        let told: Vec<String> = effects
            .iter()
            .filter(|one| one.parameter == "PAD")
            .map(|one| format!("{} -> {}: {:.2} of {}, {}", one.from, one.to, one.effect, one.pairs, one.verdict))
            .collect();
        assert_eq!(told, ["8 -> 0: 0.80 of 3, hurts", "8 -> 4: 1.00 of 3, tied"], "8 is the best one's");
        let blocks = effects.iter().filter(|one| one.parameter == "BLOCK");
        let told: Vec<String> = blocks.map(|one| format!("{} -> {}: {}", one.from, one.to, one.verdict)).collect();
        assert_eq!(told, ["64 -> 128: hurts", "64 -> 256: hurts"]);
    }

    /// PAD 8 -> 0 is slower on one case and faster on the other, whose best configuration has it.
    #[test]
    fn a_change_on_which_the_cases_disagree_depends_on_the_case() {
        let params = |block: i64, pad: i64| Params::from([("BLOCK".to_owned(), block), ("PAD".to_owned(), pad)]);
        let all: Vec<Params> = [64, 128].iter().flat_map(|block| [8, 0].map(|pad| params(*block, pad))).collect();
        let time = |case: &str, params: &Params| match (case, params["PAD"]) {
            ("large", 0) => 1.25 * params["BLOCK"] as f64,
            ("small", 0) => 0.5 * params["BLOCK"] as f64,
            _ => params["BLOCK"] as f64,
        };
        let all = &all;
        let samples: Vec<Sample<'_>> = ["large", "small"]
            .into_iter()
            .flat_map(|case| all.iter().map(move |params| Sample::new("f", case, params, time(case, params).ln())))
            .collect();
        let pairs = pairs(&samples, "PAD");
        let of = |used_on| {
            let noise = Noise { known: None, pairs: 0, share: 0.01 };
            effect(("f", "PAD"), None, (8, 0), &pairs[&(8, 0)], used_on, noise).unwrap()
        };
        let told = of(vec!["small".into()]);
        let by_case: Vec<(&str, u64, &str)> =
            told.by_case.iter().map(|one| (&*one.case, one.pairs, one.verdict)).collect();
        assert_eq!((told.verdict, by_case), ("depends", vec![("large", 2, "hurts"), ("small", 2, "helps")]));
        let hurts = |used_on: &[CaseName]| {
            let alone = CaseEffect { case: "large".into(), effect: 0.8, pairs: 4, verdict: "hurts" };
            verdict((0, 4, 4), &[alone], used_on)
        };
        assert_eq!([hurts(&[]), hurts(&["small".into()])], ["hurts", "depends"], "a best configuration uses it");
    }
}
