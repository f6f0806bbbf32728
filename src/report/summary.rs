//! The session in a few lines: the result, what was slow, what won and why, what to do next, and what it cost.

use super::changes::first_clause;
use super::contract::{Advantage, Case, Diagnosis, DiagnosisOf, Excerpt, Finding, Report, Rivals};
use super::decision::recommendation;
use super::format::{counted, duration, either, fine, percent, times, usd};
use super::gains::Gains;
use super::limits::{self, Group};
use super::next_change::not_correct;
use super::options::geometric_mean;
use super::{ReportInput, advantage, limiter, price, tuned_alone};
use crate::domain::device::TimeSource;
use crate::domain::tested::CauseStatus;

/// The most causes of the initial kernel to name.
const MAX_CAUSES: usize = 3;

/// The share of a modelled time from which its longest chain of dependent instructions is said to bound it.
const MIN_CHAIN: f64 = 0.5;

/// The most leads over other families to explain.
const MAX_RIVALS: usize = 3;

/// Writes the summary of a report whose other parts are complete.
pub(super) fn of(report: &Report, gains: &Gains<'_>, input: &ReportInput<'_>) -> String {
    let joined = |sentences: Vec<Option<String>>| sentences.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let result = joined(vec![Some(improved(&report.cases)), against_baseline(report)]);
    let cost = joined(vec![Some(effort(report, gains, input)), last_gain(report, gains), report.excerpt.map(excerpt)]);
    let lines = [
        Some(format!("**Result.** {result}")),
        first_kernel(report, input).map(|slow| format!("**What was slow.** {slow}")),
        winners(report, input).map(|won| format!("**What won.** {won}")),
        limits(report).map(|limits| format!("**What limits it now.** {limits}")),
        Some(format!("**Recommendation: {}.**{}", recommendation(report), price::of(report))),
        Some(format!("**Cost.** {cost}")),
    ];
    lines.into_iter().flatten().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
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
    let totals = input.record.totals();
    let (tried, timed) = (totals.variants, totals.results);
    let time = report.session.wall_s.map_or_else(|| "so far".to_owned(), duration);
    let gpu_usd = input.record.session.cost.gpu_usd;
    let hours = report.session.wall_s.filter(|wall_s| *wall_s > 0.0 && gpu_usd > 0.0).map(|wall_s| wall_s / 3600.0);
    let price = hours.map(|hours| format!(" (the GPU at {} an hour)", usd(gpu_usd / hours)));
    let not_run = match report.iterations.get("pruned") {
        None | Some(0) => String::new(),
        Some(count) => {
            format!("{count} of them not run: duplicates, or predicted to have no chance to be the fastest; ")
        }
    };
    format!(
        "{} and {time}{}{} for {} ({not_run}{} of a variant on a case).",
        usd(report.session.cost_usd),
        price.unwrap_or_default(),
        time_in_search(report, gains).unwrap_or_default(),
        counted(tried as usize, "variant"),
        counted(timed as usize, "measurement")
    )
}

/// Says how much of the session was search. None if the session did not get there, or has not ended.
fn time_in_search(report: &Report, gains: &Gains<'_>) -> Option<String> {
    let wall_s = report.session.wall_s?;
    let search_s = gains.search_to_s - gains.search_from_s;
    (search_s > 0.0 && search_s < wall_s).then(|| {
        format!(", of which {} were search and the rest start, initial design, finals and records,", duration(search_s))
    })
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
        1 if report.cases.len() == 1 => format!("The best variant is {range} as fast as the fastest baseline."),
        all => format!(
            "On {ahead} of {all} cases with a baseline, ours is faster than the fastest one: it is {range} as fast."
        ),
    })
}

