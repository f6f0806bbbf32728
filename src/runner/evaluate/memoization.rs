//! Checks whether a variant is as fast on held-out inputs as on the timed ones.
//!
//! Timing repeats the same inputs, so a kernel could memoize them: by address, by checksum, by launch count, or by
//! finding the output in place. So this check executes it once on each of several sets of buffers. Each set has a
//! poisoned output and inputs cut from a pool of random values, so that memoized results are useless.
//!
//! The timed inputs are in L2, and those of many sets may come from memory. A kernel that waits for each load takes longer then,
//! although it is honest. So one that is slower on held-out inputs is timed once more in the same way, but each set gets the
//! inputs that it had, the same in all of them. Only a kernel that memoizes is faster then.

use std::borrow::Cow;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::data::input_tensors;
use super::scoped::{with_capture, with_module, with_sets};
use super::sets::{Rotation, Sets};
use super::setup::Setup;
use super::{Ended, Step, replays};
use crate::domain::device::DeviceInfo;
use crate::domain::device::regime::Regime;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::measurement::check::Check;
use crate::domain::op::{Op, TensorSpec};
use crate::domain::statistics::median;
use crate::error::{Error, Result};
use crate::runner::benchmark;
use crate::runner::device::{Device, Problem};
use crate::runner::inputs::{decode, draw, encode, mix};
use crate::runner::messages::{AcceptanceRequest, PlannedCase};
use crate::runner::outputs::Outputs;
use crate::runner::validate::Expectation;

/// The most sets in the warm regime. With so many executions the cost of a replay is negligible.
const MAX_SETS: usize = 64;

/// The share of L2 that the sets may take in the warm regime, beyond the fewest. They were just written and must still be
/// there.
const L2_SHARE: f64 = 0.5;

/// The fewest sets in the warm regime, and the most bytes that they may take. With 16 executions, what a replay takes
/// beside them is 1 us for each. Larger tensors have fewer sets, but their kernels take longer, too.
const MIN_SETS: usize = 16;
const MIN_SETS_BYTES: usize = 128 << 20;

/// Samples for the median. An additional first one is discarded, because its instructions are cold.
const SAMPLES: usize = 5;

/// The fewest samples, and the most bytes of tensors in all samples together if there are more. They are copied to the device
/// or back for checks. A kernel with so many bytes takes long, so that the times of its samples differ little.
const MIN_SAMPLES: usize = 3;
const MAX_BYTES: usize = 1 << 30;

/// The largest ratio of the time on held-out inputs to that on timed ones, besides the two allowances below. A kernel
/// that skips work takes several times as long.
const MAX_SLOWDOWN: f64 = 1.5;

/// Extra time of a replay: starting a graph and the two events around it after a pause. On one set of 12.6 MB of inputs,
/// seven honest kernels that take 9.5 to 11.2 us took 25.1 to 30.2 us. On three sets of 6.3 MB, one that takes 4.79 us took
/// 10.51 us. (H200, 2026-11-23 and 2026-11-22, sessions on `attention-fp16-d64`.)
const REPLAY_NS: f64 = 16_000.0;

/// Elements by which the pool exceeds the largest tensor, which is also the number of possible cuts.
const POOL_SPARE: usize = 1 << 20;

/// Executions on the same inputs after which a kernel that memoizes uses what it has kept. One of the audit's kernels begins
/// after sixteen.
const REPEATS: usize = 40;

/// The float64 work of an output check, relative to a check on random inputs.
const CHECK_SHARE: f64 = 0.02;

/// Compares the two times and checks the outputs of these executions. Calls `step` before each sample. Returns the
/// ratio, or `None` where times are modelled.
pub fn check(
    device: &mut dyn Device,
    op: &'static dyn Op,
    request: &AcceptanceRequest,
    step: &mut Step<'_>,
) -> Result<Option<f64>, Ended> {
    if !device.info().replays() {
        return Ok(None);
    }
    let PlannedCase { case, plan } = &request.case;
    let problem = Problem { op, dims: &case.dims, dtype: request.dtype, compute: request.compute };
    let count = set_count(device.info(), &problem, plan, case.regime)
        .map_err(|reason| Ended::Machine(reason.within(format_args!("case `{}`", case.name))))?;
    with_sets(device, &case.name, (Some(&problem), plan), Rotation::apart(count), |device, sets| {
        with_module(device, &case.name, &request.artifact, |device, module| {
            let (tolerance, seed) = (&request.tolerance, request.input_seed);
            let setup = Setup { case: &case.name, problem, tolerance, module, plan, sets, residents: None, seed };
            let runner = Runner { setup, regime: case.regime.on(device.info()), count: count as usize, request };
            runner.compare(device, step).map(Some)
        })
    })
}

