//! The experiment that the data recommends most.

use super::candidate::{Candidate, above_floor, most};
use super::changes::first_clause;
use super::contract::{self, Baseline, Case, Configuration, Diagnosis, Experiment, ParameterEffect};
use super::format::{percent, times};
use super::kernel_idea::{self, KernelIdea, TakenBy, TimePart};
use super::next_change::{self, MIN_GAIN, Next};
use super::pairs::{Sample, samples};
use super::parameters::MIN_PAIRS;
use super::{ReportInput, confidence, divided, forecast, grids, limiter, transfer};
use crate::domain::finding::{Evidence, Finding, Remedy};
use crate::domain::prediction::Prediction;
use crate::domain::tested::{CauseStatus, judge};
use crate::domain::variant::Params;

/// The most cases with larger possible gains to name.
const MAX_PASSED_OVER: usize = 2;

/// Returns the experiment that promises most. Remedies come first: they also test a cause of lost time. Then come changes
/// of a parameter that have paid on other pairs of configurations, and the best variants of other cases. None if nothing
/// promises a gain that a comparison can resolve.
pub(super) fn promising(cases: &[Case], effects: &[ParameterEffect], input: &ReportInput<'_>) -> Option<Experiment> {
    most(by_remedy(cases, input), cases).or_else(|| {
        let samples = samples(&input.record.iterations);
        let others = by_parameter(cases, effects, input, &samples).into_iter();
        let others = others.chain(transfer::candidates(cases, input, &samples));
        most(others.filter(|one| !makes_it_worse(&one.experiment, cases, input)).collect(), cases)
    })
}

/// Tells whether an experiment makes a grid smaller whose few blocks are a cause of lost time.
fn makes_it_worse(experiment: &Experiment, cases: &[Case], input: &ReportInput<'_>) -> bool {
    let case = cases.iter().find(|case| case.case == experiment.case);
    let Some((case, configuration)) = case.zip(experiment.configuration.as_ref()) else { return false };
    let is_cause = |found: &Finding| {
        let is_own = found.case == case.case && found.iteration == case.iteration;
        is_own && found.rule == "too-few-blocks" && found.gain > 1.0
    };
    input.findings.iter().any(is_cause) && grids::is_smaller(case, configuration, &input.record.iterations)
}

/// Returns the remedies that were not tried of findings about the best variants. Causes that an experiment has refuted and
/// remedies that the prediction model expects to fail are left out.
fn by_remedy(cases: &[Case], input: &ReportInput<'_>) -> Vec<Candidate> {
    let is_open = |finding: &&Finding| {
        finding.weight().exp() >= MIN_GAIN
            && judge(finding, &input.record.iterations).status != CauseStatus::NotConfirmed
    };
    let candidate = |finding: &Finding| {
        let of_best = |case: &&Case| case.case == finding.case && case.iteration == finding.iteration;
        let case = cases.iter().find(of_best)?;
        let Next::Try(remedy, prediction) = next_change::of(finding, input) else { return None };
        let params = remedy.params.clone()?;
        let is_hopeless = prediction.is_some_and(next_change::is_hopeless);
        let is_possible = !is_hopeless && (input.is_valid)(&remedy.family, &params, &case.case);
        is_possible.then(|| remedied(finding, remedy, prediction, params, case.best_us)).flatten()
    };
    input.findings.iter().filter(is_open).filter_map(candidate).collect()
}

/// Expects of a remedy what the prediction model does, which counts what was measured on the case. Without a prediction,
/// expects the gain of the diagnosis, weighted by the confidence.
fn remedied(
    finding: &Finding,
    remedy: &Remedy,
    prediction: Option<Prediction>,
    params: Params,
    before_us: Option<f64>,
) -> Option<Candidate> {
    let Finding { case, rule, cause, gain, confidence, .. } = finding;
    let before_us = before_us?;
    let of_diagnosis =
        format!("the diagnosis expects {} without the cause ({} confidence)", times(*gain), confidence.name());
    let weighted = finding.weight().exp();
    let (factors, middle, expected_from) = match prediction {
        Some(Prediction { lo, hi, median, .. }) => {
            let from = format!("the prediction model's 80% range; {of_diagnosis}");
            ([hi, lo], median.unwrap_or((lo * hi).sqrt()), from)
        }
        None => {
            let from = format!("{of_diagnosis}; the other end of the range is weighted by this confidence");
            ([*gain, weighted], weighted, from)
        }
    };
    let experiment = Experiment {
        kind: "remedy",
        case: case.clone(),
        change: remedy.text.clone(),
        because: format!("against what the diagnosis found in its best variant: {cause} (`{rule}`)"),
        configuration: Some(Configuration { family: remedy.family.clone(), params }),
        before_us,
        after_us: Some(factors.map(|factor| before_us / factor)),
        expected_from,
    };
    Some(Candidate { gain: middle, experiment })
}

