//! Single sentences of a report.

use std::collections::BTreeSet;

use super::{divided_leads, hardware};
use crate::domain::device::TimeSource;
use crate::domain::machine::Throttle;
use crate::domain::origin::Change;
use crate::domain::tested::{CauseStatus, CauseTest, is_more};
use crate::report::changes::{joined, named};
use crate::report::contract::{Advantage, Case, Excerpt, Finding, ModelCheck, Report};
use crate::report::format::{counted, duration, percent, relative_error, times};
use crate::report::next_change::not_correct;
use crate::report::tally::NotCounted;
use crate::report::unexplained::{Distance, Unexplained};
use crate::report::{advantage, limiter, price, tally, unexplained};

/// The most cases to name in a command. With more of them, it searches all cases of the workload.
const MAX_CASES: usize = 6;

/// Returns the headline: how many cases improved, how many are ties with what the session began with, and how they stand against the baseline.
pub(super) fn headline(report: &Report) -> String {
    let changes = || report.cases.iter().filter_map(|case| case.change.as_ref());
    let improved = changes().filter(|change| change.improved).count();
    let tied = match changes().filter(|change| change.tied).count() {
        0 => String::new(),
        some => format!(", {some} tied"),
    };
    let all = report.cases.len();
    let measured = report.cases.iter().filter(|case| case.baseline.as_ref().is_some_and(|one| !one.is_initial_kernel));
    let ratios: Vec<f64> = measured.filter_map(|case| Some(case.ratio_to_baseline?.estimate)).collect();
    let ahead = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let standing = match (ahead, ratios.len()) {
        (_, 0) => String::new(),
        (ahead, known) if ahead == known && known == all => ", all ahead of the baseline".to_owned(),
        (ahead, known) => format!(", {ahead} of {known} ahead of the baseline"),
    };
    format!("{improved} of {all} cases improved{tied}{standing}")
}

/// Says what the report rests on, where the session has too many iterations to read them all.
pub(super) fn excerpt(Excerpt { iterations, in_full, even, wins_left_out }: Excerpt) -> String {
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

/// Says what the session began with.
pub(super) fn began(report: &Report) -> &'static str {
    let began =
        |with: &str| report.cases.iter().any(|case| case.change.as_ref().is_some_and(|one| one.began_with == with));
    match (began("committed_winner"), began("first_variant")) {
        (true, true) => {
            "the winner that the repository already had in `kernels/variants/`, measured again, and otherwise the first kernel"
        }
        (true, false) => "the winner that the repository already had in `kernels/variants/`, measured again",
        _ => "the first kernel",
    }
}

/// Defines the words that a reader of the report may not know: cases, families, iterations and baselines.
pub(super) fn terms(report: &Report) -> String {
    let mut sentences = vec![
        "A *family* is a kernel source with parameters; a *variant* has a value for each; an *iteration* tries one."
            .to_owned(),
    ];
    sentences.extend(shape(report));
    sentences.extend(baselines(report));
    sentences.join(" ")
}

/// Says which shape the name of a case stands for, and what the dimensions mean.
fn shape(report: &Report) -> Option<String> {
    let case = report.cases.iter().find(|case| !case.dims.is_empty())?;
    let known =
        report.dims.iter().filter_map(|(name, about)| Some((*name, case.dims.get(*name)?, format!(" ({about})"))));
    let others = case.dims.iter().filter(|(name, _)| !report.dims.contains_key(name.as_str()));
    let all = known.chain(others.map(|(name, size)| (name.as_str(), size, String::new())));
    let sizes: Vec<String> = all.map(|(name, size, about)| format!("{name} = {size}{about}")).collect();
    let others = in_all_others(report, case).unwrap_or_default();
    Some(format!("A *case* is one shape: `{}` is {}.{others}", case.case, sizes.join(", ")))
}

