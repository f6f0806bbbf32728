//! Times plans by graph replay.
//!
//! A plan comes as one work for each set of buffers and is executed on all of them in turns: a rotation. A replay is always a
//! whole number of rotations. In the warm regime there is one set, and a rotation is one execution.

use super::device::{Capture, Fault, Replay, Work};
use crate::domain::evaluation::Timing;
use crate::domain::verdict::Policy;

/// The most executions in one graph, unless a rotation has more: beyond it instantiation costs more than resolution gains.
const MAX_EXECUTIONS: u32 = 1000;

/// Executions captured so often that a replay lasts as long as a sample has to, and warmed up.
pub struct Prepared {
    /// The capture, to be released by who asked for it.
    pub capture: Capture,
    /// Executions in one replay.
    pub executions: u32,
    /// Samples that were taken on the way: those of a rotation that lasts long enough by itself.
    pub samples_ns: Vec<f64>,
}

/// Finds out how many executions fill a sample, captures them, and warms them up.
///
/// A fault of a replay ends the process, so nothing is released after one.
pub fn prepare(device: &mut dyn Replay, works: &[Work<'_>], min_sample_ns: f64) -> Result<Prepared, Fault> {
    let rotation = works.len() as u32;
    let capture = device.capture(works, rotation)?;
    // The first replay pays for cold caches and rising clocks.
    device.replay(capture)?;
    let probes_ns = [device.replay(capture)?, device.replay(capture)?, device.replay(capture)?];
    let fastest_ns = probes_ns.into_iter().fold(f64::INFINITY, f64::min);
    if fastest_ns >= min_sample_ns {
        let samples_ns = probes_ns.map(|ns| ns / f64::from(rotation)).into();
        return Ok(Prepared { capture, executions: rotation, samples_ns });
    }
    device.release(capture)?;
    // The overhead of a replay hides what one rotation really takes, so a few at once are timed first.
    let probe = (min_sample_ns / fastest_ns).ceil().clamp(1.0, 10.0) as u32;
    let capture = device.capture(works, probe * rotation)?;
    device.replay(capture)?;
    let each_ns = device.replay(capture)? / f64::from(probe);
    device.release(capture)?;
    let most = f64::from((MAX_EXECUTIONS / rotation).max(1));
    let rotations = (min_sample_ns / each_ns.max(1.0)).ceil().clamp(1.0, most) as u32;
    let executions = rotations * rotation;
    let capture = device.capture(works, executions)?;
    device.replay(capture)?;
    device.replay(capture)?;
    Ok(Prepared { capture, executions, samples_ns: Vec::new() })
}

/// Takes as many samples as `policy.screening` says: fewer when the challenger cannot win any more.
pub fn screen(
    device: &mut dyn Replay,
    works: &[Work<'_>],
    policy: &Policy,
    min_sample_ns: f64,
    incumbent_ns: Option<f64>,
) -> Result<Timing, Fault> {
    let Prepared { capture, executions, samples_ns: mut samples } = prepare(device, works, min_sample_ns)?;
    let mut ask_at = 0;
    while !policy.hopeless(&samples, incumbent_ns) {
        if samples.len() >= ask_at {
            if policy.screening.is_over(&samples, executions) {
                break;
            }
            ask_at = ask_next(samples.len()).min(policy.screening.most);
        }
        samples.push(device.replay(capture)? / f64::from(executions));
    }
    device.release(capture)?;
    timing(samples, executions)
}

/// Takes so many samples.
pub fn time(device: &mut dyn Replay, works: &[Work<'_>], samples: usize, min_sample_ns: f64) -> Result<Timing, Fault> {
    let Prepared { capture, executions, .. } = prepare(device, works, min_sample_ns)?;
    let taken = replays(device, capture, executions, samples)?;
    device.release(capture)?;
    timing(taken, executions)
}

/// Replays a capture and returns nanoseconds of one execution, a value per replay.
pub fn replays(device: &mut dyn Replay, capture: Capture, executions: u32, samples: usize) -> Result<Vec<f64>, Fault> {
    (0..samples).map(|_| Ok(device.replay(capture)? / f64::from(executions))).collect()
}

/// Returns the number of samples at which to ask again whether they are enough. The answer may take a bootstrap, which lasts
/// longer than a sample does, so it is asked for ever more rarely; at most an eighth of the samples is taken in vain.
fn ask_next(samples: usize) -> usize {
    samples + samples / 8 + 1
}

fn timing(samples: Vec<f64>, executions: u32) -> Result<Timing, Fault> {
    Timing::of(samples, executions).ok_or_else(|| Fault::Broken("no sample was taken".to_owned()))
}
