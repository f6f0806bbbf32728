//! Whether a variant is faster on contents that it has met than on new ones, however little.
//!
//! Twice the same is done: inputs and output are written from outside, then a replay executes the plan once. The first time the
//! inputs are new and the output is poisoned; the second time the very same bytes are written over the inputs, and the right
//! answer over the output. Nothing else differs, so caches, clocks and the cost of a replay cancel, and what is left is what the
//! kernel keeps: parts of an output, sums of an input, a flag that the work is done.

use super::Ended;
use super::data::{Inputs, encode};
use super::pace::Pool;
use super::setup::Setup;
use crate::domain::check::Check;
use crate::domain::statistics::{median, median_interval};
use crate::runner::device::{Capture, Clock, Device};
use crate::runner::validate::POISON;

/// Pairs of replays: the interval of the median of so many differences is a third of their spread.
const MOST_PAIRS: usize = 21;

/// With fewer pairs there is no interval worth the name.
const LEAST_PAIRS: usize = 7;

/// What may be written for all pairs, in bytes: at some 10 GB/s a tenth of a second.
const MOST_BYTES: usize = 1 << 30;

/// The share of a time by which new contents must take longer, beyond doubt, to count.
const SHARE: f64 = 0.05;

/// The same in nanoseconds: events are half a microsecond apart at best (CUDA runtime documentation, `cudaEventElapsedTime`), and a
/// median of differences resolves a part of that.
const RESOLUTION_NS: f64 = 200.0;

/// Compares the two. Returns how much longer new contents take, over `steady_ns`, the time that is claimed.
pub fn check(setup: &Setup<'_>, device: &mut dyn Device, steady_ns: f64, pool: &mut Pool) -> Result<f64, Ended> {
    let works = setup.works();
    let Clock::Replay(replays) = device.clock() else {
        return Err(Ended::Machine("the device does not replay".to_owned()));
    };
    let capture = replays.capture(&works[..1], 1).map_err(|fault| setup.ended(fault))?;
    let bytes: usize = setup.problem.tensors().iter().map(|tensor| tensor.bytes()).sum();
    let pairs = (MOST_BYTES / (2 * bytes).max(1)).clamp(LEAST_PAIRS, MOST_PAIRS);
    let mut longer_ns = Vec::with_capacity(pairs);
    // The first pair meets cold instructions and is not counted.
    for pair in 0..=pairs {
        let inputs = encode(&setup.problem, &pool.cut(&setup.problem));
        let (new_ns, output) = replay(setup, device, capture, &inputs, None)?;
        let (known_ns, again) = replay(setup, device, capture, &inputs, Some(&output))?;
        if again != output {
            let message = "the same inputs gave other bytes when it was timed once more".to_owned();
            return Err(setup.wrong(Check::Repeatable, message));
        }
        if pair > 0 {
            longer_ns.push(new_ns - known_ns);
        }
    }
    let Clock::Replay(replays) = device.clock() else {
        return Err(Ended::Machine("the device does not replay".to_owned()));
    };
    replays.release(capture).map_err(|fault| setup.ended(fault))?;
    let measured = median(&longer_ns).zip(median_interval(&longer_ns));
    let (extra_ns, interval) = measured.ok_or_else(|| Ended::Machine("no sample was taken".to_owned()))?;
    if interval.lo > f64::max(steady_ns * SHARE, RESOLUTION_NS) {
        let message = format!(
            "it takes {:.2} us longer on contents that it never saw than on the same ones once more, and {:.2} us is its time",
            extra_ns / 1e3,
            steady_ns / 1e3
        );
        return Err(setup.cheated(Check::Pace, message));
    }
    Ok(extra_ns / steady_ns)
}

/// Writes inputs, and the answer or a poison over the output, and replays. Returns the time and the output.
fn replay(
    setup: &Setup<'_>,
    device: &mut dyn Device,
    capture: Capture,
    inputs: &Inputs,
    answer: Option<&[u8]>,
) -> Result<(f64, Vec<u8>), Ended> {
    let (sets, problem) = (setup.sets, &setup.problem);
    let poison = vec![POISON; problem.output().bytes()];
    let written = sets.upload_to(device, 0, inputs);
    let written = written.and_then(|()| sets.write_output(device, problem, 0, answer.unwrap_or(&poison)));
    written.and_then(|()| device.reset_caches()).map_err(|fault| setup.ended(fault))?;
    let ns = setup.replay(device, capture)?;
    let output = sets.output(device, problem, 0).map_err(|fault| setup.ended(fault))?;
    Ok((ns, output))
}
