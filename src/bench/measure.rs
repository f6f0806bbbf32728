//! Measures kernels: compares them on a device that replays, models them on any other, and puts the result on record.

use std::time::Instant;

use anyhow::{Context, anyhow, bail};

use super::{Bench, Subject, failure, rejection, rivals};
use crate::domain::claims::hypothesis::Reference;
use crate::domain::code::artifact::Artifact;
use crate::domain::device::gpu_state::Load;
use crate::domain::device::regime::Regime;
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::{Comparison, Participant, Role};
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::measurement::floor::floor_ns;
use crate::domain::proposal::origin::Purpose;
use crate::domain::workload::Case;
use crate::error::Error;
use crate::evaluate::{Found, Rejection, Said, Try};
use crate::runner::baseline::BaselineProcess;
use crate::runner::comparison::{self, BaselineEntry, ComparisonError, Entry, Extent, Terms, with_control};
use crate::runner::trial::{Seeds, Trial};
use crate::single::{Claim, given_up};

/// The plan of one comparison.
pub struct PlannedComparison<'a> {
    /// The kernel in question.
    pub challenger: &'a Subject,
    /// The kernels that it is compared with, and their roles.
    pub others: &'a [(Role, Subject)],
    /// The state of the caches.
    pub regime: Regime,
    /// The seed of the inputs.
    pub input_seed: u64,
    /// Whether the fastest backend of the baseline takes part, if there is one.
    pub with_baseline: bool,
    /// Whether to measure the energy of an execution, which takes over a second.
    pub energy: bool,
    /// How busy the device is kept.
    pub load: Load,
    /// What the challenger is said to do. None if nothing is claimed.
    pub claim: Option<&'a Claim>,
}

/// What became of a kernel.
struct Tried {
    compiled: Result<Artifact, Rejection>,
    evaluation: Evaluation,
    /// The comparison, or why there is none.
    comparison: Result<Comparison, Error>,
}

/// A participant that failed in a comparison.
struct Failed {
    /// Whether it is the challenger, or its copy.
    is_own: bool,
    /// A sentence that names it.
    problem: String,
    outcome: Outcome,
}

impl Bench {
    /// Measures the participants, and puts the result on record. A device that replays compares them, with the A/A control. Any
    /// other models one time for each. The error says why there is no time.
    pub async fn measure(&mut self, planned: &PlannedComparison<'_>) -> anyhow::Result<Comparison> {
        if !self.device().replays() {
            return self.modelled(planned).await;
        }
        let Subject { workload, variant, .. } = planned.challenger;
        let said = said(planned, reference(planned, &[]));
        let open = self.evaluator.begin(workload, variant, planned.challenger.case(), said).await?;
        let tried = self.compared(planned, open.iteration).await?;
        let actual = tried.comparison.as_ref().ok().and_then(|comparison| over_reference(&comparison.recorded()));
        let kernel = planned.challenger.kernel(tried.compiled.as_ref());
        self.evaluator.conclude(open, &kernel, &tried.evaluation, actual).await?;
        Ok(tried.comparison?)
    }

    /// Compiles the participants and compares them.
    async fn compared(
        &mut self,
        planned: &PlannedComparison<'_>,
        iteration: Option<IterationId>,
    ) -> anyhow::Result<Tried> {
        let own = match self.compiled(planned.challenger).await? {
            Ok(artifact) => artifact,
            Err(rejected) => return Ok(Tried::rejected(planned.challenger, rejected)),
        };
        let mut compiled = vec![(Role::Challenger, planned.challenger, own)];
        for (role, other) in planned.others {
            match self.compiled(other).await? {
                Ok(artifact) => compiled.push((*role, other, artifact)),
                Err(rejected) => {
                    let (_, _, own) = compiled.swap_remove(0);
                    return Ok(Tried::without_other(own, rejection::sentence(&rejected, other)));
                }
            }
        }
        let begun = Instant::now();
        let compared = self.compare(planned, &compiled, iteration).await?;
        let (_, _, own) = compiled.swap_remove(0);
        let device_s = begun.elapsed().as_secs_f64();
        Ok(match compared {
            Ok(comparison) => Tried::compared(own, planned, comparison, device_s),
            Err(Failed { is_own: true, problem, outcome }) => Tried {
                compiled: Ok(own),
                evaluation: Evaluation { outcome, measurements: Vec::new(), device_s },
                comparison: Err(Error::new(problem)),
            },
            Err(Failed { problem, .. }) => Tried::without_other(own, problem),
        })
    }

