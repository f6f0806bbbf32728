//! A family as files of a project.

use std::path::{Path, PathBuf};

use super::error::VcsError;
use crate::domain::family::{Family, MAX_FILE_BYTES};

/// The folder of the families, in a project.
const FOLDER: &str = "templates/kernels";

/// A family that a session got from a language model, as the files that the project will have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyFiles {
    /// Its name, which becomes the folder's.
    pub name: String,
    /// The text of `family.toml`.
    pub manifest: String,
    /// The text of `kernel.cu.tera`, with its fragments expanded.
    pub template: String,
}

impl FamilyFiles {
    /// Returns the files of a family.
    pub fn of(family: &Family) -> Self {
        Self { name: family.name.clone(), manifest: family.manifest.clone(), template: family.template.clone() }
    }

    /// Refuses what a project could not read back: then no verb would work there any more.
    pub(super) fn check(&self) -> Result<(), VcsError> {
        let problem = match Family::parse(&self.manifest, self.template.clone()) {
            Err(problem) => problem.to_string(),
            Ok(family) if family.name != self.name => format!("its manifest has the name `{}`", family.name),
            Ok(family) if !family.headers.is_empty() => {
                "its manifest declares `headers`, which are not among its files: remove the key".to_owned()
            }
            Ok(_) if includes_files(&self.template) => {
                "its template includes another file: put the text of the file in its place".to_owned()
            }
            Ok(_) if [&self.manifest, &self.template].iter().any(|text| text.len() > MAX_FILE_BYTES) => {
                format!("a file has more than {} MiB, the limit for a file of a project", MAX_FILE_BYTES >> 20)
            }
            Ok(_) if self.template.contains('\0') => "its template has a NUL byte: remove it".to_owned(),
            Ok(_) => return Ok(()),
        };
        Err(VcsError::Family { name: self.name.clone(), problem })
    }

    /// Returns the folder, relative to the project.
    pub fn folder(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }

    /// Returns the names of its files with their texts.
    pub(super) fn files(&self) -> [(&'static str, &str); 2] {
        [("family.toml", &self.manifest), ("kernel.cu.tera", &self.template)]
    }
}

/// Tells whether a template includes a file, even in a comment.
fn includes_files(template: &str) -> bool {
    let begins = |tag: &str| tag.trim_start_matches(|c: char| c == '-' || c.is_whitespace()).starts_with("include");
    template.split("<%").skip(1).any(begins)
}
