//! `optloop add`: makes a family, a workload and an op of a user's `.cu` file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rayon::prelude::*;

use super::error::{usage, usage_sentence};
use super::own_executable;
use crate::catalog::Project;
use crate::check::code_without;
use crate::config::Config;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::names::is_file_name;
use crate::domain::space::Space;
use crate::domain::variant::Params;
use crate::domain::workload::Workload;
use crate::intake::{Draft, Texts, Tunable, Wanted, instantiate, texts};
use crate::ops::OPS_FOLDER;
use crate::runner::activity;
use crate::runner::compile::Compiler;
use crate::runner::renderer::Renderer;
use crate::runner::toolchain::Toolchain;

/// The longest source, as for any file of a project.
const MAX_BYTES: u64 = 1 << 20;

/// Lines that a rendered source has before the template's.
const LINES_BEFORE: usize = 2;

/// Arguments of `optloop add`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The CUDA source
    kernel_file: PathBuf,

    /// Python file with a function `oracle` that computes the output in float64 (docs/workload.md)
    #[arg(long, value_name = "FILE", required_unless_present = "op")]
    oracle: Option<PathBuf>,

    /// Op that the kernel computes, if it exists already
    #[arg(long, value_name = "OP", conflicts_with_all = ["oracle", "shapes", "contents", "zeroed", "scalars", "independent", "flop"])]
    op: Option<String>,

    /// Name of the new workload, family and op [default: that of the source file]
    #[arg(long)]
    name: Option<String>,

    /// Kernel to launch, if the source has several
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<String>,

    /// Shape of a tensor, such as x=R,N (repeat for each pointer)
    #[arg(long = "shape", value_name = "TENSOR=EXTENTS", value_parser = Wanted::shape)]
    shapes: Vec<(String, Vec<String>)>,

    /// Sizes of a case, such as R=4096,N=8192 (repeat for more cases)
    #[arg(long = "case", value_name = "DIM=SIZE,...", value_parser = Wanted::case)]
    cases: Vec<crate::intake::CaseSizes>,

    /// Value of a floating-point parameter, such as eps=1e-5 (repeat for more)
    #[arg(long = "scalar", value_name = "NAME=VALUE", value_parser = scalar)]
    scalars: Vec<(String, f64)>,

    /// What an input contains, if not random numbers: uniform:0:1, integers:0:N-1, sorted:0:N or mask:0.5, such as
    /// labels=integers:0:N-1 (repeat for more)
    #[arg(long = "contents", value_name = "TENSOR=CONTENTS", value_parser = Wanted::contents)]
    contents: Vec<(String, String)>,

    /// Output that the kernel adds to, so that it must be zeroed first (repeat for more)
    #[arg(long = "zero", value_name = "TENSOR")]
    zeroed: Vec<String>,

    /// Scratch memory of the kernel with its elements, such as partial=1024. It is zeroed once, so a kernel leaves counters
    /// at zero (repeat for more)
    #[arg(long = "scratch", value_name = "POINTER=ELEMENTS", value_parser = Wanted::scratch)]
    scratch: Vec<(String, String)>,

    /// Number of blocks along x, y and z, such as 'ceil_div(N, TILE), R'
    #[arg(long, value_name = "EXTENTS", default_value = "", hide_default_value = true)]
    grid: String,

    /// Threads of a block along x, y and z, such as THREADS
    #[arg(long, value_name = "EXTENTS", default_value = "", hide_default_value = true)]
    block: String,

    /// Bytes of dynamic shared memory
    #[arg(long, value_name = "EXPRESSION")]
    shared: Option<String>,

    /// Additions and multiplications that every kernel must do, such as '2 * M * N * K'
    #[arg(long, value_name = "EXPRESSION", default_value = "0")]
    flop: String,

    /// Dimension whose indices do not influence each other, such as rows
    #[arg(long, value_name = "DIM")]
    independent: Option<String>,

    /// Values to search for a tunable, such as TILE=8,16,32 (repeat for more)
    #[arg(long = "values", value_name = "NAME=VALUES", value_parser = Wanted::values)]
    values: Vec<(String, Vec<i64>)>,

    /// Condition on dimensions and tunables under which the kernel is right (repeat for more)
    #[arg(long = "constraint", value_name = "EXPRESSION")]
    constraints: Vec<String>,

    /// Expression of PyTorch to compare with, such as 'F.softmax(x, -1)'
    #[arg(long, value_name = "EXPRESSION")]
    torch: Option<String>,

    /// Value of a template parameter of the kernel, such as TILE=16 or T=float (repeat for more)
    #[arg(long = "template", value_name = "NAME=VALUE", value_parser = template)]
    templates: Vec<(String, String)>,

    /// Architecture to compile for
    #[arg(long, default_value = "sm_90a")]
    arch: String,
}

