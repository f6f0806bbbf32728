//! How the best variant of a case came about: from the first one over those that were the fastest in turn.

use super::began;
use super::changes::{joined_of, named};
use super::contract::{Case, FamilyTime, Ladder, LadderStep, LeftBehind, ParameterEffect, Rivals};
use super::format::{of_two_runs, us};
use super::pairs::{Sample, samples};
use super::rungs::{self, MIN_STEP, Rung};
use super::{FamilyFacts, ReportInput};
use crate::domain::origin::Change;

/// The most ladders of a report.
const MAX_LADDERS: usize = 2;

/// Returns the ladders of the cases that gained most over their first variant, each with another family at its end.
pub(super) fn of(
    cases: &[Case],
    effects: &[ParameterEffect],
    rivals: &[Rivals],
    input: &ReportInput<'_>,
) -> Vec<Ladder> {
    let samples = samples(&input.record.iterations);
    let gain = |case: &Case| case.ratio_to_start.map_or(1.0, |ratio| ratio.estimate);
    let mut by_gain: Vec<&Case> = cases.iter().filter(|case| gain(case) > MIN_STEP).collect();
    by_gain.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let mut families = Vec::new();
    let mut ladders = Vec::new();
    for case in by_gain {
        let Some(variant) = case.variant.as_ref().filter(|one| !families.contains(&one.family)) else { continue };
        families.push(variant.family.clone());
        ladders.extend(of_case(case, effects, input, &samples).map(|ladder| over_best(ladder, rivals)));
        if ladders.len() == MAX_LADDERS {
            break;
        }
    }
    ladders
}

/// Compares each switch of the family with the best variant that the family left behind has in the session. The step before
/// may not have been tuned yet.
fn over_best(mut ladder: Ladder, rivals: &[Rivals]) -> Ladder {
    let families = rivals.iter().find(|one| one.case == ladder.case).map(|one| &*one.families).unwrap_or_default();
    for place in 1..ladder.steps.len() {
        let (before, step) = (&ladder.steps[place - 1], &ladder.steps[place]);
        let best = families.iter().find(|one| one.family == before.family && one.family != step.family);
        // A family that was faster than this step later comes back.
        let is_tuned_later = |best: &&FamilyTime| best.us * MIN_STEP < before.us && best.us > step.us;
        ladder.steps[place].left_behind = best.filter(is_tuned_later).map(|best| LeftBehind {
            family: best.family.clone(),
            us: best.us,
            factor: best.us / step.us,
        });
    }
    ladder
}

