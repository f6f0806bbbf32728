//! Writes the files of an export into a folder, all or none, and replaces only what an earlier export wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::error::usage_sentence;
use crate::export::File;

/// The file that lists what was written.
const LIST: &str = "export.json";

/// The format of the list.
const SCHEMA: &str = "optloop.export-files/1";

/// What Python adds to a folder with modules.
const CACHE: &str = "__pycache__";

/// The files of an export, with the hashes of their contents.
#[derive(Serialize, Deserialize)]
struct Written {
    schema: String,
    files: BTreeMap<String, String>,
}

/// Writes a folder. If it exists, it must be empty or contain an earlier export as it was written.
pub(super) fn write(folder: &Path, files: &[File]) -> anyhow::Result<()> {
    let exists = folder.symlink_metadata().is_ok();
    if exists {
        refuse_what_is_foreign(folder)?;
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("Failed to make {}", parent.display()))?;
    // Next to the folder, so that it can be renamed.
    let staged = tempfile::Builder::new().prefix(".export-").tempdir_in(parent);
    let staged = staged.with_context(|| format!("Failed to make a folder in {}", parent.display()))?;
    fill(&staged.path().join("new"), files).context("Failed to write the exported files")?;
    let replace = || -> std::io::Result<()> {
        if exists {
            fs::rename(folder, staged.path().join("old"))?;
        }
        fs::rename(staged.path().join("new"), folder).or_else(|error| restore(folder, &staged, exists).and(Err(error)))
    };
    replace().with_context(|| format!("Failed to write {}", folder.display()))
}

fn restore(folder: &Path, staged: &TempDir, existed: bool) -> std::io::Result<()> {
    if existed { fs::rename(staged.path().join("old"), folder) } else { Ok(()) }
}

fn fill(folder: &Path, files: &[File]) -> anyhow::Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, &file.text)?;
    }
    let hashes = files.iter().map(|file| (file.path.clone(), hash(file.text.as_bytes()))).collect();
    let list = Written { schema: SCHEMA.to_owned(), files: hashes };
    Ok(fs::write(folder.join(LIST), serde_json::to_string_pretty(&list)? + "\n")?)
}

/// Refuses a folder with a file that no export wrote, or that was changed since.
fn refuse_what_is_foreign(folder: &Path) -> anyhow::Result<()> {
    if !folder.is_dir() || folder.is_symlink() {
        return Err(usage_sentence(format!("{} is no folder: choose another --output", folder.display())));
    }
    let list = fs::read_to_string(folder.join(LIST)).ok();
    let list: Option<Written> = list.and_then(|text| serde_json::from_str(&text).ok());
    let known = list.map(|list| list.files).unwrap_or_default();
    let mut found = Vec::new();
    below(folder, folder, &mut found).with_context(|| format!("Failed to list {}", folder.display()))?;
    for path in found.iter().filter(|path| path.as_path() != Path::new(LIST) || known.is_empty()) {
        let name = path.to_string_lossy().replace('\\', "/");
        let contents = fs::read(folder.join(path)).unwrap_or_default();
        let problem = match known.get(&name) {
            Some(written) if *written == hash(&contents) => continue,
            Some(_) => "was changed since optloop wrote it",
            None => "was not written by optloop",
        };
        return Err(usage_sentence(format!(
            "{} {problem}, and nothing is overwritten: choose another --output",
            folder.join(path).display()
        )));
    }
    Ok(())
}

/// Lists the files below a folder, relative to `root` and sorted. A link counts as a file.
fn below(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == CACHE => {}
            true => below(root, &entry.path(), found)?,
            false => found.extend(entry.path().strip_prefix(root).map(Path::to_owned).ok()),
        }
    }
    Ok(())
}

fn hash(contents: &[u8]) -> String {
    blake3::hash(contents).to_hex().to_string()
}
