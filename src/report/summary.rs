//! The session in one paragraph.

use super::ReportInput;
use super::contract::{Case, Credit, Diagnosis, DiagnosisOf, Excerpt, Report};
use super::decision::recommendation;
use super::format::{counted, duration, times, usd};
use super::gains::Gains;
use super::ladder::first_clause;
use super::options::geometric_mean;
use crate::domain::device::TimeSource;
use crate::domain::tested::CauseStatus;

/// The most steps to name.
const NAMED: usize = 3;

/// The least factor of a step that is named.
const MIN_NAMED: f64 = 1.02;

/// Writes the summary of a report whose other parts are complete.
pub(super) fn of(report: &Report, gains: &Gains<'_>, input: &ReportInput<'_>) -> String {
    let mut sentences = vec![effort(report, input)];
    sentences.extend(report.excerpt.map(excerpt));
    sentences.extend(against_baseline(report));
    sentences.push(improved(&report.cases));
    sentences.extend(steps(report));
    sentences.extend(winners(report));
    sentences.extend(last_gain(report, gains));
    sentences.extend(confirmed(report));
    sentences.push(format!("**Recommendation: {}.**", recommendation(report)));
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
    let totals = input.record.totals();
    let (tried, timed) = (totals.variants, totals.results);
    let time = report.session.wall_s.map_or_else(|| "So far".to_owned(), |wall_s| format!("In {}", duration(wall_s)));
    format!(
        "{time} and for {}, the session tried {} ({} of a case).",
        usd(report.session.cost_usd),
        counted(tried as usize, "variant"),
        counted(timed as usize, "measurement")
    )
}

/// Says what the report rests on, where the session has too many iterations to read them all.
fn excerpt(Excerpt { iterations, in_full, even, wins_left_out }: Excerpt) -> String {
    let wins = match wins_left_out {
        0 => String::new(),
        left_out => format!(" {left_out} older improvements are not listed."),
    };
    format!(
        "Counts, costs, times by phase and best times are about all {iterations} iterations; parameters, hypotheses and \
         causes rest on {in_full} of them ({even} spread evenly, the others selected: the fastest, the improvements and \
         what led to them, the experiments), so that what is called untried may be among the others.{wins}"
    )
}

