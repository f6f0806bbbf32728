//! What the best variant of one case would do on another, by what was timed on that case and on those with about as much
//! work.

use std::collections::HashMap;

use super::contract::{Case, NextExperiment, Variant};
use super::pairs::Sample;
use super::{ReportInput, excluded};
use crate::domain::variant::Params;

/// The most cases from which a ratio is taken: those whose work is nearest. Kernels for short and for long sequences
/// differ by more than an order of magnitude on each other's cases.
const MAX_NEAR: usize = 3;

/// The screened times of a session, by family and case.
type Timed<'a> = HashMap<(&'a str, &'a str), Vec<&'a Sample<'a>>>;

/// Returns the experiments that try the best variant of one case on another, where that is expected to pay.
pub(super) fn candidates(cases: &[Case], input: &ReportInput<'_>, samples: &[Sample<'_>]) -> Vec<NextExperiment> {
    let mut timed: Timed<'_> = HashMap::new();
    for sample in samples {
        timed.entry((sample.family, sample.case)).or_default().push(sample);
    }
    timed.values_mut().for_each(|of| of.sort_by(|a, b| a.ln_ns.total_cmp(&b.ln_ns)));
    let pairs = cases.iter().flat_map(|case| cases.iter().map(move |other| (case, other)));
    pairs.filter_map(|(case, other)| candidate(case, other, cases, input, &timed)).collect()
}

fn candidate(
    case: &Case,
    other: &Case,
    cases: &[Case],
    input: &ReportInput<'_>,
    timed: &Timed<'_>,
) -> Option<NextExperiment> {
    let (own, variant, before_us) = (case.variant.as_ref()?, other.variant.as_ref()?, case.best_us?);
    let is_possible = own.family != variant.family
        && excluded::can_compute(input, &variant.family, &case.case)
        && ln_ns(timed, variant, &case.case).is_none()
        && (input.is_valid)(&variant.family, &variant.params, &case.case);
    if !is_possible {
        return None;
    }
    let thirds: Vec<&Case> = near(case, cases).into_iter().filter(|third| third.case != other.case).collect();
    let expected = expected((case, before_us), own, variant, timed, &thirds)?;
    Some(NextExperiment {
        source: "transfer",
        case: case.case.clone(),
        against: case.iteration,
        family: variant.family.clone(),
        params: variant.params.clone(),
        changes: Vec::new(),
        rule: None,
        of_case: Some(other.case.clone()),
        before_us,
        expected,
    })
}

/// Compares a variant with the fastest configuration of its own family on the case, on cases where both were timed: that
/// one says how fast the family is here. Without any, compares it with the best variant of the case. The case that the
/// variant won is left out, because there it was selected for its time. Returns the expected speed-up over the best variant of
/// the case.
fn expected(
    (case, before_us): (&Case, f64),
    own: &Variant,
    variant: &Variant,
    timed: &Timed<'_>,
    near: &[&Case],
) -> Option<f64> {
    let Some(of_family) = timed.get(&(&*variant.family, &*case.case)) else {
        return gain(variant, timed, near, &|third: &Case| ln_ns(timed, own, &third.case));
    };
    of_family.iter().find_map(|relative| {
        let of_relative = |third: &Case| find(timed, &variant.family, relative.params, &third.case);
        let behind = relative.ln_ns.exp() / 1e3 / before_us;
        Some(gain(variant, timed, near, &of_relative)? / behind)
    })
}

/// Returns how many times as fast a variant is as another one: the median of the nearest cases where both were timed. None
/// without such a case.
fn gain(
    variant: &Variant,
    timed: &Timed<'_>,
    near: &[&Case],
    other_ln_ns: &dyn Fn(&Case) -> Option<f64>,
) -> Option<f64> {
    let both = near.iter().filter_map(|third| {
        let variant_ln_ns = ln_ns(timed, variant, &third.case)?;
        Some((other_ln_ns(third)? - variant_ln_ns).exp())
    });
    let mut gains: Vec<f64> = both.take(MAX_NEAR).collect();
    gains.sort_by(f64::total_cmp);
    gains.get(gains.len() / 2).copied()
}

/// Returns the other cases, those with the most similar work first.
fn near<'a>(case: &Case, cases: &'a [Case]) -> Vec<&'a Case> {
    let work = |case: &Case| case.roofline.as_ref().map_or(0.0, |roofline| roofline.flop.ln());
    let mut others: Vec<&Case> = cases.iter().filter(|other| other.case != case.case).collect();
    others.sort_by(|a, b| (work(a) - work(case)).abs().total_cmp(&(work(b) - work(case)).abs()));
    others
}

fn ln_ns(timed: &Timed<'_>, variant: &Variant, case: &str) -> Option<f64> {
    find(timed, &variant.family, &variant.params, case)
}

fn find(timed: &Timed<'_>, family: &str, params: &Params, case: &str) -> Option<f64> {
    timed.get(&(family, case))?.iter().find(|one| one.params == params).map(|one| one.ln_ns)
}

#[cfg(test)]
mod tests {
    use super::super::pairs::samples;
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::domain::measurement::evaluation::Outcome;
    use crate::domain::measurement::verdict::Verdict;
    use crate::domain::record::{IterationRecord, SessionRecord};
    use crate::report::tests::{found, input, iteration, record, report};

    fn split_k(id: i64, block: i64, times_us: &[(&str, f64)]) -> IterationRecord {
        let start = |(case, us): &(&str, f64)| {
            let verdict = if *case == "b8h8s512" { Verdict::Improved } else { Verdict::Regressed };
            found(case, *us, verdict, Some(2.0), None)
        };
        let measured = times_us.iter().map(start).collect();
        let family = "split-k".to_owned();
        IterationRecord { family, ..iteration(IterationId(id), block, None, Outcome::Measured, measured) }
    }

    /// `tiled` wins `b1h1s128` in 50 us, and took 20 us on `b16h8s512`. `split-k` wins `b8h8s512`, and took 10 us there.
    fn raced(here: &[IterationRecord]) -> SessionRecord {
        let mut record = record();
        record.iterations[2].measurements.push(found("b16h8s512", 20.0, Verdict::Regressed, None, None));
        record.iterations.push(split_k(6, 32, &[("b8h8s512", 200.0), ("b16h8s512", 10.0)]));
        record.iterations.extend_from_slice(here);
        record
    }

    fn told(record: &SessionRecord) -> Vec<String> {
        let found = candidates(&report(record).cases, &input(record), &samples(&record.iterations));
        let of_case = found.into_iter().filter(|one| &*one.case == "b1h1s128");
        of_case.map(|one| format!("{:.1} {} of {}", one.expected, one.family, one.of_case.unwrap())).collect()
    }

    #[test]
    fn a_family_that_was_not_timed_on_a_case_is_judged_by_third_cases() {
        assert_eq!(told(&raced(&[])), ["2.0 split-k of b8h8s512"]);
    }

    /// Another configuration of `split-k` took 12.5 us where the best one took 10 us, so it gains 1.25x.
    #[test]
    fn a_family_that_was_slower_on_a_case_is_judged_by_its_time_there() {
        let slower = split_k(7, 48, &[("b1h1s128", 100.0), ("b16h8s512", 12.5)]);
        assert_eq!(told(&raced(&[slower])), ["0.6 split-k of b8h8s512"], "1.25x of a family that takes twice as long");
        let near = split_k(7, 48, &[("b1h1s128", 55.0), ("b16h8s512", 12.5)]);
        assert_eq!(told(&raced(&[near])), ["1.1 split-k of b8h8s512"]);
    }
}
