//! The session in a few lines that can be read aloud in a minute: the result, what was slow, what won, what to do next, and
//! what it cost. Everything else is below them in the report.

use super::changes::{first_clause, listed, named};
use super::contract::{Beaten, Case, Diagnosis, Finding, Ratio, Report, WinningFamily};
use super::decision::recommendation;
use super::format::{counted, duration, fine, times, us, usd};
use super::gains::Gains;
use super::limits::{self, Group};
use super::markdown::{beaten, breakdown, divided_leads, first_kernel, paths};
use super::next_change::not_correct;
use super::options::geometric_mean;
use super::unexplained::Unexplained;
use super::{ReportInput, advantage, baseline_kernels, fixed_time, price, roofline, tally, unexplained};
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::tested::{CauseStatus, CauseTest};

/// The most causes to name: of the first kernel's time, and of the winners'.
const FIRST_CAUSES: usize = 3;
const MAX_CAUSES: usize = 2;

/// The most counts to name for a winner.
const MAX_REASONS: usize = 2;

/// Writes the summary of a report whose other parts are complete.
pub(super) fn of(report: &Report, gains: &Gains<'_>, input: &ReportInput<'_>) -> String {
    let result = joined([against_baseline(report), Some(improved(&report.cases))]).unwrap_or_default();
    let cost = joined([Some(effort(report, gains, input)), last_gain(report, gains)]).unwrap_or_default();
    let lines = [
        Some(format!("**Result.** {result}")),
        first_kernel(report).map(|slow| format!("**What was slow.** {slow}")),
        winners(report).map(|won| format!("**What won.** {won}")),
        why_ahead(report).map(|why| format!("**Why it beats the baselines.** {why}")),
        why_faster(report).map(|why| format!("**Why it beats other kernels.** {why}")),
        limits(report).map(|limits| format!("**What limits it now.** {limits}")),
        Some(format!("**Recommendation: {}.**{}", recommendation(report), price::of(report))),
        Some(format!("**Cost.** {cost}")),
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

/// Says why the initial kernel is slow: its first causes, those with the largest measured gains before the others, a cause
/// that may cost more than they do, and what its parameters and other kernels gained.
fn first_kernel(report: &Report) -> Option<String> {
    let diagnosis = report.initial_diagnosis()?;
    let Diagnosis { case, family, findings, .. } = diagnosis;
    let mut causes: Vec<Vec<&Finding>> = Vec::new();
    for found in findings.iter().filter(|found| found.tested.status != CauseStatus::NotConfirmed) {
        match causes.iter_mut().find(|group| found.tested.shared_with.contains(&group[0].rule)) {
            Some(group) => group.push(found),
            None => causes.push(vec![found]),
        }
    }
    let (named, others) = first_causes(causes);
    let explained: f64 = named.iter().filter_map(|group| shown(group[0])).product();
    let larger = larger_than(&named, &others).map(cause);
    let causes: Vec<String> = named.iter().map(|group| one_experiment(group)).chain(larger).collect();
    let own = report.cases.iter().find(|one| one.case == *case)?;
    let size = size(report, own, family)?;
    let without_tensor_cores = first_kernel::without_tensor_cores(report);
    let main = without_tensor_cores.as_ref().and_then(|_| first_kernel::on_fma_pipes(report, case));
    let why = if main.is_some() { "Why it waits" } else { "Causes" };
    let main = main.or(without_tensor_cores);
    let causes = (!causes.is_empty()).then(|| format!("{why}: {}.", causes.join("; ")))?;
    joined([Some(size), main, breakdown::first_cost(report), Some(causes), tuned(report, explained)])
}

/// Says how far the first kernel is from the winner and from the floor.
fn size(report: &Report, own: &Case, family: &str) -> Option<String> {
    let first_us = roofline::first_us(own)?;
    let over = own
        .best_us
        .filter(|best_us| *best_us < first_us)
        .map(|best_us| format!("{} the winner's time", times(first_us / best_us)));
    let floor = own.floor_us.map(|floor_us| format!("{} the floor", times(first_us / floor_us)));
    let far: Vec<String> = over.into_iter().chain(floor).collect();
    let began = report.cases.iter().filter_map(|case| case.change.as_ref());
    let is_replaced =
        began.clone().count() > 0 && began.into_iter().all(|change| change.began_with == "committed_winner");
    let replaced = if is_replaced { ", which committed winners replaced before this session" } else { "" };
    Some(format!(
        "The first kernel, `{family}`{replaced}, takes {} us on `{}`: {}.",
        us(first_us),
        own.case,
        listed(&far)?
    ))
}

/// Says what the parameters of the first kernel and other kernels gained. `explained`: what the named causes account for.
fn tuned(report: &Report, explained: f64) -> Option<String> {
    let path = paths::of_first(report).and_then(|path| Some((path, paths::left(report, path)?)));
    let alone = report.tuned_alone.as_ref();
    let gain = path.map(|(path, _)| path.gain()).or(alone.map(|alone| alone.gain))?;
    let left = alone.map(|alone| path.map_or(alone.of_others, |(_, left)| left));
    let others = left.map(|left| format!(", and another family {} more", times(left))).unwrap_or_default();
    let gained = match path.map(|(path, _)| &*path.steps) {
        Some([only]) => format!("Its {} gains {}", paths::parameters(only), times(gain)),
        Some(_) => format!("All changes of its parameters together gain {}", times(gain)),
        None => format!("Its best configuration gains {}", times(gain)),
    };
    let more = if path.is_none() && gain > explained { ", which is more than these causes account for" } else { "" };
    Some(format!("{gained}{more}{others}."))
}

/// Returns what the experiment gained that has confirmed or supported a cause. None without one.
fn shown(found: &Finding) -> Option<f64> {
    let is_shown = matches!(found.tested.status, CauseStatus::Confirmed | CauseStatus::Supported);
    found.tested.speedup.filter(|_| is_shown)
}

/// Divides causes into those to name and the others: those that experiments have confirmed or supported, the one that gained most
/// first. If experiments have shown none, the first ones.
fn first_causes(causes: Vec<Vec<&Finding>>) -> (Vec<Vec<&Finding>>, Vec<Vec<&Finding>>) {
    let (mut named, mut others): (Vec<_>, Vec<_>) = causes.into_iter().partition(|group| shown(group[0]).is_some());
    named.sort_by(|a, b| shown(b[0]).unwrap_or(1.0).total_cmp(&shown(a[0]).unwrap_or(1.0)));
    if named.is_empty() {
        std::mem::swap(&mut named, &mut others);
    }
    let more = named.split_off(named.len().min(FIRST_CAUSES));
    (named, more.into_iter().chain(others).collect())
}

/// Returns the cause with the largest possible gain of those that are not named, if it is larger than all that are.
fn larger_than<'a>(named: &[Vec<&'a Finding>], others: &[Vec<&'a Finding>]) -> Option<&'a Finding> {
    let most = named.iter().flatten().map(|found| shown(found).unwrap_or(found.gain)).fold(1.0, f64::max);
    let larger = others.iter().flatten().copied().filter(|found| found.gain > most);
    larger.max_by(|a, b| a.gain.total_cmp(&b.gain))
}

/// Names the causes that one experiment cannot tell apart, or the only one that it is about.
fn one_experiment(group: &[&Finding]) -> String {
    match group {
        [only] => cause(only),
        several => {
            let causes: Vec<&str> = several.iter().map(|found| &*found.cause).collect();
            format!("{} ({}, and does not tell them apart)", causes.join(", or "), experiment(&group[0].tested))
        }
    }
}

/// Says which change an experiment made, if it is one of one parameter, and what it gained.
fn experiment(tested: &CauseTest) -> String {
    let what = match &*tested.changes {
        [change] => named(change, None, None),
        _ => "an experiment".to_owned(),
    };
    format!("{what} gained {}", tested.speedup.map(times).unwrap_or_default())
}

/// Writes a cause with what experiments have shown about it. If they have not confirmed it, also says what is estimated of
/// it.
fn cause(found: &Finding) -> String {
    let tested = &found.tested;
    let failed = found.failed.filter(|_| tested.status == CauseStatus::NotTested).map(not_correct);
    let gained = tested.speedup.map(times).unwrap_or_default();
    let estimate = || {
        let gain = if found.gain > 1.0 { format!("possible gain {}, ", times(found.gain)) } else { String::new() };
        format!("{gain}{} confidence", found.confidence.name())
    };
    let experiment = match tested.changes.len() {
        1 if tested.expected > 1.0 => format!("{}, {} expected", experiment(tested), times(tested.expected)),
        _ => experiment(tested),
    };
    let status = match tested.status {
        CauseStatus::Confirmed => format!("confirmed: {experiment}"),
        CauseStatus::Supported if tested.changes.len() == 1 => {
            format!("supported: {experiment}, so other causes went away, too")
        }
        CauseStatus::Supported => format!("supported: an experiment that changed more gained {gained}"),
        CauseStatus::Inconclusive => {
            format!(
                "{}; an experiment was inconclusive: it changed several things at once and gained {gained}",
                estimate()
            )
        }
        CauseStatus::NotConfirmed => "refuted".to_owned(),
        CauseStatus::NotTested => format!("{}; {}", estimate(), failed.unwrap_or_else(|| "not tested".to_owned())),
        CauseStatus::NoExperiment => format!("{}; no experiment removes it", estimate()),
    };
    format!("{} ({status})", found.cause)
}

/// Names the families of the best variants, the most frequent first, and what the largest gain over a committed winner came from.
fn winners(report: &Report) -> Option<String> {
    let words = match &*report.winning_families {
        [] => return None,
        [only] => format!("`{}`{}.", only.name, idea(only)),
        [first, others @ ..] => {
            let on = others.iter().map(|one| format!("`{}`{} on {}", one.name, idea(one), one.cases));
            let on: Vec<String> = on.collect();
            format!("`{}`{} on {}, {}.", first.name, idea(first), counted(first.cases as usize, "case"), on.join(", "))
        }
    };
    joined([Some(words), near_ties(report), over_committed(report)])
}

/// Says what is known of why the winners are faster than the baselines.
fn why_ahead(report: &Report) -> Option<String> {
    joined([baseline_kernels::sentence(report), fixed_time::sentence(report)])
}

/// Says why a winner is faster than the first kernel, and what a lead over the next best family consists of.
fn why_faster(report: &Report) -> Option<String> {
    joined([over_first(report), over_rival(report)])
}

/// Says what a family does, in the words of its manifest.
fn idea(family: &WinningFamily) -> String {
    format!(" ({})", family.about.trim_end_matches('.'))
}

/// Counts the cases on which another family is as fast, so that the choice between them matters little.
fn near_ties(report: &Report) -> Option<String> {
    let ties: Vec<(&CaseName, &str)> = advantage::near_ties(&report.rivals).collect();
    let cases = counted(report.rivals.len(), "case");
    match &*ties {
        [] => None,
        [(case, family)] if report.cases.len() > 1 => Some(format!("On `{case}`, `{family}` is within 2%.")),
        several => Some(format!("On {} of {cases}, another family is within 2%.", several.len())),
    }
}

/// Says what the largest gain over a committed winner came from, and what the counts of a virtual GPU say of it.
fn over_committed(report: &Report) -> Option<String> {
    let gain = |beaten: &Beaten| beaten.ratio.map_or(1.0, |ratio| ratio.estimate);
    let most = report.beaten.iter().max_by(|a, b| gain(a).total_cmp(&gain(b))).filter(|most| gain(most) > 1.0)?;
    let what = beaten::what_beat_it(report, most);
    let counts = report.advantages.iter().find(|one| one.role == "committed_winner" && one.case == most.case);
    let why = match counts {
        Some(counts) if counts.explained => {
            format!(": {}", advantage::in_short(counts, report.environment.sms, MAX_REASONS))
        }
        Some(_) => "; the counts do not show why".to_owned(),
        None => String::new(),
    };
    let (gain, case) = (fine(gain(most)), &most.case);
    Some(format!("The largest gain over a committed winner, {gain} on `{case}`, came from {what}{why}."))
}

/// Says why a winner is faster than the initial kernel: what a virtual GPU counted, if that explains it, and what ablations
/// show.
fn over_first(report: &Report) -> Option<String> {
    let saved = divided_leads::saved(report);
    let Some(first) = report.first_advantage.as_ref().filter(|first| first.explained) else {
        return Some(format!("{}. {}", divided_leads::over_first(report)?, saved?));
    };
    let why = advantage::in_short(first, report.environment.sms, MAX_REASONS);
    let derived = match report.session.time_source {
        TimeSource::Modelled => String::new(),
        _ => format!(" (counted by a virtual GPU, which derives {} from it)", times(first.modelled_factor)),
    };
    let saved = saved.map(|saved| format!(" {saved}")).unwrap_or_default();
    Some(format!("{}: {why}{derived}.{saved}", advantage::lead(first)))
}

/// Says why one winner is faster than a committed winner or the next best family: what the largest lead consists of, or else
/// which counts explain one, and how many they explain.
fn over_rival(report: &Report) -> Option<String> {
    let counted = || {
        let committed = report.advantages.iter().filter(|one| one.role == "committed_winner");
        let explained = committed.chain(advantage::leads(&[], &report.rival_advantages)).filter(|one| one.explained);
        // The longest one is the least of a toy.
        let explained = explained.max_by(|a, b| a.after.us.total_cmp(&b.after.us));
        let told = explained
            .map(|one| format!("{}: {}.", advantage::lead(one), advantage::in_short(one, report.environment.sms, 1)));
        let sentences: Vec<String> = told.into_iter().chain(tally::tally(report)).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    };
    divided_leads::largest_lead(report).or_else(counted)
}

/// Says what limits the best variants: first what their instructions cost, and how much is not explained, then the causes with the most to gain, each with
/// its cases.
fn limits(report: &Report) -> Option<String> {
    joined([breakdown::costs(report), unexplained(report), causes(report)])
}

fn unexplained(report: &Report) -> Option<String> {
    let Unexplained { cases, most, is_launch_left_out } = unexplained::of(report)?;
    let (all, rest) = (report.cases.len(), times(most.rest()));
    // No kernel comes near an empty launch.
    let among = if is_launch_left_out { " above more than an empty launch" } else { "" };
    let ablated = report.cases.iter().filter(|case| case.breakdown.is_some()).count();
    let of = match (ablated, all - ablated) {
        (0, _) => format!("{cases} of {all} cases"),
        (_, others) if others == cases => format!("the {} without this measurement", counted(others, "winner")),
        (_, others) => format!("{cases} of the {others} without this measurement"),
    };
    Some(match all {
        1 => format!("Of the distance to the floor, {}, {rest} are not explained.", times(most.far)),
        _ => format!(
            "On {of}, most of the distance to the floor is not explained; the largest unexplained factor{among} \
             is {rest} (`{}`).",
            most.case.case
        ),
    })
}

fn causes(report: &Report) -> Option<String> {
    let groups = limits::groups(&report.cases, &report.diagnoses);
    let told = |group: &Group<'_>| {
        // That another family has more blocks, and is not faster, speaks against few blocks.
        let is_told = |found: &&Finding| !found.next.starts_with("nothing: ") && found.divided_by.is_none();
        let found = group.first().filter(|found| is_told(found))?;
        let on = match &*group.members {
            [(first, _)] => format!("`{}`", first.case),
            [(first, _), (second, _)] => format!("`{}` and `{}`", first.case, second.case),
            [(first, _), others @ ..] => format!("`{}` and {} other cases", first.case, others.len()),
            [] => return None,
        };
        let gain = group.most_to_gain().map(|gain| format!("up to {}, ", times(gain))).unwrap_or_default();
        let status = match found.tested.status {
            CauseStatus::Confirmed => "confirmed by an experiment".to_owned(),
            CauseStatus::Supported => "supported by an experiment".to_owned(),
            _ => format!("{gain}{} confidence", group.confidence().unwrap_or_default()),
        };
        let on = if report.cases.len() == 1 { String::new() } else { format!("on {on}, ") };
        Some(format!("{on}{} ({status})", group.limit()))
    };
    let causes: Vec<String> = groups.iter().filter_map(told).take(MAX_CAUSES).collect();
    let head = if causes.len() == 1 { "Probable cause" } else { "Probable causes" };
    (!causes.is_empty()).then(|| format!("{head}: {}.", causes.join("; ")))
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
        insta::assert_snapshot!(over_rival(&report).unwrap(), @"On `b1h1s128`, `tiled` is 1.20× as fast as `split-k`, the next best family: it executes 2.0 times fewer instructions. What a virtual GPU counted explains 1 of 1 lead (1 over the first kernel).");
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
        - **Cost.** $0.93 and 55 min (the GPU at $0.20 an hour), of which 12 s were search, for 5 variants. Its last improvement (1.28× on `b1h1s128`) was confirmed after 9 s; none in the 6 s of search after it.
        ");
    }

    #[test]
    fn a_session_without_a_result_says_so() {
        let mut record = record();
        record.iterations.clear();
        insta::assert_snapshot!(report(&record).summary, @"
        - **Result.** No variant was correct.
        - **Recommendation: continue this search.** It costs 55 min and $0.18.
        - **Cost.** $0.93 and 55 min (the GPU at $0.20 an hour), for 0 variants.
        ");
    }
}