fn improved(cases: &[Case]) -> String {
    let of = |began_with: &str| -> (Vec<f64>, usize) {
        let changes = cases.iter().filter_map(|case| case.change.as_ref()).filter(|one| one.began_with == began_with);
        let improved =
            changes.clone().filter(|change| change.improved).filter_map(|change| Some(change.ratio?.estimate));
        (improved.collect(), changes.count())
    };
    let told = |(factors, of): (Vec<f64>, usize), over: &str, over_one: &str| {
        let by = range(&factors).map(|range| format!(", by {range}")).unwrap_or_default();
        match (factors.len(), of) {
            (_, 0) => None,
            (1, 1) => Some(format!("its only case over {over_one}{by}")).filter(|_| cases.len() == 1),
            (0, 1) => Some(format!("no case over {over_one}")).filter(|_| cases.len() == 1),
            _ => None,
        }
        .or_else(|| (of > 0).then(|| format!("{} of {of} cases over {over}{by}", factors.len())))
    };
    let parts: Vec<String> = [
        told(
            of("committed_winner"),
            "the committed winners that it began with",
            "the committed winner that it began with",
        ),
        told(of("first_variant"), "their first correct kernels", "the first correct kernel"),
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
    Some(match ratios.len() {
        1 if report.cases.len() == 1 => format!("The fastest baseline takes {range} as long as the best variant."),
        all => {
            format!("{ahead} of {all} cases with a baseline are ahead of the fastest one, which takes {range} as long.")
        }
    })
}

/// Names the largest steps with their factors, which multiply to the whole gain.
fn steps(report: &Report) -> Option<String> {
    let credits = &report.credits;
    let whole: f64 = credits.iter().map(|credit| credit.factor).product();
    let improved =
        report.cases.iter().filter(|case| case.change.as_ref().is_some_and(|change| change.improved)).count();
    let (named, rest): (Vec<_>, Vec<_>) =
        credits.iter().enumerate().partition(|(place, credit)| *place < NAMED && credit.factor >= MIN_NAMED);
    credits.first()?;
    let step = |(_, Credit { family, kind, factor, cases, mechanism }): &(usize, &Credit)| {
        let what = if *kind == "tuning" { format!("tuning `{family}`") } else { format!("`{family}`") };
        let about = lower(first_sentence(mechanism));
        let on = if *cases == improved as u64 { String::new() } else { format!("on {cases} of {improved} cases") };
        let notes = [about, on].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        let notes = if notes.is_empty() { notes } else { format!(" ({notes})") };
        format!("{what} {}{notes}", times(*factor))
    };
    if let [only] = credits.as_slice() {
        let what = if only.kind == "tuning" { "tuning " } else { "" };
        return Some(format!("All of the gain came from {what}`{}`.", only.family));
    }
    let mut words: Vec<String> = named.iter().map(step).collect();
    if !rest.is_empty() {
        words.push(format!("all other steps {}", times(rest.iter().map(|(_, credit)| credit.factor).product())));
    }
    let mean = if improved > 1 { ", in geometric means over the improved cases" } else { "" };
    Some(format!(
        "The gain of {} is the product of its steps{mean}: {}. Factors depend on the order in which families were tried.",
        times(whole),
        words.join("; ")
    ))
}

/// Names the families of the best variants, the most frequent first.
fn winners(report: &Report) -> Option<String> {
    let mut families: Vec<(&str, usize)> = Vec::new();
    for variant in report.cases.iter().filter_map(|case| case.variant.as_ref()) {
        match families.iter_mut().find(|(family, _)| *family == variant.family) {
            Some((_, cases)) => *cases += 1,
            None => families.push((&variant.family, 1)),
        }
    }
    families.sort_by_key(|(_, cases)| std::cmp::Reverse(*cases));
    let words: Vec<String> = families.iter().map(|(family, cases)| format!("`{family}` wins {cases}")).collect();
    (families.len() > 1).then(|| format!("Of the cases, {}.", words.join(", ")))
}

/// Says whether experiments have confirmed causes of lost time in the winners.
fn confirmed(report: &Report) -> Option<String> {
    let winners: Vec<&Diagnosis> = report.diagnoses.iter().filter(|one| one.of == DiagnosisOf::BestVariant).collect();
    let with = |status: CauseStatus| {
        winners.iter().filter(|one| one.findings.iter().any(|found| found.tested.status == status)).count()
    };
    let whose =
        if report.cases.iter().filter(|case| case.best_us.is_some()).count() == 1 { "winner" } else { "winners" };
    match (with(CauseStatus::Confirmed), with(CauseStatus::NotConfirmed), winners.len()) {
        (_, _, 0) => None,
        (0, 0, _) => Some(format!("What limits the {whose} is estimated, and no experiment has tested it.")),
        (0, _, _) => Some(format!("No experiment has confirmed a cause of lost time in the {whose}.")),
        (some, _, all) => {
            Some(format!("Experiments confirmed a cause of lost time in {some} of {all} winners that were diagnosed."))
        }
    }
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
    let Some(last) = gains.all.last() else {
        let is_improved = |case: &Case| case.change.as_ref().is_some_and(|change| change.improved);
        // The summary has said that no case improved.
        return report
            .cases
            .iter()
            .any(is_improved)
            .then(|| "Only a final comparison found the improvement.".to_owned());
    };
    let source = if report.session.time_source == TimeSource::Modelled { ", modelled" } else { "" };
    Some(format!(
        "The last improvement ({} on `{}`{source}) came {} after the start, and the {} after it brought none.",
        times(last.factor),
        first_clause(last.case),
        duration(last.at_s),
        duration((wall_s - last.at_s).max(0.0))
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record, report};
    use super::*;

    #[test]
    fn a_session_is_told_in_one_paragraph() {
        insta::assert_snapshot!(report(&record()).summary, @"In 55 min and for $0.93, the session tried 5 variants (4 measurements of a case). 0 of 1 cases with a baseline are ahead of the fastest one, which takes 0.50× as long. It improved 1 of 2 cases over their first correct kernels, by 1.60×. All of the gain came from tuning `tiled`. The last improvement (1.28× on `b1h1s128`) came 9 s after the start, and the 55 min after it brought none. **Recommendation: continue this search.**");
    }

    #[test]
    fn a_session_without_a_result_says_so() {
        let mut record = record();
        record.iterations.clear();
        insta::assert_snapshot!(report(&record).summary, @"In 55 min and for $0.93, the session tried 0 variants (0 measurements of a case). No variant was correct. **Recommendation: continue this search.**");
    }

    #[test]
    fn the_first_letter_is_small_unless_it_belongs_to_a_name() {
        let told = [lower("Short sequences"), lower("FP16 products"), lower("FlashAttention on")];
        assert_eq!(told, ["short sequences", "FP16 products", "FlashAttention on"]);
    }
}
