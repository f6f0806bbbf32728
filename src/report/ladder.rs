//! How the best variant of a case came about: from the first one over those that were the fastest in turn.

use super::began;
use super::changes::{joined, named};
use super::contract::{Case, FamilyTime, Ladder, LadderStep, LeftBehind, ParameterEffect, Rivals};
use super::pairs::{Sample, samples};
use super::{FamilyFacts, ReportInput};
use crate::domain::origin::Change;
use crate::domain::variant::Params;

/// The most ladders of a report.
const MAX_LADDERS: usize = 2;

/// The least factor of a step. A smaller one explains nothing.
const MIN_STEP: f64 = 1.005;

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

/// Variants of one family, each of which was the fastest on a case until the next one.
struct Streak<'a> {
    family: &'a str,
    first: &'a Sample<'a>,
    /// The committed winner of the case, if it is one of them.
    committed: Option<&'a Sample<'a>>,
    last: &'a Sample<'a>,
}

/// A variant: its family and its configuration.
type Variant<'a> = (&'a str, &'a Params);

/// Returns the variants that were the fastest on a case, in the order of the session. Variants that are faster than the best confirmed
/// time lost their confirmation, and are left out.
fn streaks<'a>(case: &str, best_us: f64, samples: &'a [Sample<'a>], committed: Option<Variant<'_>>) -> Vec<Streak<'a>> {
    let mut streaks: Vec<Streak<'_>> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.case == case && micros(sample) > best_us) {
        let committed = Some(sample).filter(|one| committed == Some((one.family, one.params)));
        match streaks.last_mut() {
            Some(streak) if sample.ln_ns >= streak.last.ln_ns => {}
            Some(streak) if streak.family == sample.family => {
                streak.last = sample;
                streak.committed = streak.committed.or(committed);
            }
            _ => streaks.push(Streak { family: sample.family, first: sample, committed, last: sample }),
        }
    }
    streaks
}

/// Steps towards the best variant, with the configuration of the last one.
struct Climb<'a> {
    steps: Vec<LadderStep>,
    params: &'a Params,
    /// The committed winner that the session began with.
    committed: Option<Variant<'a>>,
}

impl<'a> Climb<'a> {
    /// Adds a step if it is faster than the last one, or the committed winner.
    fn step(&mut self, (what, family, us): (String, &str, f64), params: &'a Params, mechanism: String) {
        let is_committed = self.committed == Some((family, params));
        if is_committed || self.steps.last().is_none_or(|last| last.us / us >= MIN_STEP) {
            self.add((what, family, us), params, mechanism);
        }
    }

    fn add(&mut self, (what, family, us): (String, &str, f64), params: &'a Params, mechanism: String) {
        let factor = self.steps.last().map(|last| last.us / us);
        // A family that an earlier step had is tuned.
        let kind = if self.has(family) { "tuning" } else { "family" };
        let committed = self.committed == Some((family, params));
        let family = family.to_owned();
        self.steps.push(LadderStep { what, kind, family, us, factor, mechanism, committed, left_behind: None });
        self.params = params;
    }

