//! `optloop skill`: tells coding agents about this project, by files that they read.

use std::io::Write;
use std::path::Path;

use crate::catalog::Project;
use crate::cli::verbs::init::write_new;
use crate::error::usage;
use crate::files;
use crate::notices::say;
use crate::shipped;

/// Arguments of `optloop skill`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Writes the files that are not there yet. Nothing is overwritten.
pub fn run(_args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    for (path, _) in shipped::FOR_AGENTS {
        files::check_place(project.root(), Path::new(path)).map_err(usage)?;
    }
    for (path, text) in shipped::FOR_AGENTS {
        let place = project.root().join(path);
        if place.symlink_metadata().is_ok() {
            let is_same = std::fs::read_to_string(&place).is_ok_and(|there| there == text);
            writeln!(out, "kept {path}, which is there already")?;
            if !is_same {
                say(&format!("{path} is yours, and was not changed. What optloop would have written:\n{text}"));
            }
        } else {
            write_new(&place, text)?;
            writeln!(out, "wrote {path}")?;
        }
    }
    Ok(())
}
