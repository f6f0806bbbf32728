//! The options that say what a source cannot: those of `optloop add` and `optloop import`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use indexmap::IndexMap;

use crate::cli::adding::new_kernel::{named, read, shown};
use crate::domain::compute::Compute;
use crate::domain::op::Dtype;
use crate::domain::op::atomic_sums::AtomicSums;
use crate::domain::op::oracle::OracleLanguage;
use crate::domain::text::names::is_identifier;
use crate::error::{Error, error, usage_sentence};
use crate::intake::{CaseSizes, Imported, OracleKernel, OracleNotes, Wanted, with_oracle};

/// The work of an op whose work is not given.
const NO_WORK: &str = "0";

/// The architecture for which most users compile.
const ARCH: &str = "sm_90a";

/// The options in the file of an oracle.
#[derive(clap::Parser)]
struct InFile {
    #[command(flatten)]
    given: KernelOptions,
}

/// An oracle that a user names.
pub struct OracleFile {
    /// Its text.
    pub text: String,
    /// How it is launched, if it is in CUDA.
    pub kernel: Option<OracleKernel>,
    /// What it says about its kernel.
    pub notes: OracleNotes,
}

/// What a source cannot say.
#[derive(Debug, Clone, clap::Args)]
pub struct KernelOptions {
    /// Python file with a function `oracle`, a function of another name (rope.py:rope), or CUDA source (.cu) with a kernel,
    /// that computes the output in float64 (`optloop docs workload`)
    #[arg(long, value_name = "FILE")]
    pub oracle: Option<PathBuf>,

    /// Number of blocks of an oracle in CUDA along x, y and z, such as R
    #[arg(long, value_name = "EXTENTS", requires = "oracle")]
    pub oracle_grid: Option<String>,

    /// Threads of a block of an oracle in CUDA along x, y and z, such as 256
    #[arg(long, value_name = "EXTENTS", requires = "oracle")]
    pub oracle_block: Option<String>,

    /// Op that the kernel computes, if it exists already
    #[arg(long, value_name = "OP", conflicts_with_all = ["oracle", "shapes", "inputs", "in_place", "contents", "zeroed", "atomic_sums", "scalars", "independent", "flop"])]
    pub op: Option<String>,

    /// Name of the new workload, family and op [default: that of the source file]
    #[arg(long)]
    pub name: Option<String>,

    /// Kernel to launch, if the source has several
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,

    /// Shape of a tensor, such as x=R,N (repeat for each pointer)
    #[arg(long = "shape", value_name = "TENSOR=EXTENTS", value_parser = Wanted::shape)]
    pub shapes: Vec<(String, Vec<String>)>,

    /// Sizes of a case, such as R=4096,N=8192 (repeat for more cases)
    #[arg(long = "case", value_name = "DIM=SIZE,...", value_parser = Wanted::case)]
    pub cases: Vec<CaseSizes>,

    /// Value of a floating-point parameter, such as eps=1e-5 (repeat for more)
    #[arg(long = "scalar", value_name = "NAME=VALUE", value_parser = scalar)]
    pub scalars: Vec<(String, f64)>,

    /// Type of the elements of a tensor, where the kernel's pointer has another one, such as x=f16 for a `float4*` that holds
    /// eight halves each (repeat for more)
    #[arg(long = "dtype", value_name = "TENSOR=TYPE", value_parser = dtype)]
    pub dtypes: Vec<(String, Dtype)>,

    /// What an input contains, if not random numbers: uniform:0:1, integers:0:N-1, sorted:0:N or mask:0.5, such as
    /// labels=integers:0:N-1 (repeat for more)
    #[arg(long = "contents", value_name = "TENSOR=CONTENTS", value_parser = Wanted::contents)]
    pub contents: Vec<(String, String)>,

    /// Pointer that is an input, though the kernel does not declare it const (repeat for more)
    #[arg(long = "input", value_name = "TENSOR")]
    pub inputs: Vec<String>,

    /// Tensor that the kernel updates in place: it reads the values and overwrites them (repeat for more)
    #[arg(long = "in-place", value_name = "TENSOR")]
    pub in_place: Vec<String>,

    /// Output that the kernel adds to, so that it must be zeroed first (repeat for more)
    #[arg(long = "zero", value_name = "TENSOR")]
    pub zeroed: Vec<String>,

