//! Checks what needs no device: search spaces, launch plans, templates, sources and parameters.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use super::{Finding, Level, Stage, Tools, lines, signature, tunables};
use crate::catalog::Place;
use crate::domain::code::artifact::Artifact;
use crate::domain::code::ptx;
use crate::domain::family::Family;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::ids::CaseName;
use crate::domain::op::Dims;
use crate::domain::space::Space;
use crate::domain::space::fit::Fit;
use crate::domain::variant::{Params, Variant};
use crate::domain::workload::{Case, Workload};
use crate::runner::compile::CompileError;
use crate::runner::render;

/// Lines that a rendered source has before those of its template.
const LINES_BEFORE: usize = 2;

/// The most elements that a 32-bit index reaches.
const MAX_INDEX: usize = i32::MAX as usize;

/// A family with a workload whose op it computes.
#[derive(Clone)]
pub struct Pair {
    /// The workload.
    pub workload: Workload,
    /// The family.
    pub family: Family,
    /// The place of each line of its template.
    pub places: Vec<Place>,
    /// The configuration to check on every case. None checks the one from which a search starts.
    pub configuration: Option<Params>,
}

/// A configuration that can run on a case.
#[derive(Clone)]
pub struct Runnable {
    /// The case.
    pub case: Case,
    /// The configuration, rendered.
    pub variant: Arc<Variant>,
    /// Its machine code.
    pub artifact: Arc<Artifact>,
}

/// A configuration that does not compile.
pub struct Rejected {
    /// The first case with its source.
    pub case: Case,
    /// The configuration, rendered.
    pub variant: Variant,
    /// The first error, at the user's file and line.
    pub message: String,
    /// The compiler's log.
    pub log: String,
}

/// What the checks of a family's sources have found.
#[derive(Default)]
pub struct Checked {
    /// What is wrong, or worth knowing.
    pub found: Vec<Finding>,
    /// What can run.
    pub runnable: Vec<Runnable>,
    /// What does not compile.
    pub rejected: Vec<Rejected>,
}

/// A planned configuration that shares its source with others.
struct Planned<'a> {
    case: &'a Case,
    params: &'a Params,
    plan: LaunchPlan,
}

/// Checks a family on every case of a workload.
pub fn check_sources(pair: &Pair, tools: &Tools) -> Checked {
    let mut check = SourceCheck { pair, tools, checked: Checked::default() };
    let Pair { workload, family, configuration, .. } = pair;
    let fit = match configuration {
        Some(params) => Fit::of_configuration(family, params, workload, &tools.device),
        None => Fit::of(family, workload, &tools.device),
    };
    match fit {
        Ok(fit) => check.on(&fit),
        Err(problem) => check.manifest(Stage::Space, &[], problem.into()),
    }
    check.checked
}

/// Returns the errors of a compiler about a rendered configuration, each at its line of the template or its fragments. Empty if the
/// template does not render.
pub fn compiler_errors(
    pair: &Pair,
    tools: &Tools,
    case: &Case,
    variant: &Variant,
    error: &CompileError,
) -> Vec<Finding> {
    let specialization = &pair.family.specialization(case);
    let body = tools.renderer.expanded(&pair.family, specialization, pair.workload.dtype, &variant.params);
    let Ok(body) = body else { return Vec::new() };
    let check = SourceCheck { pair, tools, checked: Checked::default() };
    check.errors(&Source { variant, body: &body, specialization, cases: &[] }, error)
}

/// Returns the file and the line of the template, or of a fragment, from which a line of a rendered source comes. None
/// if that cannot be told.
pub(super) fn place_of(
    (pair, tools): (&Pair, &Tools),
    specialization: &Dims,
    params: &Params,
    line: u32,
) -> Option<(String, usize)> {
    let Pair { workload, family, places, .. } = pair;
    let (renderer, dtype) = (&tools.renderer, workload.dtype);
    let body = renderer.expanded(family, specialization, dtype, params).ok()?;
    let line = (line as usize).checked_sub(LINES_BEFORE + 1)?;
    let of_template = *lines::of_body(renderer, family, specialization, dtype, params, &body)?.get(line)?;
    let place = places.get(of_template.checked_sub(1)?)?;
    Some((place.file.display().to_string(), place.line))
}

struct SourceCheck<'a> {
    pair: &'a Pair,
    tools: &'a Tools,
    checked: Checked,
}