/// Returns the number of sets of buffers.
fn set_count(device: &DeviceInfo, problem: &Problem<'_>, plan: &LaunchPlan, regime: Regime) -> Result<u32> {
    if regime.on(device) == Regime::Cold {
        return Sets::rotation(device, problem, regime).map(|rotation| rotation.sets);
    }
    let tensors: usize = problem.tensors().iter().map(TensorSpec::bytes).sum();
    let workspaces: usize = plan.workspaces.iter().map(|workspace| workspace.bytes).sum();
    let set_bytes = (tensors + workspaces).max(1);
    let fitting = (device.l2_bytes as f64 * L2_SHARE / set_bytes as f64) as usize;
    let fewest = (MIN_SETS_BYTES / set_bytes).clamp(1, MIN_SETS);
    Ok(fitting.clamp(fewest, MAX_SETS) as u32)
}

/// Returns the number of samples: fewer where the sets are large.
fn sample_count(problem: &Problem<'_>, sets: usize) -> usize {
    let tensors: usize = problem.tensors().iter().map(TensorSpec::bytes).sum();
    (MAX_BYTES / (tensors * sets).max(1)).clamp(MIN_SAMPLES, SAMPLES)
}

/// Returns the longest time, in nanoseconds, of an honest kernel on held-out inputs.
fn most_ns(steady_ns: f64, sets: usize, memory_ns: f64) -> f64 {
    steady_ns * MAX_SLOWDOWN + REPLAY_NS / sets as f64 + memory_ns
}

struct Runner<'a> {
    setup: Setup<'a>,
    regime: Regime,
    count: usize,
    request: &'a AcceptanceRequest,
}

/// Encoded random values to cut inputs from. Drawing new values for every set would take longer than everything else.
struct Pool {
    /// The values of every kind of input. Inputs of one kind share them.
    kinds: Vec<(TensorSpec, Vec<u8>)>,
    rng: SmallRng,
}

/// Where the contents of each input begin in the pool, in elements. For a sorted input, the seed of its contents.
type Cuts = Vec<usize>;

