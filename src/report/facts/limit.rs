//! What limits the best variant of a case.

use super::contract::{Case, Diagnosed, Diagnosis, Limit, Roofline};
use super::roofline::NEAR_PEAK;
use crate::domain::proposal::finding::{CauseStatus, Confidence};

/// The share of a time from which an empty launch explains much of it.
const MUCH_LAUNCH: f64 = 0.25;

/// The possible gain up to which a cause accounts for next to nothing.
const MIN_GAIN: f64 = 1.02;

/// Blocks for each multiprocessor from which none of them counts as idle.
const MAX_BLOCKS: f64 = 0.8;

/// Returns what limits the best variant of a case: its most important cause of lost time, else the nearest peak, the
/// launch or idle multiprocessors. None without a time.
pub(super) fn of(case: &Case, diagnoses: &[Diagnosis]) -> Option<Limit> {
    let of_cause = |cause: &Diagnosed| Limit::Cause { rule: cause.finding.rule, gain: cause.finding.gain };
    first_cause(case, diagnoses).map(of_cause).or_else(|| by_peaks(case, case.roofline.as_ref()?))
}

/// Returns the most important cause of lost time in the best variant of a case that no experiment has refuted. None if the
/// diagnosis found none that accounts for more than next to nothing.
pub(super) fn first_cause<'a>(case: &Case, diagnoses: &'a [Diagnosis]) -> Option<&'a Diagnosed> {
    causes(case, diagnoses).find(|cause| !is_negligible(cause))
}

/// Returns the causes of lost time in the best variant of a case that no experiment has refuted, the most important first.
pub(super) fn causes<'a>(case: &Case, diagnoses: &'a [Diagnosis]) -> impl Iterator<Item = &'a Diagnosed> {
    let is_own = |one: &&Diagnosis| one.case == case.case && Some(one.iteration) == case.iteration;
    let own = diagnoses.iter().find(is_own);
    own.into_iter().flat_map(|diagnosis| &diagnosis.findings).filter(|one| is_open(one))
}

/// Tells whether no experiment has refuted a cause.
pub(super) fn is_open(cause: &Diagnosed) -> bool {
    cause.finding.tested.status != CauseStatus::NotConfirmed
}

/// Tells whether a cause accounts for next to nothing, by its estimate, or whether only a model shows it that is far off. An
/// experiment that gained more counts more. That blocks are few, the launch plan shows.
fn is_negligible(cause: &Diagnosed) -> bool {
    let found = &cause.finding;
    let is_small = found.gain > 1.0 && found.gain < MIN_GAIN && found.rule != "at-the-floor";
    let is_modelled = found.model_is_off && found.confidence == Confidence::Low && found.rule != "too-few-blocks";
    (is_small || is_modelled) && !matches!(found.tested.status, CauseStatus::Confirmed | CauseStatus::Supported)
}

/// Returns the case whose first cause promises the most by gain and confidence. A floor that is near is no cause that could
/// be removed. A cause with one indirect sign counts only without better ones.
pub(super) fn most_to_gain<'a>(cases: &'a [Case], diagnoses: &[Diagnosis]) -> Option<&'a Case> {
    let causes = cases.iter().filter_map(|case| Some((case, first_cause(case, diagnoses)?)));
    let open = causes.filter(|(_, cause)| cause.finding.rule != "at-the-floor");
    let rank = |cause: &Diagnosed| {
        let found = &cause.finding;
        (u8::from(found.confidence > Confidence::Low && found.gain > 1.0), found.weight())
    };
    let most = open.reduce(|a, b| {
        let (first, second) = (rank(a.1), rank(b.1));
        if second.0 > first.0 || (second.0 == first.0 && second.1 > first.1) { b } else { a }
    });
    most.map(|(case, _)| case)
}

fn by_peaks(case: &Case, roofline: &Roofline) -> Option<Limit> {
    let (arithmetic, bandwidth) = (roofline.share_of_arithmetic?, roofline.share_of_bandwidth?);
    if arithmetic.max(bandwidth) >= NEAR_PEAK {
        let of = if arithmetic >= bandwidth { "arithmetic" } else { roofline.bytes_from };
        return Some(Limit::Ceiling { of, share: arithmetic.max(bandwidth) });
    }
    let launch = roofline.share_of_launch?;
    if launch >= MUCH_LAUNCH {
        return Some(Limit::Launch { share: launch });
    }
    let idle = case.ctas.filter(|blocks| (*blocks as f64) < MAX_BLOCKS * f64::from(case.sms));
    Some(idle.map_or(Limit::Unknown, |blocks| Limit::IdleSms { blocks }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::proposal::finding::CauseTest;
    use crate::report::tests::{finding, record, report, report_with};

    #[test]
    fn a_refuted_cause_and_one_that_accounts_for_nothing_limit_no_variant() {
        let record = record();
        let limit = |findings: &[_]| report_with(&record, findings).cases[0].limit;
        assert_eq!(limit(&[]), Some(Limit::IdleSms { blocks: 2 }));
        let first = finding("b1h1s128", 3, "spills", 1.5);
        assert_eq!(limit(std::slice::from_ref(&first)), Some(Limit::Cause { rule: "spills", gain: 1.5 }));
        let mut refuted = first.clone();
        refuted.tested = CauseTest { status: CauseStatus::NotConfirmed, ..refuted.tested };
        let second = finding("b1h1s128", 3, "stalls", 1.2);
        assert_eq!(limit(&[refuted, second]), Some(Limit::Cause { rule: "stalls", gain: 1.2 }));
        assert_eq!(limit(&[finding("b1h1s128", 3, "spills", 1.01)]), Some(Limit::IdleSms { blocks: 2 }));
    }

    #[test]
    fn a_variant_near_a_peak_is_limited_by_it() {
        let mut case = report(&record()).cases[0].clone();
        let limit = |case: &Case| of(case, &[]);
        let roofline = case.roofline.as_mut().unwrap();
        (roofline.share_of_bandwidth, roofline.share_of_launch) = (Some(0.7), Some(0.3));
        assert_eq!(limit(&case), Some(Limit::Ceiling { of: "L2", share: 0.7 }));
        case.roofline.as_mut().unwrap().share_of_bandwidth = Some(0.1);
        assert_eq!(limit(&case), Some(Limit::Launch { share: 0.3 }));
        case.roofline.as_mut().unwrap().share_of_launch = Some(0.1);
        case.ctas = Some(400);
        assert_eq!(limit(&case), Some(Limit::Unknown));
        case.roofline = None;
        assert_eq!(limit(&case), None);
    }
}
