//! The project's workloads, families and committed winners, read from its folder.

mod families;
mod fragments;
mod headers;
mod traced;
mod winners;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::config::Config;
use crate::domain::corpus::CorpusEntry;
use crate::domain::family::{FRAGMENTS_FOLDER, Family};
use crate::domain::op::oracle::OracleLanguage;
use crate::domain::op::{DeclaredSource, InputFile, Op};
use crate::domain::text::names::{did_you_mean, is_file_name};
use crate::domain::workload::{BaselineKey, Workload};
use crate::error::{Error, error};
use crate::locks::Locks;
use crate::ops::OPS_FOLDER;
use crate::runner;
use crate::{files, ops};
use traced::Traced;

pub use families::{BrokenFamily, Families};
pub use traced::Place;
pub use winners::sidecars_of;

/// The largest file that an input comes from. Every process that uses the op reads it.
const MAX_INPUT_BYTES: u64 = 256 << 20;

/// The name of a workload that cannot be used, and what is wrong with it.
pub type BrokenWorkload = (String, anyhow::Error);

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

    /// Locks the project for a verb. Two verbs at once would disturb each other's times and commits.
    pub fn lock(&self, verb: &str) -> anyhow::Result<Locks> {
        Locks::project(&self.root, verb)
    }

    /// Returns the project's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the names of all workloads, sorted.
    pub fn workload_names(&self) -> anyhow::Result<Vec<String>> {
        names_in(&self.root.join("kernels/workloads"), "toml")
    }

    /// Reads every workload, sorted by name. A broken one comes as its name and all that is wrong with it.
    pub fn workloads(&self) -> anyhow::Result<(Vec<Workload>, Vec<BrokenWorkload>)> {
        let (mut sound, mut broken) = (Vec::new(), Vec::new());
        for name in self.workload_names()? {
            match self.workload(&name) {
                Ok(workload) => sound.push(workload),
                Err(error) => broken.push((name, error)),
            }
        }
        Ok((sound, broken))
    }

    /// Reads the workloads that have a case, sorted by name. Broken workloads are left out.
    pub fn workloads_with(&self, case: &str) -> anyhow::Result<Vec<Workload>> {
        let (mut workloads, _) = self.workloads()?;
        workloads.retain(|workload| workload.case(case).is_ok());
        Ok(workloads)
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

    /// Reads the workload on which to use a family where none is named: `default` if it has the family's op, else the only
    /// workload of that op.
    pub fn workload_of(&self, family: &Family, default: &str) -> anyhow::Result<Workload> {
        let (workloads, _) = self.workloads()?;
        let mut of_op: Vec<Workload> = workloads.into_iter().filter(|one| one.op.name() == family.op).collect();
        let found = of_op.iter().position(|one| one.name == default).or((of_op.len() == 1).then_some(0));
        if let Some(found) = found {
            return Ok(of_op.swap_remove(found));
        }
        let (name, op) = (&family.name, &family.op);
        if of_op.is_empty() {
            bail!("family `{name}` computes op `{op}`, of which kernels/workloads/ has no workload");
        }
        let names: Vec<&str> = of_op.iter().map(|one| one.name.as_str()).collect();
        bail!("family `{name}` computes op `{op}`: choose one of its workloads with --workload: {}", names.join(", "));
    }

    /// Finds an op by name: one of optloop's own, or one that the project declares in `kernels/ops/`. The error is one
    /// sentence.
    pub fn op(&self, name: &str) -> Result<&'static dyn Op, Error> {
        let folder = self.root.join(OPS_FOLDER);
        if let Some(op) = ops::ALL.iter().find(|op| op.name() == name) {
            return Ok(*op);
        }
        let declared = folders_in(&folder).unwrap_or_default();
        if !is_file_name(name) || !declared.iter().any(|known| known == name) {
            let known: Vec<&str> =
                ops::ALL.iter().map(|op| op.name()).chain(declared.iter().map(String::as_str)).collect();
            let hint = did_you_mean(name, known.iter().copied());
            return Err(error!(
                "op `{name}` is not known{hint}; there are: {}; {OPS_FOLDER}/{name}/op.toml would declare it",
                known.join(", ")
            ));
        }
        let manifest = folder.join(name).join("op.toml");
        let wrong = |problem: Error| problem.within(manifest.display());
        let read = |path: &Path| files::read_inside(&self.root, path).map_err(|error| error!("{error:#}"));
        let text = read(&manifest)?;
        let file = ops::Declared::oracle_file(&text).map_err(|mistakes| wrong(Error::of_all(&mistakes)))?;
        let oracle = read(&folder.join(name).join(&file))?;
        let names = ops::Declared::input_files(&text).map_err(|mistakes| wrong(Error::of_all(&mistakes)))?;
        let files = names.into_iter().map(|input| self.input_file(&folder.join(name), input));
        let files = files.collect::<Result<_, _>>().map_err(wrong)?;
        let python = match OracleLanguage::of_file(&file) {
            Some(OracleLanguage::Cuda) => String::new(),
            _ => self.python()?,
        };
        let source = DeclaredSource { manifest: text, oracle, python, files };
        let op = runner::ops::declared(&source).map_err(|mistakes| wrong(Error::of_all(&mistakes)))?;
        match op.name() == name {
            true => Ok(op),
            false => Err(wrong(error!("its name is `{}`: call its folder the same", op.name()))),
        }
    }

    /// Finds a file that an input of an op comes from.
    fn input_file(&self, op: &Path, name: String) -> Result<InputFile, Error> {
        let path = op.join(&name);
        files::check_inside(&self.root, &path).map_err(|error| error!("{error:#}"))?;
        let unreadable = |error: std::io::Error| format!("{name} cannot be read: {error}");
        let there = std::fs::metadata(&path).map_err(unreadable)?;
        if !there.is_file() || there.len() > MAX_INPUT_BYTES {
            return Err(error!("{name} is not a file of at most {} MiB", MAX_INPUT_BYTES >> 20));
        }
        let bytes = std::fs::read(&path).map_err(unreadable)?;
        let path = path.canonicalize().map_err(unreadable)?;
        Ok(InputFile { hash: blake3::hash(&bytes).to_hex().to_string(), path, name })
    }

    /// Finds every op, sorted by name. A broken one comes with a sentence.
    pub fn ops(&self) -> Vec<(String, Result<&'static dyn Op, Error>)> {
        let declared = folders_in(&self.root.join(OPS_FOLDER)).unwrap_or_default();
        let mut names: Vec<String> = ops::ALL.iter().map(|op| op.name().to_owned()).chain(declared).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|name| (name.clone(), self.op(&name))).collect()
    }

    /// Returns the interpreter of the project's Python programs.
    fn python(&self) -> Result<String, Error> {
        let config = Config::load(&self.root).map_err(|error| error!("{error:#}"))?;
        let root = self.root.canonicalize().map_err(|error| error!("{}: {error}", self.root.display()))?;
        Ok(runner::baseline::interpreter(&root, &config.baseline.python))
    }

    /// Reads every family. The fragments that families share lie in a folder next to them, which is not a family.
    pub fn families(&self) -> anyhow::Result<Families> {
        self.families_in("templates/kernels")
    }

    /// Reads the families that only tests and fault injection use, sorted by name. There are none without
    /// tests/planted_bugs/.
    pub fn planted_bugs(&self) -> anyhow::Result<Vec<Family>> {
        let folder = "tests/planted_bugs";
        let families = if self.root.join(folder).is_dir() { self.families_in(folder)? } else { Families::default() };
        match families.broken.first() {
            Some(broken) => bail!("{broken}"),
            None => Ok(families.sound),
        }
    }

    fn families_in(&self, folder: &str) -> anyhow::Result<Families> {
        let folder = self.root.join(folder);
        let mut families = Families::default();
        for name in folders_in(&folder).with_context(|| format!("Failed to list {}", folder.display()))? {
            let path = folder.join(&name);
            if name == FRAGMENTS_FOLDER {
                families.broken.extend(fragments::mistaken_for_a_family(&path));
                continue;
            }
            match self.family(&path, &name) {
                Ok(family) => families.sound.push(family),
                Err(broken) => families.broken.push(broken),
            }
        }
        Ok(families)
    }

    /// Reads the family in a folder.
    fn family(&self, folder: &Path, name: &str) -> Result<Family, BrokenFamily> {
        let manifest = folder.join("family.toml");
        let mut broken = BrokenFamily { name: name.to_owned(), op: None, manifest: None, mistakes: Vec::new() };
        let text = match files::read_inside(&self.root, &manifest) {
            Ok(text) => text,
            Err(error) => {
                broken.mistakes.push(format!("{error:#}"));
                return Err(broken);
            }
        };
        broken.op = op_of(&text);
        let template = self.template(folder, &text);
        // The manifest's mistakes come first, even if its template cannot be read.
        let source = template.as_ref().map_or_else(|_| String::new(), |template| template.text().to_owned());
        let parsed = Family::parse_with_op(&text, source, |op| self.op(op));
        let mistakes = match (parsed, template) {
            (Ok(family), Ok(_)) if family.name == name => return Ok(family),
            (Ok(family), Ok(_)) => vec![format!("its name is `{}`: call its folder the same", family.name)],
            (Ok(_), Err(error)) => {
                broken.mistakes.push(format!("{error:#}"));
                return Err(broken);
            }
            (Err(mut mistakes), template) => {
                mistakes.extend(template.err().map(|error| format!("{error:#}")));
                mistakes
            }
        };
        Err(BrokenFamily { manifest: Some(manifest.display().to_string()), mistakes, ..broken })
    }

    /// Reads the template of the family in a folder, with its fragments and headers.
    fn template(&self, folder: &Path, manifest: &str) -> anyhow::Result<Traced> {
        let template = fragments::template(&self.root, folder)?;
        headers::inline(&self.root, folder, manifest, template)
            .with_context(|| format!("Failed to insert the headers of {}", folder.join("family.toml").display()))
    }

    /// Returns where each line of a family's template comes from, as paths below the project.
    pub fn places(&self, family: &Family) -> anyhow::Result<Vec<Place>> {
        let folder = self.root.join("templates/kernels").join(&family.name);
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let relative = |place: Place| {
            let file = place.file.strip_prefix(&self.root).or_else(|_| place.file.strip_prefix(&root));
            Place { file: file.map_or_else(|_| Arc::clone(&place.file), |file| Arc::new(file.to_owned())), ..place }
        };
        Ok(self.template(&folder, &family.manifest)?.into_places().into_iter().map(relative).collect())
    }

    /// Returns the names of the kernels in the audit's corpus, sorted. None if the project has no corpus.
    pub fn corpus_names(&self) -> anyhow::Result<Vec<String>> {
        let folder = self.root.join("tests/audit");
        if folder.is_dir() { names_in(&folder, "cu") } else { Ok(Vec::new()) }
    }

    /// Reads kernels of the audit's corpus.
    pub fn corpus(&self, names: &[String]) -> anyhow::Result<Vec<CorpusEntry>> {
        let folder = self.root.join("tests/audit");
        let workload = |name: &str| self.workload(name).map_err(|error| error!("{error:#}"));
        let prelude = |name: &str| self.prelude(name).map_err(|error| error!("{error:#}"));
        let mut entries = Vec::new();
        for name in names {
            let path = folder.join(format!("{name}.cu"));
            let entry = CorpusEntry::parse(name, &files::read_inside(&self.root, &path)?, workload, prelude);
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
}

/// Returns the op that a manifest names, even if the rest of it is wrong.
fn op_of(manifest: &str) -> Option<String> {
    let table: toml::Table = toml::from_str(manifest).ok()?;
    Some(table.get("op")?.as_str()?.to_owned())
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
