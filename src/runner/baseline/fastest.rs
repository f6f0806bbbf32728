//! Finds the fastest backend of a case.

use super::{Backend, BaselineProcess};
use crate::domain::measurement::comparison::order;
use crate::domain::record::{Baseline, BaselineKind};
use crate::domain::statistics::median;
use crate::domain::statistics::sampling::Sampling;
use crate::domain::statistics::timing::Timing;
use crate::domain::workload::Case;
use crate::error::Result;

/// Samples of a backend per turn during the search for the fastest.
const GROUP: usize = 10;

/// How far a backend is behind the fastest, as a factor, when more samples would not change which is the fastest.
const FAR_BEHIND: f64 = 1.5;

/// Backends whose medians differ by less than this share count as equal. `default` took 9.03 us where both flash and
/// cudnn took 9.05, on one row of 512 queries (H200, 2026-11-21, `optloop start --case b1h1s512`).
const EQUAL: f64 = 0.01;

/// The programs' name for the backend that the library chooses itself.
const DEFAULT: &str = "default";

/// Samples the prepared backends in turns, and returns those that succeeded, the fastest first. A backend gets no more samples
/// once its median is precise or far behind.
///
/// If none succeeded, the error is the last one of sampling, or else of preparing.
pub async fn fastest(
    process: &mut BaselineProcess,
    case: &Case,
    backends: &[Backend],
    sampling: &Sampling,
) -> Result<Vec<Baseline>> {
    let (mut timed, mut reasons) = (Vec::new(), Vec::new());
    for (backend, taken) in in_turns(process, backends, sampling).await {
        match taken {
            Ok(samples_ns) => timed.extend(summary(case, backend, samples_ns)),
            Err(reason) => reasons.push(reason),
        }
    }
    prefer_named(&mut timed);
    if !timed.is_empty() {
        return Ok(timed);
    }
    let never = |backend: &Backend| backend.ready.as_ref().err().cloned().map(|reason| reason.within(&backend.name));
    reasons.extend(backends.iter().filter_map(never));
    Err(reasons.into_iter().next().unwrap_or_else(|| "it has no backend".into()))
}

/// Sorts backends, the fastest first. `default` is one of the other backends, and users want to know which one. So an
/// equally fast named backend comes before it.
fn prefer_named(timed: &mut [Baseline]) {
    timed.sort_by(|a, b| a.timing.median_ns.total_cmp(&b.timing.median_ns));
    let equal = |a: &Baseline, b: &Baseline| b.timing.median_ns <= a.timing.median_ns * (1.0 + EQUAL);
    if timed.len() > 1 && timed[0].name == DEFAULT && equal(&timed[0], &timed[1]) {
        timed.swap(0, 1);
    }
}

/// Samples every prepared backend until its first error, or until it has enough samples.
async fn in_turns<'a>(
    process: &mut BaselineProcess,
    backends: &'a [Backend],
    sampling: &Sampling,
) -> Vec<(&'a Backend, Result<Vec<f64>>)> {
    let ready = backends.iter().filter(|backend| backend.ready.is_ok());
    let mut participants: Vec<_> = ready.map(|backend| (backend, Ok(Vec::new()))).collect();
    for round in 0..sampling.max_samples.div_ceil(GROUP) {
        let medians_ns: Vec<f64> = participants.iter().map(|(_, taken)| middle_ns(taken)).collect();
        let fastest_ns = medians_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let group = GROUP.min(sampling.max_samples - round * GROUP);
        for participant in order(participants.len(), round) {
            let (backend, taken) = &mut participants[participant];
            let Ok(so_far) = taken else { continue };
            let is_far_behind = medians_ns[participant] > FAR_BEHIND * fastest_ns;
            if sampling.is_enough(so_far) || (is_far_behind && so_far.len() >= sampling.min_samples) {
                continue;
            }
            match process.sample(&backend.name, group).await {
                Ok(group) => so_far.extend(group.samples_ns),
                Err(reason) => *taken = Err(reason),
            }
        }
    }
    participants
}

/// Returns the median of what was sampled so far; infinite for a backend that has failed.
fn middle_ns(taken: &Result<Vec<f64>>) -> f64 {
    taken.as_ref().ok().and_then(|samples_ns| median(samples_ns)).unwrap_or(f64::INFINITY)
}

fn summary(case: &Case, backend: &Backend, samples_ns: Vec<f64>) -> Option<Baseline> {
    let ready = backend.ready.as_ref().ok()?;
    Some(Baseline {
        kind: BaselineKind::Program,
        case: case.name.clone(),
        name: backend.name.clone(),
        regime: case.regime,
        timing: Timing::of(samples_ns, ready.launches_per_sample)?,
        eager_ns: ready.eager_ns,
        relative_l2: ready.relative_l2,
        kernels: ready.kernels.clone(),
    })
}
