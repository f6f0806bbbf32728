//! Finds the kernels that the command line names.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};

use super::{Bench, Committed, KernelName, Subject};
use crate::catalog::sidecars_of;
use crate::domain::device::TimeSource;
use crate::domain::family::Family;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::sidecar::{self, Sidecar};
use crate::domain::space::Space;
use crate::domain::text::names::did_you_mean;
use crate::domain::variant::{Params, Variant, VariantHash};
use crate::domain::workload::{Case, Workload};
use crate::files;
use crate::runner::messages::CaseRequest;
use crate::runner::planning;
use crate::store::Store;

/// The workload and the cases to measure on.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The workload, if the command line names one.
    pub workload: Option<&'a str>,
    /// The cases. Empty if the command line names none.
    pub cases: &'a [CaseName],
}

impl Bench {
    /// Returns a kernel on every selected case. Every error is a usage error.
    pub async fn subjects(&self, what: &KernelName, selection: Selection<'_>) -> anyhow::Result<Vec<Subject>> {
        match what {
            KernelName::File(path) => {
                let workload = selection.workload.map_or_else(|| folder_of(path), |name| Ok(name.to_owned()))?;
                self.in_files(path, &workload, selection)
            }
            KernelName::Winner { workload, case } => {
                self.project.workload(workload)?.case(case).map_err(anyhow::Error::msg)?;
                let sidecar = self.project.winner(&self.device().key(), workload, case);
                if !sidecar.is_file() {
                    bail!(
                        "no winner of {workload}/{case} is committed: there is no {}{}",
                        self.relative(&sidecar),
                        self.others(workload, case)
                    );
                }
                self.in_files(&sidecar, workload, selection)
            }
            KernelName::Iteration(id) => self.of_iteration(*id, selection).await,
            KernelName::Configuration { family, params } => self.configurations(family, params, selection),
        }
    }

    /// Returns the committed winner that a case alone names, and any other name as it is. A family of that name comes first. If
    /// several workloads have the case, `workload` chooses one, or else `session.workload` in config.toml. Every error is a usage
    /// error.
    pub fn of_case(&self, what: KernelName, workload: Option<&str>) -> anyhow::Result<KernelName> {
        let KernelName::Configuration { family: case, params } = &what else { return Ok(what) };
        if !params.is_empty() || self.families.names().any(|family| family == case) {
            return Ok(what);
        }
        let all = self.project.workloads_with(case)?;
        let found: Vec<&Workload> = all.iter().filter(|one| workload.is_none_or(|name| one.name == name)).collect();
        let default = found.iter().find(|one| one.name == self.config.session.workload);
        match (default, &*found) {
            (Some(one), _) | (None, [one]) => {
                Ok(KernelName::Winner { workload: one.name.clone(), case: case.as_str().into() })
            }
            (None, [one, other, ..]) => {
                bail!("several workloads have a case `{case}`: name {}/{case} or {}/{case}", one.name, other.name)
            }
            (None, []) => self.not_a_case(case, workload.filter(|_| !all.is_empty())).map(|()| what),
        }
    }

    /// Says what is wrong with a name that is no family, if it looks like a case. `workload` lacks a case that others have.
    fn not_a_case(&self, name: &str, workload: Option<&str>) -> anyhow::Result<()> {
        if let Some(workload) = workload {
            self.project.workload(workload)?.case(name).map_err(anyhow::Error::msg)?;
        }
        let (workloads, _) = self.project.workloads()?;
        let cases = workloads.iter().flat_map(|workload| workload.cases.iter().map(|case| case.name.as_str()));
        match did_you_mean(name, self.families.names().chain(cases)) {
            hint if hint.is_empty() => Ok(()),
            hint => bail!("there is no family or case `{name}`{hint}"),
        }
    }

    /// Returns the sidecar of another device's winner, where a case has no winner of this device and only one that this
    /// device can run: it is compiled for the same architecture.
    pub fn winner_of_another_device(&self, workload: &str, case: &str) -> Option<PathBuf> {
        if self.project.winner(&self.device().key(), workload, case).is_file() {
            return None;
        }
        let runs_here = |path: &PathBuf| {
            let sidecar = files::read(path).ok().and_then(|text| Sidecar::parse(&text).ok());
            sidecar.is_some_and(|sidecar| sidecar.arch == self.device().arch)
        };
        let mut found = self.project.committed(workload, case).into_iter().filter(runs_here);
        found.next().filter(|_| found.next().is_none())
    }

