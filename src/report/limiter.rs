//! What limits the best variant of a case. All tables and sentences take it from here.

use super::contract::{Case, Diagnosis, Finding, Roofline};
use super::format::percent;
use super::roofline::NEAR_CEILING;
use crate::domain::finding::Confidence;
use crate::domain::floor::Limiter;
use crate::domain::tested::CauseStatus;

/// The share of a time from which an empty launch explains much of it.
const MUCH_LAUNCH: f64 = 0.25;

/// The share of a time from which an empty launch is named beside the cause.
const NAMED_LAUNCH: f64 = 0.2;

/// The same where an empty launch is the floor: the rest of the time is reckoned from there.
const NAMED_FLOOR: f64 = 0.05;

/// The share of a time from which it is said that nothing explains it.
const MIN_REST: f64 = 0.05;

/// The possible gain up to which a cause accounts for next to nothing.
const MIN_GAIN: f64 = 1.02;

/// Blocks for each multiprocessor from which none of them counts as idle.
const MAX_BLOCKS: f64 = 0.8;

/// Returns the most important cause of lost time in the best variant of a case that no experiment has refuted. None if the
/// diagnosis found none that accounts for more than next to nothing, or only some that rest on a model that is off.
pub(super) fn first_cause<'a>(case: &Case, diagnoses: &'a [Diagnosis]) -> Option<&'a Finding> {
    causes(case, diagnoses).find(|cause| !is_negligible(cause))
}

/// Tells whether a cause accounts for next to nothing, by its estimate, or whether only a model shows it that is far off. An
/// experiment that gained more counts more. That blocks are few, the launch plan shows.
fn is_negligible(cause: &Finding) -> bool {
    let is_small = cause.gain > 1.0 && cause.gain < MIN_GAIN && cause.rule != "at-the-floor";
    let is_modelled = cause.model_is_off && cause.confidence == Confidence::Low && cause.rule != "too-few-blocks";
    (is_small || is_modelled) && !matches!(cause.tested.status, CauseStatus::Confirmed | CauseStatus::Supported)
}

/// Returns the case whose first cause promises the most by gain and confidence, with that cause. None if no case has one. A
/// floor that is near is no cause that could be removed. A cause that another family already lacks is no idea for a new
/// kernel. A cause with one indirect sign counts only without better ones.
pub(super) fn most_to_gain<'a>(cases: &'a [Case], diagnoses: &'a [Diagnosis]) -> Option<(&'a Case, &'a Finding)> {
    let causes = cases.iter().filter_map(|case| Some((case, first_cause(case, diagnoses)?)));
    let is_open = |cause: &Finding| cause.rule != "at-the-floor" && cause.divided_by.is_none();
    let mut causes: Vec<_> = causes.filter(|(_, cause)| is_open(cause)).collect();
    let is_likely = |cause: &Finding| cause.confidence > Confidence::Low && cause.gain > 1.0;
    let place = |cause: &Finding| (is_likely(cause), weight(cause));
    causes.sort_by(|a, b| place(b.1).0.cmp(&place(a.1).0).then(place(b.1).1.total_cmp(&place(a.1).1)));
    causes.into_iter().next()
}

/// Tells whether a cause is one that no kernel is without: a single launch, or a floor that is near. With several launches, the
/// diagnosis proposes to fuse them.
pub(super) fn is_unavoidable(cause: &Finding) -> bool {
    match cause.rule {
        "at-the-floor" => true,
        "launch-bound" => cause.remedies.is_empty(),
        _ => false,
    }
}

/// Returns the logarithm of a cause's gain, weighted by its confidence. Causes are ranked by it.
pub(super) fn weight(found: &Finding) -> f64 {
    found.gain.max(1.0).ln() * found.confidence.weight()
}

/// Tells whether a diagnosis is that of the best variant of a case.
pub(super) fn is_about(diagnosis: &Diagnosis, case: &Case) -> bool {
    diagnosis.case == case.case && Some(diagnosis.iteration) == case.iteration
}

/// Returns the causes of lost time in the best variant of a case that no experiment has refuted, the most important first.
pub(super) fn causes<'a>(case: &Case, diagnoses: &'a [Diagnosis]) -> impl Iterator<Item = &'a Finding> {
    let own = diagnoses.iter().find(|one| is_about(one, case));
    let findings = own.into_iter().flat_map(|diagnosis| &diagnosis.findings);
    findings.filter(|one| one.tested.status != CauseStatus::NotConfirmed)
}