/// Says why the initial kernel is slow: its first causes that no experiment has refuted.
fn first_kernel(report: &Report, input: &ReportInput<'_>) -> Option<String> {
    let diagnosis = report.diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)?;
    let Diagnosis { case, family, findings, .. } = diagnosis;
    let counted = report.advantages.iter().find(|one| one.case == *case && one.before.iteration == diagnosis.iteration);
    let causes = findings.iter().filter(|found| found.tested.status != CauseStatus::NotConfirmed);
    let estimates = causes.clone().take(MAX_CAUSES).filter(|found| found.gain > 1.0).count();
    let mut causes: Vec<String> = causes.take(MAX_CAUSES).map(cause).collect();
    let scalar = counted.and_then(without_tensor_cores);
    let has_tensor_cores = scalar.is_some();
    causes.extend(scalar);
    let own = report.cases.iter().find(|one| one.case == *case)?;
    let far = own.start_us.zip(own.floor_us).map(|(us, floor_us)| times(us / floor_us));
    let far = far.map(|far| format!(" is {far} from its floor on `{case}`")).unwrap_or_default();
    let chain = counted.and_then(one_chain).unwrap_or_default();
    let overlap = if estimates > 1 { " These gains overlap, so they do not multiply." } else { "" };
    let others = if has_tensor_cores { "other kernels, with tensor cores," } else { "other kernels" };
    let rest = tuned_alone::told(report, (own, family), others, input).unwrap_or_default();
    (!causes.is_empty())
        .then(|| format!("The first kernel, `{family}`,{far}{chain}. Causes: {}.{overlap}{rest}", causes.join("; ")))
}

/// Says that the time of the first kernel is a chain of dependent instructions, if it is.
fn one_chain(counted: &Advantage) -> Option<String> {
    let share = counted.before.chain_share;
    (share >= MIN_CHAIN).then(|| {
        let share = percent(share);
        format!(", and {share} of its modelled time is one chain of dependent instructions, which no other work hides")
    })
}

/// Says that the first kernel does without the tensor cores on which the winner of the case does its arithmetic.
fn without_tensor_cores(counted: &Advantage) -> Option<String> {
    let share = counted.counts.iter().find(|count| count.name == "tensor_share")?;
    (share.before == 0.0 && share.after > 0.5)
        .then(|| format!("none of its arithmetic is on tensor cores, but {} of the winner's", percent(share.after)))
}

/// Writes a cause with what experiments say about it.
fn cause(found: &Finding) -> String {
    let gain = (found.gain > 1.0).then(|| times(found.gain));
    format!("{} ({})", found.cause, shown(found, gain, found.confidence.name().to_owned()))
}

/// Says what experiments have shown about a cause. If they have not confirmed it, also says what is estimated of it.
fn shown(found: &Finding, gain: Option<String>, confidence: String) -> String {
    let tested = &found.tested;
    let failed = found.failed.filter(|_| tested.status == CauseStatus::NotTested).map(not_correct);
    let gained = tested.speedup.map(times).unwrap_or_default();
    let status = match tested.status {
        CauseStatus::Confirmed => return format!("confirmed by an experiment that gained {gained}"),
        CauseStatus::Supported => {
            let is_alone = tested.shared_with.is_empty();
            let shared = if is_alone { "" } else { ", which does not tell it apart from another cause" };
            return format!("supported by an experiment that gained {gained}{shared}");
        }
        CauseStatus::Inconclusive => "its experiment changed too much to tell",
        CauseStatus::NotConfirmed => "refuted",
        CauseStatus::NotTested => "not tested",
        CauseStatus::NoExperiment => "no experiment was found that removes it",
    };
    let status = failed.unwrap_or_else(|| status.to_owned());
    match gain {
        Some(gain) => format!("possible gain {gain}, {confidence} confidence; {status}"),
        None => format!("{confidence} confidence; {status}"),
    }
}

/// Names the families of the best variants, the most frequent first, and why the one of the largest gain is faster.
fn winners(report: &Report, input: &ReportInput<'_>) -> Option<String> {
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
    let mut sentences = vec![format!("{}.", words.join(", "))];
    sentences.extend(leads(report));
    sentences.extend(families.first().and_then(|(family, _)| idea(report, family, input)));
    sentences.extend(ties(report));
    (!families.is_empty()).then(|| sentences.join(" "))
}