    /// Returns the winners in files: that of a sidecar, or those of a source, which several cases may share.
    fn in_files(&self, path: &Path, workload: &str, selection: Selection<'_>) -> anyhow::Result<Vec<Subject>> {
        if !path.exists() {
            bail!("{} does not exist", path.display());
        }
        let is_sidecar = path.extension().is_some_and(|extension| extension == "json");
        let sidecars = if is_sidecar { vec![path.to_owned()] } else { sidecars_of(path)? };
        if sidecars.is_empty() {
            bail!("{} has no sidecar, which describes how to compile and launch it", path.display());
        }
        let winners = sidecars.iter().map(|sidecar| read_committed(sidecar, workload));
        let mut winners = winners.collect::<anyhow::Result<Vec<_>>>()?;
        let is_selected =
            |(_, winner): &(PathBuf, Committed)| selection.cases.contains(&winner.sidecar.measurement.case);
        if winners.iter().any(is_selected) {
            winners.retain(is_selected);
        }
        let subject = |(file, winner): (PathBuf, Committed)| {
            Ok(Subject { file: Some(file), ..self.committed(&winner, selection)? })
        };
        winners.into_iter().map(subject).collect()
    }

    /// Returns a winner in files. The sidecar says how to compile and launch it.
    pub fn committed(&self, committed: &Committed, selection: Selection<'_>) -> anyhow::Result<Subject> {
        let Committed { workload: name, source, sidecar } = committed;
        let workload = self.selected_workload(name, selection)?;
        let case = workload.case(&sidecar.measurement.case).map_err(anyhow::Error::msg)?.clone();
        if !selection.cases.is_empty() && !selection.cases.contains(&case.name) {
            bail!(
                "the winner of case `{}` of {name} can be launched on that case only: select it with --case",
                case.name
            );
        }
        let (tensors, plan) = (workload.op.tensors(&case.dims, workload.dtype), sidecar.plan());
        if sidecar::tensors(&tensors) != sidecar.tensors {
            bail!("the winner of case `{}` of {name} does not match the current shape of the case", case.name);
        }
        if sidecar.compute != workload.compute {
            let (then, now) = (sidecar.compute.name(), workload.compute.name());
            bail!(
                "the winner of case `{}` of {name} won with compute = \"{then}\", and the workload has \"{now}\"",
                case.name
            );
        }
        plan.check(&tensors, workload.op.weights())
            .map_err(|problem| anyhow!("the winner of case `{}` of {name} cannot be launched: {problem}", case.name))?;
        let scaled = match self.family(&sidecar.variant.family) {
            Ok(family) => self.request(family, &sidecar.variant.params, &case, &workload)?.scaled,
            // The files suffice to run it. Without its family, a heavy case takes long on a virtual GPU.
            Err(_) => None,
        };
        let variant = Variant {
            family: sidecar.variant.family.clone(),
            params: sidecar.variant.params.clone(),
            hash: VariantHash::of(source),
            source: source.clone(),
        };
        Ok(Subject {
            name: Subject::name(&variant),
            iteration: None,
            variant,
            file: None,
            options: sidecar.compile_options.clone(),
            request: CaseRequest { case, plan, incumbent_ns: None, scaled },
            workload,
        })
    }

    /// Returns the initial kernel, which stands in for a missing baseline: its family's default configuration.
    pub fn initial_kernel(&self, workload: &Workload, case: &Case) -> anyhow::Result<Subject> {
        let initial = workload.initial_kernel.as_deref();
        let family =
            self.family(initial.with_context(|| format!("workload `{}` has no initial kernel", workload.name))?)?;
        let space = Space { family, case, dtype: workload.dtype, device: self.device() };
        let params = space.start().map_err(anyhow::Error::msg)?;
        let params =
            params.with_context(|| format!("`{}` has no valid configuration on `{}`", family.name, case.name))?;
        self.configuration(family, &params, case, workload)
    }

    async fn of_iteration(&self, id: IterationId, selection: Selection<'_>) -> anyhow::Result<Vec<Subject>> {
        let store = Store::open_existing(&self.project.root().join(&self.config.store.path)).await?;
        let detail = store.iteration(id).await?;
        store.close().await;
        let record = detail.iteration;
        if detail.session.time_source == TimeSource::Recorded {
            bail!("iteration {id} is from a recording, which has no kernel to run");
        }
        let workload = self.selected_workload(&detail.session.workload, selection)?;
        if detail.source.is_empty() {
            bail!("iteration {id} has no source: it did not render");
        }
        let family = self.family(&record.family)?;
        let wanted = |case: &&Case| selection.cases.is_empty() || selection.cases.contains(&case.name);
        let cases: Vec<&Case> = record.cases.iter().filter(wanted).collect();
        if cases.is_empty() {
            let known: Vec<&str> = record.cases.iter().map(|case| case.name.as_str()).collect();
            bail!("iteration {id} did not run on that case, but on: {}", known.join(", "));
        }
        let options = detail.artifact.map_or_else(|| self.config.compile.options.clone(), |artifact| artifact.options);
        let (params, hash, source) = (record.params, record.hash, detail.source);
        let variant = Variant { family: record.family, params, hash, source };
        let subject = |case: &Case| {
            Ok(Subject {
                name: Subject::name(&variant),
                iteration: Some(id),
                workload: workload.clone(),
                variant: variant.clone(),
                file: None,
                options: options.clone(),
                request: self.request(family, &variant.params, case, &workload)?,
            })
        };
        cases.into_iter().map(subject).collect()
    }

