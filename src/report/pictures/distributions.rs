//! The samples behind the figures of each case.

use super::evenly;
use crate::domain::comparison::{Participant, Role};
use crate::domain::record::SessionRecord;
use crate::domain::sampling::MIN_SAMPLES;
use crate::domain::timing::Timing;
use crate::report::contract::{Distribution, Sampled};
use crate::report::standing::{self, DecidingComparison, Standing};

/// The most samples to show of one kernel.
const MAX_SHOWN: usize = 60;

/// The quantiles to tell.
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// Returns the distributions of the cases whose best variant was sampled often enough. A modelled time has none.
pub(in crate::report) fn of(record: &SessionRecord) -> Vec<Distribution> {
    record.session.cases.iter().filter_map(|case| of_case(case, record)).collect()
}

fn of_case(case: &str, record: &SessionRecord) -> Option<Distribution> {
    let standing = standing::of(case, record)?;
    let (from, sampled) = match standing.deciding {
        Some(deciding) => (if deciding.is_final { "final" } else { "confirmation" }, in_turns(&deciding)),
        None => ("apart", apart(case, &standing, record)),
    };
    let is_known = sampled.first().is_some_and(|best| best.role == "best");
    is_known.then(|| Distribution { case: case.into(), from, sampled })
}

/// Returns the participants of a comparison, the best variant first.
fn in_turns(deciding: &DecidingComparison<'_>) -> Vec<Sampled> {
    let is_best = |one: &Participant| std::ptr::eq(one, deciding.best);
    let role = |one: &Participant| match one.role {
        Role::Control if is_best_control(deciding, one) => "control",
        // The control of a variant that is not the best one any more tells nothing new.
        Role::Control => "",
        role => role.name(),
    };
    let best = sampled("best", &deciding.best.name, &deciding.best.timing);
    let others = deciding.comparison.participants.iter().filter(|one| !is_best(one) && !role(one).is_empty());
    best.into_iter().chain(others.filter_map(|one| sampled(role(one), &one.name, &one.timing))).collect()
}

fn is_best_control(deciding: &DecidingComparison<'_>, control: &Participant) -> bool {
    control.iteration == deciding.best.iteration
}

/// Returns the best variant and the baselines, which were timed one after the other.
fn apart(case: &str, standing: &Standing<'_>, record: &SessionRecord) -> Vec<Sampled> {
    let iteration = standing.iteration;
    let best = sampled("best", &format!("{} {}", iteration.family, iteration.hash.short()), standing.timing);
    let baselines = record.baselines.iter().filter(|baseline| baseline.case == case);
    best.into_iter().chain(baselines.filter_map(|one| sampled("baseline", &one.name, &one.timing))).collect()
}

fn sampled(role: &'static str, name: &str, timing: &Timing) -> Option<Sampled> {
    let samples = &timing.samples_ns;
    if samples.len() < MIN_SAMPLES {
        return None;
    }
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    let last = (sorted.len() - 1) as f64;
    let at = |share: f64| sorted[(share * last).round() as usize] / 1e3;
    let some_us = evenly(samples, MAX_SHOWN).into_iter().map(|ns| ns / 1e3).collect();
    let (name, samples) = (name.to_owned(), samples.len() as u64);
    Some(Sampled { role, name, samples, quantiles_us: QUANTILES.map(at), some_us })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn a_time_has_the_quantiles_of_its_samples() {
        let samples_ns: Vec<f64> = (1..=101).rev().map(|n| f64::from(n) * 1e3).collect();
        let timing = Timing::of(samples_ns, 1).unwrap();
        let told = sampled("best", "a kernel", &timing).unwrap();
        assert_eq!(told.quantiles_us, [6.0, 26.0, 51.0, 76.0, 96.0]);
        assert_eq!((told.samples, told.some_us.len()), (101, MAX_SHOWN));
        assert_eq!((told.some_us[0], told.some_us[MAX_SHOWN - 1]), (101.0, 1.0), "in the order of measurement");
        assert_eq!(sampled("best", "a model", &Timing::modelled(1e3)), None, "one value is no distribution");
    }

    #[test]
    fn a_best_variant_without_a_comparison_stands_beside_the_baselines() {
        let told = of(&record());
        let roles: Vec<_> = told[0].sampled.iter().map(|one| one.role).collect();
        assert_eq!((told[0].from, roles), ("apart", vec!["best", "baseline"]));
    }
}