    /// Output whose floating-point sums may have any order, as with atomics: two runs need not have the same bytes there. Each
    /// must be within the tolerance, and with =products, where the terms are products of inputs, they differ by n eps Σ|x| at
    /// most (repeat for more)
    #[arg(long = "atomic-sums", value_name = "TENSOR", value_parser = AtomicSums::parse)]
    pub atomic_sums: Vec<(String, AtomicSums)>,

    /// Scratch memory of the kernel with its elements, such as partial=1024. It is zeroed once, so a kernel leaves counters
    /// at zero (repeat for more)
    #[arg(long = "scratch", value_name = "POINTER=ELEMENTS", value_parser = Wanted::scratch)]
    pub scratch: Vec<(String, String)>,

    /// Number of blocks along x, y and z, such as 'ceil_div(N, TILE), R'
    #[arg(long, value_name = "EXTENTS", default_value = "", hide_default_value = true)]
    pub grid: String,

    /// Threads of a block along x, y and z, such as THREADS
    #[arg(long, value_name = "EXTENTS", default_value = "", hide_default_value = true)]
    pub block: String,

    /// Bytes of dynamic shared memory
    #[arg(long, value_name = "EXPRESSION")]
    pub shared: Option<String>,

    /// Additions and multiplications that every kernel must do, such as '2 * M * N * K'
    #[arg(long, value_name = "EXPRESSION", default_value = "0")]
    pub flop: String,

    /// Dimension whose indices do not influence each other, such as rows
    #[arg(long, value_name = "DIM")]
    pub independent: Option<String>,

    /// Values to search for a tunable or for an integer parameter of the kernel, such as TILE=8,16,32 (repeat for more)
    #[arg(long = "values", value_name = "NAME=VALUES", value_parser = Wanted::values)]
    pub values: Vec<(String, Vec<i64>)>,

    /// Integer parameter of the kernel that follows from dimensions and tunables, such as stride=N (repeat for more)
    #[arg(long = "argument", value_name = "PARAMETER=EXPRESSION", value_parser = Wanted::argument)]
    pub computed: Vec<(String, String)>,

    /// Condition on dimensions and tunables under which the kernel is right (repeat for more)
    #[arg(long = "constraint", value_name = "EXPRESSION")]
    pub constraints: Vec<String>,

    /// Precision in which the kernel multiplies: that of its tensors (dtype), or tf32 for FP32 on tensor cores
    #[arg(long, value_name = "MODE", default_value = "dtype", value_parser = compute)]
    pub compute: Compute,

    /// Expression of PyTorch to compare with, such as 'F.softmax(x, -1)'
    #[arg(long, value_name = "EXPRESSION")]
    pub torch: Option<String>,

    /// Further expression to compare with, which may use any installed package, such as quack='quack.softmax(x)' (repeat for
    /// more)
    #[arg(long = "baseline", value_name = "NAME=EXPRESSION", value_parser = Wanted::baseline, requires = "torch")]
    pub baselines: Vec<(String, String)>,

    /// Value of a template parameter of the kernel, such as TILE=16 or T=float (repeat for more)
    #[arg(long = "template", value_name = "NAME=VALUE", value_parser = template)]
    pub templates: Vec<(String, String)>,

    /// Architecture to compile for
    #[arg(long, default_value = ARCH)]
    pub arch: String,

    /// Replace the files of an earlier addition of that name
    #[arg(long)]
    pub force: bool,
}

/// Splits `rope.py:rope` into a file and a function.
fn function_of(path: &Path) -> (&Path, Option<&str>) {
    let parts = path.to_str().filter(|_| !path.exists()).and_then(|path| path.rsplit_once(':'));
    match parts.filter(|(file, function)| file.ends_with(".py") && is_identifier(function)) {
        Some((file, function)) => (Path::new(file), Some(function)),
        None => (path, None),
    }
}

/// Returns both, the later ones in place of others of their names.
fn by_name<T>(first: Vec<(String, T)>, later: Vec<(String, T)>) -> Vec<(String, T)> {
    first.into_iter().chain(later).collect::<IndexMap<_, _>>().into_iter().collect()
}

fn template(text: &str) -> Result<(String, String), Error> {
    let value = text.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    value.ok_or_else(|| error!("`{text}`").hint("write NAME=VALUE"))
}