    /// Runs a comparison. The inner error is the participant that failed.
    async fn compare(
        &mut self,
        planned: &PlannedComparison<'_>,
        compiled: &[(Role, &Subject, Artifact)],
        iteration: Option<IterationId>,
    ) -> anyhow::Result<Result<Comparison, Failed>> {
        let PlannedComparison { challenger, regime, .. } = *planned;
        let workload = &challenger.workload;
        let case = Case { regime, ..challenger.case().clone() };
        let terms = Terms {
            workload,
            case: &case,
            measuring: self.evaluator.measuring(),
            input_seed: planned.input_seed,
            floor_ns: floor_ns(workload, &case, self.device()),
            screened_ns: None,
            extent: Extent { energy: planned.energy, rounds_within: None },
            load: planned.load,
        };
        let entries = with_control(compiled.iter().map(|one| entry(one, iteration)).collect());
        let backend = self.backends.get(&(case.name.clone(), regime)).cloned().flatten();
        let backend = backend.filter(|_| planned.with_baseline);
        let pids: Vec<u32> =
            self.evaluator.pid().into_iter().chain(self.baseline.as_ref().and_then(BaselineProcess::pid)).collect();
        let baseline = self.baseline.as_mut().zip(backend);
        let mut baselines: Vec<BaselineEntry<'_>> =
            baseline.map(|(process, backend)| BaselineEntry::baseline(process, backend)).into_iter().collect();
        baselines.extend(rivals::entries(&mut self.rivals, self.called.as_mut(), &case.name, regime));
        let mut worker = self.evaluator.worker().fresh().await.context("Failed to start a worker")?;
        match comparison::run(&mut worker, self.monitor.as_ref(), &pids, &terms, &entries, baselines).await {
            Ok(comparison) => Ok(Ok(comparison)),
            Err(ComparisonError::Machine(error)) => Err(error).context("Failed to run a comparison"),
            Err(ComparisonError::Failed { participant, outcome }) => {
                let failed = entries.get(participant);
                let name = failed.map_or("a participant", |entry| entry.name.as_str());
                let is_own = failed.is_some_and(|entry| matches!(entry.role, Role::Challenger | Role::Control));
                Ok(Err(Failed { is_own, problem: failure(name, &case.name, &outcome), outcome }))
            }
        }
    }

    /// Models the kernels that the challenger is compared with, each as an evaluation of its own.
    async fn model_others(&mut self, planned: &PlannedComparison<'_>) -> anyhow::Result<Vec<Participant>> {
        let mut participants = Vec::with_capacity(planned.others.len());
        for (role, other) in planned.others {
            let said = Said { parent: other.iteration, purpose: purpose(planned.load), ..Said::NOTHING };
            participants.push(self.model(*role, other, said, planned.input_seed).await?);
        }
        Ok(participants)
    }

    /// Models the challenger, and puts it beside the others.
    async fn modelled(&mut self, planned: &PlannedComparison<'_>) -> anyhow::Result<Comparison> {
        let others = self.model_others(planned).await?;
        let PlannedComparison { challenger, regime, .. } = *planned;
        let over_ns = others.first().map(|other| other.timing.median_ns);
        let said = Said { over_ns, ..said(planned, reference(planned, &others)) };
        let own = self.model(Role::Challenger, challenger, said, planned.input_seed).await?;
        Ok(Comparison {
            conditions: self.conditions(&challenger.workload, challenger.case(), regime),
            participants: std::iter::once(own).chain(others).collect(),
            group_size: 0,
            discarded_rounds: 0,
            winners_curse: None,
            floor_ns: Some(floor_ns(&challenger.workload, challenger.case(), self.device())),
            others: Vec::new(),
            wall_s: None,
        })
    }

    /// Compiles a kernel, and checks and times it alone.
    async fn model(
        &mut self,
        role: Role,
        subject: &Subject,
        said: Said<'_>,
        input_seed: u64,
    ) -> anyhow::Result<Participant> {
        let compiled = self.compiled(subject).await?;
        let how = Try { seeds: vec![Seeds::alone(input_seed)], look: None };
        let found = self.evaluator.evaluate(&subject.kernel(compiled.as_ref()), said, how).await?;
        if let Err(rejected) = &compiled {
            bail!("{}", rejection::sentence(rejected, subject));
        }
        if let Some(problem) = found.oracle {
            bail!("Failed to evaluate a kernel: {problem}");
        }
        modelled_participant(role, subject, &found).map_err(|problem| anyhow!(problem))
    }

