//! Whether a variant is as fast on contents that it never saw as on those that were timed.
//!
//! A time is taken on the same contents again and again, which a kernel could know by heart: by their address, by their sum, by the
//! number of launches, or because the output is there already. So it executes once on each of several sets of buffers, each with
//! contents that were nowhere before and a poisoned output. Nothing but doing the work helps there.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::data::{Data, Inputs, encode, input_tensors};
use super::held::{with_module, with_sets};
use super::sets::Sets;
use super::setup::Setup;
use super::{Ended, ExamineRequest, PlannedCase};
use crate::domain::check::Check;
use crate::domain::device::DeviceInfo;
use crate::domain::op::{Op, Role, TensorSpec};
use crate::domain::plan::LaunchPlan;
use crate::domain::regime::Regime;
use crate::domain::statistics::median;
use crate::runner::benchmark;
use crate::runner::device::{Clock, Device, Problem};
use crate::runner::inputs::{mix, normal};
use crate::runner::validate::scan;

/// The most sets in the warm regime: enough for the cost of a replay to vanish beside the executions in it.
const MOST_SETS: usize = 64;

/// The share of L2 that the sets may take in the warm regime: they have just been written, and are to be there still.
const L2_SHARE: f64 = 0.5;

/// Samples of which the median is taken. One more comes before, which meets cold instructions.
const SAMPLES: usize = 5;

/// The most that contents which were never seen may take over those that were. They were written from outside, so that some of them
/// may not be in L2 where those that were timed are; who skips work takes several times as long.
const MOST_PACE: f64 = 1.5;

/// What a replay of few executions takes beyond its share of one of many: starting a graph and the two events around it.
const REPLAY_NS: f64 = 5_000.0;

/// How many elements further than the largest tensor the pool reaches from which contents are cut: so many are its cuts.
const POOL_SPARE: usize = 1 << 20;

/// The float64 work of the check of an output, over that of a check on random inputs.
const CHECK_SHARE: f64 = 0.02;

/// Compares the two times and checks what was written meanwhile. Returns the ratio; none where times are modelled.
pub fn check(device: &mut dyn Device, op: &'static dyn Op, request: &ExamineRequest) -> Result<Option<f64>, Ended> {
    if matches!(device.clock(), Clock::Model(_)) {
        return Ok(None);
    }
    let PlannedCase { case, plan } = &request.case;
    let problem = Problem { op, dims: &case.dims, dtype: request.dtype };
    let count = set_count(device.info(), &problem, plan, case.regime)
        .map_err(|reason| Ended::Machine(format!("case `{}`: {reason}", case.name)))?;
    with_sets(device, &case.name, (&problem, plan), count, |device, sets| {
        with_module(device, &case.name, &request.artifact, |device, module| {
            let setup = Setup { case: &case.name, problem, tolerance: &request.tolerance, module, plan, sets };
            let runner = Runner { setup, regime: case.regime.on(device.info()), count: count as usize, request };
            runner.compare(device).map(Some)
        })
    })
}

/// Returns how many sets of buffers to go over.
fn set_count(device: &DeviceInfo, problem: &Problem<'_>, plan: &LaunchPlan, regime: Regime) -> Result<u32, String> {
    if regime.on(device) == Regime::Cold {
        return Sets::count(device, problem, regime);
    }
    let tensors: usize = problem.tensors().iter().map(TensorSpec::bytes).sum();
    let workspaces: usize = plan.workspaces.iter().map(|workspace| workspace.bytes).sum();
    let fitting = (device.l2_bytes as f64 * L2_SHARE / (tensors + workspaces).max(1) as f64) as usize;
    Ok(fitting.clamp(1, MOST_SETS) as u32)
}

struct Runner<'a> {
    setup: Setup<'a>,
    regime: Regime,
    count: usize,
    request: &'a ExamineRequest,
}

/// Random values to cut contents from: drawing new ones for every set would take longer than all the rest.
struct Pool {
    values: Vec<f32>,
    rng: SmallRng,
}