fn compute(text: &str) -> Result<Compute, Error> {
    let found = [Compute::Dtype, Compute::Tf32].into_iter().find(|mode| mode.name() == text);
    found.ok_or_else(|| error!("`{text}`").hint("write dtype or tf32"))
}

fn dtype(text: &str) -> Result<(String, Dtype), Error> {
    let parts = text.split_once('=');
    let found = parts.and_then(|(name, of)| Some((name.trim().to_owned(), Dtype::of_name(of.trim())?)));
    found.ok_or_else(|| error!("`{text}`: write TENSOR=TYPE with one of {}", Dtype::ALL.map(Dtype::name).join(", ")))
}

fn scalar(text: &str) -> Result<(String, f64), Error> {
    let value = text.split_once('=').and_then(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)));
    value.ok_or_else(|| error!("`{text}`").hint("write NAME=VALUE"))
}

impl KernelOptions {
    /// Returns it, with a name for the new files.
    pub fn wanted(&self, name: String) -> Wanted {
        Wanted {
            name,
            op: self.op.clone(),
            shapes: self.shapes.iter().cloned().collect(),
            cases: self.cases.clone(),
            ranges: Default::default(),
            inputs: self.inputs.clone(),
            in_place: self.in_place.clone(),
            contents: self.contents.iter().cloned().collect(),
            zeroed: self.zeroed.clone(),
            atomic_sums: self.atomic_sums.iter().cloned().collect(),
            scratch: self.scratch.iter().cloned().collect(),
            scalars: self.scalars.iter().cloned().collect(),
            grid: Wanted::extents(&self.grid),
            block: Wanted::extents(&self.block),
            shared: self.shared.clone(),
            flop: self.flop.clone(),
            independent: self.independent.clone(),
            values: self.values.iter().cloned().collect(),
            fixed: self.modes().collect(),
            arguments: self.computed.iter().cloned().collect(),
            constraints: self.constraints.clone(),
            compute: self.compute,
            torch: self.torch.clone(),
            baselines: self.baselines.iter().cloned().collect(),
            oracle_kernel: None,
        }
    }

    /// Returns the conditions among the template parameters: they say what the kernel computes, such as whether it is causal.
    fn modes(&self) -> impl Iterator<Item = (String, String)> {
        let is_mode = |value: &str| ["true", "false", "True", "False"].contains(&value);
        let has_values = |name: &str| self.values.iter().any(|(other, _)| other == name);
        let modes = self.templates.iter().filter(move |(name, value)| is_mode(value) && !has_values(name));
        modes.map(|(name, _)| (name.clone(), format!("--template gives it, and --values {name}=0,1 would try both")))
    }

    /// Reads the oracle that the user names, and the options that its file gives where the command line gives no other. One in
    /// CUDA has a launch, of which its source gives the arguments.
    pub fn with_oracle(&self) -> anyhow::Result<(Self, Option<OracleFile>)> {
        let Some(path) = &self.oracle else { return Ok((self.clone(), None)) };
        let (path, function) = function_of(path);
        let (text, file) = (read(path)?, shown(path));
        if OracleLanguage::of_file(&file) != Some(OracleLanguage::Cuda) {
            let notes = OracleNotes::read(&text, function).map_err(|problem| named(&file, &[problem.into()]))?;
            let words = ["optloop add", "--oracle"].map(OsString::from).into_iter().chain([path.into()]);
            let parsed = InFile::try_parse_from(words.chain(notes.options.iter().map(OsString::from)));
            let parsed = parsed.map_err(|error| {
                let said = error.to_string();
                let said = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
                named(&file, &[format!("`optloop`: {said}")])
            })?;
            let given = self.over(parsed.given);
            if given.oracle_grid.is_some() || given.oracle_block.is_some() {
                let why = "--oracle-grid and --oracle-block launch an oracle in CUDA";
                return Err(usage_sentence(format!("{why}, and {file} is no .cu file: leave them out")));
            }
            let text = with_oracle(&text, &notes.function);
            return Ok((given, Some(OracleFile { text, kernel: None, notes })));
        }
        let extents = |text: &Option<String>| text.as_deref().map(Wanted::extents).unwrap_or_default();
        let kernel = OracleKernel::read(&text, extents(&self.oracle_grid), extents(&self.oracle_block));
        let kernel = Some(kernel.map_err(|problem| named(&file, &[problem.into()]))?);
        Ok((self.clone(), Some(OracleFile { text, kernel, notes: OracleNotes::default() })))
    }

