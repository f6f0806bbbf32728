//! Which families to check, each on which workload and cases, and what is wrong with the files around them.

use super::{Args, Result};
use crate::bench::KernelName;
use crate::catalog::{Families, Project};
use crate::check::{Finding, Level, Pair};
use crate::domain::text::names::did_you_mean;
use crate::domain::workload::Workload;
use crate::error::{usage, usage_sentence};
use crate::launch::preflight::check_initial_kernel;

/// Returns the families to check, each with a workload, and what is wrong with the files around them.
pub(super) fn selected(args: &Args, project: &Project) -> anyhow::Result<(Result, Vec<Pair>)> {
    let asked = named(args)?;
    let name = asked.as_ref().map(|asked| asked.name.as_str());
    let (workloads, broken) = project.workloads().map_err(usage)?;
    let families = project.families().map_err(usage)?;
    let mut names: Vec<&str> = workloads.iter().map(|one| one.name.as_str()).collect();
    names.extend(broken.iter().map(|(name, _)| name.as_str()));
    names.extend(families.sound.iter().map(|one| one.name.as_str()));
    names.extend(families.broken.iter().map(|one| one.name.as_str()));
    if let Some(name) = name.filter(|name| !names.contains(name)) {
        let hint = did_you_mean(name, names.iter().copied());
        return Err(usage_sentence(format!(
            "there is no workload or family `{name}`{hint}: `optloop list` shows them"
        )));
    }
    let relative = |text: &str| text.replace(&format!("{}/", project.root().display()), "");
    let mut result = Result::default();
    let is_wanted = |workload: &str, family: &str| name.is_none_or(|name| name == workload || name == family);
    for (workload, error) in broken.iter().filter(|(workload, _)| is_wanted(workload, "")) {
        let sentence = relative(&format!("{error:#}"));
        let finding = Finding::in_file(Level::Wrong, &format!("kernels/workloads/{workload}.toml"), &sentence);
        result.findings.push(Finding { workload: Some(workload.clone()), ..finding });
    }
    let named: Vec<&Workload> = workloads.iter().filter(|workload| is_wanted(&workload.name, "")).collect();
    for family in &families.broken {
        let used = named.iter().any(|workload| family.may_compute(workload.op.name()));
        if is_wanted("", &family.name) || used {
            let file = format!("templates/kernels/{}/family.toml", family.name);
            let finding = |mistake: &String| Finding {
                family: Some(family.name.clone()),
                file: family.manifest.as_ref().map(|_| file.clone()),
                ..Finding::in_file(Level::Wrong, &file, &relative(mistake))
            };
            result.findings.extend(family.mistakes.iter().map(finding));
        }
    }
    let broken_ops = project.ops().into_iter().filter_map(|(op, found)| Some((op, found.err()?)));
    for (op, problem) in broken_ops.filter(|_| name.is_none()) {
        let file = format!("{}/{op}/op.toml", crate::ops::OPS_FOLDER);
        result.findings.push(Finding::in_file(Level::Wrong, &file, &relative(&problem.to_string())));
    }
    for workload in named {
        result.findings.extend(of_workload(workload, &families));
    }
    let params = asked.as_ref().map(|asked| asked.params.as_slice()).unwrap_or_default();
    let pairs = pairs(args, project, (&workloads, &families), |workload, family| is_wanted(workload, family), params)?;
    Ok((result, pairs))
}

/// Returns the wanted families, each with the workloads of its op and the cases that the user names.
fn pairs(
    args: &Args,
    project: &Project,
    (workloads, families): (&[Workload], &Families),
    is_wanted: impl Fn(&str, &str) -> bool,
    params: &[(String, i64)],
) -> anyhow::Result<Vec<Pair>> {
    if let Some(workload) = &args.workload {
        project.workload(workload).map_err(usage)?;
    }
    let mut unselected = None;
    let mut pairs = Vec::new();
    for workload in workloads.iter().filter(|one| args.workload.as_ref().is_none_or(|name| *name == one.name)) {
        let of_op = families.sound.iter().filter(|family| family.op == workload.op.name());
        for family in of_op.filter(|family| is_wanted(&workload.name, &family.name)) {
            let configuration = match params {
                [] => None,
                params => Some(family.configured(params).map_err(usage_sentence)?),
            };
            match workload.clone().select(&args.cases) {
                Ok(workload) => {
                    let places = project.places(family)?;
                    pairs.push(Pair { workload, family: family.clone(), places, configuration });
                }
                Err(problem) => unselected = Some(problem),
            }
        }
    }
    match (&pairs[..], unselected) {
        ([], Some(problem)) => Err(usage_sentence(problem)),
        _ => Ok(pairs),
    }
}

/// What the user names.
struct Asked {
    /// A workload or a family.
    name: String,
    /// The parameters of a configuration. Empty for none.
    params: Vec<(String, i64)>,
}

/// Returns the name that the user gives, and the parameters of a configuration.
fn named(args: &Args) -> anyhow::Result<Option<Asked>> {
    let Some(name) = &args.name else { return Ok(None) };
    match name.contains(':').then(|| KernelName::parse(name)).transpose().map_err(usage_sentence)? {
        Some(KernelName::Configuration { family, params }) => Ok(Some(Asked { name: family, params })),
        _ => Ok(Some(Asked { name: name.clone(), params: Vec::new() })),
    }
}

/// Returns what is wrong with a workload that can be read.
fn of_workload(workload: &Workload, families: &Families) -> Option<Finding> {
    let problem = match check_initial_kernel(workload, families) {
        // The family's own mistakes say more.
        Err(_) if families.broken.iter().any(|broken| workload.starts_from(&broken.name)) => return None,
        Err(problem) => problem,
        Ok(()) => return None,
    };
    let file = format!("kernels/workloads/{}.toml", workload.name);
    Some(Finding {
        workload: Some(workload.name.clone()),
        ..Finding::in_file(Level::Wrong, &file, &problem.to_string())
    })
}
