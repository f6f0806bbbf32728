//! Sentences about the first kernel: what a virtual GPU counted in it, and what its parameters gained.

use crate::domain::tested::CauseStatus;
use crate::report::changes::{joined, named};
use crate::report::contract::{Advantage, Diagnosis, DiagnosisOf, Report, TunedAlone};
use crate::report::format::{percent, times};

/// The share of a modelled time from which its longest chain of dependent instructions is said to bound it.
pub(super) const MIN_CHAIN: f64 = 0.5;

/// Says what the counts show of the first kernel: its chain of dependent instructions, and arithmetic without tensor cores.
pub(super) fn counts(report: &Report) -> Vec<String> {
    let counted = first(report).and_then(|diagnosis| {
        let is_same = |one: &&Advantage| one.case == diagnosis.case && one.before.iteration == diagnosis.iteration;
        report.advantages.iter().find(is_same)
    });
    let Some(counted) = counted else { return Vec::new() };
    [one_chain(counted), without_tensor_cores(counted)].into_iter().flatten().collect()
}

fn first(report: &Report) -> Option<&Diagnosis> {
    report.diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)
}

fn one_chain(counted: &Advantage) -> Option<String> {
    let share = counted.before.chain_share;
    (share >= MIN_CHAIN).then(|| {
        format!(
            "On `{}`, one chain of dependent instructions takes {} of the first kernel's modelled time, and no other work \
             hides it.",
            counted.case,
            percent(share)
        )
    })
}

fn without_tensor_cores(counted: &Advantage) -> Option<String> {
    let share = counted.counts.iter().find(|count| count.name == "tensor_share")?;
    (share.before == 0.0 && share.after > 0.5).then(|| {
        format!(
            "None of the first kernel's arithmetic is on tensor cores, but {} of the winner's on `{}`.",
            percent(share.after),
            counted.case
        )
    })
}

/// Says what the first kernel's parameters gained, how that relates to the causes which experiments confirmed, and what
/// other kernels gained on top.
pub(super) fn tuned_alone(report: &Report) -> Option<String> {
    let tuned = report.tuned_alone.as_ref()?;
    let TunedAlone { case, family, gain, changes, of_changes, of_others } = tuned;
    let about = |parameter: &str| report.parameters.about(family, parameter);
    let names: Vec<String> = changes.iter().map(|change| named(change, None, about(&change.parameter))).collect();
    let alone = of_changes.map(|by| format!("{} made it {} as fast", joined(&names), times(by)));
    let own = match alone {
        Some(alone) if of_changes.map(times) == Some(times(*gain)) => alone,
        Some(alone) => format!("{alone}, and its best configuration is {} as fast", times(*gain)),
        None => format!("other values of its parameters made it {} as fast", times(*gain)),
    };
    let others = times(*of_others);
    let left = first(report)
        .into_iter()
        .flat_map(|one| &one.findings)
        .filter(|found| found.tested.status == CauseStatus::Confirmed && tuned.leaves(found));
    let left: Vec<String> = left
        .map(|found| {
            let by = found.tested.speedup.map(times).unwrap_or_default();
            let parameters: Vec<String> =
                found.tested.changes.iter().map(|one| format!("`{}`", one.parameter)).collect();
            format!(
                " {}, which confirmed `{}`, stayed as it was, so the {by} of that experiment are not part of the {}.",
                parameters.join(" and "),
                found.rule,
                of_changes.map(times).unwrap_or_default()
            )
        })
        .collect();
    Some(format!(
        "**What its parameters gained**, measured on `{case}`: {own}.{} The best other kernel is {others} as fast as its best \
         configuration.",
        left.concat()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::origin::Change;
    use crate::report::tests::full::full;

    /// An experiment without padding confirmed a cause with 1.85×. Other parameters gained 13.49× with the padding.
    #[test]
    fn a_gain_that_leaves_a_confirmed_cause_in_place_says_so() {
        let change = |parameter: &str| Change { parameter: parameter.to_owned(), from: 64, to: 16 };
        let mut report = full();
        let tested = &mut report.diagnoses[0].findings[0].tested;
        (tested.status, tested.speedup, tested.changes) = (CauseStatus::Confirmed, Some(1.85), vec![change("PAD")]);
        let tuned = |gain, changes| TunedAlone {
            case: "b1h1s128".into(),
            family: "tiled".to_owned(),
            gain,
            changes,
            of_changes: Some(13.49),
            of_others: 29.35,
        };
        let mut told = |gain, parameters: &[&str]| {
            report.tuned_alone = Some(tuned(gain, parameters.iter().map(|one| change(one)).collect()));
            tuned_alone(&report).unwrap()
        };
        insta::assert_snapshot!([told(13.49, &["BLOCK", "BR"]), told(20.0, &["BLOCK", "PAD"])].join("\n"), @"
        **What its parameters gained**, measured on `b1h1s128`: `BLOCK` 64 → 16 (threads of a block) and `BR` 64 → 16 made it 13.49× as fast. `PAD`, which confirmed `idle_sms`, stayed as it was, so the 1.85× of that experiment are not part of the 13.49×. The best other kernel is 29.35× as fast as its best configuration.
        **What its parameters gained**, measured on `b1h1s128`: `BLOCK` 64 → 16 (threads of a block) and `PAD` 64 → 16 (padding of a row) made it 13.49× as fast, and its best configuration is 20.00× as fast. The best other kernel is 29.35× as fast as its best configuration.
        ");
    }
}
