//! How the sources of winners came about.

use std::collections::{HashMap, HashSet};

use similar::{ChangeTag, TextDiff};

use crate::domain::ids::IterationId;
use crate::domain::origin::Change;
use crate::domain::record::IterationRecord;
use crate::domain::variant::show_params;
use crate::report::ReportInput;
use crate::report::contract::{Case, Diff, Lineage, LineageStep};

/// The most lineages of a report.
const MAX_LINEAGES: usize = 6;

/// The most steps of a lineage. The last ones are kept.
const MAX_STEPS: usize = 24;

/// The most lines of a difference.
const MAX_LINES: usize = 400;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Returns the lineages of the winners of the cases that gained most. Cases with the same winner share one.
pub(in crate::report) fn of(cases: &[Case], input: &ReportInput<'_>) -> Vec<Lineage> {
    let by_id: HashMap<IterationId, &IterationRecord> =
        input.record.iterations.iter().map(|iteration| (iteration.id, iteration)).collect();
    let sources: HashMap<IterationId, &str> =
        input.sources.iter().map(|(iteration, source)| (*iteration, source.as_str())).collect();
    let gain = |case: &Case| case.ratio_to_start.map_or(1.0, |ratio| ratio.estimate);
    let mut by_gain: Vec<&Case> = cases.iter().filter(|case| case.iteration.is_some()).collect();
    by_gain.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let mut seen = HashSet::new();
    by_gain.retain(|case| seen.insert(case.variant.as_ref().map(|variant| &variant.hash)));
    by_gain.into_iter().filter_map(|case| of_case(case, &by_id, &sources)).take(MAX_LINEAGES).collect()
}

fn of_case(
    case: &Case,
    by_id: &HashMap<IterationId, &IterationRecord>,
    sources: &HashMap<IterationId, &str>,
) -> Option<Lineage> {
    let mut chain: Vec<&IterationRecord> = Vec::new();
    let mut next = case.iteration;
    while let Some(iteration) = next.and_then(|id| by_id.get(&id)) {
        // A confirmation runs the variant of its parent again.
        if chain.last().is_none_or(|child| child.hash != iteration.hash) {
            chain.push(iteration);
        }
        // Parents are older, so that damaged records make no circle.
        next = iteration.parent.filter(|parent| *parent < iteration.id);
    }
    chain.reverse();
    let left_out = chain.len().saturating_sub(MAX_STEPS);
    let chain = &chain[left_out..];
    let before = |place: usize| place.checked_sub(1).map(|place| chain[place]);
    let steps: Vec<LineageStep> =
        chain.iter().enumerate().map(|(place, one)| step(case, one, before(place), sources)).collect();
    (!steps.is_empty()).then(|| Lineage { case: case.case.clone(), left_out: left_out as u64, steps })
}

fn step(
    case: &Case,
    iteration: &IterationRecord,
    before: Option<&IterationRecord>,
    sources: &HashMap<IterationId, &str>,
) -> LineageStep {
    let same_family = before.filter(|before| before.family == iteration.family);
    let changes = match same_family {
        Some(before) => Change::between(&before.params, &iteration.params).iter().map(show).collect(),
        None => vec![show_params(&iteration.params)],
    };
    let timing = iteration.measurements.iter().find(|found| found.case == case.case);
    let is_winner = case.iteration == Some(iteration.id);
    let us = timing.and_then(|found| found.best_timing()).map(|timing| timing.median_ns / 1e3);
    let source = |of: &IterationRecord| sources.get(&of.id).copied();
    LineageStep {
        iteration: iteration.id,
        kind: iteration.origin.name(),
        family: iteration.family.clone(),
        changes,
        claim: iteration.hypothesis.claim.clone(),
        us: if is_winner { case.best_us.or(us) } else { us },
        diff: same_family.and_then(|before| Some(diff(source(before)?, source(iteration)?))),
    }
}

fn show(change: &Change) -> String {
    format!("{} {} → {}", change.parameter, change.from, change.to)
}

/// Returns the difference of two sources.
fn diff(before: &str, after: &str) -> Diff {
    let lines = TextDiff::from_lines(before, after);
    let count = |tag: ChangeTag| lines.iter_all_changes().filter(|change| change.tag() == tag).count() as u64;
    let text = lines.unified_diff().context_radius(CONTEXT).to_string();
    let cut = text.lines().count() > MAX_LINES;
    let text = text.lines().take(MAX_LINES).map(|line| format!("{line}\n")).collect();
    Diff { added: count(ChangeTag::Insert), removed: count(ChangeTag::Delete), text, cut }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::build;
    use crate::report::tests::{input, record};

    #[test]
    fn a_winner_is_traced_back_to_its_root_with_the_changes_of_its_source() {
        let record = record();
        let source = |block: i64| format!("#define BLOCK {block}\nvoid kernel();\n");
        let sources = [(1, 64), (2, 128), (3, 256)].map(|(id, block)| (IterationId(id), source(block)));
        let report = build(&ReportInput { sources: &sources, ..input(&record) });
        let lineage = &report.lineages[0];
        let told: Vec<_> = lineage.steps.iter().map(|step| (step.iteration.0, step.us, &*step.changes[0])).collect();
        let steps =
            [(1, Some(80.0), "BLOCK=64 PAD=8"), (2, Some(64.0), "BLOCK 64 → 128"), (3, Some(50.0), "BLOCK 128 → 256")];
        assert_eq!(told, steps);
        insta::assert_snapshot!(lineage.steps[1].diff.as_ref().unwrap().text, @r"
        @@ -1,2 +1,2 @@
        -#define BLOCK 64
        +#define BLOCK 128
         void kernel();
        ");
    }

    #[test]
    fn a_confirmation_is_no_step_of_its_own_and_another_family_has_no_diff() {
        let mut record = record();
        record.iterations[2].hash = record.iterations[1].hash.clone();
        record.iterations[1].family = "another".to_owned();
        let report = build(&ReportInput { sources: &[], ..input(&record) });
        let told: Vec<_> =
            report.lineages[0].steps.iter().map(|step| (step.iteration.0, step.diff.is_some())).collect();
        assert_eq!(told, [(1, false), (3, false)]);
    }

    #[test]
    fn a_long_difference_is_cut() {
        let after: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let diff = diff("", &after);
        assert_eq!((diff.added, diff.cut, diff.text.lines().count()), (1000, true, MAX_LINES));
    }
}
