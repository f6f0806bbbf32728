//! `optloop add`: makes a family, a workload and an op of a user's `.cu` file.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::catalog::Project;
use crate::cli::adding::kernel_options::KernelOptions;
use crate::cli::adding::new_kernel::{NewKernel, name, named, read, shown};
use crate::cli::adding::own_headers::own_header;
use crate::intake::{Draft, Reading, Wanted};
use crate::runner::headers;

/// Arguments of `optloop add`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The CUDA source
    kernel_file: PathBuf,

    #[command(flatten)]
    given: KernelOptions,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Adds a kernel. Everything is checked and compiled before anything is written.
pub fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let (given, oracle) = args.given.with_oracle()?;
    let file = shown(&args.kernel_file);
    let kernel = given.kernel.as_deref();
    let source = read(&args.kernel_file)?;
    let folder = args.kernel_file.parent().unwrap_or(Path::new("."));
    let scratch: Vec<&str> = given.scratch.iter().map(|(name, _)| name.as_str()).collect();
    let inputs: Vec<&str> = given.inputs.iter().map(String::as_str).collect();
    let written: Vec<&str> = given.in_place.iter().chain(&given.zeroed).map(String::as_str).collect();
    let own_header = |path: &str| own_header(folder, path);
    let mut wanted = given.wanted(name(given.name.as_deref(), &file)?);
    let numbers = wanted.numbers();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let reading = Reading {
        kernel,
        templates: &given.templates,
        dtypes: &given.dtypes,
        scratch: &scratch,
        inputs: &inputs,
        written: &written,
        named: &numbers,
        is_header: headers::is_allowed,
        own_header: &own_header,
        ..Reading::of(&source)
    };
    let mut draft = Draft::read(reading).map_err(|mistakes| named(&file, &mistakes))?;
    if let Some(oracle) = &oracle {
        draft.fit(&oracle.notes, &given.given_shapes(), &mut wanted);
    }
    let (oracle, oracle_kernel) = oracle.map(|oracle| (oracle.text, oracle.kernel)).unzip();
    let addition = NewKernel {
        draft,
        wanted: Wanted { oracle_kernel: oracle_kernel.flatten(), ..wanted },
        oracle,
        no_oracle: None,
        arch: given.arch.clone(),
        force: given.force,
        json: args.json,
        file,
    };
    addition.run(project, out)
}
