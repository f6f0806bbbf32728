//! Times plans by graph replay.
//!
//! A plan comes as one work for each set of buffers. A rotation executes it once on each set in turn. A replay is
//! always a whole number of rotations. In the warm regime there is one set, so a rotation is one execution.
//!
//! A work that updates a tensor in place is executed once in a replay, because the tensor then no longer has its initial
//! values. The device restores them before the next replay, outside of the time. So a replay is a single rotation, and
//! there are enough sets to make it long (`Sets::rotation`).

use super::device::{Capture, Fault, Replay, Work};
use crate::domain::measurement::comparison::FAR;
use crate::domain::measurement::verdict::Policy;
use crate::domain::statistics::timing::Timing;

/// The most executions in one graph, unless a rotation has more. Beyond this, instantiation costs more than resolution
/// gains.
const MAX_EXECUTIONS: u32 = 1000;

/// Replays of at least this duration need no warm-up: cold caches and rising clocks change them by one percent.
const LONG_NS: f64 = 100e6;

/// Returns whether a replay is so long that it needs no warm-up after others have used the caches.
pub fn is_long(replay_ns: f64) -> bool {
    replay_ns >= LONG_NS
}

/// Enough captured executions to fill a sample, warmed up.
pub struct Prepared {
    /// The capture, which the caller must release.
    pub capture: Capture,
    /// Executions in one replay.
    pub executions: u32,
    /// Samples already taken: those of a rotation that is long enough by itself.
    pub samples_ns: Vec<f64>,
    /// Duration of the last replay in nanoseconds.
    pub replay_ns: f64,
}

