//! `optloop export`: writes committed winners as code that launches them without optloop.

mod folder;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::catalog::{Families, Project};
use crate::cli::terminal::listing::print_json;
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::code::ptx;
use crate::domain::device::{DeviceKey, TimeSource};
use crate::domain::family::Family;
use crate::domain::sidecar::{self, Sidecar};
use crate::domain::text::names::did_you_mean;
use crate::domain::variant::VariantHash;
use crate::domain::workload::{BaselineKey, Case, Workload};
use crate::error::{usage, usage_sentence};
use crate::export::{self, ExportError, Target, Winner};
use crate::files;
use crate::launch::consent;
use crate::launch::known;
use crate::notices::say;
use crate::report::format::counted;
use crate::runner::compile::check_options;
use crate::trust::{self as items, Kind};

/// Arguments of `optloop export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workload with all its winners, WORKLOAD/CASE, or a case that only one workload has
    what: String,

    /// What to write
    #[arg(long, value_enum)]
    to: Language,

    /// Folder to write [default: the workload's name in the current folder]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,
}

/// A value of `--to`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Language {
    /// A header and a C++ file that call the CUDA driver and NVRTC
    C,
    /// A Python package that needs no other package
    Python,
    /// A custom op for torch.compile and CUDA graphs
    Torch,
}

/// Writes the files, all or none.
pub fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let (workload, cases) = selected(project, &args.what)?;
    let winners = winners(project, &workload, &cases)?;
    let has_expression =
        matches!(&workload.baseline, Some(BaselineKey::Torch { .. })) && workload.op.torch(&[]).is_none();
    if matches!(args.to, Language::Torch) && has_expression {
        // The module calls PyTorch with the workload's expression, which is a program that the project chooses.
        let config = Config::load(project.root()).map_err(usage)?;
        let items = items::of_baseline(project.root(), &config, &workload).map_err(usage)?;
        consent::admit(project, args.trust.agrees(), items.into_iter().filter(|item| item.kind == Kind::Baseline))?;
    }
    let target = match args.to {
        Language::C => Target::C,
        Language::Python => Target::Python,
        Language::Torch => Target::Torch,
    };
    let files = export::files(&workload, &winners, target).map_err(|error| match error {
        refused @ ExportError::Refused(_) => usage(refused),
        other => other.into(),
    })?;
    let folder = args.output.clone().unwrap_or_else(|| PathBuf::from(&workload.name));
    folder::write(&folder, &files)?;
    let shapes: usize = winners.iter().map(|winner| winner.proven.len()).sum();
    if args.json {
        let written = serde_json::json!({ "folder": folder, "workload": workload.name, "to": target.name(),
                                          "winners": winners.len(), "more_shapes": shapes });
        return print_json(&written, out);
    }
    let proven = if shapes == 0 { String::new() } else { format!(", proven on {} more", counted(shapes, "shape")) };
    let what = counted(winners.len(), "winner");
    writeln!(out, "{}: {what} of {}{proven}; README.md has an example", folder.display(), workload.name)?;
    Ok(())
}

/// Returns the files of the PyTorch package with one committed winner. None if the case has no such winner of this kind of device.
pub fn package(
    project: &Project,
    workload: &Workload,
    case: &Case,
    (device, hash): (&DeviceKey, &VariantHash),
) -> anyhow::Result<Option<Vec<export::File>>> {
    let path = project.winner(device, &workload.name, &case.name);
    if !path.is_file() {
        return Ok(None);
    }
    let sidecar = Sidecar::parse(&files::read_inside(project.root(), &path)?).map_err(anyhow::Error::msg)?;
    if sidecar.variant.hash != *hash {
        return Ok(None);
    }
    let families = project.families()?.sound;
    let winner = winner(project, workload, case, (&path, sidecar, device.clone()), &families)?;
    Ok(Some(export::files(workload, &[winner], Target::Torch)?))
}

/// Finds the workload and the cases that the command line names.
fn selected(project: &Project, what: &str) -> anyhow::Result<(Workload, Vec<Case>)> {
    let names = project.workload_names().map_err(usage)?;
    if let Some((workload, case)) = what.split_once('/') {
        let workload = project.workload(workload).map_err(usage)?;
        let case = workload.case(case).map_err(usage_sentence)?.clone();
        return Ok((workload, vec![case]));
    }
    if names.iter().any(|name| name == what) {
        let workload = project.workload(what).map_err(usage)?;
        let cases = workload.cases.clone();
        return Ok((workload, cases));
    }
    // A broken workload is of no importance here, unless it is named.
    match &*project.workloads_with(what).map_err(usage)? {
        [workload] => {
            let case = workload.case(what).map_err(usage_sentence)?.clone();
            Ok((workload.clone(), vec![case]))
        }
        [one, other, ..] => Err(usage_sentence(format!(
            "several workloads have a case `{what}`: name {}/{what} or {}/{what}",
            one.name, other.name
        ))),
        [] => {
            let (all, _) = project.workloads().map_err(usage)?;
            let cases = all.iter().flat_map(|workload| workload.cases.iter().map(|case| case.name.as_str()));
            let hint = did_you_mean(what, names.iter().map(String::as_str).chain(cases));
            Err(usage_sentence(format!("there is no workload or case `{what}`{hint}")))
        }
    }
}