/// Returns the steps of a case from its first variant to its best one. None without a correct variant. The effects of
/// single parameters say what each of them contributes to a step.
pub(super) fn of_case(
    case: &Case,
    effects: &[ParameterEffect],
    input: &ReportInput<'_>,
    samples: &[Sample<'_>],
) -> Option<Ladder> {
    let (variant, best_us) = (case.variant.as_ref()?, case.best_us?);
    let start = began::first(&case.case, &input.record.iterations)?;
    let committed = began::committed(&case.case, &input.record.iterations).map(|one| one.iteration);
    let committed = committed.map(|one| (&*one.family, &one.params));
    let is_committed = |variant| committed == Some(variant);
    let rung =
        |(family, params), us| Rung { family, params, us, committed: is_committed((family, params)), variants: 1 };
    let first = rung((&*start.iteration.family, &start.iteration.params), start.timing.median_ns / 1e3);
    let winner = rung((&*variant.family, &variant.params), best_us);
    let rungs = rungs::of_case(&case.case, (Rung { committed: false, ..first }, winner), samples, committed);
    let steps = (1..=rungs.len()).filter_map(|count| step(&rungs[..count], count == rungs.len(), case, effects, input));
    Some(Ladder { case: case.case.clone(), steps: steps.collect(), floor_us: case.floor_us })
}

/// Returns the step to the last of some rungs. A family that has none before it is new, and its idea is the mechanism. Any
/// other step is told by what changed since the last rung of its family.
fn step(
    rungs: &[Rung<'_>],
    is_winner: bool,
    case: &Case,
    effects: &[ParameterEffect],
    input: &ReportInput<'_>,
) -> Option<LadderStep> {
    let (rung, before) = rungs.split_last()?;
    let family = rung.family;
    let facts = input.families.iter().find(|facts| facts.name == family);
    let (last, earlier) = (before.last(), before.iter().rfind(|one| one.family == family));
    let is_next = last.is_some_and(|last| last.family == family);
    let in_steps = if rung.variants > 1 { format!(" in {} steps", rung.variants) } else { String::new() };
    let what = match (last, earlier) {
        (None, _) => format!("the first kernel, `{family}`"),
        _ if is_winner => format!("`{family}`, the winner"),
        (_, None) => format!("`{family}` becomes the fastest"),
        _ if is_next => format!("`{family}`, tuned{in_steps}"),
        _ => format!("`{family}` is the fastest again{}", in_steps.replace(" in", ", tuned in")),
    };
    let mechanism = match earlier {
        Some(earlier) => changes(earlier, rung, is_next, Worth { family, case: &case.case, effects }, facts),
        None => facts.map_or_else(String::new, |facts| facts.about.clone()),
    };
    let kind = match (last, earlier) {
        (None, _) => "start",
        (_, None) => "family",
        _ => "tuning",
    };
    let factor = last.map(|last| last.us / rung.us);
    let Rung { us, committed, .. } = *rung;
    Some(LadderStep { what, kind, family: family.to_owned(), us, factor, mechanism, committed, left_behind: None })
}

/// What the values of a family's parameters are worth on a case.
#[derive(Clone, Copy)]
struct Worth<'a> {
    family: &'a str,
    case: &'a str,
    effects: &'a [ParameterEffect],
}

impl Worth<'_> {
    /// Returns the median effect of a change on the case, with all else equal. None if it was not measured.
    fn of(&self, Change { parameter, from, to }: &Change) -> Option<f64> {
        // The effects are those of changes of the value that the family's best configurations have most often.
        let own = || self.effects.iter().filter(|one| one.family == self.family && one.parameter == *parameter);
        let value = |value: i64| match own().next()?.from == value {
            true => Some(1.0),
            false => {
                let effect = own().find(|one| one.to == value)?;
                Some(effect.by_case.iter().find(|of_case| *of_case.case == *self.case)?.effect)
            }
        };
        Some(value(*to)? / value(*from)?)
    }
}

/// Lists the parameters that changed between two rungs, those that help most first, with what they do. Those that are worth
/// nothing alone are only counted where others are named. If the rungs do not follow each other, says which one the changes are
/// from.
fn changes(from: &Rung<'_>, to: &Rung<'_>, is_next: bool, worth: Worth<'_>, facts: Option<&FamilyFacts>) -> String {
    let mut changes: Vec<(Option<f64>, Change)> =
        Change::between(from.params, to.params).into_iter().map(|change| (worth.of(&change), change)).collect();
    if changes.is_empty() {
        return "the same configuration in the run that decided; the times above are of earlier runs".to_owned();
    }
    changes.sort_by(|(a, _), (b, _)| b.unwrap_or(1.0).total_cmp(&a.unwrap_or(1.0)));
    // The two times are the effect of a single change.
    let is_alone = changes.len() == 1;
    let about = |change: &Change| facts.and_then(|facts| facts.parameters.get(&change.parameter)).map(String::as_str);
    let is_idle = |effect: Option<f64>| effect.is_some_and(|effect| of_two_runs(effect) == of_two_runs(1.0));
    let (idle, mut shown): (Vec<_>, Vec<_>) = changes.iter().partition(|(effect, _)| is_idle(*effect));
    if shown.is_empty() {
        shown.clone_from(&idle);
    }
    let name = |(effect, change): &&(Option<f64>, Change)| named(change, effect.filter(|_| !is_alone), about(change));
    let names: Vec<String> = shown.iter().map(name).collect();
    let start = if is_next { String::new() } else { format!("From its configuration of {} us: ", us(from.us)) };
    format!("{start}{}", joined_of(&names, changes.len()))
}

