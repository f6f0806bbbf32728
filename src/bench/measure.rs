//! Measures kernels: compares them on a device that replays, models them on any other, and puts the result on record.

use std::time::Instant;

use anyhow::{Context, anyhow};

use super::{Bench, Rejection, Subject, failure};
use crate::domain::artifact::Artifact;
use crate::domain::comparison::{Comparison, Participant, Role};
use crate::domain::correctness::Correctness;
use crate::domain::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::floor::floor_ns;
use crate::domain::hypothesis::Reference;
use crate::domain::ids::IterationId;
use crate::domain::origin::Purpose;
use crate::domain::proposal::Proposal;
use crate::domain::regime::Regime;
use crate::domain::state::Load;
use crate::domain::workload::Case;
use crate::runner::baseline::BaselineProcess;
use crate::runner::comparison::{self, BaselineEntry, ComparisonError, Entry, Extent, Terms, with_control};
use crate::runner::trial::{Seeds, Trial};
use crate::single::{self, Claim, Ended, given_up};

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
    comparison: Result<Comparison, String>,
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
        let others = match self.device().replays() {
            true => Vec::new(),
            false => self.model_others(planned).await?,
        };
        let reference = reference(planned, &others);
        let proposal = proposal(planned, reference);
        let iteration = self.begin(planned.challenger, &proposal).await?;
        let tried = match self.device().replays() {
            true => self.compared(planned, iteration).await?,
            false => self.modelled(planned, iteration, others).await?,
        };
        let actual = tried.comparison.as_ref().ok().and_then(over_reference);
        self.conclude(planned.challenger, &proposal, iteration, &tried, actual).await?;
        tried.comparison.map_err(|problem| anyhow!(problem))
    }

    /// Records an evaluation that begins, if anything is recorded.
    async fn begin(&mut self, subject: &Subject, proposal: &Proposal) -> anyhow::Result<Option<IterationId>> {
        let Some(singles) = &mut self.singles else { return Ok(None) };
        Ok(Some(singles.begin(&subject.workload, proposal).await.context("Failed to record an evaluation")?))
    }

    async fn conclude(
        &mut self,
        subject: &Subject,
        proposal: &Proposal,
        iteration: Option<IterationId>,
        tried: &Tried,
        actual: Option<f64>,
    ) -> anyhow::Result<()> {
        let (Some(singles), Some(iteration)) = (&mut self.singles, iteration) else { return Ok(()) };
        let ended = Ended {
            compiled: tried.compiled.as_ref().map_err(|rejection| rejection.log.as_str()),
            plan: Some(&subject.request.plan),
            evaluation: &tried.evaluation,
            actual,
        };
        let recorded = singles.conclude(iteration, (&subject.workload, proposal), ended).await;
        recorded.context("Failed to record an evaluation")
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
                    return Ok(Tried::without_other(own, rejected.sentence(other)));
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
                comparison: Err(problem),
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
            measuring: self.measuring,
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
            self.worker.pid().into_iter().chain(self.baseline.as_ref().and_then(BaselineProcess::pid)).collect();
        let baseline = self.baseline.as_mut().zip(backend);
        let baseline = baseline.map(|(process, backend)| BaselineEntry { process, backend });
        let mut worker = self.worker.fresh().await.context("Failed to start a worker")?;
        match comparison::run(&mut worker, self.monitor.as_ref(), &pids, &terms, &entries, baseline).await {
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
            let proposal = named(other, None, Reference::InitialKernel, planned.load);
            let iteration = self.begin(other, &proposal).await?;
            let (compiled, evaluation) = self.evaluated(other, planned.input_seed).await?;
            let participant = compiled
                .as_ref()
                .map_err(|rejected| rejected.sentence(other))
                .and_then(|_| modelled_participant(*role, other, &evaluation, iteration));
            let tried = Tried { compiled, evaluation, comparison: Err(String::new()) };
            self.conclude(other, &proposal, iteration, &tried, None).await?;
            participants.push(participant.map_err(|problem| anyhow!(problem))?);
        }
        Ok(participants)
    }

    /// Models the challenger, and puts it beside the others.
    async fn modelled(
        &mut self,
        planned: &PlannedComparison<'_>,
        iteration: Option<IterationId>,
        others: Vec<Participant>,
    ) -> anyhow::Result<Tried> {
        let PlannedComparison { challenger, regime, .. } = *planned;
        let (compiled, evaluation) = self.evaluated(challenger, planned.input_seed).await?;
        let own = match &compiled {
            Ok(_) => modelled_participant(Role::Challenger, challenger, &evaluation, iteration),
            Err(rejected) => Err(rejected.sentence(challenger)),
        };
        let comparison = own.map(|own| Comparison {
            conditions: self.conditions(&challenger.workload, challenger.case(), regime),
            participants: std::iter::once(own).chain(others).collect(),
            group_size: 0,
            discarded_rounds: 0,
            winners_curse: None,
            floor_ns: Some(floor_ns(&challenger.workload, challenger.case(), self.device())),
            others: Vec::new(),
            wall_s: None,
        });
        Ok(Tried { compiled, evaluation, comparison })
    }

    /// Compiles a kernel, and checks and times it alone.
    async fn evaluated(
        &mut self,
        subject: &Subject,
        input_seed: u64,
    ) -> anyhow::Result<(Result<Artifact, Rejection>, Evaluation)> {
        let artifact = match self.compiled(subject).await? {
            Ok(artifact) => artifact,
            Err(rejected) => {
                let message = rejected.message.clone();
                let evaluation = Evaluation::without_device(Outcome::RejectedByCompiler { message });
                return Ok((Err(rejected), evaluation));
            }
        };
        let trial = self.trial(subject, &artifact, input_seed);
        let evaluation = trial.run(&mut self.worker).await.context("Failed to evaluate a kernel")?;
        Ok((Ok(artifact), evaluation))
    }

    /// Returns the trial of a kernel on its case.
    pub(super) fn trial<'t>(&self, subject: &'t Subject, artifact: &'t Artifact, input_seed: u64) -> Trial<'t> {
        Trial {
            workload: &subject.workload,
            artifact,
            cases: vec![subject.request.clone()],
            measuring: self.measuring,
            seeds: Seeds::alone(input_seed),
            within: None,
            drops_slow: false,
            explain: false,
        }
    }
}

