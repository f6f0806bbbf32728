//! Runs comparisons: variants and a baseline sampled in turns, in a fresh process, on held-out inputs.

mod run;

use std::time::{Duration, Instant};

use run::ComparisonRun;

use super::activity;
use super::baseline::{BaselineProcess, PendingInputs};
use super::messages::EnterRequest;
use super::monitor::Monitor;
use super::worker::{Worker, WorkerError};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::gpu_state::Load;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::measurement::conditions::Conditions;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::settings::Measuring;
use crate::domain::workload::{Case, Workload};

/// What all participants of a comparison share.
pub struct Terms<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The case, with its regime.
    pub case: &'a Case,
    /// How to measure.
    pub measuring: Measuring,
    /// Seed of the inputs.
    pub input_seed: u64,
    /// The floor in nanoseconds: no correct kernel is faster.
    pub floor_ns: f64,
    /// The challenger's median time in its screening run; `None` without one.
    pub screened_ns: Option<f64>,
    /// How far to go.
    pub extent: Extent,
    /// How busy to keep the device.
    pub load: Load,
}

/// How far a comparison goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    /// Whether to measure the energy of the challenger and the baseline, which takes over a second.
    pub energy: bool,
    /// The time after which no round begins, if there are enough for a ratio. None is no limit: rounds are played until the ratios
    /// are precise, or as many as the settings allow.
    pub rounds_within: Option<Duration>,
}

/// A variant that takes part.
pub struct Entry<'a> {
    /// Its role in the comparison.
    pub role: Role,
    /// Its name, for display.
    pub name: String,
    /// The iteration that produced it; `None` if none did.
    pub iteration: Option<IterationId>,
    /// The compiled variant.
    pub artifact: &'a Artifact,
    /// Its plan on the case.
    pub plan: &'a LaunchPlan,
}

/// A baseline that takes part, or a rival.
pub struct BaselineEntry<'a> {
    /// The process that runs it.
    pub process: &'a mut BaselineProcess,
    /// The backend to compare the challenger with.
    pub backend: String,
    /// Its role in the comparison.
    pub role: Role,
    /// Its name, for display.
    pub name: String,
}

impl<'a> BaselineEntry<'a> {
    /// Makes the entry of a backend of the workload's baseline.
    pub fn baseline(process: &'a mut BaselineProcess, backend: String) -> Self {
        Self { process, role: Role::Baseline, name: backend.clone(), backend }
    }
}

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// A participant failed: data about that variant.
    #[error("participant {participant} failed: {}", .outcome.message().unwrap_or(.outcome.kind()))]
    Failed {
        /// Its index among the entries.
        participant: usize,
        /// Its outcome.
        outcome: Outcome,
    },
    /// The machine failed.
    #[error(transparent)]
    Machine(#[from] WorkerError),
}

/// Adds the A/A control: a second copy of the first entry, the challenger.
pub fn with_control(mut entries: Vec<Entry<'_>>) -> Vec<Entry<'_>> {
    if let Some(Entry { name, iteration, artifact, plan, .. }) = entries.first() {
        let control = Entry { role: Role::Control, name: name.clone(), iteration: *iteration, artifact, plan };
        entries.push(control);
    }
    entries
}

/// Runs a comparison in `worker`, a process without earlier requests. The challenger is the first entry.
///
/// A baseline or rival that fails is left out of the result, because the variants can be compared without it.
pub async fn run(
    worker: &mut Worker,
    monitor: Option<&Monitor>,
    own_pids: &[u32],
    terms: &Terms<'_>,
    entries: &[Entry<'_>],
    baselines: Vec<BaselineEntry<'_>>,
) -> Result<Comparison, ComparisonError> {
    let begun = Instant::now();
    let _running = activity::begin(format!("the comparison on {}", terms.case.name), None);
    let conditions = Conditions { load: terms.load, ..Conditions::of(terms.workload, terms.case, worker.info()) };
    let l2_bytes = worker.info().l2_bytes;
    // Only the host draws inputs while the variants enter, so a variant that is being prepared has the device to
    // itself.
    let drawn = |baseline: &BaselineEntry<'_>| {
        PendingInputs::begin(baseline.process, terms.workload.op, terms.workload.dtype, terms.case, terms.input_seed)
    };
    let drawing: Vec<PendingInputs> = baselines.iter().map(drawn).collect();
    let mut run = ComparisonRun::new(worker, monitor, &terms.case.name, terms.load);
    for entry in entries {
        run.enter(entry.role, terms.request(entry)).await?;
    }
    for (entry, drawing) in baselines.into_iter().zip(drawing) {
        run.admit(entry, terms, l2_bytes, drawing).await;
    }
    let played = run.play(&terms.measuring.policy, terms.extent.rounds_within).await?;
    // The energy of a replay would include what restores the tensors.
    let is_in_place = terms.workload.op.is_in_place(&terms.case.dims, terms.workload.dtype);
    if terms.extent.energy && !is_in_place {
        run.measure_energy().await?;
    }
    let others = run.others(own_pids);
    run.check(terms).await?;
    let participants = run.leave(entries).await;
    let challenger_ns = participants.first().map(|challenger| challenger.timing.median_ns);
    Ok(Comparison {
        conditions,
        participants,
        group_size: played.group_size,
        discarded_rounds: played.discarded,
        winners_curse: terms.screened_ns.zip(challenger_ns).map(|(screened, confirmed)| confirmed / screened),
        floor_ns: Some(terms.floor_ns),
        others,
        wall_s: Some(begun.elapsed().as_secs_f64()),
    })
}

impl Terms<'_> {
    fn request(&self, entry: &Entry<'_>) -> EnterRequest {
        EnterRequest {
            artifact: entry.artifact.clone(),
            op: self.workload.op.source(),
            dtype: self.workload.dtype,
            compute: self.workload.compute,
            tolerance: self.workload.tolerance,
            case: self.case.clone(),
            plan: entry.plan.clone(),
            measuring: self.measuring,
            input_seed: self.input_seed,
        }
    }
}
