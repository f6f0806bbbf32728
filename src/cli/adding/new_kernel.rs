//! Adds a kernel to a project: compiles it, tries other values, and writes a family, a workload and an op.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use indexmap::IndexSet;
use serde_json::json;

use crate::catalog::Project;
use crate::cli::adding::staging::{NewFile, Staging, refuse_what_is_there};
use crate::cli::adding::tunable_trials::TunableTrials;
use crate::cli::terminal::listing::print_json;
use crate::config::Config;
use crate::domain::family::Family;
use crate::domain::text::names::is_file_name;
use crate::domain::workload::Workload;
use crate::error::{usage, usage_sentence};
use crate::intake::{Draft, Geometry, Texts, UNUSED, Wanted, texts, without_gaps};
use crate::ops::OPS_FOLDER;
use crate::runner::activity;

/// The longest source, as for any file of a project.
const MAX_BYTES: u64 = 1 << 20;

/// The file that the compiler names.
const COMPILED_FILE: &str = "variant.cu";

/// Lines that a rendered source has before the template's.
const LINES_BEFORE: usize = 2;

/// The most names of what was left out. Programs get all.
const MOST_NAMED: usize = 12;

/// A kernel to add.
pub struct NewKernel {
    /// The name of the file that it is from, for messages.
    pub file: String,
    /// What the source says.
    pub draft: Draft,
    /// What it cannot say.
    pub wanted: Wanted,
    /// The text of the oracle, unless the op exists.
    pub oracle: Option<String>,
    /// Why there is none, if an imported file could have had one.
    pub no_oracle: Option<String>,
    /// The architecture to compile for.
    pub arch: String,
    /// Whether files of an earlier addition are replaced.
    pub force: bool,
    /// Whether the result is printed for a program.
    pub json: bool,
}

impl NewKernel {
    /// Adds it. Everything is checked and compiled before anything is written.
    pub fn run(mut self, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
        let config = Config::load(project.root()).map_err(usage)?;
        self.draft.complete(&mut self.wanted);
        let geometry = self.proposed();
        self.check_complete()?;
        let Self { file, draft, .. } = &self;
        let sizes = self.wanted.op.as_ref().map(|op| project.op(op).map_err(usage_sentence)).transpose()?;
        let sizes: Option<Vec<&str>> = sizes.map(|op| op.dims().iter().map(|dim| dim.name).collect());
        let made = |wanted: &Wanted| texts(draft, wanted, sizes.as_deref()).map_err(|mistakes| named(file, &mistakes));
        let staging = Staging::new(project, self.wanted.op.as_deref())?;
        if !self.force {
            let paths = self.files(&Texts::default(), &self.wanted);
            refuse_what_is_there(project, paths.iter().map(|(path, _)| path.as_str()))?;
        }
        let first = made(&self.wanted)?;
        let (workload, family) = read_staged(&staging, &self.files(&first, &self.wanted), &self.wanted)?;
        let tried = {
            let _running = activity::begin("compiling the kernel with other values", None);
            TunableTrials::of((&workload, &family), (&first, &self.wanted), &config, &self.arch)
                .map_err(|problem| usage_sentence(in_users_file(&problem.to_string(), file, draft)))?
        };
        let mut wanted = std::mem::take(&mut self.wanted);
        tried.note(&mut wanted, &first);
        let mut last =
            texts(&self.draft, &wanted, sizes.as_deref()).map_err(|mistakes| named(&self.file, &mistakes))?;
        if !self.draft.left_out.is_empty() {
            last.template = without_gaps(&last.template);
        }
        let files = self.files(&last, &wanted);
        read_staged(&staging, &files, &wanted)?;
        staging.copy_to(project, &files)?;
        if self.json {
            return print_json(&result((&self.file, &self.draft), &last, &tried, &wanted), out);
        }
        tell((&self.file, &self.draft), (&last, geometry.as_ref()), &tried, &wanted, out)
    }

    /// Returns the new files.
    fn files(&self, texts: &Texts, wanted: &Wanted) -> Vec<NewFile> {
        let name = &wanted.name;
        let family = format!("templates/kernels/{name}");
        let mut files = vec![
            (format!("kernels/workloads/{name}.toml"), texts.workload.clone()),
            (format!("{family}/family.toml"), texts.family.clone()),
            (format!("{family}/kernel.cu.tera"), texts.template.clone()),
        ];
        let headers = self.draft.headers.iter();
        files.extend(headers.map(|(path, text)| (format!("{family}/include/{path}"), text.clone())));
        if wanted.op.is_none() {
            let oracle = self.oracle.clone().unwrap_or_default();
            files.push((format!("{OPS_FOLDER}/{name}/op.toml"), texts.op.clone()));
            files.push((format!("{OPS_FOLDER}/{name}/{}", wanted.oracle_file()), oracle));
        }
        files
    }

