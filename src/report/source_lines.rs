//! The lines of a kernel's source on which its time is spent: where the instructions stand that a breakdown removed.

use super::contract::{Breakdown, Case, Line};
use super::format::{counted, percent};
use crate::domain::ablation::Removed;

/// Returns the lines of what was removed, those that cost most first.
pub(super) fn of(breakdown: &Breakdown, removed: Removed) -> &[Line] {
    breakdown.without.iter().find(|one| one.removed == removed).map_or(&[], |one| &one.lines)
}

/// Names the line of a case's winner on which most of what was removed is: the most expensive one that was timed, or else the one
/// with the most instructions. None if no line is known.
pub(super) fn first(case: &Case, removed: Removed) -> Option<String> {
    let lines = of(case.breakdown.as_ref()?, removed);
    let first = lines.first()?;
    let (line, code) = (format!("line {} of the source for `{}`", first.line, case.case), code(&first.text));
    Some(match (lines.len() - 1, first.share.filter(|share| *share > 0.0)) {
        (0, _) => format!("All of these instructions are on {line}: {code}"),
        (_, Some(share)) => format!("The most expensive line, with {} of the time, is {line}: {code}", percent(share)),
        (more, None) => format!("These instructions are on {}, such as {line}: {code}", counted(more + 1, "line")),
    })
}

/// Formats a line of source code as code in Markdown.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::super::contract::Without;
    use super::super::markdown::lines::winners;
    use super::super::tests::{record_ahead, report};
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::report::tests::without;

    /// A kind of instruction with its share, and with its lines and their shares.
    type Kind<'a> = (Removed, f64, &'a [(u32, Option<f64>)]);

    fn case(kinds: &[Kind<'_>]) -> Case {
        let line = |(line, share): &(u32, Option<f64>)| Line {
            line: *line,
            text: format!("load(`{line}`) | x"),
            places: 32,
            share: *share,
        };
        let without = |(removed, share, lines): &Kind<'_>| Without {
            lines: lines.iter().map(line).collect(),
            ..without((*removed, *share))
        };
        let breakdown = Breakdown {
            iteration: IterationId(3),
            family: "tiled".to_owned(),
            us: 50.0,
            without: kinds.iter().map(without).collect(),
        };
        Case { breakdown: Some(breakdown), ..report(&record_ahead()).cases[0].clone() }
    }

    #[test]
    fn the_lines_of_what_takes_time_are_told() {
        let loads: &[_] = &[(113, Some(0.18)), (115, Some(0.02)), (119, None)];
        let few: &[_] = &[(9, None)];
        let case = case(&[
            (Removed::GlobalLoads, 0.2, loads),
            (Removed::Shuffles, 0.01, few),
            (Removed::AllKinds, 0.5, &[]),
            (Removed::AllKindsAndWaits, 0.6, few),
        ]);
        let told = [Removed::GlobalLoads, Removed::AllKindsAndWaits].map(|removed| first(&case, removed).unwrap());
        insta::assert_snapshot!(told.join("\n"), @"
        The most expensive line, with 18% of the time, is line 113 of the source for `b1h1s128`: `load('113') | x`
        All of these instructions are on line 9 of the source for `b1h1s128`: `load('9') | x`
        ");
        insta::assert_snapshot!(winners(std::slice::from_ref(&case)).unwrap(), @r#"
        | case | kind | share of the time | line | source | places | without this line alone |
        |---|---|--:|--:|---|--:|--:|
        | b1h1s128 | loads from global memory | 20% | 113 | `load('113') \| x` | 32 | 18% less |
        | b1h1s128 | loads from global memory | 20% | 115 | `load('115') \| x` | 32 | 2.0% less |
        | b1h1s128 | loads from global memory | 20% | 119 | `load('119') \| x` | 32 | - |
        | b1h1s128 | waits for asynchronous work | 10.0% | 9 | `load('9') \| x` | 32 | - |
        "#);
        assert_eq!(first(&case, Removed::TensorProducts), None);
    }
}