impl Runner<'_> {
    fn compare(&self, device: &mut dyn Device, step: &mut Step<'_>) -> Result<f64, Ended> {
        let setup = &self.setup;
        let mut pool = Pool::new(&setup.problem, mix(self.request.input_seed, &["memoization"]));
        step(setup.case, "memoization");
        let steady_ns = self.steady_ns(device, &mut pool)?;
        let held_out_ns = self.held_out_ns(device, &mut pool, step)?;
        let is_slower = held_out_ns > most_ns(steady_ns, self.count, self.memory_ns(device.info()));
        if is_slower && held_out_ns > most_ns(self.again_ns(device, &mut pool, step)?, self.count, 0.0) {
            let message = format!(
                "it takes {:.2} us on inputs that it has never seen, but {:.2} us on repeated inputs",
                held_out_ns / 1e3,
                steady_ns / 1e3
            );
            return Err(setup.cheated(Check::Memoization, message));
        }
        Ok(held_out_ns / steady_ns)
    }

    /// Time in nanoseconds that the inputs of a set may need to come from memory, while timed inputs are in L2: 2.6 us for
    /// 12.6 MB. The copies that write the sets need not leave them in L2, and many sets do not fit there.
    fn memory_ns(&self, device: &DeviceInfo) -> f64 {
        if self.regime == Regime::Cold {
            return 0.0;
        }
        let bytes: usize = input_tensors(&self.setup.problem).map(|tensor| tensor.bytes()).sum();
        bytes as f64 / device.peaks.memory_bytes_per_s * 1e9
    }

    /// Times the same inputs repeatedly, as screening does.
    fn steady_ns(&self, device: &mut dyn Device, pool: &mut Pool) -> Result<f64, Ended> {
        let setup = &self.setup;
        let cuts = pool.cut(&setup.problem);
        (0..self.count).try_for_each(|place| self.upload(device, pool, place, &cuts))?;
        setup.reset(device)?;
        setup.prepare(device)?;
        device.reset_caches().map_err(|fault| setup.ended(fault))?;
        let works = setup.works();
        // A set that is updated in place can be updated once in a replay.
        let is_once = works.iter().any(|work| !work.restores.is_empty());
        let works = if self.regime == Regime::Cold || is_once { &works[..] } else { &works[..1] };
        replays(device)?.begin_timing().map_err(|fault| setup.ended(fault))?;
        let timed = benchmark::time(replays(device)?, works, SAMPLES, self.request.measuring.min_sample_ns);
        timed.map(|timing| timing.median_ns).map_err(|fault| setup.ended(fault))
    }

    /// Times one execution on each set, each with its own inputs, and checks every output of every sample.
    fn held_out_ns(&self, device: &mut dyn Device, pool: &mut Pool, step: &mut Step<'_>) -> Result<f64, Ended> {
        let setup = &self.setup;
        let wanted = sample_count(&setup.problem, self.count);
        let mut samples = Vec::with_capacity(wanted);
        with_capture(device, setup.case, &setup.works(), |device, capture| {
            replays(device)?.begin_timing().map_err(|fault| setup.ended(fault))?;
            for sample in 0..=wanted {
                step(setup.case, "memoization");
                let cuts = self.refresh_inputs(device, pool)?;
                let sampled_ns = setup.replay(device, capture)?;
                if sample > 0 {
                    samples.push(sampled_ns / self.count as f64);
                }
                self.check_outputs(device, pool, &cuts)?;
            }
            Ok(())
        })?;
        median(&samples).ok_or_else(|| Ended::Machine(Error::new("no sample was taken")))
    }

    /// Times one execution on each set, as `held_out_ns` does, but on inputs with which it was executed many times, the same in
    /// all sets: a kernel may remember the last inputs only. The outputs of these executions are still there.
    fn again_ns(&self, device: &mut dyn Device, pool: &mut Pool, step: &mut Step<'_>) -> Result<f64, Ended> {
        let setup = &self.setup;
        let wanted = sample_count(&setup.problem, self.count);
        let mut samples = Vec::with_capacity(wanted);
        let cuts = pool.cut(&setup.problem);
        let upload = |device: &mut dyn Device, pool: &Pool| {
            (0..self.count).try_for_each(|place| self.upload(device, pool, place, &cuts))
        };
        upload(device, pool)?;
        setup.prepare(device)?;
        with_capture(device, setup.case, &setup.works(), |device, capture| {
            replays(device)?.begin_timing().map_err(|fault| setup.ended(fault))?;
            step(setup.case, "memoization");
            (0..REPEATS).try_for_each(|_| setup.replay(device, capture).map(drop))?;
            for sample in 0..=wanted {
                step(setup.case, "memoization");
                upload(device, pool)?;
                device.reset_caches().map_err(|fault| setup.ended(fault))?;
                let sampled_ns = setup.replay(device, capture)?;
                if sample > 0 {
                    samples.push(sampled_ns / self.count as f64);
                }
            }
            Ok(())
        })?;
        median(&samples).ok_or_else(|| Ended::Machine(Error::new("no sample was taken")))
    }

    /// Gives every set its own inputs and poisons its output. Returns where each set's inputs were cut.
    fn refresh_inputs(&self, device: &mut dyn Device, pool: &mut Pool) -> Result<Vec<Cuts>, Ended> {
        let setup = &self.setup;
        let cuts: Vec<Cuts> = (0..self.count).map(|_| pool.cut(&setup.problem)).collect();
        cuts.iter().enumerate().try_for_each(|(place, cuts)| self.upload(device, pool, place, cuts))?;
        setup.poison_outputs(device)?;
        setup.prepare(device)?;
        device.reset_caches().map_err(|fault| setup.ended(fault))?;
        Ok(cuts)
    }

    fn upload(&self, device: &mut dyn Device, pool: &Pool, place: usize, cuts: &Cuts) -> Result<(), Ended> {
        let Setup { problem, sets, .. } = &self.setup;
        let mut inputs = input_tensors(problem).zip(cuts);
        let uploaded =
            inputs.try_for_each(|(tensor, from)| sets.write(device, place, &tensor.name, &pool.bytes(&tensor, *from)));
        uploaded.map_err(|fault| self.setup.ended(fault))
    }

    /// Checks that every set has an output, and compares a random selection of sets with the oracle.
    fn check_outputs(&self, device: &mut dyn Device, pool: &mut Pool, contents: &[Cuts]) -> Result<(), Ended> {
        let Setup { problem, sets, tolerance, .. } = &self.setup;
        let wrong = |refusal| {
            let message = format!("wrong on inputs that it has never seen, when timed: {refusal}");
            self.setup.cheated(Check::HeldOutInputs, message)
        };
        let seed = pool.rng.random();
        let compared = sets.draw(seed);
        let outputs = Outputs::of(problem.op, problem.dims, problem.dtype);
        let oracle_flop = self.request.measuring.oracle_flop * CHECK_SHARE;
        for (place, cuts) in contents.iter().enumerate() {
            let expectation = compared.contains(&place).then(|| {
                let Problem { op, dims, dtype, .. } = *problem;
                Expectation::new(op, dims, dtype, &pool.values(problem, cuts), oracle_flop, seed)
            });
            let expectation = expectation.transpose().map_err(Ended::Oracle)?;
            // Of an output that is not compared, nothing is read if the device finds that it is finite.
            let parts = expectation.as_ref().map_or(Some(Vec::new()), Expectation::compared_parts);
            let read = parts.map(|parts| sets.output_parts(device, problem, place, &parts));
            let read = read.transpose().map_err(|fault| self.setup.ended(fault))?.flatten();
            let checked = match read {
                Some(parts) => expectation.map(|expectation| expectation.check_parts(&parts, tolerance)),
                None => {
                    let output = sets.output(device, problem, place).map_err(|fault| self.setup.ended(fault))?;
                    outputs.scan(&output).map_err(wrong)?;
                    expectation.map(|expectation| expectation.check(&output, tolerance))
                }
            };
            checked.transpose().map_err(wrong)?;
        }
        Ok(())
    }
}

