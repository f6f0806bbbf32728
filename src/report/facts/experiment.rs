//! The experiment that the data recommends most.

use super::contract::{Case, NextExperiment, ParameterEffect};
use super::findings::{self, Left, MIN_GAIN};
use super::pairs::{Sample, samples};
use super::parameters::MIN_PAIRS;
use super::{ReportInput, grids, transfer};
use crate::domain::claims::prediction::Prediction;
use crate::domain::proposal::finding::{CauseStatus, Finding, Remedy};
use crate::domain::proposal::origin::Change;
use crate::domain::variant::Params;

/// Returns the experiment that promises most. Remedies come first: they also test a cause of lost time. Then come changes
/// of a parameter that have paid on other pairs of configurations, and the best variants of other cases. None if nothing
/// promises a gain that a comparison can resolve.
pub(super) fn promising(
    cases: &[Case],
    effects: &[ParameterEffect],
    input: &ReportInput<'_>,
) -> Option<NextExperiment> {
    most(by_remedy(cases, input), cases).or_else(|| {
        let samples = samples(&input.record.iterations);
        let others = by_parameter(cases, effects, input, &samples).into_iter();
        let others = others.chain(transfer::candidates(cases, input, &samples));
        most(others.filter(|one| !makes_it_worse(one, cases, input)).collect(), cases)
    })
}

/// Returns the experiment with the largest expected gain, of several the first. None is expected to beat the floor. A best
/// variant below its floor shows that the peaks are wrong; then its time is the limit.
fn most(candidates: Vec<NextExperiment>, cases: &[Case]) -> Option<NextExperiment> {
    let limited = candidates.into_iter().map(|mut one| {
        let floor_us = cases.iter().find(|case| case.case == one.case).and_then(|case| case.floor_us);
        let most = floor_us.map_or(f64::INFINITY, |floor_us| one.before_us / floor_us.min(one.before_us));
        one.expected = one.expected.min(most);
        one
    });
    let worth = limited.filter(|one| one.expected >= MIN_GAIN);
    worth.reduce(|best, one| if one.expected > best.expected { one } else { best })
}

/// Tells whether an experiment makes a grid smaller whose few blocks are a cause of lost time.
fn makes_it_worse(experiment: &NextExperiment, cases: &[Case], input: &ReportInput<'_>) -> bool {
    let Some(case) = cases.iter().find(|case| case.case == experiment.case) else { return false };
    let is_cause = |found: &Finding| {
        let is_own = found.case == case.case && found.iteration == case.iteration;
        is_own && found.rule == "too-few-blocks" && found.gain > 1.0
    };
    input.findings.iter().any(is_cause) && grids::is_smaller(case, experiment, &input.record.iterations)
}

/// Returns the remedies that were not tried of findings about the best variants. Causes that an experiment has refuted and
/// remedies that the prediction model expects to fail are left out.
fn by_remedy(cases: &[Case], input: &ReportInput<'_>) -> Vec<NextExperiment> {
    let is_open =
        |finding: &&Finding| finding.weight().exp() >= MIN_GAIN && finding.tested.status != CauseStatus::NotConfirmed;
    let candidate = |finding: &Finding| {
        let of_best = |case: &&Case| case.case == finding.case && case.iteration == finding.iteration;
        let case = cases.iter().find(of_best)?;
        let Left::Try(remedy, prediction) = findings::next(finding, input) else { return None };
        let params = remedy.params.clone()?;
        let is_possible = (input.is_valid)(&remedy.family, &params, &case.case);
        is_possible.then(|| remedied(finding, remedy, prediction, params, case)).flatten()
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
    case: &Case,
) -> Option<NextExperiment> {
    let middle = |Prediction { lo, hi, median, .. }: Prediction| median.unwrap_or((lo * hi).sqrt());
    let own = case.variant.as_ref().filter(|own| own.family == remedy.family);
    Some(NextExperiment {
        source: "remedy",
        case: case.case.clone(),
        against: case.iteration,
        family: remedy.family.clone(),
        changes: own.map(|own| Change::between(&own.params, &params)).unwrap_or_default(),
        params,
        rule: Some(finding.rule),
        of_case: None,
        before_us: case.best_us?,
        expected: prediction.map_or(finding.weight().exp(), middle),
    })
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
) -> Vec<NextExperiment> {
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
        let (parameter, from, to) = (effect.parameter.clone(), effect.from, effect.to);
        is_possible.then(|| NextExperiment {
            source: "parameter",
            case: case.case.clone(),
            against: case.iteration,
            family: effect.family.clone(),
            params,
            changes: vec![Change { parameter, from, to }],
            rule: None,
            of_case: None,
            before_us,
            // Other cases may differ: no effect at all is as likely as theirs.
            expected: here.map_or(effect.effect.sqrt(), |own| own.effect),
        })
    };
    promising.flat_map(|effect| cases.iter().filter_map(move |case| candidate(effect, case))).collect()
}

