//! The family of a winner, if the project does not have it yet: its files are part of the winner's commit.

use std::path::Path;
use std::{fs, io};

use git2::Tree;

use super::changes::FileChange;
use super::family::FamilyFiles;
use super::index::LockedIndex;
use super::{Repo, VcsError, files};

impl Repo {
    /// Returns the files of a family that a tree lacks: none of them if the tree has the same family. Refuses a folder of that
    /// name with anything else in it.
    /// `here` tells whether they are written into the working tree, too.
    pub(super) fn family_changes(
        &self,
        winner: usize,
        family: &FamilyFiles,
        base: &Tree<'_>,
        here: bool,
    ) -> Result<Vec<FileChange>, VcsError> {
        family.check()?;
        let folder = self.project.join(family.folder());
        let taken = |how| Err(VcsError::FamilyTaken { folder: folder.display().to_string(), how });
        if base.get_path(&folder).is_ok() {
            let same = |(name, text): (&str, &str)| self.text_in(base, &folder.join(name)).as_deref() == Some(text);
            return if family.files().into_iter().all(same) { Ok(Vec::new()) } else { taken("holds another family") };
        }
        if here && self.has_other_files(family, &folder)? {
            return taken("holds files that are not committed");
        }
        family.files().into_iter().map(|(name, text)| self.written(winner, folder.join(name), text)).collect()
    }

    /// Tells whether the working tree has other files in the folder of a family. Files with the names of the family's are
    /// compared later, with those of the winner.
    fn has_other_files(&self, family: &FamilyFiles, folder: &Path) -> Result<bool, VcsError> {
        files::check_way(&self.workdir, &folder.join("family.toml"))?;
        let here = self.workdir.join(folder);
        let ours = |path: &Path| {
            family.files().iter().any(|(name, _)| path == here.join(name) || path == files::temporary(&here.join(name)))
        };
        match fs::read_dir(&here) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(VcsError::file("list", &here)(error)),
            Ok(entries) => Ok(entries.filter_map(Result::ok).any(|entry| !ours(&entry.path()))),
        }
    }

    /// Refuses a family's folder in which other files are staged.
    pub(super) fn check_nothing_else_staged(
        &self,
        changes: &[FileChange],
        family: &FamilyFiles,
        index: &LockedIndex,
    ) -> Result<(), VcsError> {
        let folder = self.project.join(family.folder());
        let ours = |path: &Path| changes.iter().any(|change| change.path == path);
        // A family that is committed already is not touched.
        if changes.iter().any(|change| change.path.starts_with(&folder))
            && index.staged_below(&folder).iter().any(|path| !ours(path))
        {
            return Err(VcsError::FamilyTaken { folder: folder.display().to_string(), how: "holds staged files" });
        }
        Ok(())
    }
}
