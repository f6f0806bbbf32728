//! The winners that a commit has brought.

use std::path::Path;

use git2::{Commit, Tree};

use super::{CommitId, Repo, VcsError};

/// A winner as it stands in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WinnerInCommit {
    /// The path of its `.cu` file, relative to the repository.
    pub path: String,
    /// The folder below `kernels/` for winners of its device, such as `variants`.
    pub folder: String,
    /// Name of its workload.
    pub workload: String,
    /// Name of its case.
    pub case: String,
    /// The text of the `.cu` file.
    pub source: String,
    /// The text of the sidecar.
    pub sidecar: String,
    /// The text of the workload's file, as it was then.
    pub workload_file: Option<String>,
}

impl Repo {
    /// Returns the commit that a name stands for, and the winners that it added or changed: those whose source or sidecar is
    /// not its first parent's.
    pub fn winners_of(&self, name: &str) -> Result<(CommitId, Vec<WinnerInCommit>), VcsError> {
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

    pub(super) fn winners_in(&self, commit: &Commit<'_>) -> Result<Vec<WinnerInCommit>, git2::Error> {
        let tree = commit.tree()?;
        let before = commit.parent(0).ok().map(|parent| parent.tree()).transpose()?;
        let diff = self.git.diff_tree_to_tree(before.as_ref(), Some(&tree), None)?;
        let kernels = self.project.join("kernels");
        let changed = diff.deltas().filter_map(|delta| delta.new_file().path().map(Path::to_owned));
        let mut stems: Vec<_> = changed
            .filter(|path| path.starts_with(&kernels))
            .filter(|path| path.extension().is_some_and(|extension| extension == "cu" || extension == "json"))
            .map(|path| path.with_extension(""))
            .collect();
        stems.sort();
        stems.dedup();
        Ok(stems.iter().filter_map(|stem| self.winner_in(&tree, &kernels, stem)).collect())
    }

    /// Reads the winner at `<stem>.cu` and `<stem>.json`, if both are there, where winners are.
    fn winner_in(&self, tree: &Tree<'_>, kernels: &Path, stem: &Path) -> Option<WinnerInCommit> {
        let parts: Vec<&str> =
            stem.strip_prefix(kernels).ok()?.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
        let (folder, workload, case) = match parts[..] {
            ["variants", workload, case] => ("variants".to_owned(), workload, case),
            ["modelled", gpu, workload, case] => (format!("modelled/{gpu}"), workload, case),
            _ => return None,
        };
        let file = |path: &Path| {
            let blob = tree.get_path(path).ok()?.to_object(&self.git).ok()?.into_blob().ok()?;
            Some(String::from_utf8_lossy(blob.content()).into_owned())
        };
        Some(WinnerInCommit {
            path: stem.with_extension("cu").display().to_string(),
            source: file(&stem.with_extension("cu"))?,
            sidecar: file(&stem.with_extension("json"))?,
            workload_file: file(&kernels.join("workloads").join(format!("{workload}.toml"))),
            workload: workload.to_owned(),
            case: case.to_owned(),
            folder,
        })
    }
}
