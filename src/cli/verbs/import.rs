//! `optloop import`: makes a family, a workload and an op of a file of another tool.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::catalog::Project;
use crate::cli::adding::kernel_options::KernelOptions;
use crate::cli::adding::machine_code::MachineCode;
use crate::cli::adding::new_kernel::{NewKernel, name, named, read, shown};
use crate::cli::adding::own_headers::own_header;
use crate::cli::adding::problem_files::ProblemFiles;
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::text::names::shortened;
use crate::error::{Error, error, usage, usage_sentence};
use crate::intake::{
    Draft, Imported, OracleNotes, Reading, Tuning, TuningSource, Wanted, definition, problem, script, t1, workloads,
};
use crate::launch::consent::admit;
use crate::notices::say;
use crate::runner::problem::examined_problem;
use crate::runner::tuner_script::recorded_call;
use crate::runner::{activity, headers};
use crate::trust;

/// Arguments of `optloop import`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The file: a kernel in PTX (.ptx), a problem in PyTorch with `Model` and `get_inputs` (.py), a T1 file (.json), a Python script of Kernel Tuner
    /// (.py), or a definition of flashinfer-bench (.json)
    file: PathBuf,

    /// Workloads of a definition, which become cases: a file with a line of JSON for each
    #[arg(long, value_name = "FILE")]
    workloads: Option<PathBuf>,

    /// Launch plan of a kernel in PTX, as in family.toml (`optloop docs launch-plan`)
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,

    /// Workload that a kernel in PTX computes
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// CUDA source, if the file names none or another one
    #[arg(long, value_name = "FILE")]
    kernel_file: Option<PathBuf>,

    #[command(flatten)]
    given: KernelOptions,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,

    /// Arguments for a script of Kernel Tuner, after --
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// A file that was understood, with the source that belongs to it.
struct Understood {
    imported: Imported,
    /// The name of the source for messages, and the folder of its headers.
    source: (String, PathBuf),
    /// What the new files are named after.
    stem: String,
}

/// Tells whether a Python file is a problem in PyTorch, rather than a script of Kernel Tuner.
fn is_problem(text: &str) -> bool {
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    has("class Model") || has("def get_inputs(")
}

/// Returns what a problem is named after. Boards call each file reference.py, in a folder of the problem's name.
fn problem_name(file: &Path) -> String {
    let own = file.file_stem().unwrap_or_default();
    let absolute = std::path::absolute(file).unwrap_or_default();
    let folder = absolute.parent().and_then(Path::file_name).filter(|_| own == "reference");
    folder.unwrap_or(own).to_string_lossy().into_owned()
}

