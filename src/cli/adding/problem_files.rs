//! Writes the files of a problem in PyTorch: an op, a workload without an initial kernel, and the frame of a family.

use std::io::Write;

use serde_json::json;

use crate::catalog::Project;
use crate::cli::adding::new_kernel::named;
use crate::cli::adding::staging::{NewFile, Staging, refuse_what_is_there};
use crate::cli::terminal::listing::print_json;
use crate::error::usage_sentence;
use crate::intake::{Problem, ProblemTexts, Wanted};
use crate::notices::say;
use crate::ops::OPS_FOLDER;

/// The folder of the frame, in that of the op: families are searched, and this one computes nothing.
const FRAME: &str = "frame";

/// A problem that was examined.
pub struct ProblemFiles {
    /// The name of its file, for messages.
    pub file: String,
    /// What it computes.
    pub problem: Problem,
    /// What the user says beside it.
    pub wanted: Wanted,
}

impl ProblemFiles {
    /// Checks and writes all files, or none.
    pub fn write(self, project: &Project, (force, json): (bool, bool), out: &mut impl Write) -> anyhow::Result<()> {
        let Self { file, problem, wanted } = self;
        let name = &wanted.name;
        let texts = problem.texts(&file, &wanted).map_err(|mistakes| named(&file, &mistakes))?;
        let files = files(name, &texts);
        if !force {
            refuse_what_is_there(project, files.iter().map(|(path, _)| path.as_str()))?;
        }
        let staging = Staging::new(project, None)?;
        staging.written(&files)?.workload(name).map_err(|error| usage_sentence(staging.plain(&error)))?;
        staging.copy_to(project, &files)?;
        if json {
            let tensors = problem.tensors().map(|(name, shape)| json!({ "name": name, "shape": shape }));
            let tensors: Vec<_> = tensors.collect();
            return print_json(&json!({ "name": name, "file": file, "tensors": tensors, "notes": texts.notes }), out);
        }
        writeln!(out, "added {file} as op and workload `{name}`, without a kernel")?;
        for (tensor, shape) in problem.tensors() {
            writeln!(out, "  {tensor}: [{}]", shape.join(", "))?;
        }
        texts.notes.iter().for_each(|note| say(&format!("note: {note}")));
        writeln!(
            out,
            "next: git add kernels && git commit, then optloop start --workload {name} --proposer llm --budget 30m"
        )?;
        writeln!(out, "or write a kernel: cp -r {OPS_FOLDER}/{name}/{FRAME} templates/kernels/{name}")?;
        Ok(())
    }
}

/// Returns the new files.
fn files(name: &str, texts: &ProblemTexts) -> Vec<NewFile> {
    let op = format!("{OPS_FOLDER}/{name}");
    vec![
        (format!("kernels/workloads/{name}.toml"), texts.workload.clone()),
        (format!("{op}/op.toml"), texts.op.clone()),
        (format!("{op}/oracle.py"), texts.oracle.clone()),
        (format!("{op}/{FRAME}/family.toml"), texts.family.clone()),
        (format!("{op}/{FRAME}/kernel.cu.tera"), texts.template.clone()),
    ]
}