#[cfg(test)]
mod tests {
    use super::super::contract::CaseEffect;
    use super::super::tests::{families, found, iteration, record, report};
    use super::*;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::origin::Origin;
    use crate::domain::variant::Params;
    use crate::domain::verdict::Verdict;
    use crate::report::tests;

    #[test]
    fn a_ladder_leads_from_the_first_variant_over_other_families_to_the_winner() {
        let mut record = record();
        let slower = vec![found("b1h1s128", 70.0, Verdict::Regressed, None, None)];
        let mut other = iteration(IterationId(6), 48, None, Outcome::Measured, slower);
        other.family = "split-k".to_owned();
        record.iterations.insert(1, other);
        let ladder = &report(&record).ladders[0];
        let told: Vec<String> = ladder
            .steps
            .iter()
            .map(|step| format!("{} {:.1} {:.2} {}", step.what, step.us, step.factor.unwrap_or(0.0), step.mechanism))
            .collect();
        assert_eq!(families().len(), 2);
        insta::assert_snapshot!(told.join("\n"), @"
        the first kernel, `tiled` 80.0 0.00 Tiles of queries: keys are shared.
        `split-k` becomes the fastest 70.0 1.14 Keys are split over blocks.
        `tiled` is the fastest again 57.6 1.22 From its configuration of 80.00 us: `BLOCK` 64 → 128 (threads of a block)
        `tiled`, the winner 50.0 1.15 `BLOCK` 128 → 256 (threads of a block)
        ");
        let markdown = report(&record).to_markdown().unwrap();
        assert!(markdown.contains("| **all steps** | - | 1.60× | 80.00 us to 50.00 us |"), "{markdown}");
    }

    /// `split-k` became the fastest with 70 us, and was tuned to 65 us after `tiled` had 57.6 us. The committed winner is
    /// in the middle of the steps of `tiled`.
    #[test]
    fn a_switch_is_compared_with_the_best_of_the_family_before_and_the_committed_winner_is_marked() {
        let mut record = record();
        let other = |id: i64, block: i64, us: f64| {
            let slower = vec![found("b1h1s128", us, Verdict::Regressed, None, None)];
            let mut other = iteration(IterationId(id), block, None, Outcome::Measured, slower);
            other.family = "split-k".to_owned();
            other
        };
        record.iterations.insert(1, other(6, 48, 70.0));
        let mut middle = iteration(IterationId(7), 192, None, Outcome::Measured, Vec::new());
        middle.measurements = vec![found("b1h1s128", 60.0, Verdict::Improved, None, None)];
        middle.origin = Origin::CommittedWinner { device: "an L4".to_owned(), cases: vec!["b1h1s128".into()] };
        record.iterations.insert(3, middle);
        record.iterations.push(other(8, 56, 65.0));
        let page = report(&record).to_markdown().unwrap();
        let steps: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).take(4).collect();
        insta::assert_snapshot!(steps.join("\n"), @"
        | `split-k` becomes the fastest | 70.00 | 1.14× | Keys are split over blocks. |
        | `tiled` is the fastest again | 57.60 | 1.22× | From its configuration of 80.00 us: `BLOCK` 64 → 128 (threads of a block). 1.13× over the best `split-k` of the session (65.00 us), which was tuned later. |
        | `tiled`, tuned (the committed winner) | 54.00 | 1.07× | `BLOCK` 128 → 192 (threads of a block) |
        | `tiled`, the winner | 50.00 | 1.08× | `BLOCK` 192 → 256 (threads of a block) |
        ");
    }

    /// The steps to 79.8 and 79.7 us, and to 69.9 us, are too small to be told. So `split-k` is new with 70 us, and has no other
    /// family before it with 65 us.
    #[test]
    fn a_family_is_called_the_fastest_again_only_after_another_step_of_it() {
        let mut record = record();
        let added = [("split-k", 32, 79.8), ("tiled", 32, 79.7), ("split-k", 48, 70.0), ("tiled", 48, 69.9)];
        for (place, (family, block, us)) in added.into_iter().chain([("split-k", 56, 65.0)]).enumerate() {
            let slower = vec![found("b1h1s128", us, Verdict::Regressed, None, None)];
            let mut other = iteration(IterationId(10 + place as i64), block, None, Outcome::Measured, slower);
            other.family = family.to_owned();
            record.iterations.insert(1 + place, other);
        }
        let ladder = &report(&record).ladders[0];
        let told: Vec<String> = ladder.steps.iter().map(|step| format!("{}: {}", step.what, step.mechanism)).collect();
        insta::assert_snapshot!(told.join("\n"), @"
        the first kernel, `tiled`: Tiles of queries: keys are shared.
        `split-k` becomes the fastest: Keys are split over blocks.
        `split-k`, tuned: `BLOCK` 48 → 56 (threads of a block)
        `tiled` is the fastest again: From its configuration of 80.00 us: `BLOCK` 64 → 128 (threads of a block)
        `tiled`, the winner: `BLOCK` 128 → 256 (threads of a block)
        ");
    }

    /// The three steps of `split-k` from 62 us are small, with steps of `tiled` between them that are too small for a row. `BLOCK` is
    /// 48, then 32 and 48 again. The step to 57.6 us is small, too, but that of another family.
    #[test]
    fn small_steps_of_one_family_are_one_row_with_their_net_changes() {
        let mut record = record();
        let added = [
            ("split-k", 48, 16, 62.0),
            ("split-k", 32, 16, 61.0),
            ("tiled", 48, 16, 60.9),
            ("split-k", 32, 32, 60.0),
            ("tiled", 48, 32, 59.9),
            ("split-k", 48, 64, 59.0),
        ];
        for (place, (family, block, pad, us)) in added.into_iter().enumerate() {
            let slower = vec![found("b1h1s128", us, Verdict::Regressed, None, None)];
            let mut other = iteration(IterationId(10 + place as i64), block, None, Outcome::Measured, slower);
            other.family = family.to_owned();
            other.params.insert("PAD".to_owned(), pad);
            record.iterations.insert(1 + place, other);
        }
        let ladder = &report(&record).ladders[0];
        let told = |step: &LadderStep| format!("{}: {:.3} {}", step.what, step.factor.unwrap_or(1.0), step.mechanism);
        insta::assert_snapshot!(ladder.steps.iter().map(told).collect::<Vec<_>>().join("\n"), @"
        the first kernel, `tiled`: 1.000 Tiles of queries: keys are shared.
        `split-k` becomes the fastest: 1.290 Keys are split over blocks.
        `split-k`, tuned in 3 steps: 1.051 `PAD` 16 → 64 (padding of a row)
        `tiled` is the fastest again: 1.024 From its configuration of 80.00 us: `BLOCK` 64 → 128 (threads of a block)
        `tiled`, the winner: 1.152 `BLOCK` 128 → 256 (threads of a block)
        ");
    }

    /// Of three changes, one is worth nothing alone, and of the value of another nothing is known.
    #[test]
    fn changes_that_are_worth_nothing_alone_are_counted_and_not_named() {
        let params = |values: [i64; 3]| -> Params {
            ["BLOCK", "PAD", "WARPS"].map(str::to_owned).into_iter().zip(values).collect()
        };
        let own = |parameter: &str, effect: f64| ParameterEffect {
            by_case: vec![CaseEffect { case: "c".into(), effect, pairs: 2, verdict: "helps" }],
            ..tests::effect(parameter, [8, 16], effect)
        };
        let effects = [own("BLOCK", 1.2), own("PAD", 1.001)];
        let worth = Worth { family: "tiled", case: "c", effects: &effects };
        let told = |to: [i64; 3]| {
            let (from, to) = (params([8, 8, 8]), params(to));
            let rung = |params| Rung { family: "tiled", params, us: 8.0, committed: false, variants: 1 };
            changes(&rung(&from), &rung(&to), true, worth, None)
        };
        insta::assert_snapshot!([told([16, 16, 16]), told([16, 16, 8]), told([8, 16, 8])].join("\n"), @"
        `BLOCK` 8 → 16 (1.20× alone), `WARPS` 8 → 16 and 1 more
        `BLOCK` 8 → 16 (1.20× alone) and 1 more
        `PAD` 8 → 16
        ");
    }
}
