//! What parameters gained one after another, on the paths that the session walked.

use super::table::table;
use crate::report::changes::{listed, meaning};
use crate::report::contract::{ConfigurationPath, PathStep, Report};
use crate::report::format::{NOTHING, of_two_runs, us};

/// Returns the path from the initial kernel, on the case of its diagnosis.
pub(in crate::report) fn of_first(report: &Report) -> Option<&ConfigurationPath> {
    let of = report.initial_diagnosis()?;
    report.paths.iter().find(|path| path.from == of.iteration && path.case == of.case)
}

/// Returns the time at the end of a path over the best one of its case.
pub(in crate::report) fn left(report: &Report, path: &ConfigurationPath) -> Option<f64> {
    let case = report.cases.iter().find(|case| case.case == path.case)?;
    Some(path.to_us() / case.best_us?)
}

/// Returns the path to the winner of a case.
pub(in crate::report) fn of_winner(report: &Report) -> Option<&ConfigurationPath> {
    let first = of_first(report);
    let won = |path: &ConfigurationPath| {
        let mut variants = report.cases.iter().filter(|case| case.case == path.case).flat_map(|case| &case.variant);
        variants.any(|variant| variant.family == path.family)
    };
    report.paths.iter().find(|path| Some(*path) != first && won(path))
}

/// Writes the steps from the initial kernel as a table.
pub(super) fn first_steps(report: &Report) -> Option<String> {
    Some(steps(report, of_first(report)?, "the first kernel"))
}

/// Introduces the path to a winner.
pub(super) fn winner_head(report: &Report) -> Option<String> {
    let path = of_winner(report)?;
    let ConfigurationPath { case, family, .. } = path;
    Some(format!(
        "**What the winner's parameters gained**, {} on `{case}`: from the default configuration of `{family}` to its best \
         one, one after another ({}).",
        report.session.time_source.name(),
        iterations(path)
    ))
}

/// Writes the steps to a winner as a table.
pub(super) fn winner_steps(report: &Report) -> Option<String> {
    Some(steps(report, of_winner(report)?, "the default configuration"))
}

/// Names the iterations that timed the steps of a path.
pub(super) fn iterations(path: &ConfigurationPath) -> String {
    match &*path.steps {
        [] => String::new(),
        [only] => format!("iteration {}", only.iteration),
        [first, .., last] => format!("iterations {} to {}", first.iteration, last.iteration),
    }
}

/// Writes the steps of a path as a table, with the columns that they need.
fn steps(report: &Report, path: &ConfigurationPath, begin: &str) -> String {
    let is_derived = path.steps.iter().any(|step| step.modelled_gain.is_some());
    let is_counted = path.steps.iter().any(|step| step.counted.is_some());
    let columns = [
        ("change", true),
        (">us", true),
        (">gain", true),
        (">derived by the model", is_derived),
        ("what a virtual GPU counted", is_counted),
    ];
    let only_shown = |cells: [String; 5]| -> Vec<String> {
        columns.iter().zip(cells).filter(|((_, is_shown), _)| *is_shown).map(|(_, cell)| cell).collect()
    };
    let row = |what: String, time: f64, gain: String, step: Option<&PathStep>| {
        let derived = step.and_then(|step| step.modelled_gain).map(of_two_runs);
        let counted = step.and_then(|step| step.counted.clone());
        only_shown([what, us(time), gain, derived.unwrap_or_default(), counted.unwrap_or_default()])
    };
    let begin = row(begin.to_owned(), path.from_us, NOTHING.to_owned(), None);
    let all = row("**all**".to_owned(), path.to_us(), of_two_runs(path.gain()), None);
    let told = |step: &PathStep| row(changed(report, path, step), step.us, of_two_runs(step.gain), Some(step));
    let rows: Vec<Vec<String>> = [begin].into_iter().chain(path.steps.iter().map(told)).chain([all]).collect();
    let headings: Vec<&str> = columns.iter().filter(|(_, is_shown)| *is_shown).map(|(name, _)| *name).collect();
    table(&headings, &rows)
}

fn changed(report: &Report, path: &ConfigurationPath, step: &PathStep) -> String {
    let name = |change: &crate::domain::origin::Change| {
        let about = report.parameters.about(&path.family, &change.parameter).map(meaning);
        let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
        format!("`{}` {} → {}{about}", change.parameter, change.from, change.to)
    };
    listed(&step.changes.iter().map(name).collect::<Vec<_>>()).unwrap_or_default()
}

/// Names the parameters of a step.
pub(in crate::report) fn parameters(step: &PathStep) -> String {
    let names: Vec<String> = step.changes.iter().map(|change| format!("`{}`", change.parameter)).collect();
    names.join(" with ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::domain::origin::Change;
    use crate::report::tests::full::full;

    #[test]
    fn the_steps_of_a_path_are_a_table() {
        let mut report = full();
        let of = report.initial_diagnosis().unwrap();
        let (case, from) = (of.case.clone(), of.iteration);
        let change = |parameter: &str| Change { parameter: parameter.to_owned(), from: 1, to: 4 };
        let step = |id, parameter, us, gain| PathStep {
            iteration: IterationId(id),
            changes: vec![change(parameter)],
            us,
            gain,
            modelled_gain: None,
            counted: None,
        };
        let path = ConfigurationPath {
            case,
            family: "tiled".to_owned(),
            from,
            from_us: 400.0,
            to: IterationId(9),
            steps: vec![
                step(10, "BLOCK", 100.0, 4.0),
                step(11, "PAD", 50.0, 2.0),
                step(12, "OTHER", 49.0, 50.0 / 49.0),
            ],
        };
        report.paths = vec![path];
        assert_eq!(first_steps(&report).unwrap().lines().next(), Some("| change | us | gain |"));
        let counted = &mut report.paths[0].steps[0];
        (counted.modelled_gain, counted.counted) =
            (Some(3.5), Some("executes 4.0 times fewer instructions".to_owned()));
        let told = [first_steps(&report).unwrap(), iterations(&report.paths[0])];
        insta::assert_snapshot!(told.join("\n"), @"
        | change | us | gain | derived by the model | what a virtual GPU counted |
        |---|--:|--:|--:|---|
        | the first kernel | 400.00 | - |  |  |
        | `BLOCK` 1 → 4 (threads of a block) | 100.00 | 4.00× | 3.50× | executes 4.0 times fewer instructions |
        | `PAD` 1 → 4 (padding of a row) | 50.00 | 2.00× |  |  |
        | `OTHER` 1 → 4 | 49.00 | 1.02× |  |  |
        | **all** | 49.00 | 8.16× |  |  |

        iterations 10 to 12
        ");
        assert_eq!(winner_steps(&report), None);
        let html = report.to_html().unwrap();
        assert!(html.contains("<code>BLOCK</code> 1 → 4 (threads of a block)"), "{html}");

        // Another path is that to a winner.
        report.paths[0].from = IterationId(77);
        assert_eq!(first_steps(&report), None);
        insta::assert_snapshot!(winner_head(&report).unwrap(), @"**What the winner's parameters gained**, measured on `b1h1s128`: from the default configuration of `tiled` to its best one, one after another (iterations 10 to 12).");
    }
}