fn template(text: &str) -> Result<(String, String), String> {
    let value = text.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    value.ok_or_else(|| format!("`{text}`: write NAME=VALUE"))
}

fn scalar(text: &str) -> Result<(String, f64), String> {
    let value = text.split_once('=').and_then(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)));
    value.ok_or_else(|| format!("`{text}`: write NAME=VALUE"))
}

/// Adds a kernel. Everything is checked and compiled before anything is written.
pub fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let file = args.kernel_file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let scratch = args.scratch.iter().map(|(name, _)| name.as_str());
    let templates = args.templates.iter().cloned().collect();
    let source = instantiate(&read(&args.kernel_file)?, args.kernel.as_deref(), &templates);
    let source = source.map_err(|mistakes| named(&file, &mistakes))?;
    let draft = Draft::read(&source, args.kernel.as_deref(), scratch);
    let draft = draft.map_err(|mistakes| named(&file, &mistakes))?;
    let mut wanted = wanted(args, &file)?;
    let missing = wanted.missing(&draft);
    if !missing.is_empty() {
        return Err(usage_sentence(format!(
            "{file} does not say everything that a launch needs; add {}",
            missing.join(", ")
        )));
    }
    let sizes = args.op.as_ref().map(|op| project.op(op).map_err(usage_sentence)).transpose()?;
    let sizes: Option<Vec<&str>> = sizes.map(|op| op.dims().iter().map(|dim| dim.name).collect());
    let made = |wanted: &Wanted| texts(&draft, wanted, sizes.as_deref()).map_err(|mistakes| named(&file, &mistakes));
    let staging = Staging::new(project, args, &draft)?;
    staging.refuse_what_is_there(project, &wanted)?;
    let first = made(&wanted)?;
    let (workload, family) = staging.read(&first, &wanted)?;
    let tried = {
        let _running = activity::begin("compiling the kernel with other values", None);
        Tried::of((&workload, &family), (&first, &wanted), &config, &args.arch)
            .map_err(|problem| usage_sentence(in_users_file(&problem, &file, &draft)))?
    };
    tried.note(&mut wanted, &first);
    let last = made(&wanted)?;
    staging.read(&last, &wanted)?;
    staging.copy_to(project, &wanted)?;
    tell((&file, &draft), &last, &tried, &wanted, out)
}

fn named(file: &str, mistakes: &[String]) -> anyhow::Error {
    usage_sentence(format!("{file}: {}", mistakes.join("; ")))
}

fn read(path: &Path) -> anyhow::Result<String> {
    let there = fs::metadata(path).with_context(|| format!("Failed to read {}", path.display())).map_err(usage)?;
    if !there.is_file() || there.len() > MAX_BYTES {
        return Err(usage_sentence(format!("{} is not a file of at most {} MiB", path.display(), MAX_BYTES >> 20)));
    }
    fs::read_to_string(path).with_context(|| format!("Failed to read {}", path.display())).map_err(usage)
}

fn wanted(args: &Args, file: &str) -> anyhow::Result<Wanted> {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_lowercase().replace('_', "-");
    let name = args.name.clone().unwrap_or(stem);
    if !is_file_name(&name) {
        return Err(usage_sentence(format!(
            "name `{name}`: use 1 to 64 of a-z, 0-9 and `-`; --name gives another one"
        )));
    }
    Ok(Wanted {
        name,
        op: args.op.clone(),
        shapes: args.shapes.iter().cloned().collect(),
        cases: args.cases.clone(),
        contents: args.contents.iter().cloned().collect(),
        zeroed: args.zeroed.clone(),
        scratch: args.scratch.iter().cloned().collect(),
        scalars: args.scalars.iter().cloned().collect(),
        grid: Wanted::extents(&args.grid),
        block: Wanted::extents(&args.block),
        shared: args.shared.clone(),
        flop: args.flop.clone(),
        independent: args.independent.clone(),
        values: args.values.iter().cloned().collect(),
        fixed: Default::default(),
        constraints: args.constraints.clone(),
        torch: args.torch.clone(),
    })
}

/// A project in a temporary folder that contains nothing but the new files, to read them as every project is read.
struct Staging {
    folder: tempfile::TempDir,
    oracle: Option<String>,
    /// The source's own headers, by the path with which it includes them.
    headers: Vec<(String, String)>,
}