/// Names the sizes that all cases but one share, and that their names may leave out. None if that one has them, too.
fn in_all_others(report: &Report, one: &Case) -> Option<String> {
    let mut others = report.cases.iter().filter(|case| case.case != one.case);
    let first = others.next()?;
    let others: Vec<&Case> = others.collect();
    let is_shared = |(name, size): &(&String, &i64)| others.iter().all(|case| case.dims.get(*name) == Some(*size));
    let shared: Vec<String> =
        first.dims.iter().filter(is_shared).map(|(name, size)| format!("{name} = {size}")).collect();
    let differs = first.dims.iter().filter(is_shared).any(|(name, size)| one.dims.get(name) != Some(size));
    (!others.is_empty() && differs).then(|| format!(" All others have {}.", shared.join(" and ")))
}

/// Names what the winners are compared with, and the library that ran it.
fn baselines(report: &Report) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for name in report.baselines.iter().map(|one| format!("`{}`", one.name)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // The programs of other projects may time theirs in other ways.
    let timed = |version| format!(" (PyTorch {version}, in CUDA graphs like ours)");
    let torch = report.environment.torch.as_ref().map(timed).unwrap_or_default();
    let is_measured = report.session.time_source == TimeSource::Measured && !names.is_empty();
    is_measured.then(|| format!("*Baselines*{torch}: {}.", names.join(", ")))
}

/// Returns the command that runs the next experiment.
fn experiment_command(report: &Report) -> Option<String> {
    let experiment = report.next_experiment.as_ref()?;
    let configuration = experiment.configuration.as_ref()?;
    let params: Vec<String> = configuration.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (workload, case) = (&report.session.workload, &experiment.case);
    let own = report.cases.iter().find(|one| one.case == *case).and_then(|one| one.iteration);
    let against = own.map(|iteration| format!(" --against {iteration}")).unwrap_or_default();
    Some(format!(
        "optloop bench {}:{} --workload {workload} --case {case}{against}",
        configuration.family,
        params.join(",")
    ))
}

/// In which order causes of lost time come, what their gain is, and what an experiment shows.
pub(super) const CAUSE_ORDER: &str = "Possible gains are estimates without the cause. They overlap, so they do not multiply. \
                                      *Confirmed*: a change of one parameter gained about what was expected (where \
                                      that is 2.00×, from 1.41× to 2.83×). *Supported*: it gained more, or several \
                                      parameters changed, or another cause could account for it, too. *Inconclusive*: \
                                      several parameters gained more.";

/// Says what experiments have shown about a cause that was found in a variant of a family on a case, or that none of
/// them could show anything, because the variants were not correct.
pub(super) fn experiment(report: &Report, of: (&str, &str), found: &Finding) -> String {
    match (found.tested.status, found.failed) {
        (CauseStatus::NotTested, Some(failed)) => not_correct(failed),
        (CauseStatus::NoExperiment, _) if limiter::is_unavoidable(found) => {
            "not tested: no kernel is without it".to_owned()
        }
        _ => tested(report, of, &found.tested),
    }
}

fn tested(report: &Report, (family, case): (&str, &str), tested: &CauseTest) -> String {
    let CauseTest { status, iteration, changes, speedup, expected, shared_with, .. } = tested;
    let untested = match status {
        CauseStatus::NoExperiment => "not tested: no parameter of this family removes it",
        _ => "not tested",
    };
    let (Some(iteration), Some(speedup)) = (iteration, speedup) else { return untested.to_owned() };
    let elsewhere = tested.case.as_ref().filter(|other| **other != *case);
    let on = elsewhere.map(|other| format!(" on `{other}`")).unwrap_or_default();
    let expected_alone = if *expected > 1.0 { format!("; {} expected", times(*expected)) } else { String::new() };
    // Few changes act on one cause alone.
    let expects = match (status, is_more(*speedup, *expected)) {
        (CauseStatus::Inconclusive, _) => {
            format!("{expected_alone}, so several changes at once do not tell how much of it came from this cause")
        }
        // What is about as much as expected confirms the cause.
        (CauseStatus::Confirmed, _) | (_, false) => expected_alone,
        (_, true) => format!("; this cause explains {} of it", times(*expected)),
    };
    let rules: Vec<String> = shared_with.iter().map(|rule| format!("`{rule}`")).collect();
    let shared = match rules.is_empty() {
        true => String::new(),
        false => format!("; {} could account for it, too, and it does not tell them apart", rules.join(" and ")),
    };
    let about = |change: &Change| report.parameters.about(family, &change.parameter);
    let names: Vec<String> = changes.iter().map(|change| named(change, None, about(change))).collect();
    let what = match names.len() {
        0 => "another family".to_owned(),
        1 => joined(&names),
        _ => format!("{} together", joined(&names)),
    };
    let status = match status {
        CauseStatus::Confirmed => "confirmed",
        CauseStatus::Supported => "supported",
        CauseStatus::Inconclusive => "inconclusive",
        CauseStatus::NotConfirmed => "refuted",
        CauseStatus::NotTested | CauseStatus::NoExperiment => return untested.to_owned(),
    };
    let effect = match *speedup < 1.0 {
        true => format!("took {} as long", times(1.0 / speedup)),
        false => format!("gained {}", times(*speedup)),
    };
    format!("{status}: {what} {effect}{on} (iteration {iteration}{expects}{shared})")
}