/// Imports a file. Everything is checked and compiled before anything is written.
pub fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let (given, given_oracle) = args.given.with_oracle()?;
    let args = &Args { given, ..args.clone() };
    let Args { file, given, .. } = args;
    if given.op.is_some() {
        return Err(usage_sentence(
            "--op: an imported file declares its own op, so use optloop add for one that exists",
        ));
    }
    let ending = file.extension().and_then(|extension| extension.to_str());
    if ending == Some("cubin") {
        return Err(about(
            file,
            "a CUBIN cannot be examined for reads of the clock, and no virtual GPU executes it: import the PTX that it was made of",
        ));
    }
    let text = read(file)?;
    if ending == Some("ptx") {
        let (launch, workload) = (args.launch.as_deref(), args.workload.as_deref());
        let kernel = MachineCode { file, text: &text, launch, workload, name: given.name.as_deref() };
        return kernel.write(project, (given.force, args.json), out);
    }
    if args.launch.is_some() || args.workload.is_some() {
        return Err(about(file, "--launch and --workload are for kernels in PTX, whose names end in .ptx"));
    }
    if file.extension().is_some_and(|extension| extension == "py") && is_problem(&text) {
        return args.problem(project, given_oracle.is_some(), out);
    }
    let notes = given_oracle.as_ref().map(|oracle| &oracle.notes);
    let understood = match file.extension().and_then(|extension| extension.to_str()) {
        Some("py") => {
            let config = Config::load(project.root()).map_err(usage)?;
            args.tuning(args.run_script(&config, project)?, notes)
        }
        Some("json") => match kind(&text).map_err(|problem| about(file, problem))? {
            Kind::T1 => args.tuning(t1(&text).map_err(|problem| about(file, problem))?, notes),
            Kind::Definition => args.definition(&text),
        },
        _ => Err(about(
            file,
            "its name ends neither in .json (T1, flashinfer-bench), nor in .py (Kernel Tuner, PyTorch), nor in .ptx",
        )),
    }?;
    let Understood { imported, source: (source_name, folder), stem } = understood;
    let kernel = given.kernel.as_deref().or(imported.kernel.as_deref());
    let wrong = |mistakes: Vec<String>| named(&source_name, &mistakes);
    let mut wanted = given.over_file(&imported, name(given.name.as_deref(), &stem)?);
    let scratch: Vec<String> = wanted.scratch.keys().cloned().collect();
    let inputs = wanted.inputs.clone();
    let scratch: Vec<&str> = scratch.iter().map(String::as_str).collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let written = [&wanted.in_place[..], &wanted.zeroed[..]].concat();
    let written: Vec<&str> = written.iter().map(String::as_str).collect();
    let lines_before = imported.lines_before;
    let own_header = |path: &str| own_header(&folder, path);
    let numbers = wanted.numbers();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let reading = Reading {
        lines_before,
        kernel,
        templates: &given.templates,
        dtypes: &given.dtypes,
        scratch: &scratch,
        inputs: &inputs,
        written: &written,
        named: &numbers,
        is_header: headers::is_allowed,
        own_header: &own_header,
        ..Reading::of(&imported.source)
    };
    let mut draft = Draft::read(reading).map_err(wrong)?;
    if let Some(oracle) = &given_oracle {
        draft.fit(&oracle.notes, &given.given_shapes(), &mut wanted);
    }
    let (oracle, oracle_kernel) = given_oracle.map(|oracle| (oracle.text, oracle.kernel)).unzip();
    let wanted = Wanted { oracle_kernel: oracle_kernel.flatten(), ..wanted };
    let oracle = oracle.or(imported.oracle);
    let (no_oracle, arch, force) = (imported.no_oracle, given.arch.clone(), given.force);
    NewKernel { file: source_name, draft, wanted, oracle, no_oracle, arch, force, json: args.json }
        .run(project, out)?;
    imported.notes.iter().for_each(|note| say(&format!("note: {note}")));
    Ok(())
}

enum Kind {
    T1,
    Definition,
}

/// Tells what a JSON file is.
fn kind(text: &str) -> Result<Kind, Error> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| error!("it is not JSON: {error}"))?;
    let has = |key: &str| json.get(key).is_some();
    if has("ConfigurationSpace") || has("KernelSpecification") {
        Ok(Kind::T1)
    } else if has("axes") && has("reference") {
        Ok(Kind::Definition)
    } else if has("cache") || has("results") {
        Err(Error::new("it has recorded times, which optloop simulate reads"))
    } else {
        let found = "neither `ConfigurationSpace` (T1) nor `axes` and `reference` (a definition of flashinfer-bench)";
        Err(error!("it has {found}"))
    }
}

fn about(file: &Path, problem: impl Display) -> anyhow::Error {
    usage_sentence(format!("{}: {problem}", shown(file)))
}

impl Args {
    /// Imports a problem in PyTorch.
    fn problem(&self, project: &Project, has_oracle: bool, out: &mut impl Write) -> anyhow::Result<()> {
        let config = Config::load(project.root()).map_err(usage)?;
        let has_kernel = self.kernel_file.is_some() || self.given.kernel.is_some() || !self.given.grid.is_empty();
        if has_oracle || has_kernel || self.given.torch.is_some() {
            let why = "its module is the oracle and the baseline, and it has no kernel";
            return Err(about(
                &self.file,
                format_args!("{why}: leave out --oracle, --torch, --kernel-file and --grid"),
            ));
        }
        self.admit_program(&config, project, "to call its functions on small tensors")?;
        let contents: Vec<&str> = self.given.contents.iter().map(|(name, _)| name.as_str()).collect();
        let told = {
            let _running = activity::begin("examining the module", None);
            examined_problem(&self.file, &contents, &config.baseline.python)
        };
        let read = told.and_then(|json| problem(&json)).map_err(|problem| about(&self.file, problem))?;
        // Files of benchmarks say all that they do in their names.
        let stem = shortened(&problem_name(&self.file));
        let name = name(self.given.name.as_deref(), &format!("{stem}.py"))?;
        ProblemFiles { file: shown(&self.file), problem: read, wanted: self.given.wanted(name) }.write(
            project,
            (self.given.force, self.json),
            out,
        )
    }