    fn configurations(
        &self,
        family: &str,
        named: &[(String, i64)],
        selection: Selection<'_>,
    ) -> anyhow::Result<Vec<Subject>> {
        let family = self.family(family)?;
        let workload = match selection.workload {
            Some(name) => self.project.workload(name)?,
            None => self.project.workload_of(family, &self.config.session.workload)?,
        };
        let cases = match (selection.cases, &workload.cases[..]) {
            ([], [only]) => std::slice::from_ref(&only.name),
            ([], _) => bail!("`{}` is a family: choose a case of {} with --case", family.name, workload.name),
            (cases, _) => cases,
        };
        let params = family.configured(named).map_err(anyhow::Error::msg)?;
        let others = if selection.workload.is_none() { "; --workload chooses another workload" } else { "" };
        let workload = workload.clone().select(cases).map_err(|problem| anyhow!("{problem}{others}"))?;
        workload.cases.iter().map(|case| self.configuration(family, &params, case, &workload)).collect()
    }

    fn configuration(
        &self,
        family: &Family,
        params: &Params,
        case: &Case,
        workload: &Workload,
    ) -> anyhow::Result<Subject> {
        if !family.fits(workload, self.device()) {
            let device = self.device();
            bail!("family `{}` cannot compute {} on {} (sm_{})", family.name, workload.name, device.name, device.sm);
        }
        let request = self.request(family, params, case, workload)?;
        let variant = self
            .renderer
            .render(family, &family.specialization(case), workload.dtype, params)
            .map_err(anyhow::Error::msg)?;
        Ok(Subject {
            name: Subject::name(&variant),
            iteration: None,
            workload: workload.clone(),
            variant,
            file: None,
            options: self.config.compile.options.clone(),
            request,
        })
    }

    pub(super) fn request(
        &self,
        family: &Family,
        params: &Params,
        case: &Case,
        workload: &Workload,
    ) -> anyhow::Result<CaseRequest> {
        let model_flop = self.evaluator.measuring().model_flop;
        planning::of_case(family, params, case, workload, self.device(), model_flop).map_err(anyhow::Error::msg)
    }

    fn family(&self, name: &str) -> anyhow::Result<&Family> {
        self.families.family(name)
    }

    /// Reads the workload of a kernel. Refuses a workload other than the one that the command line names.
    fn selected_workload(&self, name: &str, selection: Selection<'_>) -> anyhow::Result<Workload> {
        match selection.workload {
            Some(requested) if requested != name => {
                bail!("it belongs to workload {name}, not to the requested {requested}")
            }
            _ => self.project.workload(name),
        }
    }

    /// Returns the names of a case's winners on other devices.
    fn others(&self, workload: &str, case: &str) -> String {
        let others: Vec<String> =
            self.project.committed(workload, case).iter().map(|path| self.relative(path)).collect();
        if others.is_empty() { String::new() } else { format!("; other devices have {}", others.join(", ")) }
    }

    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(self.project.root()).unwrap_or(path).display().to_string()
    }
}

/// Returns the name of a file's folder. For winners, that is the workload.
fn folder_of(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).with_context(|| format!("Failed to find {}", path.display()))?;
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    folder.map(str::to_owned).with_context(|| format!("{} has no folder: pass --workload", path.display()))
}

/// Reads a sidecar and its source, with the file of the source.
fn read_committed(path: &Path, workload: &str) -> anyhow::Result<(PathBuf, Committed)> {
    let sidecar = Sidecar::parse(&files::read(path)?);
    let sidecar = sidecar.map_err(|problem| anyhow!("{} is not a sidecar: {problem}", path.display()))?;
    let file = sidecar.source_beside(path);
    let source = files::read(&file)?;
    Ok((file, Committed { workload: workload.to_owned(), source, sidecar }))
}