/// The most leads over other families to explain on the first page.
const MAX_RIVALS: usize = 4;

/// Says why winners are faster, for the first page: the leads that counts explain, that over what the session began with
/// first, and in one sentence each the cases where they do not.
pub(super) fn advantages(report: &Report) -> Vec<String> {
    let (explained, open): (Vec<&Advantage>, Vec<&Advantage>) =
        advantage::leads(&report.advantages, &report.rival_advantages).into_iter().partition(|one| one.explained);
    // The lead over the first kernel has its own place.
    let first = report.first_advantage.as_ref();
    let is_first = |one: &Advantage| first.is_some_and(|first| first.case == one.case && first.before == one.before);
    let start = explained.iter().find(|one| one.role != "rival" && !is_first(one));
    let rivals = explained.iter().filter(|one| one.role == "rival");
    let shown = start.into_iter().chain(rivals.take(MAX_RIVALS));
    let tally = tally::tally_with_reasons(report);
    tally
        .into_iter()
        .chain(shown.map(|one| reading(one)))
        .chain(unexplained(&open))
        .chain(not_counted(report))
        .collect()
}

/// Says why winners are faster, for the details: all leads with counts of both variants.
pub(super) fn all_advantages(report: &Report) -> Vec<String> {
    report.advantages.iter().chain(&report.rival_advantages).map(reading).collect()
}

