//! Where the files of a new kernel are checked before they are written into the project.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::error::usage_sentence;
use crate::catalog::Project;
use crate::domain::family::Family;
use crate::domain::workload::Workload;
use crate::intake::{Draft, Texts, Wanted};
use crate::ops::OPS_FOLDER;

/// A project in a temporary folder that contains nothing but the new files, to read them as every project is read.
pub(super) struct Staging {
    folder: tempfile::TempDir,
    oracle: Option<String>,
    /// The source's own headers, by the path with which it includes them.
    headers: Vec<(String, String)>,
}

impl Staging {
    /// Makes one for a kernel of a user's file.
    pub fn new(project: &Project, (draft, wanted, oracle): (&Draft, &Wanted, Option<&str>)) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("optloop-add-").tempdir()?;
        fs::copy(project.root().join("config.toml"), folder.path().join("config.toml"))?;
        if let Some(op) = wanted.op.as_ref().filter(|op| project.root().join(OPS_FOLDER).join(op).is_dir()) {
            let (from, to) = (project.root().join(OPS_FOLDER).join(op), folder.path().join(OPS_FOLDER).join(op));
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(from)?.flatten().filter(|entry| entry.path().is_file()) {
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok(Self { folder, oracle: oracle.map(str::to_owned), headers: draft.headers.clone() })
    }

    /// Returns the paths of the new files.
    fn files(&self, wanted: &Wanted) -> Vec<String> {
        let name = &wanted.name;
        let family = format!("templates/kernels/{name}");
        let mut files = vec![
            format!("kernels/workloads/{name}.toml"),
            format!("{family}/family.toml"),
            format!("{family}/kernel.cu.tera"),
        ];
        files.extend(self.headers.iter().map(|(path, _)| format!("{family}/include/{path}")));
        if wanted.op.is_none() {
            files.extend(["op.toml", wanted.oracle_file()].map(|file| format!("{OPS_FOLDER}/{name}/{file}")));
        }
        files
    }

    /// Refuses to overwrite a file of the project.
    pub fn refuse_what_is_there(&self, project: &Project, wanted: &Wanted) -> anyhow::Result<()> {
        let files = self.files(wanted);
        match files.iter().find(|file| project.root().join(file).symlink_metadata().is_ok()) {
            None => Ok(()),
            Some(file) => Err(usage_sentence(format!(
                "{file} exists already: --force replaces what an earlier addition made, and --name gives the kernel another name"
            ))),
        }
    }

    /// Writes the files into the temporary folder and reads them.
    pub fn read(&self, texts: &Texts, wanted: &Wanted) -> anyhow::Result<(Workload, Family)> {
        let text_of = |file: &str| -> &str {
            match file.rsplit('/').next().unwrap_or_default() {
                "op.toml" => &texts.op,
                "oracle.py" | "oracle.cu" => self.oracle.as_deref().unwrap_or_default(),
                "family.toml" => &texts.family,
                "kernel.cu.tera" => &texts.template,
                _ if file.starts_with("kernels/workloads/") => &texts.workload,
                _ => {
                    let path = file.split_once("/include/").map_or(file, |(_, path)| path);
                    self.headers.iter().find(|(other, _)| other == path).map_or("", |(_, text)| text)
                }
            }
        };
        for file in self.files(wanted) {
            let path = self.folder.path().join(&file);
            fs::create_dir_all(path.parent().unwrap_or(self.folder.path()))?;
            fs::write(path, text_of(&file))?;
        }
        let plain = |error: anyhow::Error| {
            let problem = format!("{error:#}").replace(&format!("{}/", self.folder.path().display()), "");
            usage_sentence(in_option(problem, wanted))
        };
        let staged = Project::find(Some(self.folder.path()))?;
        let workload = staged.workload(&wanted.name).map_err(plain)?;
        let families = staged.families().map_err(plain)?;
        Ok((workload, families.family(&wanted.name).map_err(plain)?.clone()))
    }

    /// Writes the files into the project: all of them, or none. Those that are there are replaced.
    pub fn copy_to(&self, project: &Project, wanted: &Wanted) -> anyhow::Result<()> {
        let files = self.files(wanted);
        let mut before: Vec<(PathBuf, Option<Vec<u8>>)> = Vec::new();
        for file in &files {
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

/// Returns a problem with an expression of the user's with the option that gave it, instead of a file that is not written.
fn in_option(problem: String, wanted: &Wanted) -> String {
    let options = [("--grid", &wanted.grid), ("--block", &wanted.block), ("--constraint", &wanted.constraints)];
    let given = options.into_iter().flat_map(|(option, texts)| texts.iter().map(move |text| (option, text)));
    let given = given.chain(wanted.shared.iter().map(|text| ("--shared", text)));
    let given = given.chain(wanted.scratch.values().map(|text| ("--scratch", text)));
    let given = given.chain(wanted.arguments.values().map(|text| ("--argument", text)));
    let about = |(option, text): (&str, &String)| {
        let (_, rest) = problem.split_once(&format!("expression `{text}`: "))?;
        Some(format!("{option} `{text}`: {rest}"))
    };
    given.into_iter().find_map(about).unwrap_or(problem)
}
