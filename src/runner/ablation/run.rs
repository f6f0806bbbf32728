//! Times a kernel without each kind of instruction, on a device that replays.

use super::{AblatedPtx, ablate};
use crate::domain::ablation::{Ablation, Removed};
use crate::domain::artifact::Artifact;
use crate::domain::evaluation::Outcome;
use crate::runner::messages::{LaunchRequest, TimeRequest};
use crate::runner::worker::{AskError, Worker, WorkerError};

/// Samples of each kernel.
const SAMPLES: usize = 15;

/// The longest PTX in bytes. The driver needs up to a second for as much, nine times over.
const MAX_PTX_BYTES: usize = 600_000;

/// Times a kernel without each kind of instruction that it has, the control first. The output is not checked.
///
/// The kernels run in a process of their own. A kernel that crashes or hangs has no time, and the others get another process.
/// The inner error says in one sentence why there are no ablations.
pub async fn ablations(
    worker: &mut Worker,
    request: &LaunchRequest,
    min_sample_ns: f64,
) -> Result<Result<Vec<Ablation>, String>, WorkerError> {
    let ptx = &request.artifact.ptx;
    if !worker.info().replays() {
        return Ok(Err(format!("the {} models its times", worker.info().name)));
    }
    if ptx.len() > MAX_PTX_BYTES {
        return Ok(Err(format!("its PTX has {} bytes, and the limit is {MAX_PTX_BYTES}", ptx.len())));
    }
    let mut own = worker.fresh().await?;
    let mut ablations = Vec::new();
    for removed in Removed::ALL {
        let AblatedPtx { ptx, places, diverting, kept } = ablate(ptx, removed);
        let is_absent = places == 0 && removed != Removed::Nothing;
        if is_absent && kept == 0 {
            continue;
        }
        let time_ns = if is_absent {
            Err("all of them decide addresses, loops or synchronisation".to_owned())
        } else {
            match own.time(of(request, ptx, min_sample_ns)).await {
                Ok(timing) => Ok(timing.median_ns),
                Err(AskError::Machine(error)) => return Err(error),
                Err(AskError::Variant(outcome)) => {
                    if matches!(outcome, Outcome::Crashed { .. } | Outcome::TimedOut { .. }) {
                        own = worker.fresh().await?;
                    }
                    Err(outcome.message().unwrap_or(outcome.kind()).to_owned())
                }
            }
        };
        let is_useless = removed == Removed::Nothing && time_ns.is_err();
        ablations.push(Ablation { removed, places, diverting, kept, time_ns });
        if is_useless {
            break;
        }
    }
    Ok(Ok(ablations))
}

/// Returns the request to time PTX, which the driver compiles.
fn of(request: &LaunchRequest, ptx: String, min_sample_ns: f64) -> TimeRequest {
    let LaunchRequest { artifact, plan, problem, seed, .. } = request;
    let image = [ptx.as_bytes(), b"\0"].concat();
    let artifact = Artifact { cubin: image, ptx, ..artifact.clone() };
    TimeRequest { artifact, plan: plan.clone(), problem: problem.clone(), samples: SAMPLES, min_sample_ns, seed: *seed }
}