/// Says why winners are faster: that of the largest gain over what the session began with, and some with a lead over
/// another family. Counts are given as the reason only if they explain the gain; such leads come first.
fn leads(report: &Report) -> Vec<String> {
    let mut rivals: Vec<&Advantage> = report.rival_advantages.iter().collect();
    rivals.sort_by(|a, b| b.explained.cmp(&a.explained).then(b.factor.total_cmp(&a.factor)));
    let rivals = rivals.into_iter().take(MAX_RIVALS);
    let all: Vec<&Advantage> = advantage::over_start(report).into_iter().chain(rivals).collect();
    let (explained, open): (Vec<&Advantage>, Vec<&Advantage>) = all.into_iter().partition(|one| one.explained);
    let reason = |one: &&Advantage| advantage::in_short(one, report.environment.sms);
    let mut sentences: Vec<String> =
        explained.iter().map(|one| format!("{}: {}.", advantage::lead(one), reason(one))).collect();
    sentences.extend(open.iter().map(|one| format!("{}.", advantage::lead(one))));
    sentences.extend(advantage::explained(report, "The counts of a virtual GPU, a simulator on the CPU,"));
    sentences
}

/// Says what the family that won most cases does, in the words of its manifest, unless it is the first kernel's.
fn idea(report: &Report, family: &str, input: &ReportInput<'_>) -> Option<String> {
    let first = report.ladders.first().and_then(|ladder| ladder.steps.first());
    if first.is_some_and(|first| first.family == family) {
        return None;
    }
    let facts = input.families.iter().find(|facts| facts.name == family)?;
    (!facts.about.is_empty())
        .then(|| format!("The idea of `{family}`, in the words of its manifest: \"{}\"", facts.about))
}

/// Names the cases on which another family is nearly as fast as the best variant's.
fn ties(report: &Report) -> Option<String> {
    let tied = report.rivals.iter().filter_map(|Rivals { case, families }| match &**families {
        [winner, second, ..] if second.us < advantage::MIN_FACTOR * winner.us => {
            Some((format!("`{case}`"), &second.family))
        }
        _ => None,
    });
    let tied: Vec<(String, &String)> = tied.collect();
    let named = || tied.iter().map(|(case, family)| format!("`{family}` on {case}")).collect::<Vec<_>>();
    match tied.len() {
        0 => None,
        count if count > MAX_RIVALS => {
            let cases: Vec<&str> = tied.iter().map(|(case, _)| &**case).collect();
            Some(format!("On {count} cases ({}), another family is within 2% of the best.", cases.join(", ")))
        }
        _ => Some(format!("Within 2% of the best: {}.", named().join(", "))),
    }
}

/// Says what limits the best variants: the causes with the most to gain, each with its cases.
fn limits(report: &Report) -> Option<String> {
    let groups = limits::groups(&report.cases, &report.diagnoses);
    let told = |group: &Group<'_>| {
        let found = group.first()?;
        let on = match &*group.members {
            [(first, _)] => format!("`{}`", first.case),
            [(first, _), (second, _)] => format!("`{}` and `{}`", first.case, second.case),
            [(first, _), others @ ..] => format!("`{}` and {} other cases", first.case, others.len()),
            [] => return None,
        };
        let shown = match found.next.strip_prefix("nothing: ") {
            Some(why) => why.to_owned(),
            None => shown(found, group.gains(), group.confidence().unwrap_or_default()),
        };
        Some(format!("on {on}, {} ({shown})", group.limit()))
    };
    let launches = launches(report).unwrap_or_default();
    let mut causes: Vec<String> = groups.iter().filter_map(told).collect();
    let head = if causes.len() > 1 { "Probably, ranked by gain and confidence" } else { "Probably this" };
    causes.truncate(MAX_CAUSES);
    (!causes.is_empty())
        .then(|| format!("{head}: {}.{launches}{}", causes.join("; "), chains(report).unwrap_or_default()))
}

/// Says on how many cases an empty launch is much of the time.
fn launches(report: &Report) -> Option<String> {
    let shares: Vec<f64> = report.cases.iter().filter_map(limiter::much_launch).collect();
    let (least, most) = shares.iter().copied().reduce(f64::min).zip(shares.iter().copied().reduce(f64::max))?;
    let range = either(percent(least), percent(most));
    let (some, all) = (shares.len(), report.cases.len());
    let on = if all == 1 { String::new() } else { format!("On {some} of {all} cases, ") };
    Some(format!(" {on}{range} of the time is an empty launch, which no kernel avoids."))
}

