//! What the best variant of one case would do on another, by what was timed on that case and on those with about as much
//! work.

use std::collections::HashMap;

use super::candidate::Candidate;
use super::contract::{Case, Configuration, Experiment, Variant};
use super::format::{counted, either, times};
use super::next_change::MIN_GAIN;
use super::pairs::Sample;
use super::{ReportInput, excluded};
use crate::domain::variant::Params;

/// The most cases from which a ratio is taken: those whose work is nearest. Kernels for short and for long sequences
/// differ by more than an order of magnitude on each other's cases.
const MAX_NEAR: usize = 3;

/// The screened times of a session, by family and case.
type Timed<'a> = HashMap<(&'a str, &'a str), Vec<&'a Sample<'a>>>;

/// Returns the experiments that try the best variant of one case on another, where that is expected to pay.
pub(super) fn candidates(cases: &[Case], input: &ReportInput<'_>, samples: &[Sample<'_>]) -> Vec<Candidate> {
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
) -> Option<Candidate> {
    let (own, variant, before_us) = (case.variant.as_ref()?, other.variant.as_ref()?, case.best_us?);
    let is_possible = own.family != variant.family
        && excluded::can_compute(input, &variant.family, &case.case)
        && ln_ns(timed, variant, &case.case).is_none()
        && (input.is_valid)(&variant.family, &variant.params, &case.case);
    if !is_possible {
        return None;
    }
    let thirds: Vec<&Case> = near(case, cases).into_iter().filter(|third| third.case != other.case).collect();
    let known = known((case, before_us), own, variant, timed, &thirds)?;
    let [least, middle, most] = known.gains;
    let experiment = Experiment {
        kind: "transfer",
        case: case.case.clone(),
        change: format!("use the best variant of `{}` (`{}`)", other.case, variant.family),
        because: known.because,
        configuration: Some(Configuration { family: variant.family.clone(), params: variant.params.clone() }),
        before_us,
        after_us: Some([before_us / most, before_us / least]),
        expected_from: "these ratios".to_owned(),
    };
    (middle >= MIN_GAIN).then_some(Candidate { gain: middle, experiment })
}

/// What is known of a configuration that was not timed on a case.
struct Known {
    /// The expected speed-up over the best variant of the case: least, median and most.
    gains: [f64; 3],
    because: String,
}

/// Compares a variant with the fastest configuration of its own family on the case, on cases where both were timed: that
/// one says how fast the family is here. Without any, compares it with the best variant of the case. The case that the
/// variant won is left out, because there it was selected for its time.
fn known(
    (case, before_us): (&Case, f64),
    own: &Variant,
    variant: &Variant,
    timed: &Timed<'_>,
    near: &[&Case],
) -> Option<Known> {
    let Some(of_family) = timed.get(&(&*variant.family, &*case.case)) else {
        let of_own = |third: &Case| ln_ns(timed, own, &third.case);
        let faster = gains(variant, timed, near, &of_own)?;
        let because = format!(
            "`{}` was not timed on this case; where both were timed, it took {} as long as the best variant of this case ({})",
            variant.family,
            shares(&faster),
            nearest(&faster)
        );
        return Some(Known { gains: ends(&faster), because });
    };
    of_family.iter().find_map(|relative| {
        let of_relative = |third: &Case| find(timed, &variant.family, relative.params, &third.case);
        let faster = gains(variant, timed, near, &of_relative)?;
        let behind = relative.ln_ns.exp() / 1e3 / before_us;
        let because = format!(
            "another configuration of `{}` took {} as long as the best variant here; where both were timed, this one took \
             {} as long as that one ({})",
            variant.family,
            times(behind),
            shares(&faster),
            nearest(&faster)
        );
        Some(Known { gains: ends(&faster).map(|gain| gain / behind), because })
    })
}

/// Returns how many times as fast a variant is as another one, on the nearest cases where both were timed, in ascending
/// order. None without such a case.
fn gains(
    variant: &Variant,
    timed: &Timed<'_>,
    near: &[&Case],
    other_ln_ns: &dyn Fn(&Case) -> Option<f64>,
) -> Option<Vec<f64>> {
    let both = near.iter().filter_map(|third| {
        let variant_ln_ns = ln_ns(timed, variant, &third.case)?;
        Some((other_ln_ns(third)? - variant_ln_ns).exp())
    });
    let mut gains: Vec<f64> = both.take(MAX_NEAR).collect();
    gains.sort_by(f64::total_cmp);
    (!gains.is_empty()).then_some(gains)
}

/// Returns the other cases, those with the most similar work first.
fn near<'a>(case: &Case, cases: &'a [Case]) -> Vec<&'a Case> {
    let work = |case: &Case| case.roofline.as_ref().map_or(0.0, |roofline| roofline.flop.ln());
    let mut others: Vec<&Case> = cases.iter().filter(|other| other.case != case.case).collect();
    others.sort_by(|a, b| (work(a) - work(case)).abs().total_cmp(&(work(b) - work(case)).abs()));
    others
}

fn ends(gains: &[f64]) -> [f64; 3] {
    [gains[0], gains[gains.len() / 2], gains[gains.len() - 1]]
}

/// Formats gains as the shares of the time that are left.
fn shares(gains: &[f64]) -> String {
    let [least, _, most] = ends(gains);
    either(times(1.0 / most), times(1.0 / least))
}

fn nearest(gains: &[f64]) -> String {
    match gains.len() {
        1 => "1 case".to_owned(),
        count => format!("the {} nearest in work", counted(count, "case")),
    }
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
    use super::super::tests::{found, input, iteration, record, report};
    use super::*;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::record::{IterationRecord, SessionRecord};
    use crate::domain::verdict::Verdict;

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
        let of_case = found.into_iter().filter(|one| &*one.experiment.case == "b1h1s128");
        of_case.map(|one| format!("{:.2}: {}", one.gain, one.experiment.because)).collect()
    }

    #[test]
    fn a_family_that_was_not_timed_on_a_case_is_judged_by_third_cases() {
        insta::assert_snapshot!(told(&raced(&[])).join("\n"), @"2.00: `split-k` was not timed on this case; where both were timed, it took 0.50× as long as the best variant of this case (1 case)");
    }

    /// Another configuration of `split-k` took 12.5 us where the best one took 10 us, so it gains 1.25x.
    #[test]
    fn a_family_that_was_slower_on_a_case_is_judged_by_its_time_there() {
        let slower = split_k(7, 48, &[("b1h1s128", 100.0), ("b16h8s512", 12.5)]);
        assert_eq!(told(&raced(&[slower])), Vec::<String>::new(), "1.25x of a family that takes twice as long");
        let near = split_k(7, 48, &[("b1h1s128", 55.0), ("b16h8s512", 12.5)]);
        insta::assert_snapshot!(told(&raced(&[near])).join("\n"), @"1.14: another configuration of `split-k` took 1.10× as long as the best variant here; where both were timed, this one took 0.80× as long as that one (1 case)");
    }
}