    /// Returns the tensors whose shapes are options.
    pub fn given_shapes(&self) -> Vec<&str> {
        self.shapes.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns these options, and others where these do not say the same.
    fn over(&self, other: Self) -> Self {
        let own = self.clone();
        let either = |own: String, other: String, usual: &str| if own == usual { other } else { own };
        let all = |own: Vec<String>, other: Vec<String>| -> Vec<String> { other.into_iter().chain(own).collect() };
        Self {
            oracle: own.oracle,
            oracle_grid: own.oracle_grid.or(other.oracle_grid),
            oracle_block: own.oracle_block.or(other.oracle_block),
            op: own.op.or(other.op),
            name: own.name.or(other.name),
            kernel: own.kernel.or(other.kernel),
            shapes: by_name(other.shapes, own.shapes),
            cases: if own.cases.is_empty() { other.cases } else { own.cases },
            scalars: by_name(other.scalars, own.scalars),
            contents: by_name(other.contents, own.contents),
            inputs: all(own.inputs, other.inputs),
            in_place: all(own.in_place, other.in_place),
            zeroed: all(own.zeroed, other.zeroed),
            atomic_sums: by_name(other.atomic_sums, own.atomic_sums),
            scratch: by_name(other.scratch, own.scratch),
            grid: either(own.grid, other.grid, ""),
            block: either(own.block, other.block, ""),
            shared: own.shared.or(other.shared),
            flop: either(own.flop, other.flop, NO_WORK),
            independent: own.independent.or(other.independent),
            values: by_name(other.values, own.values),
            computed: by_name(other.computed, own.computed),
            constraints: all(own.constraints, other.constraints),
            compute: if own.compute.is_dtype() { other.compute } else { own.compute },
            torch: own.torch.or(other.torch),
            baselines: by_name(other.baselines, own.baselines),
            templates: by_name(other.templates, own.templates),
            dtypes: by_name(other.dtypes, own.dtypes),
            arch: either(own.arch, other.arch, ARCH),
            force: own.force || other.force,
        }
    }

    /// Returns what an imported file says, where the user says nothing else. Cases get the sizes that they leave out.
    pub fn over_file(&self, imported: &Imported, name: String) -> Wanted {
        let (own, file) = (self.wanted(name), imported.wanted.clone());
        let mut sizes = file.cases.first().cloned().unwrap_or_default();
        let fixed = file.ranges.iter().filter(|(_, (least, most))| least == most);
        sizes.extend(fixed.map(|(name, (size, _))| (name.clone(), *size)));
        let completed = |case: &CaseSizes| {
            let mut all = sizes.clone();
            all.extend(case.clone());
            all
        };
        let either = |own: Vec<String>, file: Vec<String>| if own.is_empty() { file } else { own };
        let is_other = |name: &String| own.scratch.contains_key(name) || own.zeroed.contains(name);
        let is_input = |name: &String| !is_other(name) && !own.in_place.contains(name);
        let is_in_place = |name: &String| !is_other(name) && !own.inputs.contains(name);
        let in_place = file.in_place.into_iter().filter(is_in_place).chain(own.in_place.iter().cloned()).collect();
        Wanted {
            shapes: file.shapes.into_iter().chain(own.shapes).collect(),
            cases: if own.cases.is_empty() { file.cases } else { own.cases.iter().map(completed).collect() },
            ranges: file.ranges,
            inputs: file.inputs.into_iter().filter(is_input).chain(own.inputs.iter().cloned()).collect(),
            in_place,
            contents: file.contents.into_iter().chain(own.contents).collect(),
            scalars: file.scalars.into_iter().chain(own.scalars).collect(),
            grid: either(own.grid, file.grid),
            block: either(own.block, file.block),
            shared: own.shared.or(file.shared),
            flop: if own.flop == NO_WORK { file.flop } else { own.flop },
            values: file.values.into_iter().chain(own.values).collect(),
            arguments: file.arguments.into_iter().chain(own.arguments).collect(),
            constraints: file.constraints.into_iter().chain(own.constraints).collect(),
            ..own
        }
    }
}
