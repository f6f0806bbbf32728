//! The experiment that the data recommends most.

use super::contract::{self, Case, Configuration, Diagnosis, Experiment, ParameterEffect};
use super::format::times;
use super::ladder::first_clause;
use super::next_change::{self, MIN_GAIN, Next};
use super::pairs::{Sample, samples};
use super::parameters::MIN_PAIRS;
use super::{ReportInput, excluded, limiter};
use crate::domain::finding::{Finding, Remedy};
use crate::domain::prediction::Prediction;
use crate::domain::tested::{CauseStatus, judge};
use crate::domain::variant::Params;

/// Returns the experiment that promises most. Remedies against causes of lost time come first. Then comes a change of a
/// parameter that has paid on other pairs of configurations, then the best variant of another case. None if nothing
/// promises a gain that a comparison can resolve.
pub(super) fn promising(cases: &[Case], effects: &[ParameterEffect], input: &ReportInput<'_>) -> Option<Experiment> {
    let samples = samples(&input.record.iterations);
    by_remedy(cases, input)
        .or_else(|| by_parameter(cases, effects, input, &samples))
        .or_else(|| by_family(cases, input, &samples))
}

/// Takes the remedy that was not tried of the finding about a best variant with the highest expected gain: its gain,
/// weighted by the confidence. Causes that an experiment has refuted and remedies that the prediction model expects to
/// fail are left out.
fn by_remedy(cases: &[Case], input: &ReportInput<'_>) -> Option<Experiment> {
    let of_best = |finding: &&Finding| {
        cases.iter().any(|case| case.case == finding.case && case.iteration == finding.iteration)
            && finding.weight().exp() >= MIN_GAIN
            && judge(finding, &input.record.iterations).status != CauseStatus::NotConfirmed
    };
    let mut findings: Vec<&Finding> = input.findings.iter().filter(of_best).collect();
    findings.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    findings.into_iter().find_map(|finding| {
        let case = cases.iter().find(|case| case.case == finding.case)?;
        let Next::Try(remedy, prediction) = next_change::of(finding, input) else { return None };
        let params = remedy.params.clone()?;
        let is_hopeless = prediction.is_some_and(next_change::is_hopeless);
        let is_possible = !is_hopeless && (input.is_valid)(&remedy.family, &params, &case.case);
        is_possible.then(|| remedied(finding, remedy, prediction, params, case.best_us)).flatten()
    })
}

fn remedied(
    finding: &Finding,
    remedy: &Remedy,
    prediction: Option<Prediction>,
    params: Params,
    before_us: Option<f64>,
) -> Option<Experiment> {
    let Finding { case, rule, cause, gain, confidence, .. } = finding;
    let before_us = before_us?;
    let of_diagnosis =
        format!("the diagnosis expects {} without the cause ({} confidence)", times(*gain), confidence.name());
    let (factors, expected_from) = match prediction {
        Some(Prediction { lo, hi, .. }) => ([hi, lo], format!("the prediction model's 80% range; {of_diagnosis}")),
        None => (
            [*gain, finding.weight().exp()],
            format!("{of_diagnosis}; the other end of the range is weighted by this confidence"),
        ),
    };
    Some(Experiment {
        kind: "remedy",
        case: case.clone(),
        change: remedy.text.clone(),
        because: format!("against what the diagnosis found in its best variant: {cause} (`{rule}`)"),
        configuration: Some(Configuration { family: remedy.family.clone(), params }),
        before_us,
        after_us: Some(factors.map(|factor| before_us / factor)),
        expected_from,
    })
}

