//! What a session measured on the paths between two configurations of a family.

use super::ReportInput;
use super::contract::{ConfigurationPath, PathStep};
use crate::domain::ids::IterationId;
use crate::domain::proposal::experiment::Path;
use crate::domain::proposal::origin::{Change, Origin, Purpose};
use crate::domain::record::IterationRecord;

/// Returns the paths that reached their ends, in the order of the session.
pub(super) fn of(input: &ReportInput<'_>) -> Vec<ConfigurationPath> {
    let mut paths: Vec<&Path> = Vec::new();
    for path in input.record.iterations.iter().filter_map(path) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths.into_iter().filter_map(|path| walked(path, input)).collect()
}

fn path(iteration: &IterationRecord) -> Option<&Path> {
    match &iteration.rationale.origin {
        Origin::PathStep { path, .. } if iteration.rationale.purpose == Purpose::Experiment => Some(path),
        _ => None,
    }
}

/// Returns the steps of a path that were timed. None if they do not reach its end.
fn walked(of: &Path, input: &ReportInput<'_>) -> Option<ConfigurationPath> {
    let record = input.record;
    let find = |id: IterationId| record.iterations.iter().find(|one| one.id == id);
    let (from, to) = (find(of.from)?, find(of.to)?);
    let from_us = us(from, of)?;
    let (mut at, mut at_us, mut steps) = (from, from_us, Vec::new());
    for iteration in record.iterations.iter().filter(|one| path(one) == Some(of)) {
        let Some(us) = us(iteration, of) else { continue };
        let (changes, gain) = (Change::between(&at.params, &iteration.params), at_us / us);
        steps.push(PathStep { iteration: iteration.id, changes, us, gain });
        (at, at_us) = (iteration, us);
    }
    let (case, family) = (of.case.clone(), from.family.clone());
    (at.params == to.params).then_some(ConfigurationPath { case, family, from: of.from, from_us, to: of.to, steps })
}

fn us(iteration: &IterationRecord, path: &Path) -> Option<f64> {
    let found = iteration.measurements.iter().find(|found| found.case == path.case)?;
    Some(found.best_timing()?.median_ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{input, record};

    /// `BLOCK` 64 to 256 is a step, and 1024 with `PAD` another. One between them was not timed.
    #[test]
    fn a_path_is_told_if_it_reaches_its_end() {
        let mut record = record();
        let first = record.iterations[0].clone();
        let path = Path { from: first.id, to: IterationId(99), case: first.measurements[0].case.clone() };
        let mut iteration = |id: i64, block: i64, us: Option<f64>, is_step: bool| {
            let mut one = first.clone();
            one.id = IterationId(id);
            one.params.insert("BLOCK".to_owned(), block);
            match us {
                Some(us) => one.measurements[0].screening.as_mut().unwrap().median_ns = us * 1e3,
                None => one.measurements.clear(),
            }
            if is_step {
                one.rationale.purpose = Purpose::Experiment;
                one.rationale.origin = Origin::PathStep { path: path.clone(), changes: Vec::new() };
            }
            record.iterations.push(one);
        };
        iteration(99, 1024, Some(10.0), false);
        iteration(100, 256, Some(40.0), true);
        iteration(101, 512, None, true);
        let open = record.clone();
        let mut last = record.iterations.last().unwrap().clone();
        last.id = IterationId(102);
        last.params.insert("BLOCK".to_owned(), 1024);
        last.measurements = vec![record.iterations[record.iterations.len() - 3].measurements[0].clone()];
        record.iterations.push(last);

        assert_eq!(of(&input(&open)), [], "it has not reached its end");
        let [told] = &of(&input(&record))[..] else { panic!("one path") };
        let steps: Vec<_> = told.steps.iter().map(|step| (step.iteration.0, step.us, step.changes.len())).collect();
        assert_eq!((told.from, told.to, steps), (first.id, IterationId(99), vec![(100, 40.0, 1), (102, 10.0, 1)]));
        assert_eq!((told.steps[1].gain, told.gain()), (4.0, told.from_us / 10.0));
    }
}