/// Reads the winners of some cases that were measured on GPUs. Says what is left out.
fn winners(project: &Project, workload: &Workload, cases: &[Case]) -> anyhow::Result<Vec<Winner>> {
    let families = project.families().unwrap_or_else(|error| {
        say(&format!("only the shapes of cases are exported, because the families cannot be read: {error:#}"));
        Families::default()
    });
    let families = families.sound;
    let (mut winners, mut modelled, mut old) = (Vec::new(), 0, 0);
    for case in cases {
        for path in project.committed(&workload.name, &case.name) {
            let sidecar = Sidecar::parse(&files::read_inside(project.root(), &path).map_err(usage)?);
            let sidecar = sidecar.map_err(|problem| usage_sentence(format!("{}: {problem}", path.display())))?;
            match (sidecar.measurement.time_source, device(&path)) {
                // No session commits a recorded time.
                (TimeSource::Modelled | TimeSource::Recorded, _) => modelled += 1,
                (TimeSource::Measured, None) => old += 1,
                (TimeSource::Measured, Some(device)) => {
                    winners.push(winner(project, workload, case, (&path, sidecar, device), &families).map_err(usage)?);
                }
            }
        }
    }
    if winners.is_empty() {
        let elsewhere =
            Config::load(project.root()).ok().and_then(|config| known::elsewhere(project, &config, &workload.name));
        return Err(usage_sentence(match elsewhere {
            Some(elsewhere) => format!("{}; {elsewhere}", none(workload, cases, modelled)),
            None => none(workload, cases, modelled),
        }));
    }
    if modelled > 0 {
        say(&format!("{} of virtual devices left out: their times are modelled", counted(modelled, "winner")));
    }
    if old > 0 {
        let what = counted(old, "winner");
        say(&format!("{what} of version 0.1.0 left out, because the kind of device is not known: measure again"));
    }
    Ok(winners)
}

fn none(workload: &Workload, cases: &[Case], modelled: usize) -> String {
    let what = match cases {
        [case] if workload.cases.len() > 1 => format!("case `{}` of workload `{}`", case.name, workload.name),
        _ => format!("workload `{}`", workload.name),
    };
    let but = if modelled > 0 { ", only winners of virtual devices" } else { "" };
    format!("{what} has no committed winner that was measured on a GPU{but}: run `optloop start` on one")
}

/// Returns the kind of device of a sidecar. None for one of version 0.1.0.
fn device(sidecar: &Path) -> Option<DeviceKey> {
    sidecar.parent()?.parent()?.file_name()?.to_str()?.parse().ok()
}

fn winner(
    project: &Project,
    workload: &Workload,
    case: &Case,
    (path, sidecar, device): (&Path, Sidecar, DeviceKey),
    families: &[Family],
) -> anyhow::Result<Winner> {
    let shown = path.strip_prefix(project.root()).unwrap_or(path).display();
    let source = files::read_inside(project.root(), &sidecar.source_beside(path))?;
    if VariantHash::of(&source) != sidecar.variant.hash {
        return Err(anyhow!("{shown}: its source does not match it: commit both as optloop wrote them"));
    }
    if sidecar.compute != workload.compute {
        let (then, now) = (sidecar.compute.name(), workload.compute.name());
        return Err(anyhow!(
            "{shown}: it won with compute = \"{then}\", and the workload has \"{now}\" now: run `optloop start` again"
        ));
    }
    let dims = sidecar.measurement.dims.clone().unwrap_or_else(|| case.dims.clone());
    let tensors = workload.op.tensors(&case.dims, workload.dtype);
    if dims != case.dims || sidecar.tensors != sidecar::tensors(&tensors) {
        return Err(anyhow!("{shown}: it has other dimensions or tensors than its case: run `optloop start` again"));
    }
    if ptx::is_ptx(&source) {
        ptx::check_target(&source, &sidecar.arch).map_err(|problem| anyhow!("{shown}: {problem}"))?;
    }
    check_options(&sidecar.compile_options).map_err(|problem| anyhow!("{shown}: {problem}"))?;
    sidecar.plan().check(&tensors, workload.op.weights()).map_err(|problem| anyhow!("{shown}: {problem}"))?;
    let family = families.iter().find(|family| family.name == sidecar.variant.family);
    let proven = export::proven(&sidecar, &dims, (family, workload), &device);
    Ok(Winner { device, sidecar, source, dims, proven })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_name_on_the_command_line() {
        use clap::ValueEnum;
        let names: Vec<_> = Language::value_variants().iter().filter_map(|it| it.to_possible_value()).collect();
        let names: Vec<&str> = names.iter().map(|it| it.get_name()).collect();
        assert_eq!(names, [Target::C, Target::Python, Target::Torch].map(Target::name));
    }
}