impl Tried {
    fn rejected(subject: &Subject, rejected: Rejection) -> Self {
        let message = rejected.message.clone();
        Self {
            evaluation: Evaluation::without_device(Outcome::RejectedByCompiler { message }),
            comparison: Err(rejected.sentence(subject)),
            compiled: Err(rejected),
        }
    }

    /// A kernel beside which another one failed, so that nothing is known about it.
    fn without_other(own: Artifact, problem: String) -> Self {
        Self { compiled: Ok(own), evaluation: given_up(problem.clone()), comparison: Err(problem) }
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
            profile: None,
        };
        measurement.confirm(comparison.clone());
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

fn proposal(planned: &PlannedComparison<'_>, reference: Reference) -> Proposal {
    named(planned.challenger, planned.claim, reference, planned.load)
}

/// Returns the proposal of a kernel that a person named.
fn named(subject: &Subject, claim: Option<&Claim>, reference: Reference, load: Load) -> Proposal {
    // Its times under sustained load are compared with no others.
    let purpose = if load.is_bursts() { Purpose::Screening } else { Purpose::Experiment };
    let proposal = single::proposal(&subject.variant, subject.case(), claim, reference);
    Proposal { parent: subject.iteration, purpose, ..proposal }
}

/// Returns the challenger's speed-up over the first other kernel of a comparison, or else over the baseline.
fn over_reference(comparison: &Comparison) -> Option<f64> {
    let other = comparison.participants.iter().skip(1).find(|one| one.role != Role::Control)?;
    match comparison.against(other.role) {
        Some((_, ratio)) => Some(ratio.estimate),
        None => Some(other.timing.median_ns / comparison.challenger()?.timing.median_ns),
    }
}

fn modelled_participant(
    role: Role,
    subject: &Subject,
    evaluation: &Evaluation,
    iteration: Option<IterationId>,
) -> Result<Participant, String> {
    let measurement = evaluation.measurements.first().filter(|_| evaluation.outcome == Outcome::Measured);
    let found = measurement.and_then(|found| Some((found.best_timing()?, found.correctness)));
    let Some((timing, correctness)) = found else {
        return Err(failure(&subject.name, &subject.case().name, &evaluation.outcome));
    };
    Ok(Participant {
        role,
        name: subject.name.clone(),
        iteration: subject.iteration.or(iteration),
        timing: timing.clone(),
        groups_ns: Vec::new(),
        correctness: Some(correctness),
        machine: None,
        energy_j: None,
        graph_node_ns: None,
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
