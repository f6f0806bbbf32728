//! Why the first kernel is slow: how far it is from the winner and from the floor, what most of that is, and the causes in the
//! order of what removing them gained.

use super::joined;
use crate::domain::tested::CauseStatus;
use crate::report::changes::{listed, named};
use crate::report::contract::{Case, Diagnosis, Finding, Report};
use crate::report::format::{percent, times, us};
use crate::report::markdown::{first_kernel, paths};
use crate::report::next_change::not_correct;
use crate::report::{FamilyFacts, roofline};

/// The most causes to name.
const MAX_CAUSES: usize = 3;

/// Causes that one experiment cannot tell apart, or a single cause.
type Group<'a> = Vec<&'a Finding>;

/// Says why the first kernel is slow. None without a diagnosis that found a cause.
pub(super) fn sentences(report: &Report, families: &[FamilyFacts]) -> Option<String> {
    let Diagnosis { case, family, findings, .. } = report.initial_diagnosis()?;
    let (first, others) = first_causes(groups(findings));
    let told = |group: &Group<'_>| cause(report, family, group);
    let causes: Vec<String> = first.iter().map(told).chain(larger_than(&first, &others).map(told)).collect();
    let without_tensor_cores = first_kernel::without_tensor_cores(report);
    let lacks_them = without_tensor_cores.is_some() || findings.iter().any(|found| found.rule == "tensor-cores-unused");
    let divided = first_kernel::on_fma_pipes(report, case).filter(|_| lacks_them);
    let head = match first.iter().any(is_shown) {
        true => "Causes, with what a change against each gained (gains overlap)",
        false => "Probable causes",
    };
    let causes = (!causes.is_empty()).then(|| format!("{head}:{}", numbered(&causes)))?;
    let own = report.cases.iter().find(|one| one.case == *case)?;
    let size = size(report, own, family, families)?;
    joined([Some(size), divided.or(without_tensor_cores), most_expensive(report), tuned(report), Some(causes)])
}

/// The share of the first kernel's time from which its most expensive kind of instruction is named.
const MUCH: f64 = 0.3;

/// Names the kind of instruction that takes much of the first kernel's time. None if none does, or without ablations.
fn most_expensive(report: &Report) -> Option<String> {
    let breakdown = report.first_breakdown.as_ref()?;
    let (kind, share) = breakdown.largest().into_iter().next().filter(|(_, share)| *share >= MUCH)?;
    Some(format!("Without its {}, it takes {} less time (measured).", kind.text(), percent(share)))
}

/// Numbers several causes, as a list below the sentence.
fn numbered(causes: &[String]) -> String {
    match causes {
        [only] => format!(" {only}."),
        several => several.iter().enumerate().map(|(at, cause)| format!("\n  {}. {cause}.", at + 1)).collect(),
    }
}

/// Says how far the first kernel is from the winner and from the floor.
fn size(report: &Report, own: &Case, family: &str, families: &[FamilyFacts]) -> Option<String> {
    let first_us = roofline::first_us(own)?;
    let over = own
        .best_us
        .filter(|best_us| *best_us < first_us)
        .map(|best_us| format!("{} the winner's time", times(first_us / best_us)));
    let floor =
        own.floor_us.map(|floor_us| format!("{} the floor, which no correct kernel beats", times(first_us / floor_us)));
    let far: Vec<String> = over.into_iter().chain(floor).collect();
    let began = report.cases.iter().filter_map(|case| case.change.as_ref());
    let is_replaced =
        began.clone().count() > 0 && began.into_iter().all(|change| change.began_with == "committed_winner");
    let replaced = if is_replaced { ", which committed winners replaced before this session" } else { "" };
    let facts = families.iter().find(|facts| facts.name == family);
    let idea = facts.map(|facts| format!(" ({})", facts.about.trim_end_matches('.'))).unwrap_or_default();
    Some(format!(
        "The first kernel, `{family}`{idea}{replaced}, takes {} us on `{}`: {}.",
        us(first_us),
        own.case,
        listed(&far)?
    ))
}

/// Puts causes that share an experiment into one group, and leaves out those that experiments have refuted.
fn groups(findings: &[Finding]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for found in findings.iter().filter(|found| found.tested.status != CauseStatus::NotConfirmed) {
        match groups.iter_mut().find(|group| found.tested.shared_with.contains(&group[0].rule)) {
            Some(group) => group.push(found),
            None => groups.push(vec![found]),
        }
    }
    groups
}

