//! The project's workloads, families and committed winners, read from its folder.

mod winners;

mod fragments;
mod headers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::claim::Claims;
use crate::config::Config;
use crate::domain::corpus::CorpusEntry;
use crate::domain::family::{FRAGMENTS_FOLDER, Family};
use crate::domain::names::{did_you_mean, is_file_name};
use crate::domain::op::{DeclaredSource, Op};
use crate::domain::workload::{BaselineKey, Workload};
use crate::ops::OPS_FOLDER;
use crate::runner;
use crate::{files, ops};

pub use winners::sidecars_of;

/// The folder that holds `config.toml`, with the workloads and families in it.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// Returns `given`, or else the nearest folder at or above the current one that holds a `config.toml`.
    pub fn find(given: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(root) = given {
            if !root.join("config.toml").is_file() {
                bail!("{} contains no config.toml: `optloop init` makes a project", root.display());
            }
            return Ok(Self { root: root.to_owned() });
        }
        let here = std::env::current_dir().context("Failed to find the current folder")?;
        match here.ancestors().find(|folder| folder.join("config.toml").is_file()) {
            Some(root) => Ok(Self { root: root.to_owned() }),
            None => bail!(
                "no config.toml in {} or above it: run optloop inside a project, or make one with `optloop init`",
                here.display()
            ),
        }
    }

    /// Claims the project for a verb. Two verbs at once would disturb each other's times and commits.
    pub fn claim(&self, verb: &str) -> anyhow::Result<Claims> {
        Claims::project(&self.root, verb)
    }

    /// Returns the project's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the names of all workloads, sorted.
    pub fn workload_names(&self) -> anyhow::Result<Vec<String>> {
        names_in(&self.root.join("kernels/workloads"), "toml")
    }

    /// Reads one workload. The error for an unknown name suggests the nearest one.
    pub fn workload(&self, name: &str) -> anyhow::Result<Workload> {
        let names = self.workload_names()?;
        if !names.iter().any(|known| known == name) {
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            bail!("there is no workload `{name}`{hint}; kernels/workloads/ has: {}", names.join(", "));
        }
        let path = self.root.join("kernels/workloads").join(format!("{name}.toml"));
        let workload = Workload::parse(&files::read_inside(&self.root, &path)?, |op| self.op(op))
            .map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))?;
        if let Some(program) = workload.baseline.as_ref().and_then(BaselineKey::path) {
            files::check_inside(&self.root, &self.root.join(program))?;
        }
        if workload.name != name {
            bail!("{}: its name is `{}`, but the file says `{name}`: make them agree", path.display(), workload.name);
        }
        Ok(workload)
    }

    /// Finds an op by name: one of optloop's own, or one that the project declares in `kernels/ops/`. The error is one
    /// sentence.
    pub fn op(&self, name: &str) -> Result<&'static dyn Op, String> {
        let folder = self.root.join(OPS_FOLDER);
        if let Some(op) = ops::ALL.iter().find(|op| op.name() == name) {
            return Ok(*op);
        }
        let declared = folders_in(&folder).unwrap_or_default();
        if !is_file_name(name) || !declared.iter().any(|known| known == name) {
            let known: Vec<&str> =
                ops::ALL.iter().map(|op| op.name()).chain(declared.iter().map(String::as_str)).collect();
            let hint = did_you_mean(name, known.iter().copied());
            return Err(format!(
                "op `{name}` is not known{hint}; there are: {}; {OPS_FOLDER}/{name}/op.toml would declare it",
                known.join(", ")
            ));
        }
        let manifest = folder.join(name).join("op.toml");
        let wrong = |problem: String| format!("{}: {problem}", manifest.display());
        let read = |path: &Path| files::read_inside(&self.root, path).map_err(|error| format!("{error:#}"));
        let text = read(&manifest)?;
        let file = ops::Declared::oracle_file(&text).map_err(|mistakes| wrong(mistakes.join("; ")))?;
        let oracle = read(&folder.join(name).join(file))?;
        let source = DeclaredSource { manifest: text, oracle, python: self.python()? };
        let op = runner::ops::declared(&source).map_err(|mistakes| wrong(mistakes.join("; ")))?;
        match op.name() == name {
            true => Ok(op),
            false => Err(wrong(format!("its name is `{}`: call its folder the same", op.name()))),
        }
    }

    /// Returns the interpreter of the project's Python programs.
    fn python(&self) -> Result<String, String> {
        let config = Config::load(&self.root).map_err(|error| format!("{error:#}"))?;
        let root = self.root.canonicalize().map_err(|error| format!("{}: {error}", self.root.display()))?;
        Ok(runner::baseline::interpreter(&root, &config.baseline.python))
    }

    /// Reads every family, sorted by name. The fragments that families share lie in a folder next to them, which is not
    /// a family.
    pub fn families(&self) -> anyhow::Result<Vec<Family>> {
        self.families_in("templates/kernels")
    }

    /// Reads the families that only tests and fault injection use, sorted by name. There are none without
    /// tests/planted_bugs/.
    pub fn planted_bugs(&self) -> anyhow::Result<Vec<Family>> {
        let folder = "tests/planted_bugs";
        if self.root.join(folder).is_dir() { self.families_in(folder) } else { Ok(Vec::new()) }
    }

    fn families_in(&self, folder: &str) -> anyhow::Result<Vec<Family>> {
        let folder = self.root.join(folder);
        let mut families = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("Failed to list {}", folder.display()))? {
            let path = entry.with_context(|| format!("Failed to list {}", folder.display()))?.path();
            if path.ends_with(FRAGMENTS_FOLDER) {
                fragments::check_folder(&path)?;
            } else if path.is_dir() {
                families.push(self.family(&path)?);
            }
        }
        families.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(families)
    }

    /// Reads the family in a folder.
    fn family(&self, folder: &Path) -> anyhow::Result<Family> {
        let root = self.root.as_path();
        let manifest = folder.join("family.toml");
        let text = files::read_inside(root, &manifest)?;
        let template = fragments::template(root, folder)?;
        let template = headers::inline(root, folder, &text, template)
            .with_context(|| format!("Failed to insert the headers of {}", manifest.display()))?;
        let family = Family::parse_with_op(&text, template, |op| self.op(op))
            .map_err(|mistakes| anyhow::anyhow!("{}: {}", manifest.display(), mistakes.join("; ")))?;
        if folder.file_name().and_then(|name| name.to_str()) != Some(family.name.as_str()) {
            bail!("{}: its name is `{}`: call its folder the same", manifest.display(), family.name);
        }
        Ok(family)
    }

    /// Reads the audit's corpus, sorted by name.
    pub fn corpus(&self) -> anyhow::Result<Vec<CorpusEntry>> {
        let folder = self.root.join("tests/audit");
        let workload = |name: &str| self.workload(name).map_err(|error| format!("{error:#}"));
        let prelude = |name: &str| self.prelude(name).map_err(|error| format!("{error:#}"));
        let mut entries = Vec::new();
        for name in names_in(&folder, "cu")? {
            let path = folder.join(format!("{name}.cu"));
            let entry = CorpusEntry::parse(&name, &files::read_inside(&self.root, &path)?, workload, prelude);
            entries.push(entry.map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))?);
        }
        Ok(entries)
    }

    /// Reads a fragment that corpus entries share. The error for an unknown name suggests the nearest one.
    fn prelude(&self, name: &str) -> anyhow::Result<String> {
        let folder = self.root.join("tests/audit/prelude");
        let names = names_in(&folder, "cu")?;
        if !names.iter().any(|known| known == name) {
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            bail!("there is no prelude `{name}`{hint}; tests/audit/prelude/ has: {}", names.join(", "));
        }
        files::read_inside(&self.root, &folder.join(format!("{name}.cu")))
    }

    /// Returns the names of the families to search: the given ones, or all if none is given.
    pub fn searched(families: &[Family], given: &[String]) -> anyhow::Result<Vec<String>> {
        for name in given {
            if !families.iter().any(|family| &family.name == name) {
                let hint = did_you_mean(name, families.iter().map(|family| family.name.as_str()));
                let known: Vec<_> = families.iter().map(|family| family.name.as_str()).collect();
                bail!("there is no family `{name}`{hint}; templates/kernels/ has: {}", known.join(", "));
            }
        }
        let searched = families.iter().filter(|family| given.is_empty() || given.contains(&family.name));
        Ok(searched.map(|family| family.name.clone()).collect())
    }
}

/// Returns the names of a folder's files with an extension, sorted and without the extension.
fn names_in(folder: &Path, extension: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("Failed to list {}", folder.display()))? {
        let path = entry.with_context(|| format!("Failed to list {}", folder.display()))?.path();
        if path.extension().is_some_and(|found| found == extension) {
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the names of the folders in a folder, sorted.
fn folders_in(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            names.extend(path.file_name().and_then(|name| name.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}
