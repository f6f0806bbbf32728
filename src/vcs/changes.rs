//! The files that the commit of a winner writes and removes.

use std::path::{Path, PathBuf};

use git2::{Oid, Tree};

use super::{Repo, VcsError, Winner, files};
use crate::domain::sidecar::Sidecar;

/// One file of a commit.
pub(super) struct FileChange {
    /// The path, relative to the repository's working tree.
    pub(super) path: PathBuf,
    /// The contents afterwards. None if the file is removed.
    pub(super) after: Option<Contents>,
}

/// The contents of a file.
pub(super) struct Contents {
    pub(super) bytes: Vec<u8>,
    pub(super) blob: Oid,
}

impl FileChange {
    /// Returns the id of its contents afterwards.
    pub(super) fn blob(&self) -> Option<Oid> {
        self.after.as_ref().map(|contents| contents.blob)
    }
}

impl Repo {
    /// Returns the files that a winner changes in a tree. Checks their paths and stores their contents.
    ///
    /// These are its sidecar, its source, and its family if that is new. The source of the winner that it replaces is
    /// removed if no other case needs it.
    pub(super) fn changes(&self, winner: &Winner, base: &Tree<'_>) -> Result<Vec<FileChange>, VcsError> {
        let device = winner.device.to_string();
        let sidecar = Path::new("kernels/variants").join(&device).join(&winner.workload);
        let sidecar = self.project.join(sidecar).join(format!("{}.json", winner.case()));
        let source = winner.sidecar.source_beside(&sidecar);
        let source_name = source.file_name().unwrap_or_default().to_string_lossy();
        for name in [&device, &winner.workload, winner.case(), &source_name] {
            check_name(name)?;
        }
        files::check_way(&self.workdir, &sidecar)?;
        let orphan = self.orphan(base, &sidecar, &source).map(|path| FileChange { path, after: None });
        let text = winner.sidecar.to_json().map_err(VcsError::Json)?;
        let mut changes = vec![self.written(source, &winner.source)?, self.written(sidecar, &text)?];
        changes.extend(orphan);
        if let Some(family) = &winner.family {
            changes.extend(self.family_changes(family, base)?);
        }
        Ok(changes)
    }

    /// Stores the contents of a file that is written.
    pub(super) fn written(&self, path: PathBuf, text: &str) -> Result<FileChange, VcsError> {
        let blob = self.git.blob(text.as_bytes()).map_err(VcsError::git("store the winner"))?;
        Ok(FileChange { path, after: Some(Contents { bytes: text.into(), blob }) })
    }

    /// Returns the source that a tree's sidecar names, if no sidecar would name it after the replacement.
    fn orphan(&self, base: &Tree<'_>, sidecar: &Path, source: &Path) -> Option<PathBuf> {
        let replaced = self.source_of(base, sidecar)?;
        if replaced == source || base.get_path(&replaced).is_err() {
            return None;
        }
        let mut others = self.sidecars_in(base, sidecar.parent()?).into_iter().filter(|other| other != sidecar);
        // A sidecar that cannot be read may name it.
        let is_named = others.any(|other| self.source_of(base, &other).is_none_or(|source| source == replaced));
        (!is_named).then_some(replaced)
    }

    /// Returns the source that a sidecar in a tree names. None if the sidecar cannot be read.
    pub(super) fn source_of(&self, tree: &Tree<'_>, sidecar: &Path) -> Option<PathBuf> {
        Some(Sidecar::parse(&self.text_in(tree, sidecar)?).ok()?.source_beside(sidecar))
    }

    /// Returns the sidecars in a folder of a tree.
    pub(super) fn sidecars_in(&self, tree: &Tree<'_>, folder: &Path) -> Vec<PathBuf> {
        let found = tree.get_path(folder).ok().and_then(|entry| entry.to_object(&self.git).ok()?.into_tree().ok());
        let Some(found) = found else { return Vec::new() };
        let paths = found.iter().filter_map(|entry| Some(folder.join(entry.name().ok()?)));
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
    }

    /// Reads a file of a tree.
    pub(super) fn text_in(&self, tree: &Tree<'_>, path: &Path) -> Option<String> {
        let blob = tree.get_path(path).ok()?.to_object(&self.git).ok()?.into_blob().ok()?;
        Some(String::from_utf8_lossy(blob.content()).into_owned())
    }
}

/// Refuses a name that could lead elsewhere or look like an option.
fn check_name(name: &str) -> Result<(), VcsError> {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(safe) {
        return Err(VcsError::Name(name.to_owned()));
    }
    Ok(())
}