fn is_timed(samples: &[Sample<'_>], family: &str, params: &Params, case: &str) -> bool {
    samples.iter().any(|one| one.family == family && one.case == case && one.params == params)
}

/// Changes one parameter of a best variant as it has paid on other pairs of configurations.
fn by_parameter(
    cases: &[Case],
    effects: &[ParameterEffect],
    input: &ReportInput<'_>,
    samples: &[Sample<'_>],
) -> Vec<Candidate> {
    let promising =
        effects.iter().filter(|one| one.pairs >= MIN_PAIRS as u64 && one.verdict != "tied" && one.effect >= MIN_GAIN);
    let candidate = &|effect: &ParameterEffect, case: &Case| {
        let (variant, before_us) = (case.variant.as_ref()?, case.best_us?);
        let applies = variant.family == effect.family && variant.params.get(&effect.parameter) == Some(&effect.from);
        // What the change does on the case itself counts more than what it does elsewhere.
        let here = effect.by_case.iter().find(|own| own.case == case.case);
        let mut params = variant.params.clone();
        params.insert(effect.parameter.clone(), effect.to);
        let is_possible = applies
            && here.map_or_else(|| tried(samples, effect, &case.case) < MIN_PAIRS, |own| own.verdict == "helps")
            && !is_timed(samples, &effect.family, &params, &case.case)
            && (input.is_valid)(&effect.family, &params, &case.case);
        // Other cases may differ: no effect at all is as likely as theirs.
        let gain = here.map_or(effect.effect.sqrt(), |own| own.effect);
        is_possible.then(|| Candidate { gain, experiment: changed(case, effect, params, before_us) })
    };
    promising.flat_map(|effect| cases.iter().filter_map(move |case| candidate(effect, case))).collect()
}

/// Counts the configurations with the new value that were timed on a case. If there are several, and the best variant has
/// the old value, the case itself has spoken against the new one.
fn tried(samples: &[Sample<'_>], effect: &ParameterEffect, case: &str) -> usize {
    let has_value = |one: &&Sample<'_>| one.params.get(&effect.parameter) == Some(&effect.to);
    samples.iter().filter(|one| one.family == effect.family && one.case == case).filter(has_value).count()
}

fn changed(case: &Case, effect: &ParameterEffect, params: Params, before_us: f64) -> Experiment {
    let ParameterEffect { family, parameter, about, from, to, .. } = effect;
    let after = |factor: f64| before_us / factor;
    let here = effect.by_case.iter().find(|own| own.case == case.case);
    let (told, slowest, expected_from) = match here {
        Some(own) => {
            let told = format!("; on this case, {}", times(own.effect));
            (told, effect.lower_quartile, "the middle half of these pairs")
        }
        None => {
            let expected_from =
                "the middle half of these pairs, down to no effect, because none of them is of this case";
            (String::new(), effect.lower_quartile.min(1.0), expected_from)
        }
    };
    Experiment {
        kind: "parameter",
        case: case.case.clone(),
        change: format!(
            "set {parameter} from {from} to {to} in the best variant of `{family}`: {}",
            first_clause(about)
        ),
        because: format!(
            "with all else equal it was {} in the median of {} pairs on {} cases{told}; this configuration was not tried here",
            times(effect.effect),
            effect.pairs,
            effect.cases
        ),
        configuration: Some(Configuration { family: family.clone(), params }),
        before_us,
        after_us: Some([after(effect.upper_quartile), after(slowest)]),
        expected_from: expected_from.to_owned(),
    }
}

/// Describes a new kernel against the largest measured part of the winners' time, or against the most promising cause.
pub(super) fn new_kernel(cases: &[Case], diagnoses: &[Diagnosis]) -> Option<Experiment> {
    let ideas = kernel_idea::all(cases, diagnoses);
    match ideas.first() {
        Some(KernelIdea::Part(part)) => against_part(part, &ideas, cases),
        Some(KernelIdea::Behind(case, baseline, lead)) => against_baseline(case, baseline, *lead),
        _ => against_cause(cases, diagnoses),
    }
}

/// The time of the baseline shows what a kernel can reach.
fn against_baseline(case: &Case, baseline: &Baseline, lead: f64) -> Option<Experiment> {
    let before_us = case.best_us?;
    Some(Experiment {
        kind: "new_kernel",
        case: case.case.clone(),
        change: KernelIdea::Behind(case, baseline, lead).what(),
        because: format!("`{}` is {} as fast as the best variant of this case", baseline.name, times(lead)),
        configuration: None,
        before_us,
        after_us: Some([before_us / lead; 2]),
        expected_from: "the baseline's time".to_owned(),
    })
}

/// Says which part of which family bounds a larger gain, and is not recommended, because nothing is known of it. Empty if none does.
fn larger_but_unknown(part: &TimePart<'_>, ideas: &[KernelIdea<'_>]) -> String {
    let larger = ideas.iter().find_map(|idea| match idea {
        KernelIdea::Part(other) if other.taken_by == TakenBy::Other && other.most > part.most => Some(other),
        _ => None,
    });
    let told = |other: &TimePart<'_>| {
        format!(
            "; the rest of the time of `{}` bounds a larger gain ({:.3}× over all cases), but nothing is known of it before it is profiled",
            other.family, other.most
        )
    };
    larger.map(told).unwrap_or_default()
}

/// The time without the part bounds what a kernel would reach, and earlier kernels show how much of that one does.
fn against_part(part: &TimePart<'_>, ideas: &[KernelIdea<'_>], cases: &[Case]) -> Option<Experiment> {
    let (case, share) = *part.shares.first()?;
    let before_us = case.best_us?;
    let bound = 1.0 / (1.0 - share);
    let [lower, _, upper] = forecast::quartiles(bound);
    let experiment = Experiment {
        kind: "new_kernel",
        case: case.case.clone(),
        change: KernelIdea::Part(part.clone()).what(),
        because: format!(
            "neither a cause nor a pair of configurations promises a gain by one parameter, and {} of the time of the winners of \
             `{}` goes to {}, {} on `{}`{}",
            part.share(),
            part.family,
            part.name(),
            percent(share),
            case.case,
            larger_but_unknown(part, ideas)
        ),
        configuration: None,
        before_us,
        after_us: Some([before_us / upper, before_us / lower]),
        expected_from: format!(
            "without that part, the kernel would be {bound:.2}× as fast, and no change to it gains more. Of {} earlier kernels that \
             beat one of another family, the middle half reached {} of such a bound (by logarithms): {lower:.2}× to {upper:.2}× here",
            forecast::PAIRS,
            forecast::share()
        ),
    };
    Some(above_floor(experiment, cases))
}

