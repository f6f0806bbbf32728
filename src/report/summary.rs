//! The session in a few lines that can be read aloud in a minute: the result, what was slow, what won, what to do next, and
//! what it cost. Everything else is below them in the report.

mod limits;
mod slow;
mod won;

use super::changes::first_clause;
use super::contract::{Case, Ratio, Report};
use super::decision::recommendation;
use super::format::{counted, duration, fine, usd};
use super::gains::Gains;
use super::options::geometric_mean;
use super::{ReportInput, price};
use crate::domain::device::TimeSource;

/// Writes the summary of a report whose other parts are complete.
pub(super) fn of(report: &Report, gains: &Gains<'_>, input: &ReportInput<'_>) -> String {
    let result = joined([against_baseline(report), Some(improved(&report.cases))]).unwrap_or_default();
    let cost = joined([Some(effort(report, gains, input)), last_gain(report, gains)]).unwrap_or_default();
    let lines = [
        Some(format!("**Result.** {result}")),
        slow::sentences(report, input.families).map(|slow| format!("**What was slow, and why.** {slow}")),
        won::winners(report).map(|won| format!("**What won.** {won}")),
        won::over_first(report).map(|why| format!("**Why it beats the first kernel.** {why}")),
        won::why_ahead(report).map(|why| format!("**Why it beats the baselines.** {why}")),
        won::why_behind(report).map(|why| format!("**Why a baseline beats it.** {why}")),
        won::over_rival(report).map(|why| format!("**Why it beats other kernels.** {why}")),
        limits::sentences(report).map(|limits| format!("**What limits it now.** {limits}")),
        Some(format!("**Recommendation: {}.**{}", recommendation(report), price::of(report))),
        Some(format!("**Cost of this session.** {cost}")),
    ];
    lines.into_iter().flatten().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
}

