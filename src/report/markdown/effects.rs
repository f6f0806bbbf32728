//! What parameters are worth: a few sentences, and the table behind them.

use std::collections::BTreeMap;

use super::table::table;
use crate::report::contract::{Interaction, ParameterEffect, Parameters};
use crate::report::format::{either, percent, times};

/// The most effects to name in a sentence.
const NAMED: usize = 4;

/// Returns the sentences on what helps, what hurts, what depends on the case, what is tied and what interacts.
pub(super) fn sentences(parameters: &Parameters) -> Vec<String> {
    let mut sentences = Vec::new();
    let of = |verdict: &'static str| parameters.effects.iter().filter(move |effect| effect.verdict == verdict);
    let told = |head: &str, effects: &[&ParameterEffect], tell: &dyn Fn(&ParameterEffect) -> String| {
        let named: Vec<_> = effects.iter().take(NAMED).map(|effect| tell(effect)).collect();
        let others = effects.len().saturating_sub(NAMED);
        let others = if others > 0 { format!("; {others} other changes are in the table") } else { String::new() };
        (!named.is_empty()).then(|| format!("**{head}**: {}{others}.", named.join("; ")))
    };
    let mut helps: Vec<_> = of("helps").collect();
    helps.sort_by(|a, b| b.effect.total_cmp(&a.effect));
    sentences.extend(told("Helps", &helps, &|effect| change(effect, effect.faster)));
    let mut hurts: Vec<_> = of("hurts").collect();
    hurts.sort_by(|a, b| a.effect.total_cmp(&b.effect));
    sentences.extend(told("Hurts wherever it was tried", &hurts, &|effect| change(effect, effect.slower)));
    let mut depends: Vec<_> = of("depends").collect();
    let spread = |effect: &ParameterEffect| effect.by_case.iter().map(|one| one.effect.ln().abs()).fold(0.0, f64::max);
    depends.sort_by(|a, b| spread(b).total_cmp(&spread(a)));
    sentences.extend(told("Depends on the case", &depends, &by_case));
    sentences.extend(ties(&parameters.effects));
    let named: Vec<_> = parameters.interactions.iter().take(NAMED).map(interaction).collect();
    if !named.is_empty() {
        sentences.push(format!(
            "**Interactions** (joint effect over the product of the single ones; below 1, the two changes spoil each other): {}.",
            named.join("; ")
        ));
    }
    sentences
}

fn change(effect: &ParameterEffect, agreeing: u64) -> String {
    let ParameterEffect { family, parameter, from, to, effect, pairs, by_case, .. } = effect;
    let cases: Vec<String> = by_case.iter().map(|one| format!("`{}`", one.case)).collect();
    let on = if cases.len() <= NAMED { cases.join(", ") } else { format!("{} cases", cases.len()) };
    format!("`{parameter}` {from} → {to} of `{family}`, {} ({agreeing} of {pairs} pairs, on {on})", times(*effect))
}

/// Tells the effect on each case, and which best configurations use the value.
fn by_case(effect: &ParameterEffect) -> String {
    let ParameterEffect { family, parameter, from, to, by_case, used_on, .. } = effect;
    let cases: Vec<String> = by_case.iter().map(|one| format!("{} on `{}`", times(one.effect), one.case)).collect();
    let used: Vec<String> = used_on.iter().map(|case| format!("`{case}`")).collect();
    let used = if used.is_empty() { String::new() } else { format!(" (its best on {} has {to})", used.join(", ")) };
    format!("`{parameter}` {from} → {to} of `{family}`, {}{used}", cases.join(", "))
}

/// Names the parameters of which no value that was tried enough differs beyond the noise.
fn ties(effects: &[ParameterEffect]) -> Option<String> {
    let mut by_parameter: BTreeMap<(&str, &str), Vec<&ParameterEffect>> = BTreeMap::new();
    for effect in effects.iter().filter(|effect| effect.verdict != "few") {
        by_parameter.entry((&effect.family, &effect.parameter)).or_default().push(effect);
    }
    let tied = by_parameter.into_iter().filter(|(_, all)| all.iter().all(|effect| effect.verdict == "tied"));
    let named: Vec<_> = tied
        .map(|((family, parameter), all)| {
            let pairs: u64 = all.iter().map(|effect| effect.pairs).sum();
            format!("`{parameter}` of `{family}` (leave at {}; {pairs} pairs)", all[0].from)
        })
        .collect();
    (!named.is_empty()).then(|| format!("**Within the noise**: {}.", named.join(", ")))
}