    /// Takes the grid from the source, and the block too if it is not given, where there is no choice.
    fn proposed(&mut self) -> Option<Geometry> {
        let geometry = self.wanted.grid.is_empty().then(|| Geometry::of(&self.draft, &self.wanted)).flatten()?;
        self.wanted.grid = geometry.grid.clone();
        if self.wanted.block.is_empty() {
            self.wanted.block = geometry.block.clone();
        }
        Some(geometry)
    }

    /// Names everything that a launch needs and that was not given.
    fn check_complete(&self) -> anyhow::Result<()> {
        let mistakes = self.draft.mistakes();
        let mut missing = self.wanted.missing(&self.draft);
        if self.wanted.op.is_none() && self.oracle.is_none() {
            let why = self.no_oracle.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            missing.push(format!("--oracle FILE (a Python function or a CUDA kernel that computes the output{why})"));
        }
        let missing = match &missing[..] {
            [] if mistakes.is_empty() => return Ok(()),
            [] => None,
            missing => {
                Some(format!("{} does not say everything that a launch needs; add {}", self.file, missing.join(", ")))
            }
        };
        let mistakes = (!mistakes.is_empty()).then(|| format!("{}: {}", self.file, mistakes.join("; ")));
        Err(usage_sentence(mistakes.into_iter().chain(missing).collect::<Vec<_>>().join("; ")))
    }
}