impl Runner<'_> {
    fn compare(&self, device: &mut dyn Device) -> Result<f64, Ended> {
        let setup = &self.setup;
        let mut pool = Pool::new(&setup.problem, mix(self.request.input_seed, &["pace"]));
        let steady_ns = self.steady_ns(device, &mut pool)?;
        let fresh_ns = self.fresh_ns(device, &mut pool)?;
        let most_ns = steady_ns * MOST_PACE + REPLAY_NS / self.count as f64;
        if fresh_ns > most_ns {
            let message = format!(
                "it takes {:.2} us on contents that it never saw, and {:.2} us on the same ones again and again",
                fresh_ns / 1e3,
                steady_ns / 1e3
            );
            return Err(setup.cheated(Check::Pace, message));
        }
        Ok(fresh_ns / steady_ns)
    }

    /// Times the same contents again and again, as screening does.
    fn steady_ns(&self, device: &mut dyn Device, pool: &mut Pool) -> Result<f64, Ended> {
        let setup = &self.setup;
        setup.fill(device, &encode(&setup.problem, &pool.cut(&setup.problem)))?;
        device.reset_caches().map_err(|fault| setup.ended(fault))?;
        let works = setup.works();
        let works = if self.regime == Regime::Cold { &works[..] } else { &works[..1] };
        let Clock::Replay(device) = device.clock() else { return Err(models()) };
        let timed = benchmark::time(device, works, SAMPLES, self.request.min_sample_ns);
        timed.map(|timing| timing.median_ns).map_err(|fault| setup.ended(fault))
    }

    /// Times one execution on each set, all of them with contents of their own.
    fn fresh_ns(&self, device: &mut dyn Device, pool: &mut Pool) -> Result<f64, Ended> {
        let setup = &self.setup;
        let works = setup.works();
        let Clock::Replay(replays) = device.clock() else { return Err(models()) };
        let capture = replays.capture(&works, works.len() as u32).map_err(|fault| setup.ended(fault))?;
        let mut samples = Vec::with_capacity(SAMPLES);
        for sample in 0..=SAMPLES {
            let contents = self.renew(device, pool)?;
            let sampled_ns = setup.replay(device, capture)?;
            if sample > 0 {
                samples.push(sampled_ns / self.count as f64);
            }
            if sample == SAMPLES {
                self.check_outputs(device, &contents)?;
            }
        }
        let Clock::Replay(device) = device.clock() else { return Err(models()) };
        device.release(capture).map_err(|fault| setup.ended(fault))?;
        median(&samples).ok_or_else(|| Ended::Machine("no sample was taken".to_owned()))
    }

    /// Gives every set contents of its own and poisons its output. Returns the values of the sets that are looked at.
    fn renew(&self, device: &mut dyn Device, pool: &mut Pool) -> Result<Vec<Vec<Vec<f32>>>, Ended> {
        let Setup { problem, sets, .. } = &self.setup;
        let mut looked_at = Vec::new();
        for place in 0..self.count {
            let values = pool.cut(problem);
            let inputs: Inputs = encode(problem, &values);
            let renewed =
                sets.upload_to(device, place, &inputs).and_then(|()| sets.poison_output(device, problem, place));
            renewed.map_err(|fault| self.setup.ended(fault))?;
            if sets.looked_at().any(|looked| looked == place) {
                looked_at.push(values);
            }
        }
        device.reset_caches().map_err(|fault| self.setup.ended(fault))?;
        Ok(looked_at)
    }

    /// Looks whether every set has its output, and compares those of the sets that are looked at with their references.
    fn check_outputs(&self, device: &mut dyn Device, contents: &[Vec<Vec<f32>>]) -> Result<(), Ended> {
        let Setup { problem, sets, tolerance, .. } = &self.setup;
        let wrong = |refusal| {
            let message = format!("wrong on contents that it never saw, when timed: {refusal}");
            self.setup.cheated(Check::Pace, message)
        };
        for place in 0..self.count {
            let output = sets.output(device, problem, place).map_err(|fault| self.setup.ended(fault))?;
            scan(&output, problem.dtype).map_err(wrong)?;
            let looked_at = sets.looked_at().position(|looked| looked == place);
            if let Some(values) = looked_at.map(|number| &contents[number]) {
                let data = Data::of(problem, values, self.request.oracle_flop * CHECK_SHARE, self.request.input_seed);
                data.expectation.check(&output, tolerance).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

impl Pool {
    fn new(problem: &Problem<'_>, seed: u64) -> Self {
        let largest = input_tensors(problem).map(|tensor| tensor.elements()).max().unwrap_or(0);
        let shape = vec![largest + POOL_SPARE];
        let pool = TensorSpec { name: "pool".to_owned(), dtype: problem.dtype, shape, role: Role::Input };
        Self { values: normal(&pool, seed), rng: SmallRng::seed_from_u64(seed) }
    }

    /// Cuts the values of every input.
    fn cut(&mut self, problem: &Problem<'_>) -> Vec<Vec<f32>> {
        let cut = |tensor: TensorSpec| {
            let from = self.rng.random_range(0..POOL_SPARE);
            self.values[from..from + tensor.elements()].to_vec()
        };
        input_tensors(problem).map(cut).collect()
    }
}

fn models() -> Ended {
    Ended::Machine("the device does not replay".to_owned())
}