/// Says what limits the best variant of a case: its most important cause of lost time, else the nearest ceiling, the
/// launch or idle multiprocessors. None without a time.
pub(super) fn of(case: &Case, diagnoses: &[Diagnosis]) -> Option<String> {
    let cause = first_cause(case, diagnoses).map(|finding| finding.cause.clone());
    cause.or_else(|| by_ceilings(case, case.roofline.as_ref()?))
}

/// Returns the share of an empty launch in the time of the best variant of a case, where it is worth naming.
pub(super) fn much_launch(case: &Case) -> Option<f64> {
    let roofline = case.roofline.as_ref()?;
    let is_floor = roofline.floor_limiter == Limiter::Launch.name();
    roofline.share_of_launch.filter(|share| *share >= if is_floor { NAMED_FLOOR } else { NAMED_LAUNCH })
}

/// Returns the share of the time of a best variant that is neither its floor nor what its first cause would save. None
/// without a floor.
pub(super) fn unexplained(case: &Case, diagnoses: &[Diagnosis]) -> Option<f64> {
    let gain = first_cause(case, diagnoses).map_or(1.0, |cause| cause.gain.max(1.0));
    Some((1.0 / gain - case.floor_us? / case.best_us?).max(0.0))
}

/// Says what limits the best variant of a case: the launch where that is much of the time, the cause, and how much of the
/// time neither explains.
pub(super) fn in_shares(case: &Case, diagnoses: &[Diagnosis]) -> Option<String> {
    let limit = case.limited_by.as_deref()?;
    let cause = first_cause(case, diagnoses);
    if let Some(breakdown) = &case.breakdown {
        let named = cause.filter(|cause| !is_launch(limit, Some(cause)));
        let cause = named.map(|cause| format!("; {}", cause.cause)).unwrap_or_default();
        return Some(format!("{}{cause}", breakdown.in_words()));
    }
    let told = with_launch(case, limit, cause);
    let Some(rest) = unexplained(case, diagnoses).filter(|rest| *rest >= MIN_REST).map(percent) else {
        return Some(told);
    };
    Some(match cause {
        Some(cause) if cause.gain > 1.0 => format!("{told}; {rest} not explained"),
        _ if is_launch(limit, cause) && much_launch(case).is_some() => {
            format!("{told}; the other {rest} not explained")
        }
        Some(_) => format!("{told}; how much of the other {rest} is not known"),
        None => told,
    })
}

/// Names the launch beside the limit where it is much of the time. The larger share of the time comes first. Nothing
/// removes the launch, but it is time that no other cause has.
fn with_launch(case: &Case, limit: &str, cause: Option<&Finding>) -> String {
    let is_at_floor = cause.is_some_and(|cause| cause.rule == "at-the-floor");
    let Some(share) = much_launch(case).filter(|_| !is_at_floor) else { return limit.to_owned() };
    let launch = format!("{} launch (unavoidable)", percent(share));
    let own_share = cause.map_or(0.0, |cause| 1.0 - 1.0 / cause.gain.max(1.0));
    match (is_launch(limit, cause), own_share > share) {
        // Only several launches have a gain.
        (true, _) if own_share > 0.0 => limit.to_owned(),
        (true, _) => launch,
        (false, true) => format!("{limit}; {launch}"),
        (false, false) => format!("{launch}; then {limit}"),
    }
}

/// Tells whether the limit is the launch.
fn is_launch(limit: &str, cause: Option<&Finding>) -> bool {
    cause.map_or(limit.starts_with(Limiter::Launch.name()), |cause| cause.rule == "launch-bound")
}

fn by_ceilings(case: &Case, roofline: &Roofline) -> Option<String> {
    let (arithmetic, bandwidth) = (roofline.share_of_arithmetic?, roofline.share_of_bandwidth?);
    let from = roofline.bytes_from;
    if arithmetic.max(bandwidth) >= NEAR_CEILING {
        let named = if arithmetic >= bandwidth { "arithmetic" } else { from };
        return Some(format!("{named}: {} of the ceiling", percent(arithmetic.max(bandwidth))));
    }
    if let Some(limiter) = modelled_limiter(case) {
        return Some(format!("{limiter} (modelled)"));
    }
    let launch = roofline.share_of_launch?;
    if launch >= MUCH_LAUNCH {
        let share = percent(launch);
        return Some(format!("{}: an empty launch is {share} of the time", Limiter::Launch.name()));
    }
    let idle = case.ctas.filter(|blocks| (*blocks as f64) < MAX_BLOCKS * f64::from(case.sms));
    Some(match idle {
        Some(blocks) => format!("idle SMs: {blocks} blocks on {}", case.sms),
        None => {
            let (arithmetic, bandwidth) = (percent(arithmetic), percent(bandwidth));
            format!("not explained: {arithmetic} of arithmetic and {bandwidth} of {from}, so its warps wait")
        }
    })
}

