//! Times a kernel without each kind of instruction, and without those of one line, on a device that replays.

use super::alone::to_time;
use super::lined::Lined;
use super::lines::Lines;
use super::{AblatedPtx, Parameters, ablate, ablate_some};
use crate::domain::code::ablation::{Ablation, Removed, SourceLine, control_ns};
use crate::domain::code::artifact::Artifact;
use crate::domain::measurement::evaluation::Outcome;
use crate::runner::messages::{LaunchRequest, TimeRequest};
use crate::runner::worker::{AskError, Worker, WorkerError};

/// Samples of each kernel.
const SAMPLES: usize = 15;

/// The longest PTX in bytes. The driver needs up to a second for as much, ten times over.
const MAX_PTX_BYTES: usize = 600_000;

/// Why a kernel is not timed without a kind of instruction that it has.
const KEPT: &str = "all of them decide addresses, loops or synchronisation, or others depend on them";

/// Times a kernel without each kind of instruction that it has, the control first. The output is not checked. If the control
/// has no time, nothing else is timed. With the lines of the kernel's source, the most expensive kinds are also removed from one
/// line at a time.
///
/// The kernels run in a process of their own. A kernel that crashes or hangs has no time, and the others get another process.
pub async fn ablations(
    worker: &mut Worker,
    request: &LaunchRequest,
    lined: Option<&Lined>,
    min_sample_ns: f64,
) -> Result<Vec<Ablation>, WorkerError> {
    let whole = &request.artifact.ptx;
    if let Some(reason) = refusal(worker, whole) {
        return Ok(vec![Ablation::of_control(Err(reason))]);
    }
    let own = worker.fresh().await?;
    let mut timer = Timer { worker, own, request, min_sample_ns };
    let lines = lined.and_then(|lined| Lines::of(whole, lined));
    let parameters = Parameters::of(&request.plan);
    let (mut ablations, mut groups, mut divisible) = (Vec::new(), Vec::new(), Vec::new());
    for (removed, AblatedPtx { ptx, places, diverting, kept, numbers, is_divisible }) in ablate(whole, &parameters) {
        let is_control = removed == Removed::Nothing;
        if places == 0 && kept == 0 && !is_control {
            continue;
        }
        let time_ns = match places == 0 && !is_control {
            true => Err(KEPT.to_owned()),
            false => timer.time(ptx).await?,
        };
        if is_control && time_ns.is_err() {
            return Ok(vec![Ablation::of_control(time_ns)]);
        }
        let lines = lines.as_ref().filter(|_| has_lines(removed));
        groups.push(lines.map(|lines| lines.groups(&numbers)).unwrap_or_default());
        divisible.push(is_divisible);
        ablations.push(Ablation { removed, places, diverting, kept, time_ns, lines: Vec::new() });
    }
    let control_ns = control_ns(&ablations).unwrap_or_default();
    let chosen = to_time(&ablations, &groups, &divisible, control_ns);
    let some = |(kind, group): &(usize, usize)| (ablations[*kind].removed, &groups[*kind][*group].numbers[..]);
    let without = ablate_some(whole, &parameters, &chosen.iter().map(some).collect::<Vec<_>>());
    for ((kind, group), ptx) in chosen.iter().zip(without) {
        groups[*kind][*group].line.time_ns = timer.time(ptx).await?.ok();
    }
    for (ablation, groups) in ablations.iter_mut().zip(groups) {
        ablation.lines = groups.into_iter().map(|group| group.line).collect();
        // Lines without a time come last, in their order.
        let saves_less = |line: &SourceLine| line.time_ns.unwrap_or(f64::INFINITY);
        ablation.lines.sort_by(|a, b| saves_less(a).total_cmp(&saves_less(b)));
    }
    Ok(ablations)
}

/// Returns whether the lines of what is removed are of interest: those of a kind, or of waits.
fn has_lines(removed: Removed) -> bool {
    Removed::KINDS.contains(&removed) || removed == Removed::AllKindsAndWaits
}

/// Times kernels.
struct Timer<'a> {
    worker: &'a mut Worker,
    /// The process that runs them.
    own: Worker,
    request: &'a LaunchRequest,
    min_sample_ns: f64,
}

impl Timer<'_> {
    /// Returns the median time of a kernel in nanoseconds, or why it has none.
    async fn time(&mut self, ptx: String) -> Result<Result<f64, String>, WorkerError> {
        match self.own.time(of(self.request, ptx, self.min_sample_ns)).await {
            Ok(timing) => Ok(Ok(timing.median_ns)),
            Err(AskError::Machine(error)) => Err(error),
            Err(AskError::Variant(outcome)) => {
                if matches!(outcome, Outcome::Crashed { .. } | Outcome::TimedOut { .. }) {
                    self.own = self.worker.fresh().await?;
                }
                Ok(Err(outcome.message().unwrap_or(outcome.kind()).to_owned()))
            }
        }
    }
}

/// Says in one sentence why a kernel cannot be ablated, if so.
fn refusal(worker: &Worker, ptx: &str) -> Option<String> {
    if !worker.info().replays() {
        return Some(format!("the {} models its times", worker.info().name));
    }
    let is_long = ptx.len() > MAX_PTX_BYTES;
    is_long.then(|| format!("its PTX has {} bytes, and the limit is {MAX_PTX_BYTES}", ptx.len()))
}

/// Returns the request to time PTX, which the driver compiles.
fn of(request: &LaunchRequest, ptx: String, min_sample_ns: f64) -> TimeRequest {
    let LaunchRequest { artifact, plan, problem, seed, .. } = request;
    let image = [ptx.as_bytes(), b"\0"].concat();
    let artifact = Artifact { cubin: image, ptx, ..artifact.clone() };
    TimeRequest { artifact, plan: plan.clone(), problem: problem.clone(), samples: SAMPLES, min_sample_ns, seed: *seed }
}
