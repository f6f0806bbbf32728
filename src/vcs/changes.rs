//! The files that a commit of winners writes and removes.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use git2::{Oid, Tree};

use super::{FamilyFiles, Repo, VcsError, Winner, files};
use crate::domain::device::DeviceKey;
use crate::domain::sidecar::Sidecar;
use crate::domain::variant::VariantHash;

/// The files of a winner.
pub(super) struct WinnerFiles {
    /// The path of its sidecar, relative to the repository's working tree.
    pub(super) path: PathBuf,
    /// The sidecar.
    pub(super) sidecar: Sidecar,
    /// The text of the sidecar.
    pub(super) text: String,
    /// The text of its source.
    pub(super) source: String,
    /// Its family, if a language model wrote that.
    pub(super) family: Option<FamilyFiles>,
    /// The sources of the same case that it has beaten. Any other winner that it would replace must be slower by its
    /// sidecar. None if it may replace every winner.
    pub(super) beaten: Option<Vec<VariantHash>>,
}

/// One file of a commit.
pub(super) struct FileChange {
    /// The path, relative to the repository's working tree.
    pub(super) path: PathBuf,
    /// The contents afterwards. None if the file is removed.
    pub(super) after: Option<Contents>,
    /// The index of the winner that needs the change.
    pub(super) winner: usize,
}

/// The contents of a file.
pub(super) struct Contents {
    pub(super) bytes: Vec<u8>,
    pub(super) blob: Oid,
}

/// The winners that cannot be committed, by their index, each with a reason.
pub(super) type Refusals = Vec<(usize, VcsError)>;

impl FileChange {
    /// Returns the id of its contents afterwards.
    pub(super) fn blob(&self) -> Option<Oid> {
        self.after.as_ref().map(|contents| contents.blob)
    }
}

impl WinnerFiles {
    /// Returns the path of its source.
    pub(super) fn source_path(&self) -> PathBuf {
        self.sidecar.source_beside(&self.path)
    }
}

impl Repo {
    /// Returns the files of a winner. Checks their names.
    pub(super) fn files_of(&self, winner: &Winner) -> Result<WinnerFiles, VcsError> {
        let path = self.sidecar_path(&winner.device, &winner.workload, winner.case())?;
        let source = winner.sidecar.source_beside(&path);
        check_name(&source.file_name().unwrap_or_default().to_string_lossy())?;
        Ok(WinnerFiles {
            path,
            text: winner.sidecar.to_json().map_err(VcsError::Json)?,
            sidecar: winner.sidecar.clone(),
            source: winner.source.clone(),
            family: winner.family.clone(),
            beaten: None,
        })
    }

    /// Returns the path of the sidecar of a case, relative to the working tree. Refuses names that lead elsewhere.
    pub(super) fn sidecar_path(&self, device: &DeviceKey, workload: &str, case: &str) -> Result<PathBuf, VcsError> {
        let device = device.to_string();
        for name in [&device, workload, case] {
            check_name(name)?;
        }
        let folder = Path::new("kernels/variants").join(&device).join(workload);
        Ok(self.project.join(folder).join(format!("{case}.json")))
    }

    /// Returns the files that winners change in a tree, and stores their contents. Otherwise returns the winners that
    /// cannot be committed there. `here` tells whether the files are written into the working tree, too.
    ///
    /// The files of a winner are its sidecar, its source, and its family if that is new. A source is removed if a sidecar
    /// named it before and none does afterwards.
    pub(super) fn changes(
        &self,
        winners: &[&WinnerFiles],
        base: &Tree<'_>,
        here: bool,
    ) -> Result<Vec<FileChange>, Refusals> {
        let (mut changes, mut refused, mut paths) = (Vec::new(), Vec::new(), HashSet::new());
        for (index, winner) in winners.iter().enumerate() {
            match self.written_by(index, winner, base, here) {
                // Cases may share a source and a family.
                Ok(written) => changes.extend(written.into_iter().filter(|change| paths.insert(change.path.clone()))),
                Err(reason) => refused.push((index, reason)),
            }
        }
        if !refused.is_empty() {
            return Err(refused);
        }
        for (index, path) in self.orphans(winners, base) {
            if paths.insert(path.clone()) {
                changes.push(FileChange { path, after: None, winner: index });
            }
        }
        Ok(changes)
    }