    /// Returns the trial of a kernel on its case.
    pub(super) fn trial<'t>(&self, subject: &'t Subject, artifact: &'t Artifact, input_seed: u64) -> Trial<'t> {
        let cases = vec![subject.request.clone()];
        self.evaluator.trial(&subject.workload, artifact, cases, Seeds::alone(input_seed))
    }
}

impl Tried {
    fn rejected(subject: &Subject, rejected: Rejection) -> Self {
        let message = rejected.message.clone();
        Self {
            evaluation: Evaluation::without_device(Outcome::RejectedByCompiler { message }),
            comparison: Err(Error::new(rejection::sentence(&rejected, subject))),
            compiled: Err(rejected),
        }
    }

    /// A kernel beside which another one failed, so that nothing is known about it.
    fn without_other(own: Artifact, problem: String) -> Self {
        Self { compiled: Ok(own), comparison: Err(Error::new(&problem)), evaluation: given_up(problem) }
    }

    fn compared(own: Artifact, planned: &PlannedComparison<'_>, comparison: Comparison, device_s: f64) -> Self {
        let plan = &planned.challenger.request.plan;
        let unknown = Correctness { relative_l2: 0.0, worst_row: 0.0, rows_checked: 0, rows: 0 };
        let mut measurement = Measurement {
            case: planned.challenger.case().name.clone(),
            regime: planned.regime,
            correctness: comparison.challenger().and_then(|own| own.correctness).unwrap_or(unknown),
            screening: None,
            confirmation: None,
            comparison: None,
            ctas: plan.ctas(),
            shape: Some(plan.shape()),
            preparation: plan.preparation(None),
            profile: None,
        };
        measurement.confirm(comparison.recorded());
        let evaluation = Evaluation { outcome: Outcome::Measured, measurements: vec![measurement], device_s };
        Self { compiled: Ok(own), evaluation, comparison: Ok(comparison) }
    }
}

/// Returns what a claim about the challenger compares it with: the first of the others, or else the baseline.
fn reference(planned: &PlannedComparison<'_>, modelled: &[Participant]) -> Reference {
    let first = planned.others.first();
    let iteration = modelled.first().and_then(|other| other.iteration).or(first.and_then(|(_, other)| other.iteration));
    match (iteration, first) {
        (Some(iteration), _) => Reference::Iteration(iteration),
        (None, Some((Role::Baseline, _))) => Reference::InitialKernel,
        (None, Some(_)) => Reference::Incumbent,
        (None, None) => Reference::Baseline,
    }
}

/// Returns what is said about the challenger before it is tried.
fn said<'a>(planned: &PlannedComparison<'a>, reference: Reference) -> Said<'a> {
    let parent = planned.challenger.iteration;
    Said { claim: planned.claim, reference, parent, purpose: purpose(planned.load), over_ns: None }
}

fn purpose(load: Load) -> Purpose {
    // Times under sustained load are compared with no others.
    if load.is_bursts() { Purpose::Screening } else { Purpose::Experiment }
}

/// Returns the challenger's speed-up over the first other kernel of a comparison, or else over the baseline.
fn over_reference(comparison: &Comparison) -> Option<f64> {
    let other = comparison.participants.iter().skip(1).find(|one| one.role != Role::Control)?;
    match comparison.against(other.role) {
        Some((_, ratio)) => Some(ratio.estimate),
        None => Some(other.timing.median_ns / comparison.challenger()?.timing.median_ns),
    }
}

fn modelled_participant(role: Role, subject: &Subject, found: &Found) -> Result<Participant, Error> {
    let measured = found.measured.as_ref().and_then(|found| Some((found.best_timing()?, found.correctness)));
    let Some((timing, correctness)) = measured else {
        return Err(failure(&subject.name, &subject.case().name, &found.evaluation.outcome).into());
    };
    Ok(Participant {
        role,
        name: subject.name.clone(),
        iteration: subject.iteration.or(found.iteration),
        timing: timing.clone(),
        groups_ns: Vec::new(),
        correctness: Some(correctness),
        machine: None,
        energy_j: None,
        graph_node_ns: None,
        wrong: None,
    })
}

fn entry<'a>((role, subject, artifact): &'a (Role, &'a Subject, Artifact), own: Option<IterationId>) -> Entry<'a> {
    let own = own.filter(|_| *role == Role::Challenger);
    Entry {
        role: *role,
        name: subject.name.clone(),
        iteration: subject.iteration.or(own),
        artifact,
        plan: &subject.request.plan,
    }
}