/// Names the case for a new kernel, and what that kernel could do: the case whose cause promises the most, else the one
/// with the most room above its floor. The diagnosis's estimate is all that is known of what the kernel would reach.
fn against_cause(cases: &[Case], diagnoses: &[Diagnosis]) -> Option<Experiment> {
    let room = |case: &&Case| case.roofline.as_ref().and_then(|roofline| roofline.times_of_floor).unwrap_or(1.0);
    let first = limiter::most_to_gain(cases, diagnoses);
    let case = first.map(|(case, _)| case).or_else(|| cases.iter().max_by(|a, b| room(a).total_cmp(&room(b))))?;
    let before_us = case.best_us?;
    let family = &case.variant.as_ref()?.family;
    let limited = case.limited_by.clone().unwrap_or_else(|| "its limit is unknown".to_owned());
    let cause = first.map(|(_, cause)| cause);
    let idea = cause.map(|cause| format!(", to {}", cause.kernel_change)).unwrap_or_default();
    let gain = cause.filter(|cause| cause.gain > 1.0);
    let is_launch = case.roofline.as_ref().is_some_and(|roofline| roofline.floor_limiter == "launch");
    let experiment = Experiment {
        kind: "new_kernel",
        case: case.case.clone(),
        change: format!(
            "write a new kernel, or change the source of `{family}`{idea}. What probably limits the winner: {limited}"
        ),
        because: format!(
            "no change of a parameter that leaves no more SMs idle is expected to gain more than a comparison resolves, and the \
             best variant takes {} as \
             long as the floor{}{}",
            times(room(&case)),
            if is_launch { " (an empty launch)" } else { "" },
            gain.map(|cause| {
                format!(", of which this cause explains {} and nothing found explains the rest", times(cause.gain))
            })
            .unwrap_or_default()
        ) + passed_over(case, cause, cases, diagnoses).as_str(),
        configuration: None,
        before_us,
        after_us: gain.map(|cause| [before_us / cause.gain; 2]),
        expected_from: gain.map(expected_without).unwrap_or_default(),
    };
    Some(above_floor(experiment, cases))
}

