//! What is known of the causes, in at most five lines: those of the initial kernel, what gained, and what limits the winners.

use indexmap::IndexMap;

use super::leads::{changes, explanation};
use super::{status, tested, words_of};
use crate::domain::ids::CaseName;
use crate::domain::proposal::finding::{CauseStatus, Confidence, EvidenceSource};
use crate::report::contract::{Diagnosed, Diagnosis, DiagnosisOf, Lead, OverKind, Report};
use crate::report::views::format::{counted, either, times};

/// The most lines.
const MOST: usize = 5;

/// What is known of a cause.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(in crate::report::views) struct Line {
    /// Of what it is the cause.
    pub(in crate::report::views) of: String,
    /// The cause with its evidence.
    pub(in crate::report::views) known: String,
    /// Whether an experiment confirmed it.
    pub(in crate::report::views) verdict: String,
}

/// Returns the lines, the most telling first.
pub(in crate::report::views) fn lines(report: &Report) -> Vec<Line> {
    let mut initial = of_initial(report).into_iter();
    let mut gained = of_gains(report).into_iter();
    let mut winners = of_winners(report).into_iter();
    let mut lines: Vec<Line> = [initial.next(), gained.next(), winners.next()].into_iter().flatten().collect();
    lines.extend(initial.chain(winners).chain(gained).take(MOST - lines.len()));
    lines
}

/// The causes in the initial kernel, and the first one that an experiment refuted.
fn of_initial(report: &Report) -> Vec<Line> {
    let Some(diagnosis) = report.initial_diagnosis() else { return Vec::new() };
    let line = |cause: &Diagnosed| Line {
        of: format!("Initial kernel on {}", diagnosis.case),
        known: with_evidence(cause),
        verdict: tested(&cause.finding.tested),
    };
    diagnosis.findings.iter().take(2).map(line).collect()
}

fn with_evidence(cause: &Diagnosed) -> String {
    let found = &cause.finding;
    let first = found.evidence.iter().find(|one| one.supports && one.source != EvidenceSource::Experiment);
    let evidence = first.map(|one| format!(": {}", one.text)).unwrap_or_default();
    let sure = match (found.tested.status, found.confidence) {
        (CauseStatus::Confirmed, _) | (_, Confidence::High) => "",
        (_, Confidence::Medium) => ", likely",
        (_, Confidence::Low) => ", one indirect sign",
    };
    format!("{} ({}{sure}){evidence}", found.cause, words_of(found.rule))
}

/// What the improved cases changed, those with the same change together, the largest gain first.
fn of_gains(report: &Report) -> Vec<Line> {
    let is_beginning = |lead: &&Lead| matches!(lead.over.kind, OverKind::FirstVariant | OverKind::CommittedWinner);
    let mut groups: IndexMap<String, Vec<(&Lead, f64)>> = IndexMap::new();
    for lead in report.leads.iter().filter(is_beginning) {
        let Some(case) = report.cases.iter().find(|case| case.case == lead.case) else { continue };
        let improved = case.change.as_ref().is_some_and(|change| change.improved);
        let (Some(ratio), Some(winner), true) = (lead.ratio, &case.variant, improved) else { continue };
        let change = changes(lead).unwrap_or_else(|| format!("{} instead of {}", winner.family, lead.over.name));
        groups.entry(change).or_default().push((lead, ratio.estimate));
    }
    let mut groups: Vec<(String, Vec<(&Lead, f64)>)> = groups.into_iter().collect();
    let most = |leads: &[(&Lead, f64)]| leads.iter().map(|(_, ratio)| *ratio).fold(1.0, f64::max);
    groups.sort_by(|a, b| most(&b.1).total_cmp(&most(&a.1)));
    groups.into_iter().map(|(change, leads)| gained(report, &change, &leads)).collect()
}

