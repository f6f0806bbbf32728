//! What parameters are worth: a few sentences, and the table behind them.

use std::collections::BTreeMap;

use super::table::table;
use crate::report::contract::{Interaction, ParameterEffect, Parameters};
use crate::report::format::{percent, times};

/// The most effects to name in a sentence.
const NAMED: usize = 4;

/// Returns the sentences on what helps, what is tied, what was refuted and what interacts.
pub(super) fn sentences(parameters: &Parameters) -> Vec<String> {
    let mut sentences = Vec::new();
    let of = |verdict: &'static str| parameters.effects.iter().filter(move |effect| effect.verdict == verdict);
    let mut helps: Vec<_> = of("helps").collect();
    helps.sort_by(|a, b| b.effect.total_cmp(&a.effect));
    if !helps.is_empty() {
        let named: Vec<_> = helps.iter().take(NAMED).map(|effect| change(effect, effect.faster)).collect();
        sentences.push(format!("**Helps on most pairs**: {}.", named.join("; ")));
    }
    let mut hurts: Vec<_> = of("hurts").collect();
    hurts.sort_by(|a, b| a.effect.total_cmp(&b.effect));
    if !hurts.is_empty() {
        let named: Vec<_> = hurts.iter().take(NAMED).map(|effect| change(effect, effect.slower)).collect();
        let more = hurts.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more changes") } else { String::new() };
        sentences.push(format!("**Refuted**: {}{more}.", named.join("; ")));
    }
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
    let ParameterEffect { family, parameter, from, to, effect, pairs, .. } = effect;
    format!("`{parameter}` {from} → {to} of `{family}`, {} ({agreeing} of {pairs})", times(*effect))
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
            format!("{} to {}", times(one.lower_quartile), times(one.upper_quartile)),
            format!("{} on {}", one.pairs, one.cases),
            format!("{} / {}", one.faster, one.slower),
            one.verdict.to_owned(),
        ]
    };
    let headings =
        ["family", "parameter", "change", ">effect", ">middle half", ">pairs on cases", ">faster / slower", "verdict"];
    table(&headings, &parameters.effects.iter().map(row).collect::<Vec<_>>())
}
