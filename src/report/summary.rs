//! The session in a few lines: the result, what was slow, what won and why, what to do next, and what it cost.

use super::ReportInput;
use super::contract::{Advantage, Case, Diagnosis, DiagnosisOf, Excerpt, Finding, Report};
use super::decision::recommendation;
use super::format::{counted, duration, percent, times, usd};
use super::gains::Gains;
use super::ladder::first_clause;
use super::options::geometric_mean;
use super::{advantage, limiter};
use crate::domain::device::TimeSource;
use crate::domain::tested::CauseStatus;

/// The most causes of the initial kernel to name.
const MAX_CAUSES: usize = 3;

/// The most leads over other families to explain.
const MAX_RIVALS: usize = 3;

/// Writes the summary of a report whose other parts are complete.
pub(super) fn of(report: &Report, gains: &Gains<'_>, input: &ReportInput<'_>) -> String {
    let joined = |sentences: Vec<Option<String>>| sentences.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let result = joined(vec![Some(improved(&report.cases)), against_baseline(report)]);
    let cost = joined(vec![Some(effort(report, input)), last_gain(report, gains), report.excerpt.map(excerpt)]);
    let lines = [
        Some(format!("**Result.** {result}")),
        first_kernel(report).map(|slow| format!("**What was slow.** {slow}")),
        winners(report).map(|won| format!("**What won.** {won}")),
        limits(report).map(|limits| format!("**What limits it now.** {limits}")),
        Some(format!("**Recommendation: {}.**", recommendation(report))),
        Some(format!("**Cost.** {cost}")),
    ];
    lines.into_iter().flatten().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
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
    let time = report.session.wall_s.map_or_else(|| "so far".to_owned(), duration);
    format!(
        "{} and {time} for {} ({} of a case).",
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
        false => format!("The session improved {}.", parts.join(", and ")),
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

/// Says why the initial kernel is slow: its first causes that no experiment has refuted.
fn first_kernel(report: &Report) -> Option<String> {
    let diagnosis = report.diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)?;
    let Diagnosis { case, family, findings, .. } = diagnosis;
    let mut causes: Vec<&Finding> =
        findings.iter().filter(|found| found.tested.status != CauseStatus::NotConfirmed).collect();
    // What an experiment has shown counts more than an estimate, and a large effect more than a small one.
    let shown = |found: &Finding| if has_survived(found) { found.tested.speedup.unwrap_or(1.0) } else { 0.0 };
    causes.sort_by(|a, b| shown(b).total_cmp(&shown(a)));
    let mut causes: Vec<String> = causes.into_iter().take(MAX_CAUSES).map(cause).collect();
    causes.extend(without_tensor_cores(report, case));
    let own = report.cases.iter().find(|one| one.case == *case)?;
    let far = own.start_us.zip(own.floor_us).map(|(us, floor_us)| times(us / floor_us));
    let far = far.map(|far| format!(" takes {far} as long as its floor on `{case}`")).unwrap_or_default();
    (!causes.is_empty()).then(|| format!("The first kernel, `{family}`,{far}: {}.", causes.join("; ")))
}

/// Says that the first kernel does without the tensor cores on which the winner of the case does its arithmetic.
fn without_tensor_cores(report: &Report, case: &str) -> Option<String> {
    let own = report.advantages.iter().find(|one| *one.case == *case)?;
    let share = own.counts.iter().find(|count| count.name == "tensor_share")?;
    (share.before == 0.0 && share.after > 0.5)
        .then(|| format!("none of its arithmetic is on tensor cores, but {} of the winner's", percent(share.after)))
}

/// Tells whether a cause has survived an experiment.
fn has_survived(found: &Finding) -> bool {
    matches!(found.tested.status, CauseStatus::Confirmed | CauseStatus::Supported)
}

/// Writes a cause with what experiments say about it.
fn cause(found: &Finding) -> String {
    let Finding { cause, tested, gain, confidence, .. } = found;
    let gained = tested.speedup.map(times).unwrap_or_default();
    match tested.status {
        CauseStatus::Confirmed => format!("{cause} (confirmed by an experiment that gained {gained})"),
        CauseStatus::Supported => format!("{cause} (supported by an experiment that gained {gained})"),
        CauseStatus::Inconclusive | CauseStatus::NotTested | CauseStatus::NotConfirmed if *gain > 1.0 => {
            format!("{cause} (not confirmed; {} estimated, {} confidence)", times(*gain), confidence.name())
        }
        CauseStatus::Inconclusive | CauseStatus::NotTested | CauseStatus::NotConfirmed => {
            format!("{cause} (not confirmed, {} confidence)", confidence.name())
        }
    }
}

/// Names the families of the best variants, the most frequent first, and why the one of the largest gain is faster.
fn winners(report: &Report) -> Option<String> {
    let mut families: Vec<(&str, usize)> = Vec::new();
    for variant in report.cases.iter().filter_map(|case| case.variant.as_ref()) {
        match families.iter_mut().find(|(family, _)| *family == variant.family) {
            Some((_, cases)) => *cases += 1,
            None => families.push((&variant.family, 1)),
        }
    }
    families.sort_by_key(|(_, cases)| std::cmp::Reverse(*cases));
    let words: Vec<String> = match &*families {
        [(family, _)] => vec![format!("`{family}`")],
        several => several.iter().map(|(family, cases)| format!("`{family}` on {}", counted(*cases, "case"))).collect(),
    };
    let sms = report.environment.sms;
    let mut sentences = vec![format!("{}.", words.join(", "))];
    sentences.extend(report.advantages.first().map(|one| over(one, "with which the session began", sms)));
    let mut rivals: Vec<&Advantage> = report.rival_advantages.iter().collect();
    rivals.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    sentences.extend(rivals.into_iter().take(MAX_RIVALS).map(|one| over(one, "the next best family", sms)));
    (!families.is_empty()).then(|| sentences.join(" "))
}

/// Says why a best variant is faster than another one, in short.
fn over(advantage: &Advantage, role: &str, sms: u32) -> String {
    let Advantage { case, before, after, factor, .. } = advantage;
    let (own, other) = (&after.family, &before.family);
    let why = match advantage.modelled_factor > 1.0 {
        true => format!(": {}", advantage::in_short(advantage, sms)),
        false => format!("; the reason is not known (the model expects {})", times(advantage.modelled_factor)),
    };
    format!("On `{case}`, `{own}` is {} as fast as `{other}`, {role}{why}.", times(*factor))
}

/// Says what limits the best variant with the most to gain, and in how many cases its cause survived an experiment.
fn limits(report: &Report) -> Option<String> {
    let of_case = |case| limiter::first_cause(case, &report.diagnoses).map(|found| (case, found));
    let causes: Vec<(&Case, &Finding)> = report.cases.iter().filter_map(of_case).collect();
    let weight = |found: &Finding| found.gain.max(1.0).ln() * found.confidence.weight();
    let (case, most) = causes.iter().max_by(|a, b| weight(a.1).total_cmp(&weight(b.1)))?;
    let tested = causes.iter().filter(|(_, found)| has_survived(found)).count();
    let winners = report.cases.iter().filter(|case| case.best_us.is_some()).count();
    let of = match causes.len() {
        1 => "Probably this: ".to_owned(),
        _ => format!("Most to gain on `{}`: ", case.case),
    };
    let count = match causes.len() {
        1 => String::new(),
        all => format!(
            " The winners of {all} of {winners} cases have a suspected cause; experiments confirm or support {tested} of \
             these causes."
        ),
    };
    Some(format!("{of}{}.{count}", cause(most)))
}

/// Says when the search found its last improvement.
fn last_gain(report: &Report, gains: &Gains<'_>) -> Option<String> {
    let wall_s = report.session.wall_s?;
    let is_improved = |case: &Case| case.change.as_ref().is_some_and(|change| change.improved);
    // The result has said that no case improved.
    if !report.cases.iter().any(is_improved) {
        return None;
    }
    let Some(last) = gains.by_search().last() else {
        let told = match gains.all.is_empty() {
            true => "Only a final comparison found the improvement.",
            false => {
                "Everything that was gained came from the initial design: the search after it found nothing faster."
            }
        };
        return Some(told.to_owned());
    };
    let source = match report.session.time_source {
        TimeSource::Measured => "",
        TimeSource::Modelled => ", modelled",
        TimeSource::Recorded => ", recorded",
    };
    Some(format!(
        "The search confirmed its last improvement ({} on `{}`{source}, over the winner confirmed before it) {} after the \
         start, and none in the {} after it.",
        times(last.factor),
        first_clause(last.case),
        duration(last.at_s),
        duration((wall_s - last.at_s).max(0.0))
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record, report};

    #[test]
    fn a_session_is_told_in_one_paragraph() {
        insta::assert_snapshot!(report(&record()).summary, @"
        - **Result.** The session improved 1 of 2 cases over their first correct kernels, by 1.60×. 0 of 1 cases with a baseline are ahead of the fastest one, which takes 0.50× as long.
        - **What won.** `tiled`.
        - **Recommendation: continue this search.**
        - **Cost.** $0.93 and 55 min for 5 variants (4 measurements of a case). The search confirmed its last improvement (1.28× on `b1h1s128`, over the winner confirmed before it) 9 s after the start, and none in the 55 min after it.
        ");
    }

    #[test]
    fn a_session_without_a_result_says_so() {
        let mut record = record();
        record.iterations.clear();
        insta::assert_snapshot!(report(&record).summary, @"
        - **Result.** No variant was correct.
        - **Recommendation: continue this search.**
        - **Cost.** $0.93 and 55 min for 0 variants (0 measurements of a case).
        ");
    }
}
