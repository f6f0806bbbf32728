//! The user's consents. They are stored in the user's folder. A file in the project could come with the project.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{ConsentState, Item, standing};
use crate::domain::text::toml_text;
use crate::files;

/// The consents of a user, for all projects.
#[derive(Debug)]
pub struct Consents {
    path: PathBuf,
    entries: Vec<Entry>,
    edited: Vec<Edited>,
}

/// A file that its user edits: its contents need no new consent while HEAD stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edited {
    /// The project's folder, with links resolved.
    pub project: PathBuf,
    /// The file's path in the project.
    pub file: String,
    /// The commit of HEAD when the user agreed.
    pub head: String,
}

/// One consent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The project's folder, with links resolved.
    pub project: PathBuf,
    /// What is trusted there.
    #[serde(flatten)]
    pub item: Item,
}

#[derive(Default, Serialize, Deserialize)]
struct ConsentFile {
    #[serde(default)]
    trusted: Vec<Entry>,
    #[serde(default)]
    edited: Vec<Edited>,
}

impl Consents {
    /// Reads the consents of this user.
    pub fn load() -> anyhow::Result<Self> {
        // Systems without a folder for state have one for data.
        let base = dirs::state_dir().or_else(dirs::data_local_dir);
        let path = base.context("There is no state folder: set XDG_STATE_HOME or HOME")?.join("optloop/trust.toml");
        if !path.exists() {
            return Ok(Self { path, entries: Vec::new(), edited: Vec::new() });
        }
        let text: ConsentFile = toml_text::parse(&files::read(&path)?).map_err(|problem| {
            anyhow::anyhow!("{}: {problem}: correct it, or remove it and trust the projects again", path.display())
        })?;
        Ok(Self { path, entries: text.trusted, edited: text.edited })
    }

    /// Returns every consent.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the files that their user edits.
    pub fn edited(&self) -> &[Edited] {
        &self.edited
    }

    /// Compares an item of a project with what the user has agreed to there. `head` is the commit of HEAD: while it stays, the
    /// contents of a file that the user edits do not count.
    pub fn standing(&self, project: &Path, item: &Item, head: Option<&str>) -> ConsentState {
        let trusted = || self.entries.iter().filter(|entry| entry.project == project).map(|entry| &entry.item);
        let is_edited = |file: &str| {
            let own = self.edited.iter().filter(|edited| edited.project == project && edited.file == file);
            own.into_iter().any(|edited| Some(edited.head.as_str()) == head)
        };
        let found = standing(item, trusted());
        if !matches!(found, ConsentState::Changed(_)) || !item.files.keys().any(|file| is_edited(file)) {
            return found;
        }
        let without = |item: &Item| -> Item {
            let mut item = item.clone();
            item.files.iter_mut().filter(|(file, _)| is_edited(file)).for_each(|(_, hash)| hash.clear());
            item
        };
        let trusted: Vec<Item> = trusted().map(without).collect();
        standing(&without(item), trusted.iter())
    }

    /// Remembers that the user edits a file, and writes the consents.
    pub fn edit(&mut self, edited: Edited) -> anyhow::Result<()> {
        self.edited.retain(|other| (&other.project, &other.file) != (&edited.project, &edited.file));
        self.edited.push(edited);
        self.save()
    }

    /// Adds items of a project, and writes the file.
    pub fn add(&mut self, project: &Path, items: &[Item]) -> anyhow::Result<()> {
        let entry = |item: &Item| Entry { project: project.to_owned(), item: item.clone() };
        self.entries.extend(items.iter().map(entry));
        self.save()
    }

    /// Removes all items of a project, and writes the file. Returns how many there were.
    pub fn revoke(&mut self, project: &Path) -> anyhow::Result<usize> {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.project != project);
        let (removed, edited) = (before - self.entries.len(), self.edited.len());
        self.edited.retain(|edited| edited.project != project);
        if removed > 0 || edited > self.edited.len() {
            self.save()?;
        }
        Ok(removed)
    }

    /// Replaces the file in one step.
    fn save(&self) -> anyhow::Result<()> {
        let write = || -> anyhow::Result<()> {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let text = toml::to_string(&ConsentFile { trusted: self.entries.clone(), edited: self.edited.clone() })?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.persist(&self.path)?;
            Ok(())
        };
        write().with_context(|| format!("Failed to write {}", self.path.display()))
    }
}