/// Finds how many executions fill a sample, captures them, and warms them up.
///
/// A faulty replay ends the process, so nothing is released after one.
pub fn prepare(device: &mut dyn Replay, works: &[Work<'_>], min_sample_ns: f64) -> Result<Prepared, Fault> {
    let rotation = works.len() as u32;
    let is_in_place = works.iter().any(|work| !work.restores.is_empty());
    let capture = device.capture(works, rotation)?;
    // The first replay includes cold caches and rising clocks.
    let replay_ns = device.replay(capture)?;
    if is_long(replay_ns) {
        let samples_ns = vec![replay_ns / f64::from(rotation)];
        return Ok(Prepared { capture, executions: rotation, samples_ns, replay_ns });
    }
    let probes_ns = [device.replay(capture)?, device.replay(capture)?, device.replay(capture)?];
    let fastest_ns = probes_ns.into_iter().fold(f64::INFINITY, f64::min);
    if fastest_ns >= min_sample_ns {
        let samples_ns = probes_ns.map(|ns| ns / f64::from(rotation)).into();
        return Ok(Prepared { capture, executions: rotation, samples_ns, replay_ns: fastest_ns });
    }
    if is_in_place {
        return Ok(Prepared { capture, executions: rotation, samples_ns: Vec::new(), replay_ns: fastest_ns });
    }
    device.release(capture)?;
    // The overhead of a replay hides the time of one rotation, so a few are timed together first.
    let most = f64::from((MAX_EXECUTIONS / rotation).max(1));
    let probe = (min_sample_ns / fastest_ns).ceil().clamp(1.0, most.min(10.0)) as u32;
    let capture = device.capture(works, probe * rotation)?;
    device.replay(capture)?;
    let each_ns = device.replay(capture)? / f64::from(probe);
    device.release(capture)?;
    let rotations = (min_sample_ns / each_ns.max(1.0)).ceil().clamp(1.0, most) as u32;
    let executions = rotations * rotation;
    let capture = device.capture(works, executions)?;
    device.replay(capture)?;
    let replay_ns = device.replay(capture)?;
    Ok(Prepared { capture, executions, samples_ns: Vec::new(), replay_ns })
}

/// Samples of a replay that needs no warm-up, where there is no time to beat. An initial kernel may take 0.1 s a launch, and a
/// comparison measures it precisely if it is near the best.
const LONG_SAMPLES: usize = 2;

/// Takes as many samples as `policy.screening` says, or fewer once the challenger cannot win any more.
pub fn screen(
    device: &mut dyn Replay,
    prepared: &Prepared,
    policy: &Policy,
    incumbent_ns: Option<f64>,
) -> Result<Timing, Fault> {
    let Prepared { capture, executions, samples_ns, replay_ns } = prepared;
    device.begin_timing()?;
    let mut samples = samples_ns.clone();
    // A long replay is not an outlier. A capture that was made to last that long has no sample yet.
    let is_far = |ns| samples.first().is_some_and(|sample_ns| *sample_ns > FAR * ns);
    let far = is_long(*replay_ns) && incumbent_ns.is_some_and(is_far);
    // Samples already taken may be enough. Otherwise they were warm-up.
    if !is_long(*replay_ns)
        && !policy.cannot_win(&samples, incumbent_ns)
        && !policy.screening.is_over(&samples, *executions)
    {
        samples.clear();
    }
    let is_enough = |taken: usize| is_long(*replay_ns) && incumbent_ns.is_none() && taken >= LONG_SAMPLES;
    let mut ask_at = 0;
    while !far && !is_enough(samples.len()) && !policy.cannot_win(&samples, incumbent_ns) {
        if samples.len() >= ask_at {
            if policy.screening.is_over(&samples, *executions) {
                break;
            }
            ask_at = ask_next(samples.len()).min(policy.screening.max_samples);
        }
        samples.push(device.replay(*capture)? / f64::from(*executions));
    }
    timing(samples, *executions)
}

/// Times works with `samples` samples, in the state of the device's graphs in which recorded times are taken.
pub fn time_as_recorded(
    device: &mut dyn Replay,
    works: &[Work<'_>],
    samples: usize,
    min_sample_ns: f64,
) -> Result<Timing, Fault> {
    let Prepared { capture, executions, .. } = prepare(device, works, min_sample_ns)?;
    device.begin_timing()?;
    let taken = replays(device, capture, executions, samples)?;
    device.release(capture)?;
    timing(taken, executions)
}

/// Times works with `samples` samples.
pub fn time(device: &mut dyn Replay, works: &[Work<'_>], samples: usize, min_sample_ns: f64) -> Result<Timing, Fault> {
    let Prepared { capture, executions, .. } = prepare(device, works, min_sample_ns)?;
    let taken = replays(device, capture, executions, samples)?;
    device.release(capture)?;
    timing(taken, executions)
}

/// Replays a capture in a row and returns nanoseconds per execution, one value per replay.
pub fn replays(device: &mut dyn Replay, capture: Capture, executions: u32, samples: usize) -> Result<Vec<f64>, Fault> {
    let replays_ns = device.replay_in_a_row(capture, samples)?;
    Ok(replays_ns.into_iter().map(|ns| ns / f64::from(executions)).collect())
}

/// Returns the number of samples at which to check again whether they are enough. A check may need a bootstrap, which
/// lasts longer than a sample, so checks become rarer. At most an eighth of the samples is wasted.
fn ask_next(samples: usize) -> usize {
    samples + samples / 8 + 1
}

fn timing(samples: Vec<f64>, executions: u32) -> Result<Timing, Fault> {
    Timing::of(samples, executions).ok_or_else(|| Fault::Broken("no sample was taken".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::domain::family::plan::LaunchPlan;
    use crate::domain::statistics::sampling::Sampling;
    use crate::runner::device::{Buffer, Module, Restore};

    /// A device on which an execution takes `each_ns`, or `factor` times that in every second replay, and a replay adds
    /// 1 us.
    struct Steady {
        each_ns: f64,
        factor: f64,
        min_sample_ns: f64,
        captures: Vec<u32>,
        replays: usize,
        released: usize,
    }

    impl Replay for Steady {
        fn capture(&mut self, _works: &[Work<'_>], executions: u32) -> Result<Capture, Fault> {
            self.captures.push(executions);
            Ok(Capture::default())
        }

        fn replay(&mut self, _capture: Capture) -> Result<f64, Fault> {
            self.replays += 1;
            let factor = if self.replays.is_multiple_of(2) { self.factor } else { 1.0 };
            Ok(1000.0 + self.each_ns * factor * f64::from(*self.captures.last().unwrap()))
        }

        fn release(&mut self, _capture: Capture) -> Result<(), Fault> {
            self.released += 1;
            Ok(())
        }
    }

    fn steady(each_ns: f64) -> Steady {
        Steady { each_ns, factor: 1.0, min_sample_ns: 200_000.0, captures: Vec::new(), replays: 0, released: 0 }
    }

    /// Screens on a device with `sets` sets of buffers, and checks that every capture was released.
    fn screened(device: &mut Steady, sets: usize, incumbent_ns: Option<f64>) -> Timing {
        screened_with(device, sets, &[], incumbent_ns)
    }

    fn screened_with(device: &mut Steady, sets: usize, restores: &[Restore], incumbent_ns: Option<f64>) -> Timing {
        let (plan, buffers) = (LaunchPlan::default(), HashMap::new());
        let work = Work { module: Module::default(), plan: &plan, buffers: &buffers, restores, problem: None };
        let policy = Policy {
            min_speedup: 1.01,
            screening: Sampling { min_samples: 10, max_samples: 100, relative_error: 0.005, max_ns: 1e9 },
            comparison: Sampling { min_samples: 30, max_samples: 30, relative_error: 0.002, max_ns: 1e10 },
            group_size: 10,
        };
        let min_sample_ns = device.min_sample_ns;
        let prepared = prepare(device, &vec![work; sets], min_sample_ns).unwrap();
        let timing = screen(device, &prepared, &policy, incumbent_ns).unwrap();
        device.release(prepared.capture).unwrap();
        assert_eq!(device.released, device.captures.len());
        timing
    }

    #[test]
    fn a_sample_has_as_many_executions_as_make_it_long_enough() {
        let mut device = steady(2000.0);
        let timing = screened(&mut device, 1, None);
        // A single one seems to take 3 us, ten together 2.1 us each.
        assert_eq!(device.captures, [1, 10, 96]);
        assert_eq!(timing.launches_per_sample, 96);
        assert!((timing.median_ns - 2010.4).abs() < 0.1, "{} ns", timing.median_ns);
    }

    #[test]
    fn every_set_of_buffers_is_met_equally_often() {
        let mut device = steady(2000.0);
        assert_eq!(screened(&mut device, 7, None).launches_per_sample, 105);
        assert_eq!(device.captures, [7, 70, 105]);
        let mut device = steady(2.0);
        screened(&mut device, 400, None);
        assert_eq!(device.captures, [400, 800, 800], "over a thousand executions resolve no more");
        let mut device = steady(2.0);
        screened(&mut device, 4000, None);
        assert_eq!(device.captures, [4000, 4000, 4000], "but a rotation is never cut");
    }

    /// A second execution would find the result of the first one.
    #[test]
    fn a_replay_updates_each_set_once() {
        let restores = [Restore { from: Buffer::default(), to: Buffer::default() }];
        for (sets, each_ns) in [(32, 2000.0), (32, 2.0), (4, 50e6), (1, 60_000.0), (128, 2000.0)] {
            let mut device = steady(each_ns);
            let timing = screened_with(&mut device, sets, &restores, None);
            assert_eq!((device.captures, timing.launches_per_sample), (vec![sets as u32], sets as u32));
        }
    }

    #[test]
    fn screening_ends_when_it_is_precise_and_at_its_cap_in_any_case() {
        assert_eq!(screened(&mut steady(2000.0), 1, None).samples_ns.len(), 10);
        let mut bimodal = Steady { factor: 1.5, ..steady(2000.0) };
        assert_eq!(screened(&mut bimodal, 1, None).samples_ns.len(), 100);
    }

    #[test]
    fn variants_that_cannot_win_end_after_three_samples_and_long_ones_after_one() {
        assert_eq!(screened(&mut steady(2000.0), 1, Some(1000.0)).samples_ns.len(), 3);
        // The replay is long enough, so the samples already taken decide.
        let mut device = steady(5e7);
        assert_eq!(screened(&mut device, 1, Some(2e7)).samples_ns.len(), 3);
        assert_eq!((device.captures, device.replays), (vec![1], 4));
        // One replay is as long as screening may take; the other is far from the incumbent.
        for (each_ns, incumbent_ns) in [(1e9, None), (2e8, Some(1e7))] {
            let mut device = steady(each_ns);
            assert_eq!(screened(&mut device, 1, incumbent_ns).samples_ns.len(), 1);
            assert_eq!((device.captures, device.replays), (vec![1], 1));
        }
        // The replay is long, so the first one is a sample like the others.
        let mut device = steady(3e8);
        assert_eq!(screened(&mut device, 1, None).samples_ns.len(), LONG_SAMPLES);
        assert_eq!((device.captures, device.replays), (vec![1], LONG_SAMPLES));
    }

    #[test]
    fn samples_may_be_as_long_as_those_that_need_no_warming_up() {
        let mut device = Steady { min_sample_ns: LONG_NS, ..steady(1e6) };
        let timing = screened(&mut device, 1, Some(1e6));
        assert_eq!((device.captures, timing.launches_per_sample), (vec![1, 10, 100], 100));
        assert_eq!(timing.samples_ns.len(), 10);
    }

    #[test]
    fn samples_are_evaluated_rarely_but_in_time() {
        let asked: Vec<usize> =
            std::iter::successors(Some(0), |samples| Some(ask_next(*samples))).take_while(|at| *at < 500).collect();
        assert!(asked.len() < 45, "{asked:?}");
        assert!(asked.windows(2).all(|pair| pair[1] as f64 <= (pair[0] + 1) as f64 * 1.125), "{asked:?}");
    }
}
