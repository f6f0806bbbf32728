//! Times a plan by graph replay.

use super::device::{Device, Fault, Work};
use crate::domain::evaluation::Timing;
use crate::domain::verdict::Policy;

/// Replays before the first sample: the first ones pay for cold caches and rising clocks.
const WARM_UP_REPLAYS: usize = 2;

/// The most executions in one graph: beyond it instantiation costs more than resolution gains.
const MAX_EXECUTIONS: f64 = 1000.0;

/// Captures as many executions of the plan as fill `min_sample_ns`, and returns their number.
pub fn prepare(device: &mut dyn Device, work: &Work<'_>, min_sample_ns: f64) -> Result<u32, Fault> {
    device.capture(work, 1)?;
    device.replay()?;
    let single_ns = device.replay()?;
    let executions = (min_sample_ns / single_ns.max(1.0)).ceil().clamp(1.0, MAX_EXECUTIONS);
    if executions > 1.0 {
        // A single execution carries the replay's own overhead, so time a few to learn what one really takes.
        let probe = executions.min(10.0);
        device.capture(work, probe as u32)?;
        device.replay()?;
        let each_ns = device.replay()? / probe;
        let executions = (min_sample_ns / each_ns.max(1.0)).ceil().clamp(1.0, MAX_EXECUTIONS);
        device.capture(work, executions as u32)?;
        for _ in 0..WARM_UP_REPLAYS {
            device.replay()?;
        }
        return Ok(executions as u32);
    }
    Ok(1)
}

/// Takes up to `policy.screening_samples` samples, fewer when the challenger cannot win any more.
pub fn screen(
    device: &mut dyn Device,
    executions: u32,
    policy: &Policy,
    incumbent_ns: Option<f64>,
) -> Result<Timing, Fault> {
    let mut samples = Vec::with_capacity(policy.screening_samples);
    while samples.len() < policy.screening_samples && !policy.hopeless(&samples, incumbent_ns) {
        samples.push(device.replay()? / f64::from(executions));
    }
    Timing::of(samples, executions).ok_or_else(|| Fault::Broken("no sample was taken".to_owned()))
}

/// Takes all samples of a confirmation.
pub fn confirm(device: &mut dyn Device, executions: u32, samples: usize) -> Result<Timing, Fault> {
    let mut taken = Vec::with_capacity(samples);
    for _ in 0..samples {
        taken.push(device.replay()? / f64::from(executions));
    }
    Timing::of(taken, executions).ok_or_else(|| Fault::Broken("no sample was taken".to_owned()))
}