/// Returns what bounds the longest launch, if a virtual GPU has counted it.
fn modelled_limiter(case: &Case) -> Option<String> {
    let launches = &case.profile.as_ref()?.launches;
    let longest = launches.iter().max_by(|a, b| a.modelled_ns.total_cmp(&b.modelled_ns))?;
    Some(longest.limiter.clone())
}

#[cfg(test)]
mod tests {
    use super::super::roofline;
    use super::super::tests::full::full;
    use super::super::tests::{facts, record, report};
    use super::*;

    #[test]
    fn a_launch_that_is_much_of_the_time_is_named_beside_the_cause() {
        let report = report(&record());
        let case = |best_ns: f64, limit: &str| {
            let roofline = Some(roofline::of(&facts("b1h1s128"), Some(best_ns)));
            let best_us = Some(best_ns / 1e3);
            let limited_by = Some(limit.to_owned());
            Case { limited_by, roofline, best_us, ..report.cases[0].clone() }
        };
        let named = |best_ns: f64, limit: &str| in_shares(&case(best_ns, limit), &[]).unwrap();
        assert_eq!(named(2500.0, "idle SMs"), "40% launch (unavoidable); then idle SMs");
        assert_eq!(
            named(2500.0, "launch: an empty launch is 40% of the time"),
            "40% launch (unavoidable); the other 60% not explained"
        );
        assert_eq!(named(6000.0, "idle SMs"), "17% launch (unavoidable); then idle SMs", "the floor");
        assert_eq!(named(60_000.0, "idle SMs"), "idle SMs", "2% of the time");
        let mut by_l2 = case(6000.0, "idle SMs");
        by_l2.roofline.as_mut().unwrap().floor_limiter = "L2";
        assert_eq!(in_shares(&by_l2, &[]).unwrap(), "idle SMs", "the floor is another one");
    }

    /// A gain of 1 is not known, so it may be large.
    #[test]
    fn a_cause_that_accounts_for_next_to_nothing_limits_no_variant() {
        let report = full();
        let template = &report.diagnoses[0];
        let case = Case { iteration: Some(template.iteration), ..report.cases[0].clone() };
        let limits = |gain: f64| {
            let findings = vec![Finding { gain, ..template.findings[0].clone() }];
            let diagnoses = [Diagnosis { case: case.case.clone(), findings, ..template.clone() }];
            first_cause(&case, &diagnoses).is_some()
        };
        assert_eq!([1.0, 1.005, 1.3].map(limits), [true, false, true]);
        let off = |rule, confidence| {
            let off = Finding { rule, confidence, gain: 1.0, model_is_off: true, ..template.findings[0].clone() };
            let diagnoses = [Diagnosis { case: case.case.clone(), findings: vec![off], ..template.clone() }];
            first_cause(&case, &diagnoses).is_some()
        };
        assert!(!off("latency-bound", Confidence::Low), "only the model shows it");
        assert!(off("latency-bound", Confidence::Medium) && off("too-few-blocks", Confidence::Low));
    }

    #[test]
    fn without_a_cause_the_nearest_ceiling_then_launch_then_blocks_limit_a_variant() {
        let report = report(&record());
        let limited = |best_ns: f64, ctas: u64| {
            let roofline = Some(roofline::of(&facts("b1h1s128"), Some(best_ns)));
            of(&Case { ctas: Some(ctas), roofline, ..report.cases[0].clone() }, &[]).unwrap()
        };
        assert_eq!(limited(250.0, 500), "L2: 67% of the ceiling");
        assert_eq!(limited(2000.0, 2), "launch: an empty launch is 50% of the time");
        assert_eq!(limited(50_000.0, 2), "idle SMs: 2 blocks on 58");
        assert_eq!(limited(50_000.0, 500), "not explained: 0.07% of arithmetic and 0.33% of L2, so its warps wait");
    }
}