impl Pool {
    fn new(problem: &Problem<'_>, seed: u64) -> Self {
        let mut pools: Vec<TensorSpec> = Vec::new();
        for tensor in input_tensors(problem).filter(|tensor| !tensor.values.are_one_whole()) {
            let elements = tensor.elements() + POOL_SPARE;
            match pools.iter_mut().find(|pool| is_alike(pool, &tensor)) {
                Some(pool) => pool.shape[0] = pool.shape[0].max(elements),
                None => pools.push(TensorSpec { name: "pool".to_owned(), shape: vec![elements], ..tensor }),
            }
        }
        let kinds = pools.into_iter().map(|pool| {
            let bytes = encode(&draw(&pool, seed), pool.dtype);
            (pool, bytes)
        });
        Self { kinds: kinds.collect(), rng: SmallRng::seed_from_u64(seed) }
    }

    /// Draws where the contents of every input begin.
    fn cut(&mut self, problem: &Problem<'_>) -> Cuts {
        input_tensors(problem).map(|_| self.rng.random_range(0..POOL_SPARE)).collect()
    }

    /// Returns a tensor's contents.
    fn bytes(&self, tensor: &TensorSpec, from: usize) -> Cow<'_, [u8]> {
        match self.kinds.iter().find(|(pool, _)| is_alike(pool, tensor) && !tensor.values.are_one_whole()) {
            Some((_, bytes)) => Cow::Borrowed(&bytes[from * tensor.dtype.bytes()..][..tensor.bytes()]),
            None => Cow::Owned(encode(&draw(tensor, from as u64), tensor.dtype)),
        }
    }

    /// Returns the values of every input.
    fn values(&self, problem: &Problem<'_>, cuts: &Cuts) -> Vec<Vec<f32>> {
        let inputs = input_tensors(problem).zip(cuts);
        inputs.map(|(tensor, from)| decode(&self.bytes(&tensor, *from), tensor.dtype)).collect()
    }
}

/// Tells whether the values of two inputs have the same distribution.
fn is_alike(a: &TensorSpec, b: &TensorSpec) -> bool {
    a.dtype == b.dtype && a.values == b.values
}

#[cfg(test)]
mod tests {
    use super::most_ns;

    /// Attention with inputs of 6.3 MB a set on an H200 (2026-11-22). It takes 4.79 us with the inputs in L2, and took
    /// 10.51 us on three sets that had just been written. One that skips half of its work takes the same 10.51 us, and
    /// 2.4 us on memoized inputs.
    #[test]
    fn inputs_from_memory_are_allowed_and_half_of_the_work_is_a_cheat() {
        let memory_ns = 6.3e6 / 4.8e12 * 1e9;
        assert!(most_ns(4_790.0, 3, memory_ns) > 10_510.0);
        assert!(most_ns(2_400.0, 3, memory_ns) < 10_510.0);
    }

    /// Attention with inputs of 12.6 MB a set on an H200 (2026-11-23). It takes 11.16 us, and took 30.18 us on one set.
    #[test]
    fn a_single_replay_of_an_honest_kernel_is_allowed() {
        assert!(most_ns(11_160.0, 1, 12.6e6 / 4.8e12 * 1e9) > 30_180.0);
    }
}
