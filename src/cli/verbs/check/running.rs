//! Runs the kernels and oracles of a check, and puts what it finds on record.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Args, Named, Result, Right};
use crate::catalog::Project;
use crate::check::{Checked, Finding, Level, Pair, Rejected, Runnable, Stage, Tools, check_oracle, look_seed};
use crate::config::{self, Config};
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::ids::CaseName;
use crate::domain::measurement::evaluation::Measurement;
use crate::domain::workload::Workload;
use crate::error::usage;
use crate::evaluate::{Evaluator, Kernel, Look, Rejection, Said, Try};
use crate::launch::consent;
use crate::notices::say;
use crate::runner::activity;
use crate::runner::messages::Skipped;
use crate::runner::planning;
use crate::shipped;

/// The longest first look at a family, because a user waits for it.
const LONGEST_LOOK: Duration = Duration::from_secs(15);

/// What runs kernels and oracles.
pub(super) struct Running<'a> {
    pub(super) args: &'a Args,
    pub(super) project: &'a Project,
    pub(super) config: &'a Config,
    pub(super) tools: &'a Tools,
    /// The workloads whose oracle was called, and whether it works.
    pub(super) oracles: Vec<(String, bool)>,
    /// Evaluates what compiles, and puts everything on record.
    pub(super) evaluator: Evaluator,
}