fn is_timed(samples: &[Sample<'_>], family: &str, params: &Params, case: &str) -> bool {
    samples.iter().any(|one| one.family == family && one.case == case && one.params == params)
}

/// Changes one parameter of a best variant as it has paid elsewhere.
fn by_parameter(
    cases: &[Case],
    effects: &[ParameterEffect],
    input: &ReportInput<'_>,
    samples: &[Sample<'_>],
) -> Option<Experiment> {
    let promising =
        effects.iter().filter(|one| one.pairs >= MIN_PAIRS as u64 && one.verdict != "tied" && one.effect >= MIN_GAIN);
    let mut best: Option<(f64, Experiment)> = None;
    for effect in promising {
        for case in cases {
            let (Some(variant), Some(before_us)) = (&case.variant, case.best_us) else { continue };
            let applies =
                variant.family == effect.family && variant.params.get(&effect.parameter) == Some(&effect.from);
            // What the change does on the case itself counts more than what it does elsewhere.
            let hurts_here = effect.by_case.iter().any(|own| own.case == case.case && own.verdict != "helps");
            let mut params = variant.params.clone();
            params.insert(effect.parameter.clone(), effect.to);
            if !applies
                || hurts_here
                || best.as_ref().is_some_and(|(gain, _)| *gain >= effect.effect)
                || is_timed(samples, &effect.family, &params, &case.case)
                || !(input.is_valid)(&effect.family, &params, &case.case)
            {
                continue;
            }
            best = Some((effect.effect, changed(case, effect, params, before_us)));
        }
    }
    best.map(|(_, experiment)| experiment)
}

fn changed(case: &Case, effect: &ParameterEffect, params: Params, before_us: f64) -> Experiment {
    let ParameterEffect { family, parameter, about, from, to, .. } = effect;
    let after = |factor: f64| before_us / factor;
    Experiment {
        kind: "parameter",
        case: case.case.clone(),
        change: format!(
            "set {parameter} from {from} to {to} in the best variant of `{family}`: {}",
            first_clause(about)
        ),
        because: format!(
            "with all else equal it was {} in the median of {} pairs on {} cases; this configuration was not tried here",
            times(effect.effect),
            effect.pairs,
            effect.cases
        ),
        configuration: Some(Configuration { family: family.clone(), params }),
        before_us,
        after_us: Some([after(effect.upper_quartile), after(effect.lower_quartile)]),
        expected_from: "the middle half of these pairs".to_owned(),
    }
}

/// Tries the best variant of one case on another. Where both best variants were timed on a third case, their ratio
/// there is the prediction.
fn by_family(cases: &[Case], input: &ReportInput<'_>, samples: &[Sample<'_>]) -> Option<Experiment> {
    let time = |case: &Case, of: &Case| {
        let variant = of.variant.as_ref()?;
        let found = samples
            .iter()
            .find(|one| one.case == &*case.case && one.family == variant.family && *one.params == variant.params);
        found.map(|one| one.ln_ns)
    };
    let mut best: Option<(f64, Experiment)> = None;
    for (case, other) in cases.iter().flat_map(|case| cases.iter().map(move |other| (case, other))) {
        let (Some(variant), Some(before_us)) = (&other.variant, case.best_us) else { continue };
        let is_possible = case.variant.as_ref().is_some_and(|own| own.family != variant.family)
            && excluded::can_compute(input, &variant.family, &case.case)
            && !is_timed(samples, &variant.family, &variant.params, &case.case)
            && (input.is_valid)(&variant.family, &variant.params, &case.case);
        if !is_possible {
            continue;
        }
        let elsewhere: Vec<f64> =
            cases.iter().filter_map(|third| Some(time(third, case)? - time(third, other)?)).collect();
        let (Some(lo), Some(hi)) =
            (elsewhere.iter().copied().reduce(f64::min), elsewhere.iter().copied().reduce(f64::max))
        else {
            continue;
        };
        let gain = f64::midpoint(lo, hi).exp();
        if gain < MIN_GAIN || best.as_ref().is_some_and(|(most, _)| *most >= gain) {
            continue;
        }
        let experiment = Experiment {
            kind: "transfer",
            case: case.case.clone(),
            change: format!("use the best variant of `{}` (`{}`)", other.case, variant.family),
            because: format!(
                "where both were timed, it took {} to {} as long as the best variant of this case ({} cases)",
                times((-hi).exp()),
                times((-lo).exp()),
                elsewhere.len()
            ),
            configuration: Some(Configuration { family: variant.family.clone(), params: variant.params.clone() }),
            before_us,
            after_us: Some([before_us / hi.exp(), before_us / lo.exp()]),
            expected_from: "these ratios".to_owned(),
        };
        best = Some((gain, experiment));
    }
    best.map(|(_, experiment)| experiment)
}

/// Names the case for a new kernel, and what that kernel could do: the case whose cause promises the most, else the one
/// with the most room above its floor. The diagnosis's estimate is all that is known of what the kernel would reach.
pub(super) fn new_kernel(cases: &[Case], diagnoses: &[Diagnosis]) -> Option<Experiment> {
    let room = |case: &&Case| case.roofline.as_ref().and_then(|roofline| roofline.times_of_floor).unwrap_or(1.0);
    let most = limiter::most_to_gain(cases, diagnoses);
    let case = most.map(|(case, _)| case).or_else(|| cases.iter().max_by(|a, b| room(a).total_cmp(&room(b))))?;
    let before_us = case.best_us?;
    let family = &case.variant.as_ref()?.family;
    let limited = case.limited_by.clone().unwrap_or_else(|| "its limit is unknown".to_owned());
    let cause = most.map(|(_, cause)| cause);
    let idea = cause.map(|cause| format!(", to {}", cause.kernel_change)).unwrap_or_default();
    let gain = cause.filter(|cause| cause.gain > 1.0);
    Some(Experiment {
        kind: "new_kernel",
        case: case.case.clone(),
        change: format!(
            "write a new kernel, or change the source of `{family}`{idea}. What probably limits the winner: {limited}"
        ),
        because: format!(
            "no change of a parameter is expected to gain more than a comparison resolves, and the best variant takes {} as \
             long as the floor{}",
            times(room(&case)),
            gain.map(|cause| format!(", of which this cause explains {}", times(cause.gain))).unwrap_or_default()
        ),
        configuration: None,
        before_us,
        after_us: gain.map(|cause| [before_us / cause.gain; 2]),
        expected_from: gain.map(expected_without).unwrap_or_default(),
    })
}

/// Says where the time that is expected of a new kernel comes from.
fn expected_without(cause: &contract::Finding) -> String {
    format!(
        "the diagnosis estimates {} if the new kernel removes this cause and adds no other ({} confidence)",
        times(cause.gain),
        cause.confidence.name()
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{input, record, report};
    use super::*;

    fn effect(to: i64, effect: f64) -> ParameterEffect {
        ParameterEffect {
            family: "tiled".to_owned(),
            parameter: "PAD".to_owned(),
            about: "padding of a row: avoids bank conflicts".to_owned(),
            from: 8,
            to,
            effect,
            lower_quartile: effect - 0.1,
            upper_quartile: effect + 0.1,
            pairs: 4,
            cases: 2,
            faster: 4,
            slower: 0,
            verdict: "helps",
            by_case: Vec::new(),
            used_on: Vec::new(),
        }
    }

    #[test]
    fn the_most_promising_change_that_was_not_tried_is_recommended() {
        let record = record();
        let cases = report(&record).cases;
        let next = promising(&cases, &[effect(4, 1.1), effect(16, 1.25)], &input(&record)).unwrap();
        assert_eq!((&*next.case, next.before_us), ("b1h1s128", 50.0));
        assert_eq!(next.configuration.unwrap().params["PAD"], 16);
        assert_eq!(next.after_us.unwrap().map(|us| us.round()), [37.0, 43.0]);
        assert!(next.change.contains("set PAD from 8 to 16") && next.because.contains("4 pairs on 2 cases"));
    }

    #[test]
    fn a_configuration_that_a_family_refuses_is_not_recommended() {
        let record = record();
        let cases = report(&record).cases;
        let input = ReportInput { is_valid: &|_, _, _| false, ..input(&record) };
        assert_eq!(promising(&cases, &[effect(16, 1.25)], &input), None);
        let kernel = new_kernel(&cases, &[]).unwrap();
        assert_eq!((kernel.configuration, &*kernel.case), (None, "b8h8s512"), "the case with the most room");
        assert_eq!(kernel.after_us, None, "what a kernel would reach is not known");
    }
}
