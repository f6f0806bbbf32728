//! The session in one paragraph.

use std::collections::{BTreeMap, HashSet};

use super::ReportInput;
use super::contract::{Case, Report};
use super::format::{duration, percent, times, usd};
use super::gains::Gains;
use super::ladder::first_clause;
use super::options::{geometric_mean, recommendation};
use crate::domain::device::TimeSource;

/// Writes the summary of a report whose other parts are complete.
pub(super) fn of(report: &Report, gains: &Gains<'_>, input: &ReportInput<'_>) -> String {
    let mut sentences = vec![effort(report, input), improved(&report.cases)];
    sentences.extend(against_baseline(report));
    sentences.extend(idea(&report.cases, input));
    sentences.extend(last_gain(report, gains));
    sentences.push(format!("**Recommendation: {}.**", recommendation(&report.options, report.session.time_source)));
    sentences.join(" ")
}

/// Names the range of some factors: one alone, or two and their geometric mean.
fn range(factors: &[f64]) -> Option<String> {
    let (lo, hi) = factors.iter().copied().reduce(f64::min).zip(factors.iter().copied().reduce(f64::max))?;
    let mean = geometric_mean(factors.iter().copied())?;
    Some(match factors.len() {
        1 => times(lo),
        _ => format!("{} to {} (geometric mean {})", times(lo), times(hi), times(mean)),
    })
}

fn effort(report: &Report, input: &ReportInput<'_>) -> String {
    let iterations = &input.record.iterations;
    let tried = iterations.iter().map(|iteration| &iteration.hash).collect::<HashSet<_>>().len();
    let timed: usize = iterations.iter().map(|iteration| iteration.measurements.len()).sum();
    let time = report.session.wall_s.map_or_else(|| "So far".to_owned(), |wall_s| format!("In {}", duration(wall_s)));
    format!(
        "{time} and for {}, the session tried {tried} variants ({timed} measurements of a case).",
        usd(report.session.cost_usd)
    )
}

fn improved(cases: &[Case]) -> String {
    let of = |began_with: &str| -> (Vec<f64>, usize) {
        let changes = cases.iter().filter_map(|case| case.change.as_ref()).filter(|one| one.began_with == began_with);
        let improved =
            changes.clone().filter(|change| change.improved).filter_map(|change| Some(change.ratio?.estimate));
        (improved.collect(), changes.count())
    };
    let told = |(factors, of): (Vec<f64>, usize), over: &str| {
        let by = range(&factors).map(|range| format!(", by {range}")).unwrap_or_default();
        (of > 0).then(|| format!("{} of {of} cases over {over}{by}", factors.len()))
    };
    let parts: Vec<String> = [
        told(of("committed_winner"), "the committed winners that it began with"),
        told(of("first_variant"), "their first correct kernel"),
    ]
    .into_iter()
    .flatten()
    .collect();
    match parts.is_empty() {
        true => "No variant was correct.".to_owned(),
        false => format!("It improved {}.", parts.join(", and ")),
    }
}

fn against_baseline(report: &Report) -> Option<String> {
    let measured = report.cases.iter().filter(|case| case.baseline.as_ref().is_some_and(|one| !one.is_initial_kernel));
    let ratios: Vec<f64> = measured.filter_map(|case| Some(case.ratio_to_baseline?.estimate)).collect();
    let ahead = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let range = range(&ratios)?;
    Some(format!("{ahead} of {} cases are ahead of the fastest baseline; baseline / ours is {range}.", ratios.len()))
}

/// Names the family with the largest share of the gains, with its idea.
fn idea(cases: &[Case], input: &ReportInput<'_>) -> Option<String> {
    let mut gains: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for case in cases {
        let (Some(change), Some(variant)) = (&case.change, &case.variant) else { continue };
        let factor = change.ratio.map(|ratio| ratio.estimate).filter(|factor| change.improved && *factor > 1.0);
        let Some(factor) = factor else { continue };
        let (sum, cases) = gains.entry(&variant.family).or_default();
        *sum += factor.ln();
        *cases += 1;
    }
    let all: f64 = gains.values().map(|(sum, _)| sum).sum();
    let (family, (sum, cases)) = gains.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let facts = input.families.iter().find(|facts| facts.name == family);
    let about = facts.map(|facts| format!(" ({})", lower(first_sentence(&facts.about)))).unwrap_or_default();
    Some(format!(
        "The largest gains came from `{family}`{about}: {} of them, on {cases} case{}.",
        percent(sum / all),
        if cases == 1 { "" } else { "s" }
    ))
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

/// Writes the first letter small, unless the word is an abbreviation or a name.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    let first_word = text.split(' ').next().unwrap_or_default();
    match letters.next() {
        Some(first) if first_word.chars().skip(1).all(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

fn last_gain(report: &Report, gains: &Gains<'_>) -> Option<String> {
    let wall_s = report.session.wall_s?;
    let Some(last) = gains.all.last() else { return Some("It found no improvement.".to_owned()) };
    let after = gains.share_after_last(wall_s)?;
    let source = if report.session.time_source == TimeSource::Modelled { ", modelled" } else { "" };
    Some(format!(
        "The last improvement ({} on `{}`{source}) came after {}; the last {} of the time brought none.",
        times(last.factor),
        first_clause(last.case),
        duration(last.at_s),
        percent(after)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record, report};
    use super::*;

    #[test]
    fn a_session_is_told_in_one_paragraph() {
        insta::assert_snapshot!(report(&record()).summary, @"In 55 min and for $0.93, the session tried 5 variants (4 measurements of a case). It improved 1 of 2 cases over their first correct kernel, by 1.60×. 0 of 1 cases are ahead of the fastest baseline; baseline / ours is 0.50×. The largest gains came from `tiled` (tiles of queries: keys are shared): 100% of them, on 1 case. The last improvement (1.28× on `b1h1s128`) came after 9 s; the last 100% of the time brought none. **Recommendation: go on with this search.**");
    }

    #[test]
    fn a_session_without_a_result_says_so() {
        let mut record = record();
        record.iterations.clear();
        insta::assert_snapshot!(report(&record).summary, @"In 55 min and for $0.93, the session tried 0 variants (0 measurements of a case). No variant was correct. It found no improvement. **Recommendation: go on with this search.**");
    }

    #[test]
    fn the_first_letter_is_small_unless_it_belongs_to_a_name() {
        let told = [lower("Short sequences"), lower("FP16 products"), lower("FlashAttention on")];
        assert_eq!(told, ["short sequences", "FP16 products", "FlashAttention on"]);
    }
}
