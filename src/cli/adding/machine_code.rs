//! `optloop import KERNEL.ptx`: a kernel that another compiler has made becomes a family without parameters.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use crate::catalog::Project;
use crate::cli::adding::new_kernel::{name, named, read, shown};
use crate::cli::adding::staging::{NewFile, Staging, refuse_what_is_there};
use crate::cli::terminal::listing::print_json;
use crate::domain::code::ptx;
use crate::error::{usage, usage_sentence};
use crate::intake::{MachineCodeHead, machine_code};

/// A kernel in PTX.
pub struct MachineCode<'a> {
    /// Its file.
    pub file: &'a Path,
    /// The text of the file.
    pub text: &'a str,
    /// The file with its launch plan.
    pub launch: Option<&'a Path>,
    /// The workload that it computes.
    pub workload: Option<&'a str>,
    /// The name of the family. None is that of the file.
    pub name: Option<&'a str>,
}

impl MachineCode<'_> {
    /// Checks and writes the family.
    pub fn write(self, project: &Project, (force, json): (bool, bool), out: &mut impl Write) -> anyhow::Result<()> {
        let Self { file, text, launch, workload, .. } = self;
        let shown = shown(file);
        let (Some(launch), Some(workload)) = (launch, workload) else {
            return Err(usage_sentence(format!(
                "{shown} does not say how it is launched or what it computes: add --launch PLAN.toml and --workload WORKLOAD"
            )));
        };
        if !ptx::is_ptx(text) {
            return Err(usage_sentence(format!("{shown} does not begin with `.version`, so it is not PTX")));
        }
        let workload = project.workload(workload).map_err(usage)?;
        let name = name(self.name, &shown)?;
        let head = MachineCodeHead { name: &name, file: &shown, op: workload.op.name(), dtype: workload.dtype.name() };
        let family = machine_code(head, text, &read(launch)?).map_err(|mistakes| named(&shown, &mistakes))?;
        let folder = format!("templates/kernels/{name}");
        let files: Vec<NewFile> =
            vec![(format!("{folder}/family.toml"), family), (format!("{folder}/kernel.ptx"), text.to_owned())];
        if !force {
            refuse_what_is_there(project, files.iter().map(|(path, _)| path.as_str()))?;
        }
        let staging = Staging::new(project, Some(workload.op.name()))?;
        let plain = |error: anyhow::Error| usage_sentence(staging.plain(&error));
        staging.written(&files)?.families().map_err(plain)?.family(&name).map_err(plain)?;
        staging.copy_to(project, &files)?;
        let kernels = ptx::kernels(text);
        if json {
            return print_json(
                &json!({ "name": name, "file": shown, "workload": workload.name, "kernels": kernels }),
                out,
            );
        }
        writeln!(out, "added {shown} as family `{name}` of workload `{}`, without parameters", workload.name)?;
        writeln!(out, "next: optloop check {name}, then git add templates && git commit")?;
        Ok(())
    }
}
