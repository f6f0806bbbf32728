//! Collects the evidence for a diagnosis of one kernel: its time, what its kernels use, its times on other cases, and
//! the counts of a virtual GPU.

use anyhow::{Context, bail};

use super::{Bench, Subject, failure};
use crate::domain::code::ablation::Ablation;
use crate::domain::code::artifact::{Artifact, KernelResources};
use crate::domain::code::profile::Profile;
use crate::domain::device::regime::Regime;
use crate::domain::family::Family;
use crate::domain::measurement::evaluation::{Measurement, Outcome};
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, error};
use crate::runner::ablation::{self, Lined};
use crate::runner::explainer::{Explained, Explainer};
use crate::runner::messages::{CaseRequest, LaunchRequest, ProblemRequest};
use crate::runner::trial::Trial;
use crate::runner::{inputs, sanitizer};

/// The most other cases to time. They show how the time grows with the work.
const MAX_OTHERS: usize = 6;

/// The work of the heaviest other case, over that of the case itself.
const MAX_WORK_FACTOR: f64 = 64.0;

/// The evidence about a kernel on a case.
pub struct Evidence {
    /// Its median time, in nanoseconds.
    pub time_ns: f64,
    /// The resources of each of its kernels.
    pub kernels: Vec<KernelResources>,
    /// The counts of a virtual GPU, or why there are none.
    pub profile: Result<Profile, Error>,
    /// Its times without each kind of instruction, the control first.
    pub ablations: Vec<Ablation>,
    /// Other cases of the workload, with the time and the blocks of the same source on them.
    pub others: Vec<(Case, f64, u64)>,
}

impl Bench {
    /// Compiles a kernel, checks and times it, and has a virtual GPU explain its time.
    pub async fn evidence(&mut self, subject: &Subject, input_seed: u64) -> anyhow::Result<Evidence> {
        let artifact = self.compile(subject).await?;
        // The subject's own workload has the selected cases only.
        let workload = self.project.workload(&subject.workload.name).unwrap_or_else(|_| subject.workload.clone());
        let requests = [vec![subject.request.clone()], self.on_other_cases(subject, &workload)].concat();
        let measurements = self.timed(subject, &artifact, requests, input_seed).await?;
        let mut measurements = measurements.into_iter();
        let own = measurements.next().context("Failed to get a time")?;
        let time_ns = own.best_timing().context("Failed to get a time")?.median_ns;
        let cases = &workload.cases;
        let other = |found: Measurement| {
            let case = cases.iter().find(|case| case.name == found.case)?.clone();
            Some((case, found.best_timing()?.median_ns, found.ctas))
        };
        let profile = self.explained(subject, &artifact, input_seed).await?;
        let ablations = self.ablated(subject, &artifact, input_seed).await?;
        let others = measurements.filter_map(other).collect();
        Ok(Evidence { time_ns, kernels: artifact.kernels, profile, ablations, others })
    }

    /// Returns the families of the committed winners of a kernel's workload, that of its case first, and those of this
    /// kind of device before others.
    pub fn winning_families(&self, subject: &Subject) -> Vec<String> {
        let Ok(workload) = self.project.workload(&subject.workload.name) else { return Vec::new() };
        let mut winners = self.project.known_winners(&workload, self.device());
        winners.sort_by_key(|winner| (!winner.here, winner.case != subject.case().name));
        winners.into_iter().map(|winner| winner.family).collect()
    }

    /// Returns the families that can compute a kernel's workload on the device.
    pub fn families_for(&self, subject: &Subject) -> Vec<&Family> {
        self.families.sound.iter().filter(|family| family.fits(&subject.workload, self.device())).collect()
    }

    /// Evaluates a kernel on several cases. The first is its own, and must succeed.
    async fn timed(
        &mut self,
        subject: &Subject,
        artifact: &Artifact,
        cases: Vec<CaseRequest>,
        input_seed: u64,
    ) -> anyhow::Result<Vec<Measurement>> {
        let mut measurements = Vec::with_capacity(cases.len());
        for case in cases {
            let subject = Subject { request: case, ..subject.clone() };
            let trial = self.trial(&subject, artifact, input_seed);
            let evaluation = trial.run(self.evaluator.worker()).await.context("Failed to evaluate a kernel")?;
            match evaluation.outcome {
                Outcome::Measured => measurements.extend(evaluation.measurements),
                outcome if measurements.is_empty() => {
                    bail!("{}", failure(&subject.name, &subject.case().name, &outcome))
                }
                // The kernel fails on another case. Its time on this case is still evidence.
                _ => {}
            }
        }
        Ok(measurements)
    }