impl<'a> SourceCheck<'a> {
    fn on(&mut self, fit: &Fit<'a>) {
        if fit.taken().next().is_none() {
            for sentence in fit.sentences(&self.pair.family) {
                let finding = Finding::new(Level::Note, Stage::Space, sentence);
                self.add(finding);
            }
        }
        let mut sources: Vec<((Dims, Params), Vec<Planned<'_>>)> = Vec::new();
        for planned in self.planned(fit) {
            let source = (self.pair.family.specialization(planned.case), planned.params.clone());
            match sources.iter_mut().find(|(other, _)| *other == source) {
                Some((_, all)) => all.push(planned),
                None => sources.push((source, vec![planned])),
            }
        }
        let mut is_first = true;
        for ((specialization, params), planned) in &sources {
            let cases: Vec<CaseName> = planned.iter().map(|one| one.case.name.clone()).collect();
            if let Some((variant, artifact)) = self.compiled(specialization, params, planned, &cases) {
                if std::mem::take(&mut is_first) {
                    self.check_parameters(planned[0].case, params);
                }
                let artifact = Arc::new(artifact);
                let variant = Arc::new(variant);
                self.checked.runnable.extend(planned.iter().map(|one| Runnable {
                    case: one.case.clone(),
                    variant: Arc::clone(&variant),
                    artifact: Arc::clone(&artifact),
                }));
            }
        }
    }

    /// Fills in the plan of every case.
    fn planned<'f>(&mut self, fit: &'f Fit<'a>) -> Vec<Planned<'f>> {
        let Pair { workload, family, .. } = self.pair;
        let (mut planned, mut failed): (Vec<Planned<'_>>, IndexMap<String, Vec<CaseName>>) = Default::default();
        for (case, params) in fit.taken() {
            for tensor in workload.op.tensors(&case.dims, workload.dtype) {
                if tensor.elements() > MAX_INDEX {
                    let large = format!(
                        "tensor `{}` has {} elements, so its indices do not fit an int: compute them in 64 bits",
                        tensor.name,
                        tensor.elements()
                    );
                    self.add(Finding {
                        cases: vec![case.name.clone()],
                        ..Finding::new(Level::Note, Stage::Launch, large)
                    });
                }
            }
            match family.plan(params, case, workload.op, workload.dtype, &self.tools.device) {
                Ok(plan) => planned.push(Planned { case, params, plan }),
                Err(error) => failed.entry(error.to_string()).or_default().push(case.name.clone()),
            }
        }
        failed.into_iter().for_each(|(problem, cases)| self.manifest(Stage::Launch, &cases, problem));
        planned
    }

    /// Renders and compiles a source, and compares its kernels with the launches.
    fn compiled(
        &mut self,
        specialization: &Dims,
        params: &Params,
        planned: &[Planned<'_>],
        cases: &[CaseName],
    ) -> Option<(Variant, Artifact)> {
        let Pair { workload, family, .. } = self.pair;
        let body = match self.tools.renderer.expanded(family, specialization, workload.dtype, params) {
            Ok(body) => body,
            Err(error) => {
                let finding = self.at(Stage::Template, cases, error.line, &error.message);
                self.add(finding);
                return None;
            }
        };
        let rendered = render::variant(family, specialization, workload.dtype, params, &body);
        let variant = match rendered {
            Ok(variant) => variant,
            Err(problem) => {
                let finding = self.at(Stage::Template, cases, None, &problem.to_string());
                self.add(finding);
                return None;
            }
        };
        let source = Source { variant: &variant, body: &body, specialization, cases };
        let tensors = workload.op.tensors(&planned[0].case.dims, workload.dtype);
        let plans = planned.iter().map(|one| &one.plan);
        let disagree: IndexSet<(usize, String)> =
            plans.clone().flat_map(|plan| signature::mistakes(&variant.source, plan, &tensors)).collect();
        for (line, mistake) in &disagree {
            let finding = self.in_source(Stage::Launch, &source, Some(*line), mistake);
            self.add(finding);
        }
        let artifact = match self.tools.compiler.compile(&variant) {
            Ok(artifact) => artifact,
            Err(error) => {
                let errors = self.errors(&source, &error);
                let message = errors.first().map_or_else(|| error.to_string(), Finding::sentence);
                errors.into_iter().for_each(|finding| self.add(finding));
                let log = if let CompileError::Rejected { log } = &error { log.clone() } else { String::new() };
                self.checked.rejected.push(Rejected { case: planned[0].case.clone(), variant, message, log });
                return None;
            }
        };
        let has = |name: &str| artifact.kernels.iter().any(|kernel| kernel.name == name);
        let launched = plans.flat_map(|plan| &plan.launches).map(|launch| launch.kernel.as_str());
        let missing: IndexSet<&str> = launched.filter(|name| !has(name)).collect();
        for name in &missing {
            let mistake = format!("it launches `{name}`, which is not an `extern \"C\"` kernel of the source");
            self.manifest(Stage::Launch, cases, mistake);
        }
        (disagree.is_empty() && missing.is_empty()).then_some((variant, artifact))
    }

    /// Returns every error of a compiler's log.
    fn errors(&self, source: &Source<'_>, error: &CompileError) -> Vec<Finding> {
        let log = if let CompileError::Rejected { log } = error { log.as_str() } else { "" };
        let errors = log.lines().filter_map(located).filter(|(_, what)| is_error(what));
        let errors = errors.map(|(line, message)| self.in_source(Stage::Compiler, source, Some(line), message));
        match errors.collect::<Vec<_>>() {
            none if none.is_empty() => vec![self.in_source(Stage::Compiler, source, None, &error.to_string())],
            errors => errors,
        }
    }

    /// Adds a note for each parameter that changes nothing.
    fn check_parameters(&mut self, case: &Case, params: &Params) {
        let Pair { workload, family, .. } = self.pair;
        let Tools { renderer, compiler, device, .. } = self.tools;
        let space = Space { family, case, dtype: workload.dtype, device };
        let code = |params: &Params| {
            let variant = renderer.render(family, &family.specialization(case), workload.dtype, params).ok()?;
            compiler.compile(&variant).ok().map(|artifact| artifact.code())
        };
        let launch = |params: &Params| {
            let plan = family.plan(params, case, workload.op, workload.dtype, device).ok()?;
            Some(format!("{plan:?}"))
        };
        for name in tunables::idle(&space, params, code, launch) {
            let message =
                format!("parameter `{name}` changes nothing: machine code and launch are the same for all values");
            let file = Some(self.manifest_file());
            self.add(Finding { file, ..Finding::new(Level::Note, Stage::Tunable, message) });
        }
    }

    fn manifest_file(&self) -> String {
        format!("templates/kernels/{}/family.toml", self.pair.family.name)
    }

    /// Adds a mistake in the manifest.
    fn manifest(&mut self, stage: Stage, cases: &[CaseName], problem: String) {
        let file = Some(self.manifest_file());
        self.add(Finding { file, cases: self.some(cases), ..Finding::new(Level::Wrong, stage, problem) });
    }

    /// Returns a mistake in a line of the rendered source.
    fn in_source(&self, stage: Stage, source: &Source<'_>, line: Option<usize>, message: &str) -> Finding {
        let Pair { workload, family, .. } = self.pair;
        let Source { variant, body, specialization, cases } = source;
        let of_template = line.and_then(|line| {
            let line = line.checked_sub(LINES_BEFORE + 1)?;
            let (renderer, dtype) = (&self.tools.renderer, workload.dtype);
            lines::of_body(renderer, family, specialization, dtype, &variant.params, body)?.get(line).copied()
        });
        let of_source = |line| format!("line {line} of the rendered source: {message}");
        match (of_template, line) {
            (None, Some(line)) => self.at(stage, cases, None, &of_source(line)),
            (of_template, _) => self.at(stage, cases, of_template, message),
        }
    }

    /// Returns a mistake in a line of the template with its fragments.
    fn at(&self, stage: Stage, cases: &[CaseName], line: Option<usize>, message: &str) -> Finding {
        let place = line.and_then(|line| self.pair.places.get(line.checked_sub(1)?));
        let template = if ptx::is_ptx(&self.pair.family.template) { "kernel.ptx" } else { "kernel.cu.tera" };
        let own = || format!("templates/kernels/{}/{template}", self.pair.family.name);
        let file = place.map_or_else(own, |place| place.file.display().to_string());
        Finding {
            file: Some(file),
            line: place.map(|place| place.line),
            cases: self.some(cases),
            ..Finding::new(Level::Wrong, stage, message)
        }
    }

    /// Returns cases, or none if they are all of the workload.
    fn some(&self, cases: &[CaseName]) -> Vec<CaseName> {
        if cases.len() == self.pair.workload.cases.len() { Vec::new() } else { cases.to_vec() }
    }

    /// Adds a finding. The same mistake in another source of the family only adds its cases.
    fn add(&mut self, finding: Finding) {
        let workload = Some(self.pair.workload.name.clone());
        let finding = Finding { workload, family: Some(self.pair.family.name.clone()), ..finding };
        let is_same = |other: &&mut Finding| {
            Finding { cases: Vec::new(), ..(**other).clone() } == Finding { cases: Vec::new(), ..finding.clone() }
        };
        match self.checked.found.iter_mut().find(is_same) {
            Some(other) if finding.cases.is_empty() => other.cases.clear(),
            Some(other) if other.cases.is_empty() => {}
            Some(other) => {
                other.cases.extend(finding.cases);
                if other.cases.len() == self.pair.workload.cases.len() {
                    other.cases.clear();
                }
            }
            None => self.checked.found.push(finding),
        }
    }
}

/// A rendered source.
struct Source<'a> {
    variant: &'a Variant,
    body: &'a str,
    specialization: &'a Dims,
    cases: &'a [CaseName],
}

/// Splits a message of NVRTC about the source into its line and the rest.
fn located(message: &str) -> Option<(usize, &str)> {
    let (line, rest) = message.trim().strip_prefix("variant.cu(")?.split_once("): ")?;
    Some((line.parse().ok()?, rest))
}

fn is_error(message: &str) -> bool {
    ["error", "catastrophic error", "fatal error"].iter().any(|kind| message.starts_with(kind))
}
