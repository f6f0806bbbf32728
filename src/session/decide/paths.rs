//! Which steps on paths between configurations are due. It is pure.
//!
//! Two paths show what parameters gain: from the initial kernel to the best configuration of its family, and from the default
//! configuration of a winner's family to that winner, each on the case with the most headroom.

use crate::agent::path::{self, Begun};
use crate::domain::history::Finished;
use crate::domain::ids::CaseName;
use crate::domain::proposal::experiment::Path;
use crate::domain::proposal::origin::Change;
use crate::domain::variant::Params;
use crate::session::meter::Time;
use crate::session::state::SessionState;

/// A step that is due.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct PathStepDue {
    /// The path.
    pub path: Path,
    /// The configuration to time.
    pub params: Params,
    /// What it changes in the step before.
    pub changes: Vec<Change>,
}

impl SessionState {
    /// Returns the next step that is due. `is_over`: nothing else is left to try.
    pub fn path_step(&self, time: &Time, is_over: bool) -> Option<PathStepDue> {
        let room = self.room_for_experiments(time);
        if room == 0 || !(is_over || self.is_late(time)) {
            return None;
        }
        let steps = &self.history().path_steps;
        let begun = steps.last().and_then(|step| self.next_step(step.path.clone()));
        begun.or_else(|| {
            let is_new =
                |path: &Path| steps.iter().all(|step| (step.path.from, &step.path.case) != (path.from, &path.case));
            // A path that does not reach its end tells little.
            let fits = |path: &Path| self.changes(path).is_some_and(|changes| changes.len() as u64 <= room);
            self.paths().into_iter().filter(|path| is_new(path) && fits(path)).find_map(|path| self.next_step(path))
        })
    }

    fn changes(&self, path: &Path) -> Option<Vec<Change>> {
        let params = |iteration| Some(&self.history().iteration(iteration)?.params);
        Some(Change::between(params(path.from)?, params(path.to)?))
    }

    /// Returns the paths to walk, as of now.
    fn paths(&self) -> Vec<Path> {
        let history = self.history();
        let initial = self.furthest(|state, case| state.history().iteration(state.initial_kernel(case)?));
        let of_initial = initial.and_then(|(case, from)| {
            let same = history.finished.iter().filter(|one| one.family == from.family);
            path_between(from, fastest(same, case)?, case)
        });
        let incumbent = |state: &Self, case: &CaseName| Some(state.history().incumbents.get(case)?.iteration);
        let winner = self.furthest(|state, case| state.history().iteration(incumbent(state, case)?));
        let of_winner = winner.and_then(|(case, to)| {
            let defaults = self.setup().family(&to.family).ok()?.defaults();
            let same = history.finished.iter().filter(|one| one.family == to.family && one.params == defaults);
            path_between(fastest(same, case)?, to, case)
        });
        of_initial.into_iter().chain(of_winner).collect()
    }

    /// Returns the next step on a path, unless it has ended.
    fn next_step(&self, path: Path) -> Option<PathStepDue> {
        let (history, setup) = (self.history(), self.setup());
        let (from, to) = (history.iteration(path.from)?, history.iteration(path.to)?);
        let (family, case) = (setup.family(&from.family).ok()?, setup.workload.case(&path.case).ok()?);
        let steps = || history.path_steps.iter().filter(|step| step.path == path);
        let at = steps().rev().find(|step| step.time_ns.is_some()).map_or(&from.params, |step| &step.params);
        let failed: Vec<&Params> = steps().filter(|step| step.time_ns.is_none()).map(|step| &step.params).collect();
        let begun = Begun { from, to: &to.params, at, failed: &failed };
        // The search ends with a mistake in a manifest, and says which.
        let params = path::next(&setup.search_context(), history, (family, case), &begun).ok()??;
        Some(PathStepDue { changes: Change::between(at, &params), params, path })
    }
}

/// Returns the fastest variant on a case.
fn fastest<'a>(variants: impl Iterator<Item = &'a Finished>, case: &str) -> Option<&'a Finished> {
    let timed = variants.filter_map(|one| Some((one.time_ns(case)?, one)));
    timed.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, one)| one)
}

/// Returns the path between two variants, unless they have the same configuration.
fn path_between(from: &Finished, to: &Finished, case: &CaseName) -> Option<Path> {
    (from.params != to.params).then(|| Path { from: from.iteration, to: to.iteration, case: case.clone() })
}
