//! The projects of a service. Requests name a project; they never name a path.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::readers::{Reader, Readers};
use crate::catalog::Project;
use crate::config::Config;
use crate::files;
use crate::store::{self, StoreError};

/// A project that a service works on.
#[derive(Debug)]
pub struct Served {
    /// Its name in requests.
    pub name: String,
    /// Its folder, with links resolved.
    pub root: PathBuf,
    readers: Readers,
}

/// The projects of a service, in the order in which the user named them.
#[derive(Debug)]
pub struct Projects(Vec<Served>);

impl Projects {
    /// Finds the projects that the user names: folders, or `NAME=FOLDER`. The name is that of the folder unless the user
    /// gives one.
    pub fn find(given: &[String]) -> anyhow::Result<Self> {
        let mut projects: Vec<Served> = Vec::new();
        for text in given {
            let served = Served::find(text)?;
            if let Some(other) = projects.iter().find(|other| other.name == served.name) {
                bail!(
                    "{} and {} are both called `{}`: give one of them another name, as in NAME={}",
                    other.root.display(),
                    served.root.display(),
                    served.name,
                    served.root.display()
                );
            }
            projects.push(served);
        }
        Ok(Self(projects))
    }

    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = &Served> {
        self.0.iter()
    }

    /// Returns the project of a name.
    pub fn named(&self, name: &str) -> Option<&Served> {
        self.0.iter().find(|project| project.name == name)
    }

    /// Returns the project in a folder.
    pub fn at(&self, root: &str) -> Option<&Served> {
        self.0.iter().find(|project| project.root == Path::new(root))
    }
}

impl Served {
    fn find(given: &str) -> anyhow::Result<Self> {
        // A folder may have an equals sign in its name.
        let (name, folder) = match given.split_once('=') {
            Some((name, folder)) if !Path::new(given).is_dir() => (Some(name.to_owned()), folder),
            _ => (None, given),
        };
        let project = Project::find(Some(Path::new(folder)))?;
        let root = project.root().canonicalize().with_context(|| format!("Failed to find {folder}"))?;
        if root.to_str().is_none() {
            bail!("{} is not UTF-8: rename the folder", root.display());
        }
        let of_folder = || root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.unwrap_or_else(of_folder);
        // `.` and `..` are no parts of an address.
        let is_path = name.chars().all(|c| c == '.');
        if is_path || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')) {
            bail!(
                "`{name}` cannot be the name of a project: give it one of letters, digits, `.`, `_` and `-`, as in NAME={folder}"
            );
        }
        Ok(Self { name, root, readers: Readers::default() })
    }

    /// Returns the project in a folder that this service does not serve.
    pub fn unnamed(folder: &str) -> Self {
        Self { name: String::new(), root: folder.into(), readers: Readers::default() }
    }

    /// Returns the project's folder as text.
    pub fn folder(&self) -> &str {
        self.root.to_str().unwrap_or_default()
    }

    /// Returns the project's files.
    pub fn project(&self) -> anyhow::Result<Project> {
        Project::find(Some(&self.root))
    }

    /// Returns the path of the store, as the project's configuration has it now.
    pub fn store_path(&self) -> anyhow::Result<PathBuf> {
        let config = Config::load(&self.root)?;
        if Path::new(&config.store.path).is_relative() {
            files::check_place(&self.root, Path::new(&config.store.path))?;
        }
        let path = self.root.join(config.store.path);
        store::check_path(&path)?;
        Ok(path)
    }

    /// Opens the store for reading. None if there is no store yet.
    pub async fn reader(&self) -> anyhow::Result<Option<Reader<'_>>> {
        let path = self.store_path()?;
        match self.readers.open(&path).await {
            Ok(reader) => Ok(Some(reader)),
            Err(StoreError::NoSessions) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
