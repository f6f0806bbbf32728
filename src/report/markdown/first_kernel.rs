//! Sentences about the first kernel: what a virtual GPU counted in it, and what its parameters gained.

use super::paths;
use crate::domain::origin::Change;
use crate::report::changes::{listed, named};
use crate::report::contract::{Advantage, ConfigurationPath, Report, TunedAlone};
use crate::report::format::{percent, times, us};
use crate::report::roofline;

/// The share of a modelled time from which its longest chain of dependent instructions is said to bound it.
pub(super) const MIN_CHAIN: f64 = 0.5;

/// The least factor that is told of a distance to the floor.
const MIN_FACTOR: f64 = 1.1;

/// Says what the counts show of the first kernel: its chain of dependent instructions, and arithmetic without tensor cores.
pub(super) fn counts(report: &Report) -> Vec<String> {
    let chain = report.first_advantage.as_ref().and_then(one_chain);
    [chain, without_tensor_cores(report)].into_iter().flatten().collect()
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

/// Says that the first kernel does without tensor cores, if the winner does not.
pub(in crate::report) fn without_tensor_cores(report: &Report) -> Option<String> {
    let counted = report.first_advantage.as_ref()?;
    let share = counted.counts.iter().find(|count| count.name == "tensor_share")?;
    (share.before == 0.0 && share.after > 0.5).then(|| {
        format!(
            "None of the first kernel's arithmetic is on tensor cores, but {} of the winner's on `{}`.",
            percent(share.after),
            counted.case
        )
    })
}

/// Divides the distance of a first kernel to the floor into what tensor cores are worth at their peak, and what is lost on the
/// FMA pipes, the larger part first. None if the kernel is not slower than their peak, or if the floor is as high.
pub(in crate::report) fn on_fma_pipes(report: &Report, case: &str) -> Option<String> {
    let case = report.cases.iter().find(|one| one.case == case)?;
    let (first_us, floor_us, fma_us) = (roofline::first_us(case)?, case.floor_us?, case.roofline.as_ref()?.fma_us?);
    let (by_waiting, by_tensor_cores) = (first_us / fma_us, fma_us / floor_us);
    if by_waiting < MIN_FACTOR {
        return None;
    }
    let busy = format!("its floating-point (FMA) pipes work {} of the time", percent(fma_us / first_us));
    if by_tensor_cores < MIN_FACTOR {
        return Some(format!("Mostly it waits: {busy}."));
    }
    let waiting = format!("{busy}, so without waiting they would need {} us", us(fma_us));
    let floor = format!("with them, the floor is {} lower", times(by_tensor_cores));
    let over_winner = case.best_us.map(|best_us| fma_us / best_us).filter(|over| *over > 1.0);
    let over_winner =
        over_winner.map(|over| format!(", still {} the winner's time: it needs tensor cores, too", times(over)));
    let still =
        format!("At full speed, they would do this work in {} us{}.", us(fma_us), over_winner.unwrap_or_default());
    Some(match by_waiting >= by_tensor_cores {
        true => format!("Mostly it waits: {busy}. {still}"),
        false => {
            format!("Above all, it does not use tensor cores: {floor} than without them. It also waits: {waiting}.")
        }
    })
}

/// Says what the parameters of the first kernel gained, and what other kernels gained on top: along the path that the session
/// walked, or else by its best configuration.
pub(super) fn tuned_alone(report: &Report) -> Option<String> {
    paths::of_first(report).and_then(|path| walked(report, path)).or_else(|| best_alone(report))
}

/// Introduces the steps of a path.
fn walked(report: &Report, path: &ConfigurationPath) -> Option<String> {
    let left = paths::left(report, path)?;
    let others =
        report.tuned_alone.as_ref().map(|_| format!(" The best other kernel is {} as fast again.", times(left)));
    let order = match path.steps.len() {
        0 | 1 => format!(" ({})", paths::iterations(path)),
        _ => format!(
            " one after another ({}), the one that was expected to gain most first. Another order would divide the {} otherwise",
            paths::iterations(path),
            times(path.gain())
        ),
    };
    let (source, others) = (report.session.time_source.name(), others.unwrap_or_default());
    Some(format!("**What its parameters gained**, {source} on `{}`{order}.{others}", path.case))
}

/// Says what the best configuration of the first kernel changes, and which experiments with one parameter that includes.
fn best_alone(report: &Report) -> Option<String> {
    let tuned = report.tuned_alone.as_ref()?;
    let TunedAlone { case, family, gain, iteration, changes, of_others } = tuned;
    let about = |parameter: &str| report.parameters.about(family, parameter);
    let names: Vec<String> = changes.iter().map(|change| named(change, None, about(&change.parameter))).collect();
    let changed = listed(&names).map(|names| format!("changes {names}, and ")).unwrap_or_default();
    Some(format!(
        "**What its parameters gained**, measured on `{case}`: its best configuration (iteration {iteration}) {changed}is {} \
         as fast.{} The best other kernel is {} as fast again.",
        times(*gain),
        experiments(report, tuned).unwrap_or_default(),
        times(*of_others)
    ))
}

/// Says which of the experiments above that changed one parameter and were faster are a part of the best configuration.
fn experiments(report: &Report, tuned: &TunedAlone) -> Option<String> {
    let mut alone: Vec<(&Change, f64)> = Vec::new();
    for tested in report.initial_diagnosis()?.findings.iter().map(|found| &found.tested) {
        let is_here = tested.case.as_ref().is_some_and(|case| *case == tuned.case);
        if let ([change], Some(by)) = (&*tested.changes, tested.speedup.filter(|by| is_here && *by > 1.0))
            && alone.iter().all(|(other, _)| *other != change)
        {
            alone.push((change, by));
        }
    }
    let (inside, outside): (Vec<_>, Vec<_>) = alone.into_iter().partition(|(change, _)| tuned.includes(change));
    let name = |of: &[(&Change, f64)]| {
        let names = of.iter().map(|(change, by)| format!("`{}` ({})", change.parameter, times(*by)));
        listed(&names.collect::<Vec<_>>())
    };
    Some(match (name(&inside), name(&outside)) {
        (None, None) => return None,
        (Some(inside), None) => format!(" Of the experiments with one parameter, this includes {inside}."),
        (None, Some(outside)) => format!(" Of the experiments with one parameter, this does not include {outside}."),
        (Some(inside), Some(outside)) => {
            format!(" Of the experiments with one parameter, this includes {inside}, but not {outside}.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::report::tests::full::full;

    /// An experiment with padding gained 1.85x. The best configuration pads, or does not.
    #[test]
    fn the_best_configuration_says_which_experiments_it_includes() {
        let change = |parameter: &str, to: i64| Change { parameter: parameter.to_owned(), from: 64, to };
        let mut report = full();
        let tested = &mut report.diagnoses[0].findings[0].tested;
        (tested.speedup, tested.changes) = (Some(1.85), vec![change("PAD", 32)]);
        tested.case = Some("b1h1s128".into());
        let mut told = |changes: &[Change]| {
            report.tuned_alone = Some(TunedAlone {
                case: "b1h1s128".into(),
                family: "tiled".to_owned(),
                gain: 20.0,
                iteration: IterationId(7),
                changes: changes.to_vec(),
                of_others: 29.35,
            });
            tuned_alone(&report).unwrap()
        };
        let [block, pad, less] = [change("BLOCK", 16), change("PAD", 16), change("PAD", 48)];
        insta::assert_snapshot!([told(&[block.clone(), pad]), told(&[block]), told(&[less])].join("\n"), @"
        **What its parameters gained**, measured on `b1h1s128`: its best configuration (iteration 7) changes `BLOCK` 64 → 16 (threads of a block) and `PAD` 64 → 16 (padding of a row), and is 20.00× as fast. Of the experiments with one parameter, this includes `PAD` (1.85×). The best other kernel is 29.35× as fast again.
        **What its parameters gained**, measured on `b1h1s128`: its best configuration (iteration 7) changes `BLOCK` 64 → 16 (threads of a block), and is 20.00× as fast. Of the experiments with one parameter, this does not include `PAD` (1.85×). The best other kernel is 29.35× as fast again.
        **What its parameters gained**, measured on `b1h1s128`: its best configuration (iteration 7) changes `PAD` 64 → 48 (padding of a row), and is 20.00× as fast. Of the experiments with one parameter, this does not include `PAD` (1.85×). The best other kernel is 29.35× as fast again.
        ");
    }

    /// FMA pipes at their peak need 0.53 us of the first kernel's 80 us, and the floor is 0.1 us.
    #[test]
    fn the_distance_to_the_floor_is_divided_at_the_peak_of_the_fma_pipes() {
        let mut report = full();
        let launch_bound = on_fma_pipes(&report, "b1h1s128").unwrap();
        assert_eq!(launch_bound, "Mostly it waits: its floating-point (FMA) pipes work 0.67% of the time.");
        report.cases[0].floor_us = Some(0.1);
        insta::assert_snapshot!(on_fma_pipes(&report, "b1h1s128").unwrap(), @"Mostly it waits: its floating-point (FMA) pipes work 0.67% of the time. At full speed, they would do this work in 0.533 us.");
        report.cases[0].best_us = Some(0.2);
        assert!(
            on_fma_pipes(&report, "b1h1s128").unwrap().contains("0.533 us, still 2.67× the winner's time: it needs")
        );
    }
}
