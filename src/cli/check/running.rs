//! Runs the kernels and oracles of a check, and puts what it finds on record.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;

use super::{Args, Named, Result, Right};
use crate::catalog::Project;
use crate::check::{Checked, Finding, Level, Pair, Rejected, Run, Runnable, Stage, Tools, check_oracle};
use crate::cli::error::usage;
use crate::cli::trust;
use crate::config::{self, Config};
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::hypothesis::Reference;
use crate::domain::ids::CaseName;
use crate::domain::workload::Workload;
use crate::runner::activity;
use crate::runner::worker::Worker;
use crate::shipped;
use crate::single::{self, Ended, Singles};

/// The longest first look at a family, because a user waits for it.
const LONGEST_LOOK: Duration = Duration::from_secs(15);

/// The context of an error of the store.
const UNRECORDED: &str = "Failed to record an evaluation";

/// What runs kernels and oracles.
pub(super) struct Running<'a> {
    pub(super) args: &'a Args,
    pub(super) project: &'a Project,
    pub(super) config: &'a Config,
    pub(super) tools: &'a Tools,
    /// The workloads whose oracle was called, and whether it works.
    pub(super) oracles: Vec<(String, bool)>,
    /// Takes what is tried.
    pub(super) singles: Singles,
}

impl Running<'_> {
    /// Runs every family whose sources were checked.
    pub(super) async fn all(
        &mut self,
        worker: &mut Worker,
        checked: Vec<(Pair, Checked)>,
        result: &mut Result,
    ) -> anyhow::Result<()> {
        for (pair, Checked { found, runnable, rejected }) in checked {
            result.findings.extend(found);
            for one in &rejected {
                self.record_rejected(&pair, one).await?;
            }
            self.pair(worker, &pair, runnable, result).await?;
        }
        Ok(())
    }

    /// Runs a family on the cases that it takes.
    async fn pair(
        &mut self,
        worker: &mut Worker,
        pair: &Pair,
        runnable: Vec<Runnable>,
        result: &mut Result,
    ) -> anyhow::Result<()> {
        if !self.has_oracle(&pair.workload, result).await? {
            return Ok(());
        }
        let mut left_out: Vec<CaseName> = runnable.iter().map(|one| one.case.name.clone()).collect();
        let affordable = self.affordable(pair, runnable, worker.info());
        left_out.retain(|name| affordable.iter().all(|one| one.case.name != *name));
        let time_source = worker.info().time_source();
        let named = pair.configuration.clone().map(|params| Named { params, us: BTreeMap::new(), time_source });
        let (workload, family) = (pair.workload.name.clone(), pair.family.name.clone());
        let (cases, shortcuts) = (Vec::new(), BTreeMap::new());
        let mut right = Right { workload, family, cases, shortcuts, left_out, named };
        for one in affordable {
            let (measured, findings) = self.evaluate(worker, pair, &one, right.cases.is_empty()).await?;
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

    /// Runs a configuration on its case, and puts it on record. The case with the least work comes first, and gets a first look.
    /// Returns the measurement if the output is right on the case, and what is wrong.
    async fn evaluate(
        &mut self,
        worker: &mut Worker,
        pair: &Pair,
        one: &Runnable,
        is_first: bool,
    ) -> anyhow::Result<(Option<Measurement>, Vec<Finding>)> {
        let _running = activity::begin(format!("running {} on {}", pair.family.name, one.case.name), None);
        let proposal = single::proposal(&one.variant, &one.case, None, Reference::InitialKernel);
        let iteration = self.singles.begin(&pair.workload, &proposal).await.context(UNRECORDED)?;
        let Run { mut evaluation, plan, wrong } = crate::check::run(worker, pair, one, self.tools).await?;
        let mut findings: Vec<Finding> = wrong.into_iter().collect();
        let measured = evaluation.measurements.first().filter(|_| findings.is_empty()).cloned();
        if let Some(measured) = measured.as_ref().filter(|_| is_first)
            && let Some((finding, outcome)) = self.look_first(worker, pair, one, measured).await?
        {
            findings.push(finding);
            evaluation.outcome = outcome.unwrap_or(evaluation.outcome);
        }
        let ended = Ended { compiled: Ok(&one.artifact), plan: plan.as_ref(), evaluation: &evaluation, actual: None };
        self.singles.conclude(iteration, (&pair.workload, &proposal), ended).await.context(UNRECORDED)?;
        Ok((measured, findings))
    }

    /// Puts a configuration on record that does not compile.
    async fn record_rejected(&mut self, pair: &Pair, rejected: &Rejected) -> anyhow::Result<()> {
        let Rejected { case, variant, message, log } = rejected;
        let proposal = single::proposal(variant, case, None, Reference::InitialKernel);
        let iteration = self.singles.begin(&pair.workload, &proposal).await.context(UNRECORDED)?;
        let outcome = Outcome::RejectedByCompiler { message: message.clone() };
        let evaluation = Evaluation::without_device(outcome);
        let ended = Ended { compiled: Err(log), plan: None, evaluation: &evaluation, actual: None };
        self.singles.conclude(iteration, (&pair.workload, &proposal), ended).await.context(UNRECORDED)
    }

    /// Takes a first look at a family that optloop does not ship. Returns what is wrong.
    async fn look_first(
        &self,
        worker: &mut Worker,
        pair: &Pair,
        one: &Runnable,
        measured: &Measurement,
    ) -> anyhow::Result<Option<(Finding, Option<Outcome>)>> {
        let budget = config::duration("session.budget", &self.config.session.budget)?;
        let within = budget.mul_f64(self.config.validate.first_look_share).min(LONGEST_LOOK);
        if within.is_zero() || shipped::is_unchanged(self.project.root(), &pair.family.name) {
            return Ok(None);
        }
        let _running = activity::begin(format!("checking {} on other shapes", pair.family.name), None);
        Ok(crate::check::look_first(worker, pair, one, self.tools, (measured, within)).await?)
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
        let works = if self.args.trust.is_given() || items.iter().all(|item| trust::is_trusted(self.project, item)) {
            trust::admit(self.project, &self.args.trust, items)?;
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
