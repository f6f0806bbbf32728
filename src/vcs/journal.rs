//! The journal of a commit, with which a later process can undo it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::changes::FileChange;
use super::{Repo, files};

/// A planned commit, written into git's lock of the index before any change.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// For a user who finds the file.
    about: String,
    /// The reference that it moves. It locks this and HEAD.
    pub(super) reference: String,
    /// The files that it writes, relative to the working tree, and the ids of their contents. Folders may have any
    /// bytes in their names.
    pub(super) files: Vec<(OsString, String)>,
    /// The files that it removes. Journals of 0.1.0 have none.
    #[serde(default)]
    pub(super) removed: Vec<OsString>,
    /// The folders that it makes, innermost first.
    pub(super) folders: Vec<OsString>,
}

impl Journal {
    /// Makes the journal of a commit that changes some files and moves a reference.
    pub(super) fn of(repo: &Repo, reference: &str, changes: &[FileChange]) -> Self {
        let shown: Vec<String> = changes.iter().map(|change| change.path.display().to_string()).collect();
        let about = format!("optloop (process {}) is committing {}", std::process::id(), shown.join(" and "));
        let written = |change: &FileChange| Some((change.path.clone().into(), change.blob()?.to_string()));
        let removed = changes.iter().filter(|change| change.after.is_none()).map(|change| change.path.clone().into());
        let above = changes.iter().flat_map(|change| files::folders_above(&change.path));
        let made: BTreeSet<&Path> = above.filter(|folder| !repo.workdir.join(folder).exists()).collect();
        // A folder sorts before what is in it.
        let folders = made.into_iter().rev().map(Into::into).collect();
        Self {
            about,
            reference: reference.to_owned(),
            files: changes.iter().filter_map(written).collect(),
            removed: removed.collect(),
            folders,
        }
    }

    /// Reads the journal in a lock file. None if another git made the file.
    pub(super) fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}
