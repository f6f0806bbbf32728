//! Prepares experiments: a variant on more or less work, steps on paths between configurations, and variants without a cause
//! of lost time.

use anyhow::Context;

use crate::agent::{cause_tests, path};
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::proposal::experiment::{Path, Scaling};
use crate::domain::proposal::origin::{Change, Origin, Purpose};
use crate::domain::proposal::{Proposal, Rationale};
use crate::runner::planning;
use crate::session::Session;
use crate::session::decide::Baselines;
use crate::session::decide::paths::PathStepDue;
use crate::session::decide::scaling::{ExperimentDue, ITERATIONS_PER_EXPERIMENT};
use crate::session::pipeline::Compiled;

impl Session<'_> {
    /// Prepares an experiment. The variant is rendered anew only if the changed dimension is part of its source.
    pub(in crate::session) async fn experiment(&mut self, due: &ExperimentDue) -> anyhow::Result<Compiled> {
        let ExperimentDue { scaling, case } = due;
        let setup = self.state.setup();
        let original = setup.workload.case(&scaling.case).map_err(anyhow::Error::msg)?;
        let variant = self.state.history().iteration(scaling.of).context("Failed to find the variant to explain")?;
        let (family, params) = (setup.family(&variant.family)?, &variant.params);
        let model_flop = setup.options.measuring.model_flop;
        let request = planning::of_case(family, params, case, &setup.workload, &setup.device, model_flop);
        let specialization = family.specialization(case);
        let (variant, artifact) = if specialization == family.specialization(original) {
            let kernel = self.cache.kernel(setup, scaling.of).await?;
            (kernel.variant.clone(), Ok(kernel.artifact.clone()))
        } else {
            self.pipeline.compile(family, &specialization, setup.workload.dtype, params).await?
        };
        let Scaling { of, axis, factor, case: name } = scaling;
        let proposal = Proposal {
            proposer: self.pipeline.proposer().to_owned(),
            variant,
            cases: vec![case.clone()],
            rationale: Rationale {
                hypothesis: Hypothesis::without_claim(
                    format!("an experiment: {factor} times the {} work of {name}", axis.name()),
                    format!("it shows what the time of iteration {of} depends on"),
                    case.name.clone(),
                    Reference::Iteration(*of),
                ),
                parent: Some(*of),
                purpose: Purpose::Experiment,
                origin: Origin::ScaledCase(scaling.clone()),
            },
        };
        Ok(Compiled { proposal, cases: request.map(|request| vec![request]), artifact, is_control: false })
    }

    /// Prepares a step on a path between two configurations.
    pub(in crate::session) async fn path_step(&mut self, due: &PathStepDue) -> anyhow::Result<Compiled> {
        let PathStepDue { path, params, changes } = due;
        let setup = self.state.setup();
        let case = setup.workload.case(&path.case).map_err(anyhow::Error::msg)?;
        let from = self.state.history().iteration(path.from).context("Failed to find where a path begins")?;
        let family = setup.family(&from.family)?;
        let model_flop = setup.options.measuring.model_flop;
        let request = planning::of_case(family, params, case, &setup.workload, &setup.device, model_flop);
        let specialization = family.specialization(case);
        let (variant, artifact) = self.pipeline.compile(family, &specialization, setup.workload.dtype, params).await?;
        let changed: Vec<String> =
            changes.iter().map(|Change { parameter, to, .. }| format!("{parameter}={to}")).collect();
        let Path { from, to, case: name } = path;
        let proposal = Proposal {
            proposer: self.pipeline.proposer().to_owned(),
            variant,
            cases: vec![case.clone()],
            rationale: Rationale {
                hypothesis: Hypothesis::without_claim(
                    format!("an experiment: {} on the path from iteration {from} to iteration {to}", changed.join(" ")),
                    format!("it shows what each parameter gains on {name}"),
                    name.clone(),
                    Reference::Iteration(*from),
                ),
                parent: Some(*from),
                purpose: Purpose::Experiment,
                origin: Origin::PathStep { path: path.clone(), changes: changes.clone() },
            },
        };
        Ok(Compiled { proposal, cases: request.map(|request| vec![request]), artifact, is_control: false })
    }

    /// Has a step on a path compiled that was faster than all that the search has found, so that it can win.
    pub(in crate::session) fn try_faster_step(&mut self) -> anyhow::Result<()> {
        let step = path::faster_step(&self.state.setup().search_context(), self.state.history());
        let step = step.map_err(|problem| anyhow::anyhow!("Failed to propose a step on a path: {problem}"))?;
        step.map_or(Ok(()), |step| self.pipeline.submit(step, &mut self.state))
    }

    /// Has a variant compiled that lacks a cause of the initial kernel's time, if such a test is due. The search finds faster
    /// kernels at once, and would leave the causes of the first one untested.
    pub(in crate::session) fn test_a_cause(&mut self) -> anyhow::Result<()> {
        let due = ITERATIONS_PER_EXPERIMENT * (self.explanations.cause_tests + 1);
        if self.state.meter().finished() < due || self.baselines() != Baselines::Known {
            return Ok(());
        }
        let findings = self.explanations.of_initial();
        let test = cause_tests::next(&self.state.setup().search_context(), findings, self.state.history());
        let test = test.map_err(|problem| anyhow::anyhow!("Failed to propose a test of a cause: {problem}"))?;
        // Without one, it is asked again later: the causes may not be known yet.
        self.explanations.cause_tests += 1;
        test.map_or(Ok(()), |test| self.pipeline.submit(test, &mut self.state))
    }
}
