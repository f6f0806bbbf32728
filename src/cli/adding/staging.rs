//! Where the files of a new kernel are checked before they are written into the project.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::catalog::Project;
use crate::error::usage_sentence;
use crate::ops::OPS_FOLDER;

/// A new file: its path in the project, and its text.
pub type NewFile = (String, String);

/// A project in a temporary folder that contains nothing but the new files, to read them as every project is read.
pub struct Staging {
    folder: tempfile::TempDir,
}

impl Staging {
    /// Makes one. The new files may need an op of the project.
    pub fn new(project: &Project, op: Option<&str>) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("optloop-add-").tempdir()?;
        fs::copy(project.root().join("config.toml"), folder.path().join("config.toml"))?;
        if let Some(op) = op.filter(|op| project.root().join(OPS_FOLDER).join(op).is_dir()) {
            let (from, to) = (project.root().join(OPS_FOLDER).join(op), folder.path().join(OPS_FOLDER).join(op));
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(from)?.flatten().filter(|entry| entry.path().is_file()) {
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok(Self { folder })
    }

    /// Writes files into the temporary folder, and returns the project that they are.
    pub fn written(&self, files: &[NewFile]) -> anyhow::Result<Project> {
        for (file, text) in files {
            let path = self.folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap_or(self.folder.path()))?;
            fs::write(path, text)?;
        }
        Project::find(Some(self.folder.path()))
    }

    /// Returns an error about the files as one about those of the user's project.
    pub fn plain(&self, error: &anyhow::Error) -> String {
        format!("{error:#}").replace(&format!("{}/", self.folder.path().display()), "")
    }

    /// Writes the files into the project: all of them, or none. Those that are there are replaced.
    pub fn copy_to(&self, project: &Project, files: &[NewFile]) -> anyhow::Result<()> {
        let mut before: Vec<(PathBuf, Option<Vec<u8>>)> = Vec::new();
        for (file, _) in files {
            let path = project.root().join(file);
            let there = fs::read(&path).ok();
            before.push((path.clone(), there));
            let copy = || -> std::io::Result<()> {
                let folder = path.parent().unwrap_or(project.root());
                fs::create_dir_all(folder)?;
                // A link must not lead elsewhere, so the new file takes its place.
                let mut new = tempfile::NamedTempFile::new_in(folder)?;
                new.write_all(&fs::read(self.folder.path().join(file))?)?;
                new.as_file().sync_all()?;
                new.as_file().set_permissions(fs::metadata(self.folder.path().join(file))?.permissions())?;
                new.persist(&path).map_err(|error| error.error)?;
                Ok(())
            };
            if let Err(error) = copy() {
                for (path, text) in &before {
                    match text {
                        Some(text) => drop(fs::write(path, text)),
                        None => remove(path, project.root()),
                    }
                }
                return Err(error).with_context(|| format!("Failed to write {}", path.display()));
            }
        }
        Ok(())
    }
}

/// Removes a file, and the folders that are empty without it.
fn remove(file: &Path, root: &Path) {
    let _ = fs::remove_file(file);
    let folders = file.ancestors().skip(1).take_while(|folder| *folder != root);
    // The first that is not empty stays, and so do those above it.
    let _ = folders.map(fs::remove_dir).take_while(Result::is_ok).count();
}

/// Refuses to overwrite a file of the project.
pub fn refuse_what_is_there<'a>(project: &Project, mut paths: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    match paths.find(|file| project.root().join(file).symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(file) => Err(usage_sentence(format!(
            "{file} exists already: --force replaces what an earlier addition made, and --name gives the kernel another name"
        ))),
    }
}
