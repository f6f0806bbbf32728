//! How much of a lead over the baselines is time that does not depend on the work: it is there on a case with a fraction of it,
//! too.

use super::contract::{Case, Report};
use super::format::{on_cases, percent, us};

/// How many times less work the other case has at least. With half of the work, little can be said.
const LESS_WORK: f64 = 3.0;

/// How many times as long as the fastest baseline another one may take to be compared with, too.
const COMPETES: f64 = 1.25;

/// The share of a lead that is there with less work, too, from which it is called fixed. More than its inverse is another lead.
const MOST: f64 = 0.5;

/// A lead that is mostly there with less work, too.
struct Fixed<'a> {
    case: &'a Case,
    less: &'a Case,
    baseline: &'a str,
    /// The baseline's times on both cases, in microseconds.
    baseline_us: [f64; 2],
    /// The winners' times on both cases, in microseconds.
    ours_us: [f64; 2],
}

impl Fixed<'_> {
    /// Returns by how much the baseline is slower on both cases, in microseconds.
    fn leads_us(&self) -> [f64; 2] {
        [0, 1].map(|case| self.baseline_us[case] - self.ours_us[case])
    }
}

/// Says on how many of the cases that ours wins most of the lead does not depend on the work, with the largest such lead. None
/// if that holds for no case.
pub(super) fn sentence(report: &Report) -> Option<String> {
    let won = report.cases.iter().filter(|case| case.ratio_to_baseline.is_some_and(|ratio| ratio.estimate > 1.0));
    let fixed: Vec<Fixed<'_>> = won.clone().filter_map(|case| of_case(report, case)).collect();
    let most = fixed.iter().max_by(|a, b| a.leads_us()[0].total_cmp(&b.leads_us()[0]))?;
    let Fixed { case, less, baseline, .. } = most;
    let [here, there] = most.leads_us().map(us);
    let work = |of: &Case| of.roofline.as_ref().map(|roofline| roofline.flop);
    let share = percent(work(less)? / work(case)?);
    Some(format!(
        "{} that ours wins, the lead hardly depends on the amount of work, so most of it is probably in what a kernel does once, such \
         as its start and its first loads: `{baseline}` takes {here} us longer than ours on `{}`, and still {there} us longer on \
         `{}`, which has {share} of the work.",
        on_cases(fixed.len(), won.count()),
        case.case,
        less.case,
    ))
}

/// Compares a lead with that over the same baseline on the case with the most work of those with much less. None if there is none, if
/// another baseline is the one to beat there, or if the lead there is another one.
fn of_case<'a>(report: &'a Report, case: &'a Case) -> Option<Fixed<'a>> {
    let baseline = case.baseline.as_ref().filter(|baseline| !baseline.is_initial_kernel)?;
    let timed = |of: &Case| report.baselines.iter().find(|one| one.case == of.case && one.name == baseline.name);
    let work = |of: &Case| of.roofline.as_ref().map(|roofline| roofline.flop);
    let own_work = work(case)?;
    let is_comparable = |other: &&Case| timed(other).zip(timed(case)).is_some_and(|(a, b)| a.regime == b.regime);
    let others = report.cases.iter().filter(is_comparable).filter_map(|other| Some((work(other)?, other)));
    let smaller = others.filter(|(work, _)| work * LESS_WORK <= own_work);
    let (_, less) = smaller.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if timed(less)?.us > COMPETES * less.baseline.as_ref()?.us {
        return None;
    }
    // As the main table has it: of the run in which both took turns.
    let here_us = case.ratio_to_baseline?.estimate * case.best_us?;
    let fixed = Fixed {
        case,
        less,
        baseline: &baseline.name,
        baseline_us: [here_us, timed(less)?.us],
        ours_us: [case.best_us?, less.best_us?],
    };
    let [here, there] = fixed.leads_us();
    (here > 0.0 && (MOST..=1.0 / MOST).contains(&(there / here))).then_some(fixed)
}

#[cfg(test)]
mod tests {
    use super::super::contract::Baseline;
    use super::super::tests::{record_ahead, report};
    use super::*;

    /// The second case has a fraction of the work. The baseline takes 125 us on the first case, and ours 50.
    #[test]
    fn a_lead_that_is_there_with_less_work_is_fixed() {
        let told = |[theirs, fastest]: [f64; 2], ours: f64, less_work: f64| {
            let mut report = report(&record_ahead());
            let [first, second, ..] = &mut *report.cases else { panic!("two cases") };
            let baseline = first.baseline.clone().unwrap();
            second.roofline = first.roofline.clone();
            second.roofline.as_mut().unwrap().flop /= less_work;
            second.best_us = Some(ours);
            second.baseline = Some(Baseline { us: fastest, ..baseline.clone() });
            let name = second.case.clone();
            report.baselines.retain(|one| one.case != name);
            let mut timed = report.baselines.iter().find(|one| one.name == baseline.name).unwrap().clone();
            (timed.case, timed.us) = (name, theirs);
            report.baselines.push(timed);
            sentence(&report)
        };
        insta::assert_snapshot!(told([80.0; 2], 20.0, 4.0).unwrap(), @"On the only case that ours wins, the lead hardly depends on the amount of work, so most of it is probably in what a kernel does once, such as its start and its first loads: `torch sdpa (flash)` takes 75.00 us longer than ours on `b1h1s128`, and still 60.00 us longer on `b8h8s512`, which has 25% of the work.");
        assert_eq!(told([80.0; 2], 60.0, 4.0), None, "with less work, the lead is smaller");
        assert_eq!(told([80.0; 2], 20.0, 2.0), None, "half of the work is not much less");
        assert_eq!(told([80.0, 30.0], 20.0, 4.0), None, "another baseline is faster there");
    }
}