    /// Asks for consent to run a file of the user's, and to the interpreter.
    fn admit_program(&self, config: &Config, project: &Project, what: &str) -> anyhow::Result<()> {
        if !self.trust.agrees().0 {
            let file = shown(&self.file);
            return Err(usage_sentence(format!(
                "{file} is a program: read it, then agree with --trust to run it, confined, {what}"
            )));
        }
        admit(project, self.trust.agrees(), trust::of_interpreter(project.root(), config).map_err(usage)?)
    }

    /// Runs a script of Kernel Tuner up to its call.
    fn run_script(&self, config: &Config, project: &Project) -> anyhow::Result<Tuning> {
        let python = &config.baseline.python;
        self.admit_program(config, project, "up to its call of tune_kernel")?;
        let call = {
            let _running = activity::begin("running the script up to its call of tune_kernel", None);
            recorded_call(&self.file, &self.arguments, self.given.kernel.as_deref(), python)
        };
        call.and_then(|call| script(&call)).map_err(|problem| about(&self.file, problem))
    }

    /// Returns what the user says beside the file, with the shapes in the annotations of the oracle.
    fn given_wanted(&self, oracle: Option<&OracleNotes>) -> Wanted {
        let mut wanted = self.given.wanted(String::new());
        for parameter in oracle.iter().flat_map(|notes| &notes.parameters) {
            if let Some(shape) = &parameter.shape {
                wanted.shapes.entry(parameter.name.clone()).or_insert_with(|| shape.clone());
            }
        }
        wanted
    }

    /// Understands a tuning problem of Kernel Tuner.
    fn tuning(&self, tuning: Tuning, oracle: Option<&OracleNotes>) -> anyhow::Result<Understood> {
        let file = shown(&self.file);
        let beside = self.file.parent().unwrap_or(Path::new("."));
        let (text, path) = match (&self.kernel_file, &tuning.source) {
            (Some(path), _) => (read(path)?, Some(path.clone())),
            (None, TuningSource::Text(text, path)) => (text.clone(), path.clone()),
            (None, TuningSource::File(named)) => {
                let path = beside.join(named);
                let text = read(&path).with_context(|| format!("{file} names the source `{}`", named.display()));
                (text.map_err(usage)?, Some(path))
            }
        };
        let source = match &path {
            Some(path) => (shown(path), path.parent().unwrap_or(beside).to_owned()),
            None => (file.clone(), beside.to_owned()),
        };
        let own_header = |path: &str| own_header(&source.1, path);
        let reading = Reading { is_header: headers::is_allowed, own_header: &own_header, ..Reading::of(&text) };
        let imported = tuning.import(reading, &self.given_wanted(oracle), oracle);
        let imported = imported.map_err(|mistakes| named(&file, &mistakes))?;
        Ok(Understood { imported, source, stem: file })
    }

    /// Understands a definition of flashinfer-bench with its workloads and a kernel.
    fn definition(&self, text: &str) -> anyhow::Result<Understood> {
        let file = shown(&self.file);
        let definition = definition(text).map_err(|problem| about(&self.file, problem))?;
        let Some(path) = &self.kernel_file else {
            return Err(about(
                &self.file,
                "a definition has no kernel to begin with: name a CUDA source with --kernel-file",
            ));
        };
        let cases = match &self.workloads {
            Some(path) => workloads(&read(path)?).map_err(|problem| about(path, problem))?,
            None => Vec::new(),
        };
        let (source, kernel) = (read(path)?, self.given.kernel.as_deref());
        let imported = definition.import((&source, kernel), &cases, &self.given.wanted(String::new()));
        let imported = imported.map_err(|mistakes| named(&file, &mistakes))?;
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        Ok(Understood { imported, source: (shown(path), folder), stem: definition.file_name() })
    }
}