impl Staging {
    fn new(project: &Project, args: &Args, draft: &Draft) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("optloop-add-").tempdir()?;
        fs::copy(project.root().join("config.toml"), folder.path().join("config.toml"))?;
        if let Some(op) = args.op.as_ref().filter(|op| project.root().join(OPS_FOLDER).join(op).is_dir()) {
            let (from, to) = (project.root().join(OPS_FOLDER).join(op), folder.path().join(OPS_FOLDER).join(op));
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(from)?.flatten().filter(|entry| entry.path().is_file()) {
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        let beside = args.kernel_file.parent().unwrap_or(Path::new("."));
        let header = |(path, line): &(String, usize)| -> anyhow::Result<(String, String)> {
            let text = read(&beside.join(path)).with_context(|| format!("line {line} includes `{path}`"));
            Ok((path.clone(), text.map_err(usage)?))
        };
        Ok(Self {
            folder,
            oracle: args.oracle.as_deref().map(read).transpose()?,
            headers: draft.includes.iter().map(header).collect::<anyhow::Result<_>>()?,
        })
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
            files.extend(["op.toml", "oracle.py"].map(|file| format!("{OPS_FOLDER}/{name}/{file}")));
        }
        files
    }

    fn refuse_what_is_there(&self, project: &Project, wanted: &Wanted) -> anyhow::Result<()> {
        let files = self.files(wanted);
        match files.iter().find(|file| project.root().join(file).symlink_metadata().is_ok()) {
            None => Ok(()),
            Some(file) => Err(usage_sentence(format!(
                "{file} exists already, and nothing is overwritten: --name gives the kernel another name"
            ))),
        }
    }

    /// Writes the files into the temporary folder and reads them.
    fn read(&self, texts: &Texts, wanted: &Wanted) -> anyhow::Result<(Workload, Family)> {
        let text_of = |file: &str| -> &str {
            match file.rsplit('/').next().unwrap_or_default() {
                "op.toml" => &texts.op,
                "oracle.py" => self.oracle.as_deref().unwrap_or_default(),
                "family.toml" => &texts.family,
                "kernel.cu.tera" => &texts.template,
                _ if file.starts_with("kernels/workloads/") => &texts.workload,
                _ => self.headers.iter().find(|(path, _)| file.ends_with(path)).map_or("", |(_, text)| text),
            }
        };
        for file in self.files(wanted) {
            let path = self.folder.path().join(&file);
            fs::create_dir_all(path.parent().unwrap_or(self.folder.path()))?;
            fs::write(path, text_of(&file))?;
        }
        let plain = |error: anyhow::Error| {
            usage_sentence(format!("{error:#}").replace(&format!("{}/", self.folder.path().display()), ""))
        };
        let staged = Project::find(Some(self.folder.path()))?;
        let workload = staged.workload(&wanted.name).map_err(plain)?;
        let families = staged.families().map_err(plain)?;
        Ok((workload, families.family(&wanted.name).map_err(plain)?.clone()))
    }

    fn copy_to(&self, project: &Project, wanted: &Wanted) -> anyhow::Result<()> {
        for file in self.files(wanted) {
            let path = project.root().join(&file);
            let copy = || -> std::io::Result<()> {
                fs::create_dir_all(path.parent().unwrap_or(project.root()))?;
                fs::File::create_new(&path)?.write_all(&fs::read(self.folder.path().join(&file))?)
            };
            copy().with_context(|| format!("Failed to write {}", path.display()))?;
        }
        Ok(())
    }
}

/// A tunable with another value.
struct OtherValue<'a> {
    tunable: &'a Tunable,
    value: i64,
    /// The PTX, or why it does not compile. None where a constraint excludes the value.
    result: Option<Result<String, String>>,
}

/// What became of each value of each tunable.
struct Tried {
    /// The tunables that change nothing in the machine code.
    idle: Vec<String>,
    /// The values that do not compile, or have the machine code of another one, with the reason.
    refused: Vec<(String, i64, String)>,
}

