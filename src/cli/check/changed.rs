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
        is_shipped || self.hashes.get(&self.key(pair)) == Some(&self.hash(root, pair))
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
            match findings.iter().filter(is_about).any(is_open) {
                true => drop(self.hashes.remove(&self.key(pair))),
                false => drop(self.hashes.insert(self.key(pair), self.hash(project.root(), pair))),
            }
        }
        let text = serde_json::to_string_pretty(&self.hashes)?;
        fs::write(&self.file, text).with_context(|| format!("Failed to write {}", self.file.display()))
    }

    fn key(&self, pair: &Pair) -> String {
        format!("{}/{}/{}", self.device, pair.workload.name, pair.family.name)
    }

    /// Returns the hash of everything that the check of a family depends on.
    fn hash(&self, root: &Path, pair: &Pair) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(self.terms.as_bytes());
        let own = format!("templates/kernels/{}", pair.family.name);
        let op = format!("{}/{}", ops::OPS_FOLDER, pair.workload.op.name());
        for place in [own.as_str(), FRAGMENTS, &op, &workload_file(pair)] {
            add(&root.join(place), &mut hash);
        }
        hash.finalize().to_hex().to_string()
    }
}

fn workload_file(pair: &Pair) -> String {
    format!("kernels/workloads/{}.toml", pair.workload.name)
}

/// Adds a file, or all files of a folder in the order of their names. What is missing adds its name only.
fn add(path: &Path, hash: &mut blake3::Hasher) {
    hash.update(path.as_os_str().as_encoded_bytes()).update(&[0]);
    match fs::read_dir(path) {
        Ok(entries) => {
            let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            below.sort();
            below.iter().for_each(|path| add(path, hash));
        }
        Err(_) => drop(fs::read(path).map(|text| hash.update(&text).update(&[0]).count())),
    }
}