/// Returns what the experiment gained that has shown a cause. None without one.
fn shown(found: &Finding) -> Option<f64> {
    let is_shown = matches!(found.tested.status, CauseStatus::Confirmed | CauseStatus::Supported);
    found.tested.speedup.filter(|_| is_shown)
}

fn is_shown(group: &Group<'_>) -> bool {
    shown(group[0]).is_some()
}

/// Divides causes into those to name and the others: those that experiments have shown. If they have shown none, the first ones.
fn first_causes(causes: Vec<Group<'_>>) -> (Vec<Group<'_>>, Vec<Group<'_>>) {
    let (mut first, mut others): (Vec<_>, Vec<_>) = causes.into_iter().partition(is_shown);
    if first.is_empty() {
        std::mem::swap(&mut first, &mut others);
    }
    let more = first.split_off(first.len().min(MAX_CAUSES));
    (first, more.into_iter().chain(others).collect())
}

/// Returns the cause with the largest possible gain of those that are not named, if it is larger than all that are.
fn larger_than<'o, 'a>(first: &[Group<'a>], others: &'o [Group<'a>]) -> Option<&'o Group<'a>> {
    let most = first.iter().flatten().map(|found| shown(found).unwrap_or(found.gain)).fold(1.0, f64::max);
    let larger = others.iter().filter(|group| group[0].gain > most);
    larger.max_by(|a, b| a[0].gain.total_cmp(&b[0].gain))
}

/// Names causes, with what an experiment gained without them, or else what is estimated.
fn cause(report: &Report, family: &str, group: &Group<'_>) -> String {
    let Finding { tested, gain, confidence, failed, .. } = group[0];
    let causes: Vec<&str> = group.iter().map(|found| &*found.cause).collect();
    let gained = tested.speedup.map(times).unwrap_or_default();
    let estimate = || {
        let gain = if *gain > 1.0 { format!("possible gain {}, ", times(*gain)) } else { String::new() };
        format!("{gain}{} confidence", confidence.name())
    };
    let status = match (tested.status, &*tested.changes) {
        (CauseStatus::Confirmed | CauseStatus::Supported, [change]) => {
            let change = named(change, None, report.parameters.about(family, &change.parameter));
            let is_more = tested.status == CauseStatus::Supported && group.len() == 1;
            let more = if is_more { "; the change may remove other causes, too" } else { "" };
            let expected = if *gain > 1.0 { format!(" ({} expected{more})", times(*gain)) } else { String::new() };
            format!("{change} gained {gained}{expected}")
        }
        (CauseStatus::Confirmed | CauseStatus::Supported, _) => {
            format!("an experiment that changed more gained {gained}")
        }
        (CauseStatus::Inconclusive, _) => {
            format!("{}, and an experiment that changed several things at once gained {gained}", estimate())
        }
        (CauseStatus::NotTested, _) => {
            format!("{}, {}", estimate(), failed.map_or_else(|| "not tested".to_owned(), not_correct))
        }
        (CauseStatus::NoExperiment | CauseStatus::NotConfirmed, _) => {
            format!("{}, no parameter removes it", estimate())
        }
    };
    match &*causes {
        [only] => format!("{only}: {status}"),
        several => format!("{}, which one experiment does not tell apart: {status}", several.join(", or ")),
    }
}

/// Says what the parameters of the first kernel and other kernels gained.
fn tuned(report: &Report) -> Option<String> {
    let path = paths::of_first(report).and_then(|path| Some((path, paths::left(report, path)?)));
    let alone = report.tuned_alone.as_ref();
    let gain = path.map(|(path, _)| path.gain()).or(alone.map(|alone| alone.gain))?;
    let left = alone.map(|alone| path.map_or(alone.of_others, |(_, left)| left));
    let others = left.map(|left| format!(", and another family {} more", times(left))).unwrap_or_default();
    let what = match path.map(|(path, _)| &*path.steps) {
        Some([only]) => format!("Tuning {}", paths::parameters(only)),
        _ => "Tuning all of its parameters".to_owned(),
    };
    Some(format!("{what} gains {}{others}.", times(gain)))
}
