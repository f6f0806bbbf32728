//! Which families have changed since they were last checked.
//!
//! What optloop ships was checked when it was released. Of everything else, a file keeps what was right: a hash over all that a
//! check depends on, for each family on each workload.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::catalog::Project;
use crate::check::{Finding, Level, Pair, Stage};
use crate::config::Config;
use crate::ops;
use crate::shipped;

/// The file with the hashes, below the project.
const FILE: &str = ".optloop/checked.json";

/// The fragments that any family may include.
const FRAGMENTS: &str = "templates/kernels/common";

/// What was right when it was last checked.
#[derive(Debug)]
pub(super) struct Known {
    file: PathBuf,
    /// The hashes, by device, workload and family.
    hashes: BTreeMap<String, String>,
    /// What every check depends on.
    terms: String,
    device: String,
}

impl Known {
    /// Reads what is known about a project. A missing or broken file knows nothing.
    pub(super) fn of(project: &Project, config: &Config, device: &str) -> Self {
        let file = project.root().join(FILE);
        let hashes = fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str(&text).ok());
        let terms = format!("{} {:?} {:?}", env!("CARGO_PKG_VERSION"), config.compile.options, config.validate);
        Self { file, hashes: hashes.unwrap_or_default(), terms, device: device.to_owned() }
    }

    /// Tells whether a family is as optloop ships it, or as it was when it was right.
    pub(super) fn has(&self, project: &Project, pair: &Pair) -> bool {
        let (root, workload) = (project.root(), workload_file(pair));
        let is_own_op = root.join(ops::OPS_FOLDER).join(pair.workload.op.name()).exists();
        let is_shipped =
            !is_own_op && shipped::is_unchanged(root, &pair.family.name) && shipped::is_file_unchanged(root, &workload);
        is_shipped || self.hash(root, pair).is_some_and(|hash| self.hashes.get(&self.key(pair)) == Some(&hash))
    }

    /// Notes what was right, and forgets what was not.
    pub(super) fn note(&mut self, project: &Project, pairs: &[Pair], findings: &[Finding]) -> anyhow::Result<()> {
        for pair in pairs {
            let is_about = |finding: &&Finding| {
                finding.workload.as_ref().is_none_or(|name| *name == pair.workload.name)
                    && finding.family.as_ref().is_none_or(|name| *name == pair.family.name)
            };
            // Without trust, nothing ran.
            let is_open = |finding: &Finding| finding.level == Level::Wrong || finding.stage == Stage::Oracle;
            let hash = self.hash(project.root(), pair).filter(|_| !findings.iter().filter(is_about).any(is_open));
            match hash {
                Some(hash) => drop(self.hashes.insert(self.key(pair), hash)),
                None => drop(self.hashes.remove(&self.key(pair))),
            }
        }
        let text = serde_json::to_string_pretty(&self.hashes)?;
        fs::write(&self.file, text).with_context(|| format!("Failed to write {}", self.file.display()))
    }

    fn key(&self, pair: &Pair) -> String {
        format!("{}/{}/{}", self.device, pair.workload.name, pair.family.name)
    }

    /// Returns the hash of everything that the check of a family depends on. None if that cannot be told.
    fn hash(&self, root: &Path, pair: &Pair) -> Option<String> {
        let mut hash = blake3::Hasher::new();
        hash.update(self.terms.as_bytes());
        let own = format!("templates/kernels/{}", pair.family.name);
        let op = format!("{}/{}", ops::OPS_FOLDER, pair.workload.op.name());
        for place in [own.as_str(), FRAGMENTS, &op, &workload_file(pair)] {
            add(&root.join(place), &mut hash)?;
        }
        Some(hash.finalize().to_hex().to_string())
    }
}

fn workload_file(pair: &Pair) -> String {
    format!("kernels/workloads/{}.toml", pair.workload.name)
}

/// Adds a file, or all files of a folder in the order of their names. What is missing adds its name only. None where there is a link
/// to a folder, which may lead in a circle, or a pipe, which never ends.
fn add(path: &Path, hash: &mut blake3::Hasher) -> Option<()> {
    hash.update(path.as_os_str().as_encoded_bytes()).update(&[0]);
    let Ok(found) = fs::metadata(path) else { return Some(()) };
    if found.is_dir() && !path.is_symlink() {
        let mut below: Vec<PathBuf> = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).collect();
        below.sort();
        return below.iter().try_for_each(|path| add(path, hash));
    }
    let text = found.is_file().then(|| fs::read(path).ok()).flatten()?;
    hash.update(&text).update(&[0]);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_not_hashed() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let hash = || {
            let mut hash = blake3::Hasher::new();
            add(folder.path(), &mut hash).map(|()| hash.finalize())
        };
        fs::write(place("kernel.cu.tera"), "a").unwrap();
        std::os::unix::fs::symlink("kernel.cu.tera", place("link")).unwrap();
        let before = hash();
        fs::write(place("kernel.cu.tera"), "b").unwrap();
        assert!(before.is_some() && hash().is_some() && hash() != before, "a file has changed");
        std::os::unix::fs::symlink(folder.path(), place("circle")).unwrap();
        assert_eq!(hash(), None);
        fs::remove_file(place("circle")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(place("pipe")).status().unwrap().success());
        assert_eq!(hash(), None);
    }
}
