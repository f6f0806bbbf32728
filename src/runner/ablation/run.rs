//! Times a kernel without each kind of instruction, on a device that replays.

use super::{AblatedPtx, ablate};
use crate::domain::ablation::{Ablation, Removed};
use crate::domain::artifact::Artifact;
use crate::domain::evaluation::Outcome;
use crate::runner::messages::{LaunchRequest, TimeRequest};
use crate::runner::worker::{AskError, Worker, WorkerError};

/// Samples of each kernel.
const SAMPLES: usize = 15;

/// The longest PTX in bytes. The driver needs up to a second for as much, ten times over.
const MAX_PTX_BYTES: usize = 600_000;

/// Why a kernel is not timed without a kind of instruction that it has.
const KEPT: &str = "all of them decide addresses, loops or synchronisation, or others depend on them";

/// Times a kernel without each kind of instruction that it has, the control first. The output is not checked. If the control
/// has no time, nothing else is timed.
///
/// The kernels run in a process of their own. A kernel that crashes or hangs has no time, and the others get another process.
pub async fn ablations(
    worker: &mut Worker,
    request: &LaunchRequest,
    min_sample_ns: f64,
) -> Result<Vec<Ablation>, WorkerError> {
    let whole = &request.artifact.ptx;
    if let Some(reason) = refusal(worker, whole) {
        return Ok(vec![Ablation {
            removed: Removed::Nothing,
            places: 0,
            diverting: 0,
            kept: 0,
            time_ns: Err(reason),
        }]);
    }
    let mut own = worker.fresh().await?;
    let mut ablations: Vec<Ablation> = Vec::new();
    for (removed, AblatedPtx { ptx, places, diverting, kept }) in ablate(whole, request.plan.tells_buffers_apart()) {
        let is_control = removed == Removed::Nothing;
        if places == 0 && kept == 0 && !is_control {
            continue;
        }
        let timed = match places == 0 && !is_control {
            true => None,
            false => Some(own.time(of(request, ptx, min_sample_ns)).await),
        };
        let time_ns = match timed {
            None => Err(KEPT.to_owned()),
            Some(Ok(timing)) => Ok(timing.median_ns),
            Some(Err(AskError::Machine(error))) => return Err(error),
            Some(Err(AskError::Variant(outcome))) => {
                if matches!(outcome, Outcome::Crashed { .. } | Outcome::TimedOut { .. }) {
                    own = worker.fresh().await?;
                }
                Err(outcome.message().unwrap_or(outcome.kind()).to_owned())
            }
        };
        let is_over = is_control && time_ns.is_err();
        ablations.push(Ablation { removed, places, diverting, kept, time_ns });
        if is_over {
            break;
        }
    }
    Ok(ablations)
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