/// Counts the configurations with the new value that were timed on a case. If there are several, and the best variant has
/// the old value, the case itself has spoken against the new one.
fn tried(samples: &[Sample<'_>], effect: &ParameterEffect, case: &str) -> usize {
    let has_value = |one: &&Sample<'_>| one.params.get(&effect.parameter) == Some(&effect.to);
    samples.iter().filter(|one| one.family == effect.family && one.case == case).filter(has_value).count()
}

#[cfg(test)]
mod tests {
    use super::super::contract::CaseEffect;
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::domain::measurement::evaluation::Outcome;
    use crate::domain::measurement::verdict::Verdict;
    use crate::report::tests::{self, finding, found, input, iteration, record, record_ahead, report};

    fn effect(to: i64, effect: f64) -> ParameterEffect {
        ParameterEffect { pairs: 4, faster: 4, verdict: "helps", ..tests::effect("PAD", [8, to], effect) }
    }

    #[test]
    fn the_most_promising_change_that_was_not_tried_is_recommended() {
        let record = record();
        let cases = report(&record).cases;
        let next = promising(&cases, &[effect(4, 1.1), effect(16, 1.25)], &input(&record)).unwrap();
        assert_eq!((&*next.case, next.before_us, next.against), ("b1h1s128", 50.0, Some(IterationId(3))));
        assert_eq!((next.params["PAD"], next.changes[0].to), (16, 16));
        assert!((next.expected - 1.25_f64.sqrt()).abs() < 1e-9, "half of what it does on other cases");
    }

    /// On the case itself, 1.1x was measured. The floor is 1 us, and the best time is 50 us.
    #[test]
    fn what_was_measured_on_the_case_counts_and_no_time_is_below_the_floor() {
        let record = record();
        let cases = report(&record).cases;
        let own = |case: &str| CaseEffect { case: case.into(), effect: 1.1, pairs: 2, verdict: "helps" };
        let less = ParameterEffect { by_case: vec![own("b1h1s128"), own("b8h8s512")], ..effect(16, 1.3) };
        let next = promising(&cases, &[less, effect(4, 1.2)], &input(&record)).unwrap();
        assert_eq!((next.params["PAD"], next.expected), (16, 1.1), "1.1x here counts more than 1.2x elsewhere");
        let next = promising(&cases[..1], &[effect(4, 10_000.0)], &input(&record)).unwrap();
        assert_eq!(next.expected, 50.0);
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
            let findings = [finding("b1h1s128", 3, rule, 1.3)];
            promising(&cases, &[effect(16, 1.25)], &ReportInput { findings: &findings, ..input(&record) })
        };
        assert_eq!(told("too-few-blocks"), None);
        assert!(told("bank-conflicts").is_some());
    }

    #[test]
    fn a_configuration_that_a_family_refuses_is_not_recommended() {
        let record = record_ahead();
        let cases = report(&record).cases;
        let input = ReportInput { is_valid: &|_, _, _| false, ..input(&record) };
        assert_eq!(promising(&cases, &[effect(16, 1.25)], &input), None);
    }
}