fn gained(report: &Report, change: &str, leads: &[(&Lead, f64)]) -> Line {
    let ratios: Vec<f64> = leads.iter().map(|(_, ratio)| *ratio).collect();
    let (lo, hi) = super::span(&ratios).unwrap_or((1.0, 1.0));
    let cases: Vec<&CaseName> = leads.iter().map(|(lead, _)| &lead.case).collect();
    let why = leads.iter().find_map(|(lead, _)| explanation(lead)).map(|why| format!(": {why}")).unwrap_or_default();
    let confirmed = leads.iter().find_map(|(lead, _)| removed(report, lead));
    Line {
        of: format!("Gained {} on {}", either(times(lo), times(hi)), on(&cases)),
        known: format!("{change}{why}"),
        verdict: confirmed.unwrap_or_else(|| "the cause was not tested".to_owned()),
    }
}

/// Says that the cause of what was beaten is gone, and what experiments say of it.
fn removed(report: &Report, lead: &Lead) -> Option<String> {
    let rule = lead.evidence.cause.filter(|_| lead.evidence.is_gone == Some(true))?;
    let of = report.diagnoses.iter().find(|one| Some(one.iteration) == lead.over.iteration);
    let found = of.and_then(|of| of.findings.iter().find(|one| one.finding.rule == rule));
    let status = found.map_or("not tested", |one| status(one.finding.tested.status));
    Some(format!("{} are gone ({status})", words_of(rule)))
}

/// What limits the winners, those with the same cause together.
fn of_winners(report: &Report) -> Vec<Line> {
    let mut groups: IndexMap<&'static str, Vec<(&Diagnosis, &Diagnosed)>> = IndexMap::new();
    let own = report.diagnoses.iter().filter(|one| is_of_winner(report, one));
    for diagnosis in own {
        let case = report.cases.iter().find(|case| case.case == diagnosis.case);
        let Some(crate::report::contract::Limit::Cause { rule, .. }) = case.and_then(|case| case.limit) else {
            continue;
        };
        let Some(found) = diagnosis.findings.iter().find(|one| one.finding.rule == rule) else { continue };
        groups.entry(rule).or_default().push((diagnosis, found));
    }
    let mut groups: Vec<Vec<(&Diagnosis, &Diagnosed)>> = groups.into_values().collect();
    let weight = |of: &[(&Diagnosis, &Diagnosed)]| of.iter().map(|(_, one)| one.finding.weight()).sum::<f64>();
    groups.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    groups.iter().map(|group| limiting(group)).collect()
}

/// Tells whether a diagnosis is about the best variant of its case. That of an initial kernel that is still the best counts as one
/// of the initial kernel.
fn is_of_winner(report: &Report, diagnosis: &Diagnosis) -> bool {
    let case = report.cases.iter().find(|case| case.case == diagnosis.case);
    diagnosis.of == DiagnosisOf::BestVariant && case.is_some_and(|case| case.iteration == Some(diagnosis.iteration))
}

fn limiting(group: &[(&Diagnosis, &Diagnosed)]) -> Line {
    let most = group.iter().max_by(|a, b| a.1.finding.gain.total_cmp(&b.1.finding.gain));
    let (diagnosis, cause) = most.unwrap_or(&group[0]);
    let cases: Vec<&CaseName> = group.iter().map(|(one, _)| &one.case).collect();
    let gain = cause.finding.gain;
    let gain =
        if gain > 1.0 { format!("; without it, at most {} on {}", times(gain), diagnosis.case) } else { String::new() };
    let tests: Vec<&Diagnosed> = group.iter().map(|(_, one)| *one).collect();
    let strongest = tests.iter().min_by_key(|one| rank(one.finding.tested.status)).unwrap_or(cause);
    Line {
        of: format!("Winner on {}", on(&cases)),
        known: format!("{}{gain}", with_evidence(cause)),
        verdict: tested(&strongest.finding.tested),
    }
}

fn rank(status: CauseStatus) -> u8 {
    match status {
        CauseStatus::Confirmed => 0,
        CauseStatus::Supported => 1,
        CauseStatus::Inconclusive => 2,
        CauseStatus::NotTested | CauseStatus::NoExperiment => 3,
        CauseStatus::NotConfirmed => 4,
    }
}

/// Names one case, or counts several with the first.
fn on(cases: &[&CaseName]) -> String {
    match cases {
        [only] => only.to_string(),
        [first, second] => format!("{first} and {second}"),
        [first, others @ ..] => format!("{first} and {}", counted(others.len(), "more case")),
        [] => String::new(),
    }
}
