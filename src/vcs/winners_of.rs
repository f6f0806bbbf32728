//! The winners of a commit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use git2::{Commit, Tree};

use super::{CommitId, Repo, VcsError, running};
use crate::domain::device::DeviceKey;
use crate::domain::ids::CaseName;

/// A winner in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WinnerInCommit {
    /// The path of its sidecar, relative to the repository.
    pub path: String,
    /// Name of its workload.
    pub workload: String,
    /// Name of its case.
    pub case: CaseName,
    /// The text of its source, if the commit has it.
    pub source: Option<String>,
    /// The text of the sidecar.
    pub sidecar: String,
    /// The text of the workload's file at that commit.
    pub workload_file: Option<String>,
}

impl Repo {
    /// Returns the commit of a name, and the winners that it added or changed. Those are the winners whose source or
    /// sidecar differs from its first parent's.
    pub fn winners_of(&self, name: &str) -> Result<(CommitId, Vec<WinnerInCommit>), VcsError> {
        let _running = running::begin();
        let commit = self
            .git
            .revparse_single(name)
            .and_then(|object| object.peel_to_commit())
            .map_err(|_| VcsError::NoCommit(name.to_owned()))?;
        let winners = self.winners_in(&commit).map_err(VcsError::git("read the commit"))?;
        if winners.is_empty() {
            return Err(VcsError::NoWinners(commit.id().to_string()));
        }
        Ok((CommitId(commit.id().to_string()), winners))
    }

    /// Returns the sidecars of a workload's winners at the tip of a reference: their paths, relative to the project, and their
    /// texts. Empty if there is no such reference.
    pub fn winners_at(&self, reference: &str, workload: &str) -> Vec<(PathBuf, String)> {
        let _running = running::begin();
        let Ok(Some(tip)) = self.tip(reference) else { return Vec::new() };
        let Ok(tree) = self.tree_of(Some(&tip)) else { return Vec::new() };
        let variants = self.project.join("kernels/variants");
        let devices = tree.get_path(&variants).and_then(|entry| self.git.find_tree(entry.id()));
        let Ok(devices) = devices else { return Vec::new() };
        let folders = devices.iter().filter_map(|entry| Some(variants.join(entry.name().ok()?).join(workload)));
        let sidecars = folders.filter(|folder| self.holds_winners(folder)).collect::<Vec<_>>();
        let sidecars = sidecars.iter().flat_map(|folder| self.sidecars_in(&tree, folder));
        let winner = |path: PathBuf| {
            let text = self.text_in(&tree, &path)?;
            Some((path.strip_prefix(&self.project).ok()?.to_owned(), text))
        };
        sidecars.filter_map(winner).collect()
    }

    pub(super) fn winners_in(&self, commit: &Commit<'_>) -> Result<Vec<WinnerInCommit>, git2::Error> {
        let tree = commit.tree()?;
        let before = commit.parent(0).ok().map(|parent| parent.tree()).transpose()?;
        let diff = self.git.diff_tree_to_tree(before.as_ref(), Some(&tree), None)?;
        let changed: BTreeSet<PathBuf> =
            diff.deltas().filter_map(|delta| delta.new_file().path().map(Path::to_owned)).collect();
        let is_kernel = |path: &&PathBuf| path.extension().is_some_and(|end| end == "cu" || end == "json");
        let folders: BTreeSet<&Path> = changed.iter().filter(is_kernel).filter_map(|path| path.parent()).collect();
        let sidecars = folders.into_iter().filter(|folder| self.holds_winners(folder));
        let sidecars = sidecars.flat_map(|folder| self.sidecars_in(&tree, folder));
        Ok(sidecars.filter_map(|sidecar| self.winner_in(&tree, &sidecar, &changed)).collect())
    }

    /// Returns whether a folder holds winners, in this version's layout or that of 0.1.0. History does not change.
    fn holds_winners(&self, folder: &Path) -> bool {
        let inside = folder.strip_prefix(self.project.join("kernels")).ok();
        let parts: Option<Vec<&str>> = inside.and_then(|inside| inside.iter().map(|part| part.to_str()).collect());
        match parts.as_deref() {
            Some(["variants", device, _workload]) => device.parse::<DeviceKey>().is_ok(),
            Some(["variants", _workload]) | Some(["modelled", _, _workload]) => true,
            _ => false,
        }
    }

    /// Reads the winner of a sidecar, if the sidecar or its source has changed.
    fn winner_in(&self, tree: &Tree<'_>, sidecar: &Path, changed: &BTreeSet<PathBuf>) -> Option<WinnerInCommit> {
        let source = self.source_of(tree, sidecar);
        if !changed.contains(sidecar) && !source.as_ref().is_some_and(|source| changed.contains(source)) {
            return None;
        }
        let workload = sidecar.parent()?.file_name()?.to_str()?;
        let workload_file = self.project.join("kernels/workloads").join(format!("{workload}.toml"));
        Some(WinnerInCommit {
            path: sidecar.display().to_string(),
            workload: workload.to_owned(),
            case: sidecar.file_stem()?.to_str()?.into(),
            source: source.and_then(|source| self.text_in(tree, &source)),
            sidecar: self.text_in(tree, sidecar)?,
            workload_file: self.text_in(tree, &workload_file),
        })
    }
}