    /// Tells whether a step has a family.
    fn has(&self, family: &str) -> bool {
        self.steps.iter().any(|step| step.family == family)
    }
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
    let about = |family: &str| input.families.iter().find(|facts| facts.name == family);
    let idea = |family: &str| about(family).map_or_else(String::new, |facts| facts.about.clone());
    let worth = |family| Worth { family, case: &case.case, effects };
    let first = LadderStep {
        what: format!("the first kernel, `{}`", start.iteration.family),
        kind: "start",
        family: start.iteration.family.clone(),
        us: start.timing.median_ns / 1e3,
        factor: None,
        mechanism: idea(&start.iteration.family),
        committed: false,
        left_behind: None,
    };
    let committed = began::committed(&case.case, &input.record.iterations).map(|one| one.iteration);
    let committed = committed.map(|one| (&*one.family, &one.params));
    let mut climb = Climb { steps: vec![first], params: &start.iteration.params, committed };
    let family = variant.family.as_str();
    let streaks = streaks(&case.case, best_us, samples, committed);
    for (place, Streak { family: own, first, committed, last }) in streaks.iter().enumerate() {
        let (own, is_winner) = (*own, place + 1 == streaks.len() && *own == family);
        let (what, why) = match streaks[..place].iter().rfind(|streak| streak.family == own) {
            Some(earlier) => {
                ("is the fastest again", changes(earlier.last.params, first.params, worth(own), about(own)))
            }
            None => ("becomes the fastest", idea(own)),
        };
        climb.step((format!("`{own}` {what}"), own, micros(first)), first.params, why);
        let (what, params, us) = match is_winner {
            true => (format!("`{own}`, the winner"), &variant.params, best_us),
            false => (format!("`{own}`, tuned"), last.params, micros(last)),
        };
        let mut from = first.params;
        if let Some(committed) = committed.filter(|one| one.params != from && one.params != params) {
            let changed = changes(from, committed.params, worth(own), about(own));
            climb.step((format!("`{own}`, tuned"), own, micros(committed)), committed.params, changed);
            from = committed.params;
        }
        if from == params {
            continue;
        }
        let changed = changes(from, params, worth(own), about(own));
        let mechanism = if climb.has(own) { changed } else { with_idea(idea(own), changed) };
        climb.step((what, own, us), params, mechanism);
    }
    if climb.steps.last().is_some_and(|last| last.us > best_us) {
        let earlier = streaks.iter().rfind(|streak| streak.family == family);
        let from = match earlier {
            _ if climb.steps.last().is_some_and(|last| last.family == family) => Some(climb.params),
            earlier => earlier.map(|earlier| earlier.last.params),
        };
        let mechanism =
            from.map_or_else(|| idea(family), |from| changes(from, &variant.params, worth(family), about(family)));
        climb.add((format!("`{family}`, the winner"), family, best_us), &variant.params, mechanism);
    }
    Some(Ladder { case: case.case.clone(), steps: climb.steps, floor_us: case.floor_us })
}

/// Joins a family's idea and its tuned parameters.
fn with_idea(idea: String, tuned: String) -> String {
    if idea.is_empty() { tuned } else { format!("{idea} Tuned: {tuned}") }
}

fn micros(sample: &Sample<'_>) -> f64 {
    sample.ln_ns.exp() / 1e3
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

/// Lists the parameters that changed, those that help most first, with what they do.
fn changes(from: &Params, to: &Params, worth: Worth<'_>, facts: Option<&FamilyFacts>) -> String {
    let mut changes: Vec<(Option<f64>, Change)> =
        Change::between(from, to).into_iter().map(|change| (worth.of(&change), change)).collect();
    if changes.is_empty() {
        return "the same configuration in the run that decided; the times above are of earlier runs".to_owned();
    }
    changes.sort_by(|(a, _), (b, _)| b.unwrap_or(1.0).total_cmp(&a.unwrap_or(1.0)));
    // The step itself is the effect of a single change.
    let is_alone = changes.len() == 1;
    let about = |change: &Change| facts.and_then(|facts| facts.parameters.get(&change.parameter)).map(String::as_str);
    let names: Vec<String> =
        changes.iter().map(|(effect, change)| named(change, effect.filter(|_| !is_alone), about(change))).collect();
    joined(&names)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{families, found, iteration, record, report};
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::origin::Origin;
    use crate::domain::verdict::Verdict;

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
        `tiled` is the fastest again 57.6 1.22 `BLOCK` 64 → 128 (threads of a block)
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
        | `tiled` is the fastest again | 57.60 | 1.22× | `BLOCK` 64 → 128 (threads of a block). 1.13× over the best `split-k` of the session (65.00 us), which was tuned later. |
        | `tiled`, tuned (the committed winner) | 54.00 | 1.07× | `BLOCK` 128 → 192 (threads of a block) |
        | `tiled`, the winner | 50.00 | 1.08× | `BLOCK` 192 → 256 (threads of a block) |
        ");
    }
}