/// Says why the best variant is faster than the first kernel, on the case on which that was diagnosed: what the virtual GPU
/// counted, and what the instructions of both cost. None without counts.
pub(super) fn over_first(report: &Report) -> Option<String> {
    let first = report.first_advantage.as_ref()?;
    Some([Some(reading(first)), divided_leads::saved(report)].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

fn reading(one: &Advantage) -> String {
    format!("{}. {}", advantage::lead(one), one.reading)
}

/// Names the leads that the counts do not explain, with what the model derives from them.
fn unexplained(open: &[&Advantage]) -> Option<String> {
    let told = |one: &&Advantage| {
        let Advantage { case, before, modelled_factor, .. } = one;
        let committed = if one.role == "committed_winner" { "the committed " } else { "" };
        let (factor, derived) = (advantage::factor(one), times(*modelled_factor));
        format!("`{case}` over {committed}`{}` ({factor}, {derived} derived)", before.family)
    };
    let named: Vec<String> = open.iter().take(MAX_RIVALS).map(told).collect();
    let short = |one: &&Advantage| match one.role {
        "rival" => format!("`{}` over `{}`", one.case, one.before.family),
        _ => format!("`{}` over its committed winner", one.case),
    };
    let others: Vec<String> = open.iter().skip(named.len()).map(short).collect();
    let more = if others.is_empty() { String::new() } else { format!(", and smaller ones on {}", others.join(", ")) };
    (!named.is_empty()).then(|| {
        format!(
            "The counts do not explain the leads on {}{more}: something else does, or the model is wrong.",
            named.join(", ")
        )
    })
}

/// Names the cases on which families competed, but the virtual GPU has not counted both.
fn not_counted(report: &Report) -> Option<String> {
    let name = |NotCounted { case, role }: &NotCounted<'_>| match *role {
        "rival" => format!("`{case}` over another family"),
        "committed_winner" => format!("`{case}` over its committed winner"),
        _ => format!("`{case}` over the first kernel"),
    };
    let named: Vec<String> = tally::not_counted(report).iter().map(name).collect();
    (!named.is_empty())
        .then(|| format!("Not explained, because the virtual GPU has not counted both kernels: {}.", named.join(", ")))
}

/// Says how much of the largest distance to the floor its cause accounts for, and what would explain the rest. None where
/// causes account for most of it on all cases.
pub(super) fn accounted(report: &Report) -> Option<String> {
    let Unexplained { most, .. } = unexplained::of(report)?;
    let Distance { case, far, gain } = most;
    let (far, rest) = (times(far), times(most.rest()));
    let by = if gain > 1.0 {
        format!(
            "the cause accounts for {} of the distance to the floor, {far}; the other {rest} are not explained",
            times(gain)
        )
    } else {
        format!("no cause accounts for the distance to the floor, {far}")
    };
    Some(format!("On `{}`, {by}.{}", case.case, counters(report, case).unwrap_or_default()))
}

/// Says that the confidence in modelled gains is low, and why. None where it is not.
pub(super) fn model_check(report: &Report) -> Option<String> {
    let ModelCheck { leads, explained, lowered } = report.model_check.filter(|check| check.lowered > 0)?;
    let its = if lowered == 1 { "it" } else { "them" };
    Some(format!(
        "The confidence in {} is low, because only the model of the virtual GPU estimates {its}. It derived {explained} \
         of the {leads} leads that this session measured and counted.",
        counted(lowered as usize, "possible gain")
    ))
}

/// The budget of a session on one case that reads the counters of its winner. 6% of it are for counters
/// (`counters.budget_share`), which read the first kernel's before the winner's. Each takes about 4 s, most of it to start
/// and end `ncu` (H200, 2026-11-22, docs/counters.md).
const COUNTERS_S: f64 = 240.0;

/// Says what the hardware counters of a winner show, or else how to read them and what that costs, or why that failed. None
/// without a GPU.
fn counters(report: &Report, case: &Case) -> Option<String> {
    if report.session.time_source != TimeSource::Measured {
        return None;
    }
    if let Some(counters) = &case.counters {
        return Some(format!(" Hardware counters of its winner were read. {}", hardware::told(counters)));
    }
    if let Some(why) = &report.no_counters {
        return Some(format!(
            " Hardware counters would tell more, but this session could not read them: {}.",
            why.trim_end_matches('.')
        ));
    }
    Some(format!(
        " Hardware counters would tell more: `optloop start --workload {} --case {} --budget {COUNTERS_S}s` reads those of \
         its winner if `ncu` works, in at most {}.",
        report.session.workload,
        case.case,
        price::of_session(report, COUNTERS_S)
    ))
}

/// Says why the recommended option is recommended, if it is no experiment.
pub(super) fn why(report: &Report) -> Option<String> {
    let kind = report.options.iter().find(|option| option.recommended).map(|option| option.kind)?;
    let outlook = report.outlook.as_ref();
    let late = outlook.map(|outlook| {
        let gains = counted(outlook.late_gains as usize, "confirmed improvement");
        format!(
            "the second half of the search, which took {} of {} without start and finals, brought {gains}",
            duration(outlook.late_s),
            duration(2.0 * outlook.late_s)
        )
    });
    Some(match (kind, late) {
        ("go_on", Some(late)) => format!("{late}{}", without_remedy(report)),
        ("go_on", None) => "the search has hardly begun".to_owned(),
        ("mend", _) => "there is nothing to compare with".to_owned(),
        ("wider_values", _) => "nothing else is left to try".to_owned(),
        ("another_family", Some(late)) => format!("{late}, and some families have hardly been tried"),
        ("new_kernel", Some(late)) => {
            let more = outlook.map_or(1.0, |outlook| outlook.factor[1]);
            format!(
                "{late}; as improvements become rarer, another search is expected to gain {more:.3}×, and the winners are far from \
                 their floors"
            )
        }
        ("stop", _) => "more of the same search is expected to gain less than a comparison resolves".to_owned(),
        _ => return None,
    })
}

/// Says that a search still gains where no parameter removes what limits the winners. What no kernel is without does not count as
/// a cause.
fn without_remedy(report: &Report) -> String {
    let causes = report.cases.iter().filter_map(|case| limiter::first_cause(case, &report.diagnoses));
    let (unavoidable, causes): (Vec<&Finding>, Vec<&Finding>) =
        causes.partition(|cause| limiter::is_unavoidable(cause));
    let of_all = match causes.iter().filter(|cause| cause.remedies.is_empty()).count() {
        0 => return String::new(),
        1 if causes.len() == 1 => "the only winner".to_owned(),
        all if all == causes.len() => format!("all {all} winners"),
        some => format!("{some} of the {} winners", causes.len()),
    };
    let what = match unavoidable.iter().filter(|cause| cause.rule == "launch-bound").count() {
        0 => "a floor that is near",
        all if all == unavoidable.len() => "an empty launch",
        _ => "an empty launch or a floor that is near",
    };
    let others = match unavoidable.len() {
        0 => String::new(),
        1 => format!(". On 1 other, only {what} was found, which no kernel is without"),
        some => format!(". On {some} others, only {what} was found, which no kernel is without"),
    };
    format!(
        ". For {of_all} with a suspected cause, no parameter removes it: there, tuning only makes the rest of the kernel faster, \
         and larger gains need a new kernel{others}"
    )
}

/// Names the kind of the recommended option.
pub(super) fn recommended_head(report: &Report) -> String {
    let recommended = report.options.iter().find(|option| option.recommended);
    match recommended.map(|option| (option.kind, price::pays_from_hours(report, option))) {
        Some(("experiment", _)) => "Next experiment".to_owned(),
        Some(("new_kernel", Some(hours))) => {
            format!("Recommended from {hours} GPU hours in these kernels on; with fewer, stop here")
        }
        _ => "Recommended".to_owned(),
    }
}

/// Returns the command of the recommended option. None if there is nothing to run.
pub(super) fn command(report: &Report) -> Option<String> {
    if report.session.time_source == TimeSource::Recorded {
        // The file may have moved, and another kernel cannot run on it.
        return None;
    }
    let recommended = report.options.iter().find(|option| option.recommended)?;
    let search = |families: &[String]| {
        let cases: Vec<String> = report.cases.iter().map(|case| format!(" --case {}", case.case)).collect();
        let cases = if cases.len() <= MAX_CASES { cases.concat() } else { String::new() };
        let families: Vec<String> = families.iter().map(|family| format!(" --family {family}")).collect();
        let budget = report.session.budget_s.round();
        format!("optloop start --workload {}{cases}{} --budget {budget}s", report.session.workload, families.concat())
    };
    match recommended.kind {
        "experiment" => experiment_command(report),
        "mend" => Some(format!("optloop check {}", report.session.workload)),
        "go_on" => Some(search(&[])),
        "another_family" => Some(search(&recommended.families)),
        _ => None,
    }
}

/// Says what was checked, and how steady the machine was.
pub(super) fn verified(report: &Report) -> String {
    if report.session.time_source == TimeSource::Recorded {
        return "Nothing was checked: the recording was trusted, with its times and its failures. No output was compared \
                with an oracle, and no winner was committed."
            .to_owned();
    }
    let worst = report.correctness.iter().filter_map(|one| one.relative_l2).reduce(f64::max);
    let Some(worst) = worst else { return "No variant was correct.".to_owned() };
    let confirmed = report.cases.iter().filter(|case| case.confirmed).count();
    let mut sentences = vec![format!(
        "Every winner was compared with a float64 oracle (worst relative error {}). {confirmed} of {} were confirmed on \
         held-out inputs.",
        relative_error(worst),
        report.cases.len()
    )];
    if report.session.time_source == TimeSource::Measured {
        sentences.extend(machine(&report.cases));
    }
    let commits: BTreeSet<&String> = report.cases.iter().filter_map(|case| case.commit.as_ref()).collect();
    if !commits.is_empty() {
        let short = |commit: &&String| format!("`{}`", &commit[..10.min(commit.len())]);
        let commits: Vec<String> = commits.iter().map(short).collect();
        sentences.push(format!(
            "The winners are committed ({}) in `kernels/variants/`: for each case, a source and a JSON file that says \
             how to launch it. `optloop reproduce {}` measures them again.",
            commits.join(", "),
            commits[0].trim_matches('`')
        ));
    }
    sentences.join(" ")
}

fn machine(cases: &[Case]) -> Vec<String> {
    let compared = || cases.iter().filter_map(|case| case.comparison.as_ref());
    let mut sentences = Vec::new();
    let noise = compared().filter_map(|comparison| comparison.noise);
    if let (Some(lo), Some(hi)) = (noise.clone().reduce(f64::min), noise.reduce(f64::max)) {
        let (lo, hi) = (percent(lo), percent(hi));
        let range = if lo == hi { lo } else { format!("{lo} to {hi}") };
        sentences.push(format!("The A/A noise of the comparisons was {range}."));
    }
    let machines = || compared().filter_map(|comparison| comparison.machine.as_ref());
    let clocks = machines().filter_map(|machine| machine.sm_clock_range_mhz);
    if let (Some(lo), Some(hi)) = (clocks.clone().map(|[lo, _]| lo).min(), clocks.map(|[_, hi]| hi).max()) {
        let steady = if lo == hi { format!("steady at {lo} MHz") } else { format!("{lo} to {hi} MHz") };
        let throttled: Vec<&Throttle> = machines().flat_map(|machine| &machine.throttle).collect();
        let throttled =
            throttled.first().map_or("no throttling".to_owned(), |one| format!("throttling ({})", one.name()));
        sentences.push(format!("SM clocks were {steady}, with {throttled}."));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::counters::Counters;
    use crate::domain::finding::Remedy;
    use crate::domain::ids::IterationId;
    use crate::report::contract::{Configuration, Diagnosis, Experiment};
    use crate::report::tests::full::full;
    use crate::report::tests::{record, report};

    #[test]
    fn the_next_experiment_has_the_command_that_runs_it() {
        let mut report = report(&record());
        let go_on = "optloop start --workload attention-fp16-d64 --case b1h1s128 --case b8h8s512 --case b16h8s512 --budget 3300s";
        assert_eq!(command(&report).as_deref(), Some(go_on), "the search has hardly begun");
        let params = report.cases[0].variant.clone().unwrap().params;
        report.next_experiment = Some(Experiment {
            case: "b1h1s128".into(),
            change: String::new(),
            because: String::new(),
            configuration: Some(Configuration { family: "tiled".to_owned(), params }),
            before_us: 50.0,
            after_us: None,
            kind: "parameter",
            expected_from: String::new(),
        });
        let command = "optloop bench tiled:BLOCK=256,PAD=8 --workload attention-fp16-d64 --case b1h1s128 --against 3";
        assert_eq!(experiment_command(&report).as_deref(), Some(command));
    }

    #[test]
    fn an_experiment_that_changed_several_parameters_may_not_tell_what_a_cause_costs() {
        let change = |parameter: &str| Change { parameter: parameter.to_owned(), from: 1, to: 16 };
        let found = CauseTest {
            status: CauseStatus::Inconclusive,
            iteration: Some(IterationId(7)),
            changes: vec![change("BR"), change("TPR")],
            case: None,
            speedup: Some(13.21),
            expected: 1.82,
            shared_with: Vec::new(),
        };
        insta::assert_snapshot!(tested(&report(&record()), ("tiled", "b1h1s128"), &found), @"inconclusive: `BR` 1 → 16 and `TPR` 1 → 16 together gained 13.21× (iteration 7; 1.82× expected, so several changes at once do not tell how much of it came from this cause)");
    }

    /// An empty launch limits the first case, and parameters could remove the cause of the third one.
    #[test]
    fn a_cause_that_no_kernel_is_without_is_none_that_no_parameter_removes() {
        let mut report = full();
        let template = report.diagnoses[0].clone();
        let remedy = Remedy { text: String::new(), family: "tiled".to_owned(), params: None };
        let found = [("launch-bound", vec![]), ("latency-bound", vec![]), ("spills", vec![remedy])];
        let mut tell = |found: &[(&'static str, Vec<_>)]| {
            report.diagnoses.clear();
            let mut told = Vec::new();
            for (case, (rule, remedies)) in report.cases.iter_mut().zip(found) {
                case.iteration = Some(template.iteration);
                let mut one = Finding { rule, gain: 1.3, remedies: remedies.clone(), ..template.findings[0].clone() };
                (one.tested.status, one.tested.iteration) = (CauseStatus::NoExperiment, None);
                let findings = vec![one];
                report.diagnoses.push(Diagnosis { case: case.case.clone(), findings, ..template.clone() });
            }
            for diagnosis in &report.diagnoses {
                told.push(experiment(&report, ("tiled", &diagnosis.case), &diagnosis.findings[0]));
            }
            told.push(without_remedy(&report));
            told.join("\n")
        };
        insta::assert_snapshot!([tell(&found), tell(&found[1..2])].join("\n"), @"
        not tested: no kernel is without it
        not tested: no parameter of this family removes it
        not tested: no parameter of this family removes it
        . For 1 of the 2 winners with a suspected cause, no parameter removes it: there, tuning only makes the rest of the kernel faster, and larger gains need a new kernel. On 1 other, only an empty launch was found, which no kernel is without
        not tested: no parameter of this family removes it
        . For the only winner with a suspected cause, no parameter removes it: there, tuning only makes the rest of the kernel faster, and larger gains need a new kernel
        ");
    }

    #[test]
    fn a_case_is_a_shape_of_dimensions_with_a_meaning() {
        let mut report = report(&record());
        let sizes = [[("S", 4), ("D", 4)], [("S", 64), ("D", 64)], [("S", 128), ("D", 64)]];
        for (case, sizes) in report.cases.iter_mut().zip(sizes) {
            case.dims = sizes.map(|(name, size)| (name.to_owned(), size)).into();
        }
        report.dims = [("D", "the head dimension")].into();
        let told = "A *case* is one shape: `b1h1s128` is D = 4 (the head dimension), S = 4. All others have D = 64.";
        assert_eq!(shape(&report).unwrap(), told);
        report.cases.truncate(2);
        assert!(!shape(&report).unwrap().contains("All others"), "one case shares nothing");
    }

    #[test]
    fn the_headline_counts_improvements_and_the_standing_against_the_baseline() {
        let mut record = record();
        assert_eq!(headline(&report(&record)), "1 of 3 cases improved, 0 of 1 ahead of the baseline");
        record.baselines.clear();
        assert_eq!(headline(&report(&record)), "1 of 3 cases improved");
    }

    #[test]
    fn low_confidence_in_modelled_gains_has_its_reason() {
        let mut report = report(&record());
        let mut told = |lowered| {
            report.model_check = Some(ModelCheck { leads: 12, explained: 1, lowered });
            model_check(&report)
        };
        assert_eq!(told(0), None);
        insta::assert_snapshot!(told(2).unwrap(), @"The confidence in 2 possible gains is low, because only the model of the virtual GPU estimates them. It derived 1 of the 12 leads that this session measured and counted.");
    }

    /// A session of 3,301 s cost $0.18. The counters of a winner take 240 s of another one.
    #[test]
    fn what_hardware_counters_show_is_told_or_how_to_read_them_or_why_that_failed() {
        let mut report = report(&record());
        let told = |report: &Report| counters(report, &report.cases[0]).unwrap();
        let how = told(&report);
        report.no_counters = Some("ncu is missing.".to_owned());
        let why_not = told(&report);
        report.cases[0].counters = Some(Counters::default());
        insta::assert_snapshot!([how, why_not, told(&report)].join("\n"), @"
        Hardware counters would tell more: `optloop start --workload attention-fp16-d64 --case b1h1s128 --budget 240s` reads those of its winner if `ncu` works, in at most 240 s and for $0.01.
        Hardware counters would tell more, but this session could not read them: ncu is missing.
        Hardware counters of its winner were read. They are empty.
        ");
        report.session.time_source = TimeSource::Modelled;
        assert_eq!(counters(&report, &report.cases[0]), None);
    }
}
