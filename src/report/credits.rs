//! Which steps the gains of a session came from. Each step is credited with its own factor.

use std::collections::{BTreeMap, BTreeSet};

use super::contract::{Case, Credit};
use super::pairs::{Sample, samples};
use super::{ReportInput, began, ladder};

/// A step towards the best variant of a case: the family, the kind, and the logarithm of its factor.
type Step = (String, &'static str, f64);

/// Returns the credits, the largest first. Their factors multiply to the geometric mean of the gains of the improved
/// cases over what the session began with.
pub(super) fn of(cases: &[Case], input: &ReportInput<'_>) -> Vec<Credit> {
    let samples = samples(&input.record.iterations);
    let improved: Vec<Vec<Step>> = cases.iter().filter_map(|case| steps(case, input, &samples)).collect();
    let mut sums: BTreeMap<(String, &'static str), (f64, u64)> = BTreeMap::new();
    for steps in &improved {
        let mut credited = BTreeSet::new();
        for (family, kind, ln) in steps {
            let (sum, cases) = sums.entry((family.clone(), kind)).or_default();
            *sum += ln;
            *cases += u64::from(credited.insert((family, kind)));
        }
    }
    let idea = |family: &str| input.families.iter().find(|facts| facts.name == family).map(|facts| facts.about.clone());
    let mut credits: Vec<Credit> = sums
        .into_iter()
        .map(|((family, kind), (sum, cases))| Credit {
            mechanism: if kind == "family" { idea(&family).unwrap_or_default() } else { String::new() },
            family,
            kind,
            factor: (sum / improved.len() as f64).exp(),
            cases,
        })
        .collect();
    credits.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    credits
}

/// Returns the steps of an improved case. Their logarithms add up to that of its gain. None if it did not improve.
fn steps(case: &Case, input: &ReportInput<'_>, samples: &[Sample<'_>]) -> Option<Vec<Step>> {
    let (change, variant) = (case.change.as_ref()?, case.variant.as_ref()?);
    let gain = change.ratio.map(|ratio| ratio.estimate).filter(|gain| change.improved && *gain > 1.0)?;
    if let Some(began) = began::committed(&case.case, &input.record.iterations) {
        let kind = if began.iteration.family == variant.family { "tuning" } else { "family" };
        return Some(vec![(variant.family.clone(), kind, gain.ln())]);
    }
    let ladder = ladder::of_case(case, &[], input, samples)?;
    let mut steps: Vec<Step> =
        ladder.steps.into_iter().filter_map(|step| Some((step.family, step.kind, step.factor?.ln()))).collect();
    // The gain may come from a comparison, while the steps have other times of the same variants.
    let missing = gain.ln() - steps.iter().map(|step| step.2).sum::<f64>();
    steps.last_mut()?.2 += missing;
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, input, iteration, record, report};
    use super::*;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::verdict::Verdict;

    /// 80 us by the first kernel, 70 us by another family, 64 and 50 us after tuning the first one.
    #[test]
    fn each_step_has_its_own_factor_and_all_multiply_to_the_whole() {
        let mut record = record();
        let slower = vec![found("b1h1s128", 70.0, Verdict::Regressed, None, None)];
        let mut other = iteration(IterationId(6), 48, None, Outcome::Measured, slower);
        other.family = "split-k".to_owned();
        record.iterations.insert(1, other);
        let credits = of(&report(&record).cases, &input(&record));
        let told: Vec<String> = credits
            .iter()
            .map(|one| format!("{} {}: {:.2} on {}", one.family, one.kind, one.factor, one.cases))
            .collect();
        assert_eq!(told, ["tiled tuning: 1.40 on 1", "split-k family: 1.14 on 1"]);
        assert!((credits.iter().map(|one| one.factor).product::<f64>() - 1.6).abs() < 1e-9);
    }
}