/// Writes the files into the temporary folder and reads them.
fn read_staged(staging: &Staging, files: &[NewFile], wanted: &Wanted) -> anyhow::Result<(Workload, Family)> {
    let plain = |error: anyhow::Error| usage_sentence(in_option(staging.plain(&error), wanted));
    let staged = staging.written(files)?;
    let workload = staged.workload(&wanted.name).map_err(plain)?;
    let families = staged.families().map_err(plain)?;
    Ok((workload, families.family(&wanted.name).map_err(plain)?.clone()))
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

/// Says what is wrong with a file.
pub fn named(file: &str, mistakes: &[String]) -> anyhow::Error {
    usage_sentence(format!("{file}: {}", mistakes.join("; ")))
}

/// Returns the name of a file, for messages.
pub fn shown(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads a user's file.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let there = fs::metadata(path).with_context(|| format!("Failed to read {}", path.display())).map_err(usage)?;
    if !there.is_file() || there.len() > MAX_BYTES {
        return Err(usage_sentence(format!("{} is not a file of at most {} MiB", path.display(), MAX_BYTES >> 20)));
    }
    fs::read_to_string(path).with_context(|| format!("Failed to read {}", path.display())).map_err(usage)
}

/// Returns the name of the new files: the user's own, or one made of that of a file or of a definition.
pub fn name(own: Option<&str>, file: &str) -> anyhow::Result<String> {
    let stem = || file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_lowercase().replace('_', "-");
    let name = own.map_or_else(stem, str::to_owned);
    if is_file_name(&name) {
        return Ok(name);
    }
    Err(usage_sentence(format!("name `{name}`: use 1 to 64 of a-z, 0-9 and `-`; --name gives another one")))
}

/// Returns a message of the compiler with the line of the user's file. With headers of its own, the compiled source has
/// other lines.
fn in_users_file(problem: &str, file: &str, draft: &Draft) -> String {
    let shifted = || -> Option<String> {
        let (line, rest) = problem.strip_prefix(COMPILED_FILE)?.strip_prefix('(')?.split_once(')')?;
        let line = line.parse::<usize>().ok()?.checked_sub(LINES_BEFORE + draft.lines_before)?;
        Some(format!("{file}({line}){rest}"))
    };
    let shifted = if draft.headers.is_empty() { shifted() } else { None };
    let problem = shifted.unwrap_or_else(|| format!("{file}: {problem}"));
    let left_out: Vec<&str> =
        draft.left_out.iter().filter(|left| left.is_include).map(|left| left.what.as_str()).collect();
    let (own, others): (Vec<&str>, Vec<&str>) = left_out.into_iter().partition(|name| name.starts_with('"'));
    let said = |names: &[&str], why: &str| (!names.is_empty()).then(|| format!("{}, which {why}", names.join(", ")));
    let own = said(&own, "cannot be found beside the source or in a folder `include` of its repository: copy it there");
    let reasons: Vec<String> = own.into_iter().chain(said(&others, "a kernel may not include")).collect();
    match &reasons[..] {
        [] => problem,
        reasons => format!("{problem} (left out of the source: {})", reasons.join("; ")),
    }
}

/// Returns what a kernel must keep to that adds floating-point numbers with atomics.
fn rule(draft: &Draft, wanted: &Wanted) -> String {
    let free: Vec<&str> = wanted.atomic_sums.keys().map(String::as_str).collect();
    if !free.is_empty() {
        return format!(
            "two runs may differ in {}, and in nothing else (`optloop docs correctness`)",
            free.join(" and ")
        );
    }
    let outputs = draft.outputs().filter(|(_, dtype)| !dtype.is_integer());
    let options: Vec<String> = outputs.map(|(name, _)| format!("--atomic-sums {name}")).collect();
    let or = if options.is_empty() { String::new() } else { format!(", or declare {}", options.join(" or ")) };
    format!("the same inputs must give the same bytes, so add in a fixed order{or} (`optloop docs correctness`)")
}

/// Returns what was added, for a program.
fn result((file, draft): (&str, &Draft), texts: &Texts, tried: &TunableTrials, wanted: &Wanted) -> serde_json::Value {
    let parameters = texts.parameters.iter().map(|(tunable, values)| json!({ "name": tunable.name, "values": values }));
    let fixed = texts.left_out.iter();
    let fixed = fixed.map(|(tunable, why)| json!({ "name": tunable.name, "value": tunable.value, "reason": why }));
    let refused = tried.refused.iter().filter(|(name, ..)| !tried.idle.contains(name));
    let refused = refused.map(|(name, value, why)| json!({ "name": name, "value": value, "reason": why }));
    json!({
        "name": wanted.name,
        "file": file,
        "new_op": wanted.op.is_none(),
        "parameters": parameters.collect::<Vec<_>>(),
        "fixed": fixed.collect::<Vec<_>>(),
        "refused_values": refused.collect::<Vec<_>>(),
        "left_out": draft.left_out.iter().map(|left| &left.what).collect::<Vec<_>>(),
        "adds_floats_with_atomics": tried.adds_floats_with_atomics,
    })
}

fn tell(
    (file, draft): (&str, &Draft),
    (texts, geometry): (&Texts, Option<&Geometry>),
    tried: &TunableTrials,
    wanted: &Wanted,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let name = &wanted.name;
    let what = if wanted.op.is_some() { "workload and family" } else { "op, workload and family" };
    writeln!(out, "added {file} as {what} `{name}`")?;
    for (what, is_include) in [("includes", true), ("unused code", false)] {
        let left = draft.left_out.iter().filter(|left| left.is_include == is_include);
        let mut left: IndexSet<&str> = left.map(|left| left.what.as_str()).collect();
        let more = left.split_off(left.len().min(MOST_NAMED)).len();
        if !left.is_empty() {
            let named = left.into_iter().collect::<Vec<_>>().join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            writeln!(out, "  left out, {what}: {named}{more}")?;
        }
    }
    for (name, _) in &draft.moved {
        writeln!(out, "  {name} is an argument now, in place of constant memory")?;
    }
    if let Some(Geometry { from, .. }) = geometry {
        let (grid, block, from) = (wanted.grid.join(", "), wanted.block.join(", "), from.join(" and "));
        writeln!(out, "  launched with --grid '{grid}' --block '{block}', because the kernel compares {from}")?;
    }
    for (tunable, values) in &texts.parameters {
        let values = values.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
        writeln!(out, "  {} ({}): {values}", tunable.name, tunable.origin())?;
    }
    for (tunable, why) in texts.left_out.iter().filter(|(_, why)| why != UNUSED) {
        writeln!(out, "  {} ({}) stays {}: {why}", tunable.name, tunable.origin(), tunable.value)?;
    }
    for (tunable, value, problem) in tried.refused.iter().filter(|(name, ..)| !tried.idle.contains(name)) {
        let is_compilers = problem.starts_with(COMPILED_FILE);
        let problem = if is_compilers { in_users_file(problem, file, draft) } else { problem.clone() };
        writeln!(out, "  {tunable} = {value} is left out: {problem}")?;
    }
    if tried.adds_floats_with_atomics {
        writeln!(
            out,
            "  it adds floating-point numbers with atomics, in the order in which blocks arrive: {}",
            rule(draft, wanted)
        )?;
    }
    if texts.parameters.is_empty() {
        writeln!(out, "  nothing in the source can be tuned: make block sizes, tiles or unroll factors #defines")?;
    }
    writeln!(out, "next: git add kernels templates && git commit, then optloop start --workload {name} --budget 5m")?;
    Ok(())
}