    /// Returns the plans on other cases that the same source can compute.
    fn on_other_cases(&self, subject: &Subject, workload: &Workload) -> Vec<CaseRequest> {
        let variant = &subject.variant;
        let Some(family) = self.families.sound.iter().find(|family| family.name == variant.family) else {
            return Vec::new();
        };
        let flop = |case: &Case| workload.op.flop(&case.dims);
        let most = match self.device().replays() {
            true => MAX_WORK_FACTOR * flop(subject.case()),
            false => self.evaluator.measuring().model_flop,
        };
        let same_source = |case: &&Case| {
            let other = case.name != subject.case().name && flop(case) <= most;
            other && family.specialization(case) == family.specialization(subject.case())
        };
        let mut cases: Vec<&Case> = workload.cases.iter().filter(same_source).collect();
        cases.sort_by(|a, b| flop(a).total_cmp(&flop(b)));
        let planned = cases.into_iter().filter_map(|case| self.request(family, &variant.params, case, workload).ok());
        let mut planned: Vec<CaseRequest> = planned.collect();
        // The lightest and the heaviest cases are the most informative.
        while planned.len() > MAX_OTHERS {
            planned.remove(planned.len() / 2);
        }
        planned
    }

    /// Times the kernel without each kind of instruction.
    async fn ablated(&mut self, subject: &Subject, artifact: &Artifact, seed: u64) -> anyhow::Result<Vec<Ablation>> {
        let Subject { workload, request, .. } = subject;
        let (op, dtype, case) = (workload.op.source(), workload.dtype, request.case.clone());
        let request = LaunchRequest {
            artifact: artifact.clone(),
            plan: request.plan.clone(),
            cold: request.case.regime.on(self.device()) == Regime::Cold,
            problem: Some(ProblemRequest { op, dtype, case }),
            seed: inputs::mix(seed, &["ablate"]),
        };
        let min_sample_ns = self.evaluator.measuring().min_sample_ns;
        let lined = match self.device().replays() {
            true => Lined::of(self.compiler(&subject.options)?, &subject.variant).await,
            false => None,
        };
        ablation::ablations(self.evaluator.worker(), &request, lined.as_ref(), min_sample_ns)
            .await
            .context("Failed to ablate a kernel")
    }

    /// Has a virtual GPU model the kernel with and without each cause of lost time.
    async fn explained(
        &mut self,
        subject: &Subject,
        artifact: &Artifact,
        seed: u64,
    ) -> anyhow::Result<Result<Profile, Error>> {
        if !self.device().replays() {
            let trial = Trial { explain: true, ..self.trial(subject, artifact, seed) };
            let evaluation = trial.run(self.evaluator.worker()).await.context("Failed to explain a kernel")?;
            let profile = evaluation.measurements.into_iter().find_map(|found| found.profile);
            let why = || Error::new(failure(&subject.name, &subject.case().name, &evaluation.outcome));
            return Ok(profile.ok_or_else(why));
        }
        let Some(family) = self.families.sound.iter().find(|family| family.name == subject.variant.family) else {
            return Ok(Err(error!("there is no family `{}`", subject.variant.family)));
        };
        let timeouts = self.config.worker_timeouts();
        let mut explainer = match Explainer::start(self.exe.clone(), self.device(), timeouts).await {
            Ok(explainer) => explainer,
            Err(reason) => return Ok(Err(reason)),
        };
        let (variant, workload, case) = (&subject.variant, &subject.workload, subject.case());
        let (params, hash) = (&variant.params, &variant.hash);
        let subject = sanitizer::Subject { family, params, hash, artifact, workload, case };
        let seed = inputs::mix(seed, &["explain"]);
        let explained =
            explainer.explain(subject, self.evaluator.measuring(), seed).await.context("Failed to explain a kernel")?;
        Ok(match explained {
            Explained::Profile(profile) => Ok(profile),
            Explained::Skipped(reason) => Err(reason.into()),
        })
    }
}
