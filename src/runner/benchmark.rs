//! Times a plan by graph replay.

use super::device::{Fault, Replay, Work};
use crate::domain::evaluation::Timing;
use crate::domain::verdict::Policy;

/// The most executions in one graph: beyond it instantiation costs more than resolution gains.
const MAX_EXECUTIONS: f64 = 1000.0;

/// Takes as many samples as `policy.screening` says: fewer when the challenger cannot win any more, or when time is up.
pub fn screen(
    device: &mut dyn Replay,
    work: &Work<'_>,
    policy: &Policy,
    min_sample_ns: f64,
    incumbent_ns: Option<f64>,
) -> Result<Timing, Fault> {
    device.capture(work, 1)?;
    // The first replay pays for cold caches and rising clocks.
    device.replay()?;
    let singles = [device.replay()?, device.replay()?, device.replay()?];
    let fastest = singles.into_iter().fold(f64::INFINITY, f64::min);
    if fastest >= min_sample_ns && (policy.hopeless(&singles, incumbent_ns) || policy.screening.is_over(&singles, 1)) {
        return timing(singles.to_vec(), 1);
    }
    let executions = if fastest >= min_sample_ns { 1 } else { fill(device, work, min_sample_ns, fastest)? };
    let mut samples = Vec::with_capacity(policy.screening.most);
    while !policy.screening.is_over(&samples, executions) && !policy.hopeless(&samples, incumbent_ns) {
        samples.push(device.replay()? / f64::from(executions));
    }
    timing(samples, executions)
}

/// Takes all samples of a confirmation, from what [`screen`] has captured.
pub fn confirm(device: &mut dyn Replay, executions: u32, policy: &Policy) -> Result<Timing, Fault> {
    let mut samples = Vec::with_capacity(policy.contest.least);
    for _ in 0..policy.contest.least {
        samples.push(device.replay()? / f64::from(executions));
    }
    timing(samples, executions)
}

/// Captures as many executions as fill a sample, and warms them up.
fn fill(device: &mut dyn Replay, work: &Work<'_>, min_sample_ns: f64, single_ns: f64) -> Result<u32, Fault> {
    // The overhead of a replay hides what one execution really takes, so a few at once are timed first.
    let probe = (min_sample_ns / single_ns).ceil().clamp(1.0, 10.0);
    device.capture(work, probe as u32)?;
    device.replay()?;
    let each_ns = device.replay()? / probe;
    let executions = (min_sample_ns / each_ns.max(1.0)).ceil().clamp(1.0, MAX_EXECUTIONS) as u32;
    device.capture(work, executions)?;
    device.replay()?;
    device.replay()?;
    Ok(executions)
}

fn timing(samples: Vec<f64>, executions: u32) -> Result<Timing, Fault> {
    Timing::of(samples, executions).ok_or_else(|| Fault::Broken("no sample was taken".to_owned()))
}