impl Running<'_> {
    /// Runs every family whose sources were checked.
    pub(super) async fn all(&mut self, checked: Vec<(Pair, Checked)>, result: &mut Result) -> anyhow::Result<()> {
        let all = checked.len();
        for (place, (pair, Checked { found, runnable, rejected })) in checked.into_iter().enumerate() {
            if all > 1 {
                say(&format!("{} of {all}: {} on {}", place + 1, pair.family.name, pair.workload.name));
            }
            result.findings.extend(found);
            for one in &rejected {
                self.record_rejected(&pair, one).await?;
            }
            self.pair(&pair, runnable, result).await?;
        }
        Ok(())
    }

    /// Runs a family on the cases that it takes.
    async fn pair(&mut self, pair: &Pair, runnable: Vec<Runnable>, result: &mut Result) -> anyhow::Result<()> {
        if !self.has_oracle(&pair.workload, result).await? {
            return Ok(());
        }
        let mut left_out: Vec<CaseName> = runnable.iter().map(|one| one.case.name.clone()).collect();
        let affordable = self.affordable(pair, runnable, self.evaluator.device());
        left_out.retain(|name| affordable.iter().all(|one| one.case.name != *name));
        let time_source = self.evaluator.device().time_source();
        let named = pair.configuration.clone().map(|params| Named { params, us: BTreeMap::new(), time_source });
        let (workload, family) = (pair.workload.name.clone(), pair.family.name.clone());
        let (cases, shortcuts) = (Vec::new(), BTreeMap::new());
        let mut right = Right { workload, family, cases, shortcuts, left_out, named };
        for one in affordable {
            let (measured, findings) = self.evaluate(pair, &one, right.cases.is_empty()).await?;
            result.findings.extend(findings);
            if let Some(measured) = measured {
                right.add(&one.case.name, &measured);
            }
        }
        if !right.cases.is_empty() {
            result.right.push(right);
        }
        Ok(())
    }

    /// Has a configuration evaluated on its case. The case with the least work comes first, and gets a first look. Returns the
    /// measurement if the output is right on the case, and what is wrong.
    async fn evaluate(
        &mut self,
        pair: &Pair,
        one: &Runnable,
        is_first: bool,
    ) -> anyhow::Result<(Option<Measurement>, Vec<Finding>)> {
        let _running = activity::begin(format!("running {} on {}", pair.family.name, one.case.name), None);
        let Pair { workload, family, .. } = pair;
        let Runnable { case, variant, artifact } = one;
        let (device, model_flop) = (self.evaluator.device(), self.evaluator.measuring().model_flop);
        let planned =
            planning::of_case(family, &variant.params, case, workload, device, model_flop).map_err(String::from);
        let kernel = Kernel {
            workload,
            variant,
            case,
            planned: planned.as_ref().map_err(String::as_str),
            compiled: Ok(artifact),
        };
        let look = if is_first { self.look(family)? } else { None };
        let how = Try { seeds: crate::check::seeds(pair, one), look };
        let found = self.evaluator.evaluate(&kernel, Said::NOTHING, how).await?;
        let wrong = match (&planned, &found.oracle) {
            (Err(problem), _) => Some(crate::check::wrong(pair, one, Stage::Launch, problem.clone())),
            (_, Some(problem)) => Some(crate::check::wrong(pair, one, Stage::Oracle, problem.clone())),
            _ => crate::check::judge(pair, one, self.tools, &found.evaluation.outcome),
        };
        let note = |skipped: &Skipped| Finding {
            level: Level::Note,
            ..crate::check::wrong(pair, one, Stage::Run, skipped.to_string())
        };
        Ok((found.measured, wrong.into_iter().chain(found.skipped.iter().map(note)).collect()))
    }

    /// Puts a configuration on record that does not compile.
    async fn record_rejected(&mut self, pair: &Pair, rejected: &Rejected) -> anyhow::Result<()> {
        let Rejected { case, variant, message, log } = rejected;
        let rejection = Rejection { message: message.clone(), log: log.clone() };
        let kernel =
            Kernel { workload: &pair.workload, variant, case, planned: Err("not compiled"), compiled: Err(&rejection) };
        let how = Try { seeds: Vec::new(), look: None };
        self.evaluator.evaluate(&kernel, Said::NOTHING, how).await.map(drop)
    }

    /// Returns the first look at a family that optloop does not ship.
    fn look<'f>(&self, family: &'f Family) -> anyhow::Result<Option<Look<'f>>> {
        let budget = config::duration("session.budget", &self.config.session.budget)?;
        let within = budget.mul_f64(self.config.validate.first_look_share).min(LONGEST_LOOK);
        let is_due = !within.is_zero() && !shipped::is_unchanged(self.project.root(), &family.name);
        Ok(is_due.then(|| Look { family, within, seed: look_seed(family) }))
    }

    /// Returns the configurations to run. On a virtual GPU, and where the user names nothing, these are the lightest.
    fn affordable(&self, pair: &Pair, mut runnable: Vec<Runnable>, device: &DeviceInfo) -> Vec<Runnable> {
        let work = |one: &Runnable| pair.workload.op.work(&one.case.dims);
        runnable.sort_by(|a, b| work(a).total_cmp(&work(b)));
        if device.time_source() == TimeSource::Modelled {
            let kept = pair.workload.clone().lightest(self.config.virtual_gpu.max_gflop * 1e9).cases;
            let lightest = runnable.first().map(|one| one.case.name.clone());
            runnable.retain(|one| Some(&one.case.name) == lightest.as_ref() || kept.contains(&one.case));
        }
        if self.args.name.is_none() {
            let mut sources = Vec::new();
            runnable.retain(|one| {
                let is_new = !sources.contains(&one.artifact.key);
                sources.push(one.artifact.key.clone());
                is_new
            });
        }
        runnable
    }

    /// Calls the oracle of a workload once, with the user's consent. Returns whether it can be used.
    async fn has_oracle(&mut self, workload: &Workload, result: &mut Result) -> anyhow::Result<bool> {
        if let Some((_, works)) = self.oracles.iter().find(|(name, _)| *name == workload.name) {
            return Ok(*works);
        }
        let items = crate::trust::of_oracle(self.project.root(), self.config, workload).map_err(usage)?;
        let works = if self.args.trust.agrees().0 || items.iter().all(|item| consent::is_trusted(self.project, item)) {
            consent::admit(self.project, self.args.trust.agrees(), items)?;
            let _running = activity::begin(format!("calling the oracle of op `{}`", workload.op.name()), None);
            let (workload, device) = (workload.clone(), self.tools.device.clone());
            let findings = tokio::task::spawn_blocking(move || check_oracle(&workload, &device)).await?;
            let works = findings.iter().all(|finding| finding.level == Level::Note);
            result.findings.extend(findings);
            works
        } else {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            let note = format!(
                "nothing was run, because you have not trusted {}: `optloop trust` shows it and asks",
                items.join(", and ")
            );
            let workload = Some(workload.name.clone());
            result.findings.push(Finding { workload, ..Finding::new(Level::Note, Stage::Oracle, note) });
            false
        };
        self.oracles.push((workload.name.clone(), works));
        Ok(works)
    }
}
