//! What parameters gained one after another, on the paths that the session walked.

use super::table::table;
use crate::report::changes::{listed, meaning};
use crate::report::contract::{ConfigurationPath, Diagnosis, DiagnosisOf, PathStep, Report};
use crate::report::format::{of_two_runs, times, us};

/// The gain of a step from which a sentence names its parameters.
const NAMED: f64 = 1.1;

/// The most steps that a sentence names.
const MOST_NAMED: usize = 4;

/// Returns the path from the initial kernel, on the case of its diagnosis.
pub(in crate::report) fn of_first(report: &Report) -> Option<&ConfigurationPath> {
    let of = initial(report)?;
    report.paths.iter().find(|path| path.from == of.iteration && path.case == of.case)
}

/// Returns the time at the end of a path over the best one of its case.
pub(in crate::report) fn left(report: &Report, path: &ConfigurationPath) -> Option<f64> {
    let case = report.cases.iter().find(|case| case.case == path.case)?;
    Some(path.to_us() / case.best_us?)
}

/// Returns the path to the winner of a case.
fn of_winner(report: &Report) -> Option<&ConfigurationPath> {
    let first = of_first(report);
    report.paths.iter().find(|path| Some(*path) != first)
}

fn initial(report: &Report) -> Option<&Diagnosis> {
    report.diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)
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
        "**What the winner's parameters gained**, measured on `{case}`: from the default configuration of `{family}` to its best \
         one, one after another ({}).",
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

fn steps(report: &Report, path: &ConfigurationPath, begin: &str) -> String {
    let begin = [begin.to_owned(), us(path.from_us), "-".to_owned(), String::new()];
    let row = |step: &PathStep| {
        [
            changed(report, path, step),
            us(step.us),
            of_two_runs(step.gain),
            cause(report, path, step).unwrap_or_default(),
        ]
    };
    let all = ["**all**".to_owned(), us(path.to_us()), of_two_runs(path.gain()), String::new()];
    let rows = [begin].into_iter().chain(path.steps.iter().map(row)).chain([all]);
    table(
        &["change", ">us", ">gain", "cause that an experiment with this parameter tests"],
        &rows.map(Vec::from).collect::<Vec<_>>(),
    )
}

fn changed(report: &Report, path: &ConfigurationPath, step: &PathStep) -> String {
    let name = |change: &crate::domain::origin::Change| {
        let about = report.parameters.about(&path.family, &change.parameter).map(meaning);
        let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
        format!("`{}` {} → {}{about}", change.parameter, change.from, change.to)
    };
    listed(&step.changes.iter().map(name).collect::<Vec<_>>()).unwrap_or_default()
}

/// Returns the cause that an experiment with the same parameter tested, for a step of the path from the initial kernel.
fn cause(report: &Report, path: &ConfigurationPath, step: &PathStep) -> Option<String> {
    let of = initial(report).filter(|of| of.iteration == path.from && of.case == path.case)?;
    let found = of.findings.iter().filter(|found| match &*found.tested.changes {
        [change] => step.changes.iter().any(|own| own.parameter == change.parameter),
        _ => false,
    });
    let rules: Vec<String> = found.map(|found| format!("`{}`", found.rule)).collect();
    listed(&rules)
}

/// Names the steps that gained most, and what all others gained: `` `KEYS` 3.50×, `TPR` 2.40× and the others 1.80× ``.
pub(in crate::report) fn largest(path: &ConfigurationPath) -> String {
    let mut named: Vec<&PathStep> = path.steps.iter().filter(|step| step.gain >= NAMED).collect();
    named.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    named.truncate(MOST_NAMED);
    let rest = path.gain() / named.iter().map(|step| step.gain).product::<f64>();
    let name = |step: &PathStep| {
        let parameters: Vec<String> = step.changes.iter().map(|change| format!("`{}`", change.parameter)).collect();
        format!("{} {}", parameters.join(" with "), times(step.gain))
    };
    let others = path.steps.len() - named.len();
    let rest = match others {
        0 => None,
        1 => Some(format!("one other {}", times(rest))),
        _ => Some(format!("{others} others {}", times(rest))),
    };
    let named: Vec<String> = named.into_iter().map(name).chain(rest).collect();
    listed(&named).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::domain::origin::Change;
    use crate::report::tests::full::full;

    #[test]
    fn the_steps_of_a_path_are_a_table_and_the_largest_ones_a_sentence() {
        let mut report = full();
        let of = initial(&report).unwrap();
        let (case, from) = (of.case.clone(), of.iteration);
        let change = |parameter: &str| Change { parameter: parameter.to_owned(), from: 1, to: 4 };
        report.diagnoses[0].findings[0].tested.changes = vec![change("BLOCK")];
        let step = |id, parameter, us, gain| PathStep {
            iteration: IterationId(id),
            changes: vec![change(parameter)],
            us,
            gain,
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
        let told = [first_steps(&report).unwrap(), largest(&report.paths[0]), iterations(&report.paths[0])];
        insta::assert_snapshot!(told.join("\n"), @"
        | change | us | gain | cause that an experiment with this parameter tests |
        |---|--:|--:|---|
        | the first kernel | 400.00 | - |  |
        | `BLOCK` 1 → 4 (threads of a block) | 100.00 | 4.00× | `idle_sms` |
        | `PAD` 1 → 4 (padding of a row) | 50.00 | 2.00× |  |
        | `OTHER` 1 → 4 | 49.00 | 1.02× |  |
        | **all** | 49.00 | 8.16× |  |

        `BLOCK` 4.00×, `PAD` 2.00× and one other 1.02×
        iterations 10 to 12
        ");
        assert_eq!(winner_steps(&report), None);

        // Another path is that to a winner.
        report.paths[0].from = IterationId(77);
        assert_eq!(first_steps(&report), None);
        insta::assert_snapshot!(winner_head(&report).unwrap(), @"**What the winner's parameters gained**, measured on `b1h1s128`: from the default configuration of `tiled` to its best one, one after another (iterations 10 to 12).");
    }
}