/// Says why a new kernel is not for the cases whose causes have larger possible gains.
fn passed_over(own: &Case, cause: Option<&contract::Finding>, cases: &[Case], diagnoses: &[Diagnosis]) -> String {
    let gain = cause.map_or(1.0, |cause| cause.gain);
    let others = cases.iter().filter(|case| case.case != own.case);
    let others = others.filter_map(|case| Some((case, limiter::first_cause(case, diagnoses)?)));
    let mut larger: Vec<_> = others.filter(|(_, cause)| cause.gain > gain && cause.rule != "at-the-floor").collect();
    larger.sort_by(|a, b| b.1.gain.total_cmp(&a.1.gain));
    let told = |(case, cause): &(&Case, &contract::Finding)| {
        let why = match &cause.divided_by {
            Some(other) => divided::told(other),
            None => {
                let against = cause.evidence.iter().rfind(|one| !one.supports);
                let low = |one: &Evidence| format!("{} confidence: {}", cause.confidence.name(), one.text);
                format!("with {}", against.map_or_else(|| confidence::with_reason(cause), low))
            }
        };
        format!("; `{}` could gain more ({}), but {why}", case.case, times(cause.gain))
    };
    larger.iter().take(MAX_PASSED_OVER).map(told).collect()
}

/// Says where the time that is expected of a new kernel comes from.
fn expected_without(cause: &contract::Finding) -> String {
    let derivation = cause.derivation.as_ref().map(|formula| format!(": {formula}")).unwrap_or_default();
    format!(
        "the diagnosis estimates {} if the new kernel removes this cause and adds no other ({}){derivation}",
        times(cause.gain),
        confidence::with_reason(cause)
    )
}

#[cfg(test)]
mod tests {
    use super::super::contract::Breakdown;
    use super::super::contract::CaseEffect;
    use super::super::tests::{found, input, iteration, record, record_ahead, report};
    use super::*;
    use crate::domain::ablation::Removed;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::verdict::Verdict;
    use crate::report::tests::{self, without};

    fn effect(to: i64, effect: f64) -> ParameterEffect {
        ParameterEffect {
            about: "padding of a row: avoids bank conflicts".to_owned(),
            lower_quartile: effect - 0.1,
            upper_quartile: effect + 0.1,
            pairs: 4,
            faster: 4,
            verdict: "helps",
            ..tests::effect("PAD", [8, to], effect)
        }
    }

    #[test]
    fn the_most_promising_change_that_was_not_tried_is_recommended() {
        let record = record();
        let cases = report(&record).cases;
        let next = promising(&cases, &[effect(4, 1.1), effect(16, 1.25)], &input(&record)).unwrap();
        assert_eq!((&*next.case, next.before_us), ("b1h1s128", 50.0));
        assert_eq!(next.configuration.unwrap().params["PAD"], 16);
        assert_eq!(next.after_us.unwrap().map(|us| us.round()), [37.0, 50.0]);
        assert!(next.change.contains("set PAD from 8 to 16") && next.because.contains("4 pairs on 2 cases"));
    }

    /// On the case itself, 1.1x was measured. The floor is 1 us, and one quartile promises 100 times the speed of 50 us.
    #[test]
    fn what_was_measured_on_the_case_counts_and_no_time_is_below_the_floor() {
        let record = record();
        let cases = report(&record).cases;
        let own = |case: &str| CaseEffect { case: case.into(), effect: 1.1, pairs: 2, verdict: "helps" };
        let less = ParameterEffect { by_case: vec![own("b1h1s128"), own("b8h8s512")], ..effect(16, 1.3) };
        let next = promising(&cases, &[less, effect(4, 1.2)], &input(&record)).unwrap();
        assert_eq!(next.configuration.unwrap().params["PAD"], 16, "1.1x here counts more than 1.2x elsewhere");
        assert_eq!(next.after_us.unwrap().map(f64::round), [36.0, 42.0]);
        let next = promising(&cases, &[ParameterEffect { upper_quartile: 100.0, ..effect(4, 1.2) }], &input(&record));
        let next = next.unwrap();
        assert_eq!(next.after_us.unwrap().map(f64::round), [1.0, 50.0]);
        assert!(
            next.expected_from.ends_with("the range ends at the floor, which no kernel beats"),
            "{}",
            next.expected_from
        );
    }