/// Joins sentences. None without any.
fn joined<const N: usize>(sentences: [Option<String>; N]) -> Option<String> {
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Names the range of some factors: one alone, or two and their geometric mean.
fn range(factors: &[f64]) -> Option<String> {
    let (lo, hi) = factors.iter().copied().reduce(f64::min).zip(factors.iter().copied().reduce(f64::max))?;
    let mean = geometric_mean(factors.iter().copied())?;
    Some(match factors.len() {
        1 => fine(lo),
        _ => format!("{} to {} (geometric mean {})", fine(lo), fine(hi), fine(mean)),
    })
}

fn effort(report: &Report, gains: &Gains<'_>, input: &ReportInput<'_>) -> String {
    let time = report.session.wall_s.map_or_else(|| "so far".to_owned(), duration);
    let gpu_usd = input.record.session.cost.gpu_usd;
    let hours = report.session.wall_s.filter(|wall_s| *wall_s > 0.0 && gpu_usd > 0.0).map(|wall_s| wall_s / 3600.0);
    let price = hours.map(|hours| format!(" (the GPU at {} an hour)", usd(gpu_usd / hours))).unwrap_or_default();
    format!(
        "{} and {time}{price}{}, for {}.",
        usd(report.session.cost_usd),
        time_in_search(report, gains).unwrap_or_default(),
        counted(input.record.totals().variants as usize, "variant"),
    )
}

/// Says how much of the session was search. None if the session did not get there, or has not ended.
fn time_in_search(report: &Report, gains: &Gains<'_>) -> Option<String> {
    let wall_s = report.session.wall_s?;
    let search_s = gains.search_to_s - gains.search_from_s;
    (search_s > 0.0 && search_s < wall_s).then(|| format!(", of which {} were search", duration(search_s)))
}

fn improved(cases: &[Case]) -> String {
    let told = |began_with: &str, over: &str, over_one: &str| {
        let changes = cases.iter().filter_map(|case| case.change.as_ref()).filter(|one| one.began_with == began_with);
        let all = changes.clone().count();
        let tied = match changes.clone().filter(|change| change.tied).count() {
            0 => String::new(),
            _ if cases.len() == 1 => ", only a tie".to_owned(),
            some => format!(", and tied on {some}"),
        };
        let ratios: Vec<_> = changes.filter(|change| change.improved).filter_map(|change| change.ratio).collect();
        let by = range(&ratios.iter().map(|ratio| ratio.estimate).collect::<Vec<_>>());
        let by = by.map(|by| format!(", by {by}")).unwrap_or_default();
        match (ratios.len(), all) {
            (_, 0) => None,
            (1, 1) if cases.len() == 1 => Some(format!("its only case over {over_one}{by}")),
            (0, 1) if cases.len() == 1 => Some(format!("no case over {over_one}{tied}")),
            (improved, all) => {
                // All cases improve over their first kernels.
                let of_all = if began_with == "committed_winner" { over_all(&ratios, all) } else { String::new() };
                Some(format!("{improved} of {all} cases over {over}{by}{of_all}{tied}"))
            }
        }
    };
    let committed = ("the committed winners that it began with", "the committed winner that it began with");
    let parts = [
        told("committed_winner", committed.0, committed.1),
        told("first_variant", "their first correct kernels", "the first correct kernel"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "No variant was correct.".to_owned(),
        false => format!("The session improved {}.", parts.join(", and ")),
    }
}

/// Says what the improvements of some cases are over all of them.
fn over_all(ratios: &[Ratio], all: usize) -> String {
    let logs: f64 = ratios.iter().map(|ratio| ratio.estimate.ln()).sum();
    match ratios.len() {
        0 => String::new(),
        improved if improved == all => String::new(),
        _ => format!("; over all {all}, that is {}", fine((logs / all as f64).exp())),
    }
}

fn against_baseline(report: &Report) -> Option<String> {
    let measured = report.cases.iter().filter(|case| case.baseline.as_ref().is_some_and(|one| !one.is_initial_kernel));
    let ratios: Vec<f64> = measured.filter_map(|case| Some(case.ratio_to_baseline?.estimate)).collect();
    let ahead = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let range = range(&ratios)?;
    Some(match ratios.len() {
        1 if report.cases.len() == 1 => format!("The best variant is {range} as fast as the fastest baseline."),
        all => format!("Ours beats the fastest baseline on {ahead} of {all} cases: it is {range} as fast."),
    })
}

/// Says when the search found its last improvement.
fn last_gain(report: &Report, gains: &Gains<'_>) -> Option<String> {
    // One that runs may find another.
    report.session.wall_s?;
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
    let left_s = gains.search_to_s - last.at_s;
    let then = if left_s >= 1.0 {
        format!("none in the {} of search after it", duration(left_s))
    } else {
        "the search ended with it".to_owned()
    };
    Some(format!(
        "Its last improvement ({} on `{}`{source}) was confirmed after {}; {then}.",
        fine(last.factor),
        first_clause(last.case),
        duration(last.at_s),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::contract::Advantage;
    use super::super::tests::{advantage, record, report};
    use super::*;

    #[test]
    fn counts_are_a_reason_only_if_they_explain_the_gain() {
        let mut report = report(&record());
        report.advantages = vec![advantage("first_variant", 257.0, false)];
        report.rival_advantages = vec![advantage("rival", 1.25, true)];
        insta::assert_snapshot!(won::over_rival(&report).unwrap(), @"On `b1h1s128`, `tiled` is 1.20× as fast as `split-k`, the next best family: it executes 2.0 times fewer instructions.");
    }

    /// A slower variant that only has counts is no lead. So its counts are no example of why winners win.
    #[test]
    fn the_counts_on_the_first_page_are_those_of_a_lead_that_they_explain() {
        let mut report = report(&record());
        let on = |case: &str, one: Advantage| Advantage { case: case.into(), ..one };
        report.advantages = vec![on("b8h8s512", advantage("slowest", 1.2, true))];
        report.rival_advantages = vec![advantage("rival", 0.8, false)];
        let (page, details) = (report.to_markdown().unwrap(), report.to_markdown_details().unwrap());
        let told = "explain none of 2 leads of 2% or more (1 over another family, 1 over the first kernel)";
        assert!(page.contains(told), "{page}");
        assert!(!page.contains("The counts on `"), "{page}");
        assert!(page.contains("for a lead of 1.20×, from 1.13× to 1.31×."), "{page}");
        assert!(details.contains("The counts on `b1h1s128`, which do not explain its gain:"), "{details}");
        report.rival_advantages[0].explained = true;
        assert!(report.to_markdown().unwrap().contains("The counts on `b1h1s128`:"));
    }

    #[test]
    fn a_session_is_told_in_one_paragraph() {
        insta::assert_snapshot!(report(&record()).summary, @"
        - **Result.** Ours beats the fastest baseline on 0 of 1 cases: it is 0.50× as fast. The session improved 1 of 2 cases over their first correct kernels, by 1.60×.
        - **What won.** `tiled` (Tiles of queries: keys are shared).
        - **What limits it now.** On 2 of 3 cases, most of the distance to the floor is not explained; the largest unexplained factor is 400× (`b8h8s512`).
        - **Recommendation: continue this search.** It costs 55 min and $0.18.
        - **Cost of this session.** $0.93 and 55 min (the GPU at $0.20 an hour), of which 12 s were search, for 5 variants. Its last improvement (1.28× on `b1h1s128`) was confirmed after 9 s; none in the 6 s of search after it.
        ");
    }

    #[test]
    fn a_session_without_a_result_says_so() {
        let mut record = record();
        record.iterations.clear();
        insta::assert_snapshot!(report(&record).summary, @"
        - **Result.** No variant was correct.
        - **Recommendation: continue this search.** It costs 55 min and $0.18.
        - **Cost of this session.** $0.93 and 55 min (the GPU at $0.20 an hour), for 0 variants.
        ");
    }
}
