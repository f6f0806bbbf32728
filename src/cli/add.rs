//! `optloop add`: makes a family, a workload and an op of a user's `.cu` file.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::addition::{Addition, name, named, read, shown};
use super::given::Given;
use crate::catalog::Project;
use crate::intake::{Draft, Reading, Wanted, instantiate};

/// Arguments of `optloop add`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The CUDA source
    kernel_file: PathBuf,

    #[command(flatten)]
    given: Given,
}

/// Adds a kernel. Everything is checked and compiled before anything is written.
pub fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let given = &args.given;
    let file = shown(&args.kernel_file);
    let kernel = given.kernel.as_deref();
    let source = instantiate(&read(&args.kernel_file)?, kernel, &given.templates.iter().cloned().collect());
    let source = source.map_err(|mistakes| named(&file, &mistakes))?;
    let scratch: Vec<&str> = given.scratch.iter().map(|(name, _)| name.as_str()).collect();
    let inputs: Vec<&str> = given.inputs.iter().map(String::as_str).collect();
    let reading = Reading { text: &source, lines_before: 0, kernel, scratch: &scratch, inputs: &inputs };
    let draft = Draft::read(reading).map_err(|mistakes| named(&file, &mistakes))?;
    let (oracle, oracle_kernel) = given.oracle()?.unzip();
    let wanted = given.wanted(name(given.name.as_deref(), &file)?);
    let addition = Addition {
        folder: args.kernel_file.parent().unwrap_or(Path::new(".")).to_owned(),
        draft,
        wanted: Wanted { oracle_kernel: oracle_kernel.flatten(), ..wanted },
        oracle,
        no_oracle: None,
        arch: given.arch.clone(),
        file,
    };
    addition.run(project, out)
}