    /// Three configurations with 16 were timed on each case, and the best ones have 8.
    #[test]
    fn a_value_that_was_tried_on_a_case_and_lost_is_not_recommended_by_other_cases() {
        let mut record = record();
        for (id, block) in [(6, 32), (7, 48), (8, 96)] {
            let measured = ["b1h1s128", "b8h8s512"].map(|case| found(case, 500.0, Verdict::Regressed, None, None));
            let mut one = iteration(IterationId(id), block, None, Outcome::Measured, measured.to_vec());
            one.params.insert("PAD".to_owned(), 16);
            record.iterations.push(one);
        }
        let cases = report(&record).cases;
        assert_eq!(promising(&cases, &[effect(16, 1.25)], &input(&record)), None);
        assert!(promising(&cases, &[effect(4, 1.25)], &input(&record)).is_some());
    }

    /// In the pair with `BLOCK` = 64, the change of `PAD` divides the grid by two.
    #[test]
    fn a_change_that_makes_a_grid_of_too_few_blocks_smaller_is_not_recommended() {
        let mut record = record();
        for (id, pad, blocks) in [(6, 8, 4), (7, 16, 2)] {
            let mut measured = found("b1h1s128", 500.0, Verdict::Regressed, None, None);
            measured.ctas = Some(blocks);
            let mut one = iteration(IterationId(id), 96, None, Outcome::Measured, vec![measured]);
            one.params.insert("PAD".to_owned(), pad);
            record.iterations.push(one);
        }
        let cases = report(&record).cases[..1].to_vec();
        let told = |rule| {
            let findings = [Finding { rule, ..finding() }];
            promising(&cases, &[effect(16, 1.25)], &ReportInput { findings: &findings, ..input(&record) })
        };
        assert_eq!(told("too-few-blocks"), None);
        assert!(told("bank-conflicts").is_some());
    }

    fn finding() -> Finding {
        Finding {
            iteration: Some(IterationId(3)),
            family: "tiled".to_owned(),
            case: "b1h1s128".into(),
            rule: "",
            cause: String::new(),
            mechanism: "",
            kernel_change: "",
            without_split: None,
            model_is_off: false,
            derivation: None,
            evidence: Vec::new(),
            confidence: crate::domain::finding::Confidence::Medium,
            gain: 1.3,
            remedies: Vec::new(),
        }
    }

    /// Loads take 20% of the time of one winner, and the rest 25%.
    #[test]
    fn a_larger_part_of_which_nothing_is_known_comes_later_and_is_told() {
        let mut cases = report(&record_ahead()).cases;
        let shares = [(Removed::Work, 0.1), (Removed::GlobalLoads, 0.2), (Removed::AllKinds, 0.65)];
        let (family, without) = ("tiled".to_owned(), shares.map(without).to_vec());
        cases[0].breakdown = Some(Breakdown { iteration: IterationId(3), family, us: 50.0, without });
        insta::assert_snapshot!(new_kernel(&cases, &[]).unwrap().because, @"neither a cause nor a pair of configurations promises a gain by one parameter, and 20% of the time of the winners of `tiled` goes to loads from global memory, 20% on `b1h1s128`; the rest of the time of `tiled` bounds a larger gain (1.101× over all cases), but nothing is known of it before it is profiled");
    }

    #[test]
    fn a_configuration_that_a_family_refuses_is_not_recommended() {
        let record = record_ahead();
        let cases = report(&record).cases;
        let input = ReportInput { is_valid: &|_, _, _| false, ..input(&record) };
        assert_eq!(promising(&cases, &[effect(16, 1.25)], &input), None);
        let kernel = new_kernel(&cases, &[]).unwrap();
        assert_eq!((kernel.configuration, &*kernel.case), (None, "b8h8s512"), "the case with the most room");
        assert_eq!(kernel.after_us, None, "what a kernel would reach is not known");
    }
}