/// Says that the winners' times are chains of dependent instructions, if all are.
fn chains(report: &Report) -> Option<String> {
    let shares = || report.advantages.iter().map(|one| one.after.chain_share);
    let (least, most) = shares().reduce(f64::min).zip(shares().reduce(f64::max))?;
    (least >= MIN_CHAIN).then(|| {
        let share = either(percent(least), percent(most));
        format!(" One chain of dependent instructions takes {share} of their modelled times.")
    })
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
        "The search confirmed its last improvement ({} on `{}`{source}, over the winner before it) {} after the start, \
         and none in the {} after it.",
        fine(last.factor),
        first_clause(last.case),
        duration(last.at_s),
        duration((wall_s - last.at_s).max(0.0))
    ))
}

#[cfg(test)]
mod tests {
    use super::super::contract::{Count, Counted};
    use super::super::tests::{record, report};
    use super::*;
    use crate::domain::ids::IterationId;

    fn advantage(role: &'static str, modelled_factor: f64, explained: bool) -> Advantage {
        let counted = |family: &str, us: f64| Counted {
            iteration: IterationId(1),
            family: family.to_owned(),
            us,
            modelled_us: us,
            chain_share: 0.2,
        };
        Advantage {
            case: "b1h1s128".into(),
            role,
            before: counted("split-k", 60.0),
            after: counted("tiled", 50.0),
            factor: 1.2,
            in_one_run: false,
            is_best_of_family: true,
            modelled_factor,
            explained,
            counts: vec![Count { name: "warp_instructions", before: 2000.0, after: 1000.0, comparable: true }],
            reading: String::new(),
        }
    }

    #[test]
    fn counts_are_a_reason_only_if_they_explain_the_gain() {
        let mut report = report(&record());
        report.advantages = vec![advantage("committed_winner", 257.0, false)];
        report.rival_advantages = vec![advantage("rival", 1.25, true)];
        insta::assert_snapshot!(leads(&report).join("\n"), @"
        On `b1h1s128`, `tiled` is 1.20× as fast as `split-k`, the next best family: it executes 2.0 times fewer instructions.
        On `b1h1s128`, `tiled` is 1.20× as fast as `split-k`, the committed winner that the session began with.
        The counts of a virtual GPU, a simulator on the CPU, explain 1 of 1 lead of 2% or more (1 over another family).
        ");
    }

    /// A slower variant that only has counts is no lead. So its counts are no example of why winners win.
    #[test]
    fn the_counts_on_the_first_page_are_those_of_a_lead_that_they_explain() {
        let mut report = report(&record());
        let on = |case: &str, one: Advantage| Advantage { case: case.into(), ..one };
        report.advantages = vec![on("b8h8s512", advantage("slowest", 1.2, true))];
        report.rival_advantages = vec![advantage("rival", 0.8, false)];
        let (page, details) = (report.to_markdown().unwrap(), report.to_markdown_details().unwrap());
        assert!(page.contains("explain none of 1 lead of 2% or more (1 over another family)"), "{page}");
        assert!(!page.contains("The counts on `"), "{page}");
        assert!(details.contains("The counts on `b1h1s128`, which do not explain its gain:"), "{details}");
        report.rival_advantages[0].explained = true;
        assert!(report.to_markdown().unwrap().contains("The counts on `b1h1s128`:"));
    }

    #[test]
    fn a_session_is_told_in_one_paragraph() {
        insta::assert_snapshot!(report(&record()).summary, @"
        - **Result.** The session improved 1 of 2 cases over their first correct kernels, by 1.60×. On 0 of 1 cases with a baseline, ours is faster than the fastest one: it is 0.50× as fast.
        - **What won.** `tiled`.
        - **Recommendation: continue this search.** It costs 55 min and $0.18.
        - **Cost.** $0.93 and 55 min (the GPU at $0.20 an hour), of which 12 s were search and the rest start, initial design, finals and records, for 5 variants (4 measurements of a variant on a case). The search confirmed its last improvement (1.28× on `b1h1s128`, over the winner before it) 9 s after the start, and none in the 55 min after it.
        ");
    }

    #[test]
    fn a_session_without_a_result_says_so() {
        let mut record = record();
        record.iterations.clear();
        insta::assert_snapshot!(report(&record).summary, @"
        - **Result.** No variant was correct.
        - **Recommendation: continue this search.** It costs 55 min and $0.18.
        - **Cost.** $0.93 and 55 min (the GPU at $0.20 an hour) for 0 variants (0 measurements of a variant on a case).
        ");
    }
}