impl Tried {
    /// Compiles the kernel as it is, and with every other value of each tunable. The error is why it does not compile as it
    /// is.
    fn of(
        (workload, family): (&Workload, &Family),
        (texts, wanted): (&Texts, &Wanted),
        config: &Config,
        arch: &str,
    ) -> Result<Self, String> {
        let text = |error: anyhow::Error| format!("{error:#}");
        let device = DeviceInfo::of_arch(arch)?;
        let renderer = Renderer::new(own_executable().map_err(text)?);
        let toolchain = Toolchain::find_or_fetch().map_err(text)?;
        let limits = config.compile_limits();
        let compiler = Compiler::new(own_executable().map_err(text)?, toolchain, arch, &config.compile.options, limits);
        let compiler = compiler.map_err(text)?;
        let Some(case) = workload.cases.first() else { return Err("it has no case".to_owned()) };
        let space = Space { family, case, dtype: workload.dtype, device: &device };
        let ptx = |params: &Params| -> Result<String, String> {
            let variant = renderer.render(family, &family.specialization(case), workload.dtype, params)?;
            compiler.compile(&variant).map(|artifact| artifact.ptx).map_err(|error| error.to_string())
        };
        let defaults = family.defaults();
        for case in &workload.cases {
            let plan = family.plan(&defaults, case, workload.op, workload.dtype, &device);
            plan.map_err(|problem| format!("case `{}`: {problem}", case.name))?;
        }
        let as_it_is = ptx(&defaults)?;
        let tries: Vec<(&Tunable, i64)> = texts
            .parameters
            .iter()
            .flat_map(|(tunable, values)| values.iter().map(move |value| (tunable, *value)))
            .filter(|(tunable, value)| *value != tunable.value)
            .collect();
        let compiled: Vec<OtherValue<'_>> = tries
            .into_par_iter()
            .map(|(tunable, value)| {
                let mut params = defaults.clone();
                params.insert(tunable.name.clone(), value);
                let is_valid = space.contains(&params).unwrap_or(false);
                OtherValue { tunable, value, result: is_valid.then(|| ptx(&params)) }
            })
            .collect();
        let (mut idle, mut refused) = (Vec::new(), Vec::new());
        for (tunable, _) in &texts.parameters {
            let name = &tunable.name;
            // A number in the launch matters, whatever the machine code.
            let is_launched = wanted.launch_names().contains(name);
            let mut known = vec![(tunable.value, code_without(&as_it_is, name))];
            let own = || compiled.iter().filter(|other| other.tunable.name == *name);
            let before = refused.len();
            for OtherValue { value, result, .. } in own() {
                let problem = match result {
                    Some(Err(problem)) => problem.lines().next().unwrap_or_default().to_owned(),
                    Some(Ok(ptx)) if !is_launched => {
                        let code = code_without(ptx, name);
                        match known.iter().find(|(_, other)| *other == code) {
                            Some((same, _)) => format!("its machine code is that of {same}"),
                            None => {
                                known.push((*value, code));
                                continue;
                            }
                        }
                    }
                    _ => continue,
                };
                refused.push((name.clone(), *value, problem));
            }
            if refused.len() - before == own().count() {
                idle.push(name.clone());
            }
        }
        Ok(Self { idle, refused })
    }

    /// Leaves out what was tried in vain.
    fn note(&self, wanted: &mut Wanted, texts: &Texts) {
        for (tunable, values) in &texts.parameters {
            let is_refused =
                |value: &i64| self.refused.iter().any(|(name, refused, _)| name == &tunable.name && refused == value);
            if self.idle.contains(&tunable.name) {
                wanted.values.shift_remove(&tunable.name);
                let why = "no other value compiles and changes the machine code";
                wanted.fixed.insert(tunable.name.clone(), why.to_owned());
            } else if values.iter().any(is_refused) {
                let kept = values.iter().copied().filter(|value| !is_refused(value)).collect();
                wanted.values.insert(tunable.name.clone(), kept);
            }
        }
    }
}

/// Returns a message of the compiler with the line of the user's file. With headers of its own, the compiled source has
/// other lines.
fn in_users_file(problem: &str, file: &str, draft: &Draft) -> String {
    let shifted = || -> Option<String> {
        let (line, rest) = problem.strip_prefix("variant.cu(")?.split_once(')')?;
        let line = line.parse::<usize>().ok()?.checked_sub(LINES_BEFORE)?;
        Some(format!("{file}({line}){rest}"))
    };
    let shifted = if draft.includes.is_empty() { shifted() } else { None };
    shifted.unwrap_or_else(|| format!("{file}: {problem}"))
}

fn tell(
    (file, draft): (&str, &Draft),
    texts: &Texts,
    tried: &Tried,
    wanted: &Wanted,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let name = &wanted.name;
    let what = if wanted.op.is_some() { "workload and family" } else { "op, workload and family" };
    writeln!(out, "added {file} as {what} `{name}`")?;
    for (tunable, values) in &texts.parameters {
        let values = values.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
        writeln!(out, "  {} ({} in line {}): {values}", tunable.name, tunable.place.words(), tunable.line)?;
    }
    for (tunable, why) in &texts.left_out {
        writeln!(
            out,
            "  {} ({} in line {}) stays {}: {why}",
            tunable.name,
            tunable.place.words(),
            tunable.line,
            tunable.value
        )?;
    }
    for (tunable, value, problem) in tried.refused.iter().filter(|(name, ..)| !tried.idle.contains(name)) {
        writeln!(out, "  {tunable} = {value} is left out: {}", in_users_file(problem, file, draft))?;
    }
    if texts.parameters.is_empty() {
        writeln!(out, "  nothing in the source can be tuned: make block sizes, tiles or unroll factors #defines")?;
    }
    writeln!(out, "next: git add kernels templates && git commit, then optloop start --workload {name} --budget 5m")?;
    Ok(())
}