fn interaction(interaction: &Interaction) -> String {
    let [first, second] = &interaction.parameters;
    format!(
        "`{}` {} → {} with `{}` {} → {} of `{}`, {} (n = {})",
        first.parameter,
        first.from,
        first.to,
        second.parameter,
        second.from,
        second.to,
        interaction.family,
        times(interaction.factor),
        interaction.quadruples
    )
}

/// Says how much of an effect is noise.
pub(super) fn noise(parameters: &Parameters) -> String {
    match parameters.noise {
        Some(noise) => format!(
            "Two screening runs of one variant differed by at most {} nine times of ten (n = {})",
            percent(noise),
            parameters.noise_pairs
        ),
        None => "No variant was screened often enough to know the noise".to_owned(),
    }
}

/// Returns the table of all effects.
pub(super) fn effects(parameters: &Parameters) -> String {
    let row = |one: &ParameterEffect| {
        vec![
            one.family.clone(),
            one.parameter.clone(),
            format!("{} → {}", one.from, one.to),
            times(one.effect),
            either(times(one.lower_quartile), times(one.upper_quartile)),
            format!("{} on {}", one.pairs, one.cases),
            format!("{} / {}", one.faster, one.slower),
            one.verdict.to_owned(),
        ]
    };
    let headings =
        ["family", "parameter", "change", ">effect", ">middle half", ">pairs on cases", ">faster / slower", "verdict"];
    table(&headings, &parameters.effects.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::contract::{CaseEffect, ParameterValues};
    use crate::report::tests;

    fn effect(parameter: &str, to: i64, effect: f64, verdict: &'static str) -> ParameterEffect {
        let agreeing = if verdict == "tied" { 0 } else { 4 };
        ParameterEffect {
            faster: if effect > 1.0 { agreeing } else { 0 },
            slower: if effect > 1.0 { 0 } else { agreeing },
            verdict,
            by_case: ["short", "long"]
                .map(|case| CaseEffect { case: case.into(), effect, pairs: 2, verdict: "tied" })
                .into(),
            used_on: if verdict == "depends" { vec!["long".into()] } else { Vec::new() },
            ..tests::effect(parameter, [1, to], effect)
        }
    }

    #[test]
    fn what_helps_what_was_refuted_what_is_tied_and_what_interacts_is_told() {
        let values = |parameter: &str| ParameterValues { parameter: parameter.to_owned(), from: 1, to: 2 };
        let interactions = vec![Interaction {
            family: "tiled".to_owned(),
            parameters: [values("WARPS"), values("STAGES")],
            factor: 0.8,
            quadruples: 3,
        }];
        let effects = vec![
            effect("WARPS", 2, 1.2, "helps"),
            effect("WARPS", 4, 0.5, "hurts"),
            effect("LAZY", 2, 1.0, "tied"),
            effect("STAGES", 2, 1.0, "tied"),
            effect("STAGES", 3, 1.1, "mixed"),
            effect("MT", 2, 0.8, "depends"),
        ];
        let told =
            sentences(&Parameters { noise: None, noise_pairs: 0, effects, interactions, ..Parameters::default() });
        insta::assert_snapshot!(told.join("\n"), @"
        **Helps**: `WARPS` 1 → 2 of `tiled`, 1.20× (4 of 5 pairs, on `short`, `long`).
        **Hurts wherever it was tried**: `WARPS` 1 → 4 of `tiled`, 0.50× (4 of 5 pairs, on `short`, `long`).
        **Depends on the case**: `MT` 1 → 2 of `tiled`, 0.80× on `short`, 0.80× on `long` (its best on `long` has 2).
        **Within the noise**: `LAZY` of `tiled` (leave at 1; 5 pairs).
        **Interactions** (joint effect over the product of the single ones; below 1, the two changes spoil each other): `WARPS` 1 → 2 with `STAGES` 1 → 2 of `tiled`, 0.80× (n = 3).
        ");
    }
}
