//! `optloop init`: makes a project in any folder, with the workloads and families that optloop ships.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::terminal::listing::print_json;
use crate::domain::text::counted::counted;
use crate::domain::text::escape::shell;
use crate::error::usage_sentence;
use crate::shipped;
use crate::vcs::Repo;

/// The most paths that a refusal names.
const MAX_NAMED: usize = 3;

/// Arguments of `optloop init`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of the project; created if it does not exist
    #[arg(default_value = ".")]
    folder: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Makes a project, and prints what was made and what to do next. Nothing is overwritten: where a file of the project is
/// there already, nothing is written at all.
pub fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let folder = &args.folder;
    let files = shipped::files();
    refuse_what_is_there(folder, &files)?;
    fs::create_dir_all(folder).with_context(|| format!("Failed to make {}", folder.display()))?;
    let kept = merge_ignored(folder)?;
    for (path, text) in files.iter().filter(|(path, _)| !(kept && path == IGNORE_FILE)) {
        write_new(&folder.join(path), text)?;
    }
    let is_new = Repo::discover(folder).is_err();
    if is_new {
        Repo::init(folder).context("Failed to make a git repository")?;
    }
    let count = |prefix: &str, ending: &str| {
        files.iter().filter(|(path, _)| path.starts_with(prefix) && path.ends_with(ending)).count()
    };
    let (workloads, families) = (count("kernels/workloads/", ".toml"), count("templates/kernels/", "/family.toml"));
    if args.json {
        let made = serde_json::json!({ "folder": folder, "workloads": workloads, "families": families,
                                       "new_repository": is_new });
        return print_json(&made, out);
    }
    let repository = if is_new { ", in a new git repository" } else { ", in the git repository around it" };
    writeln!(
        out,
        "made a project in {} with {} and {}{repository}",
        folder.display(),
        counted(workloads, "workload"),
        counted(families, "family")
    )?;
    let there = if folder == Path::new(".") {
        String::new()
    } else {
        format!("cd {} && ", shell(&folder.display().to_string()))
    };
    writeln!(out, "next: {there}optloop start --budget 10m")?;
    Ok(())
}

/// The file with what git leaves alone.
const IGNORE_FILE: &str = ".gitignore";

/// Refuses a folder in which something of the project is there already.
fn refuse_what_is_there(folder: &Path, files: &[(String, &str)]) -> anyhow::Result<()> {
    let is_there = |path: &str| folder.join(path).symlink_metadata().is_ok();
    let there: Vec<&str> =
        files.iter().map(|(path, _)| path.as_str()).filter(|path| *path != IGNORE_FILE && is_there(path)).collect();
    if there.is_empty() {
        return Ok(());
    }
    let more = there.len().saturating_sub(MAX_NAMED);
    let named = there[..there.len().min(MAX_NAMED)].join(", ");
    let rest = if more > 0 { format!(" and {more} more files") } else { String::new() };
    Err(usage_sentence(format!(
        "{} has {named}{rest} already, and nothing is overwritten: choose another folder",
        folder.display()
    )))
}

/// Adds optloop's folder to an existing list of what git leaves alone. Returns whether there is such a list.
fn merge_ignored(folder: &Path) -> anyhow::Result<bool> {
    let path = folder.join(IGNORE_FILE);
    let Ok(text) = fs::read_to_string(&path) else { return Ok(path.symlink_metadata().is_ok()) };
    if !text.lines().any(|line| matches!(line.trim(), "/.optloop/" | ".optloop/" | ".optloop" | "/.optloop")) {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        fs::write(&path, format!("{text}{gap}/.optloop/\n"))
            .with_context(|| format!("Failed to write {}", path.display()))?;
    }
    Ok(true)
}

/// Writes a file that is not there yet.
pub fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::File::create_new(path)?.write_all(text.as_bytes())
    };
    write().with_context(|| format!("Failed to write {}", path.display()))
}