    /// Returns the files that a winner writes.
    fn written_by(
        &self,
        index: usize,
        winner: &WinnerFiles,
        base: &Tree<'_>,
        here: bool,
    ) -> Result<Vec<FileChange>, VcsError> {
        if here {
            files::check_way(&self.workdir, &winner.path)?;
        }
        self.check_beaten(winner, base)?;
        let mut written = vec![
            self.written(index, winner.source_path(), &winner.source)?,
            self.written(index, winner.path.clone(), &winner.text)?,
        ];
        if let Some(family) = &winner.family {
            written.extend(self.family_changes(index, family, base, here)?);
        }
        Ok(written)
    }

    /// Refuses to replace a winner of the case that was not compared with this one, unless that one is slower by its
    /// sidecar. Somebody else has committed it.
    fn check_beaten(&self, winner: &WinnerFiles, base: &Tree<'_>) -> Result<(), VcsError> {
        let Some(beaten) = &winner.beaten else { return Ok(()) };
        let Some(there) = self.text_in(base, &winner.path).and_then(|text| Sidecar::parse(&text).ok()) else {
            return Ok(());
        };
        let (ours, theirs) = (&winner.sidecar.measurement, &there.measurement);
        let is_known = there.variant.hash == winner.sidecar.variant.hash || beaten.contains(&there.variant.hash);
        let is_slower = ours.graphs == theirs.graphs && ours.median_us < theirs.median_us;
        if is_known || is_slower {
            return Ok(());
        }
        Err(VcsError::Unbeaten { path: winner.path.display().to_string(), us: theirs.median_us })
    }

    /// Stores the contents of a file that is written.
    pub(super) fn written(&self, winner: usize, path: PathBuf, text: &str) -> Result<FileChange, VcsError> {
        let blob = self.git.blob(text.as_bytes()).map_err(VcsError::git("store the winner"))?;
        Ok(FileChange { path, after: Some(Contents { bytes: text.into(), blob }), winner })
    }

    /// Returns the sources in a tree that only the replaced sidecars name, each with the winner that replaces the
    /// sidecar.
    fn orphans(&self, winners: &[&WinnerFiles], base: &Tree<'_>) -> Vec<(usize, PathBuf)> {
        let sidecars: HashSet<&Path> = winners.iter().map(|winner| winner.path.as_path()).collect();
        let sources: HashSet<PathBuf> = winners.iter().map(|winner| winner.source_path()).collect();
        // The sources that the other sidecars of a folder name. None for a sidecar that cannot be read.
        let mut named: HashMap<&Path, HashSet<Option<PathBuf>>> = HashMap::new();
        for folder in sidecars.iter().filter_map(|path| path.parent()) {
            named.entry(folder).or_insert_with(|| {
                let others = self.sidecars_in(base, folder).into_iter();
                let others = others.filter(|path| !sidecars.contains(path.as_path()));
                others.map(|path| self.source_of(base, &path)).collect()
            });
        }
        let orphan = |(index, winner): (usize, &&WinnerFiles)| {
            let replaced = self.source_of(base, &winner.path)?;
            let others = named.get(winner.path.parent()?)?;
            // A sidecar that cannot be read may name it.
            let is_needed = sources.contains(&replaced) || others.contains(&None);
            let is_needed = is_needed || others.contains(&Some(replaced.clone()));
            (!is_needed && base.get_path(&replaced).is_ok()).then_some((index, replaced))
        };
        winners.iter().enumerate().filter_map(orphan).collect()
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
