//! The acceptance checks of a variant that is about to win: everything too slow to run on every variant.

use std::time::Instant;

use numerics::compare::any_is_infinite;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::below_f16::BELOW_F16;
use super::data::{Data, Inputs, draw, encode, encode_into, input_tensors};
use super::far::FarCheck;
use super::scoped::{with_module, with_sets};
use super::sets::Rotation;
use super::setup::{Setup, VerifiedOutput};
use super::{Ended, Step, memoization};
use crate::domain::compute::Compute;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::op::{Change, Dims, Op, Probe, Probed, TensorSpec, show_dims};
use crate::error::error;
use crate::runner::device::{Device, Module, Problem};
use crate::runner::inputs::{mix, round};
use crate::runner::messages::{
    AcceptancePart, AcceptanceRequest, Accepted, FarCase, HIDDEN_STEP, PlannedCase, Skipped, on_hidden_shape,
};
use crate::runner::ops;
use crate::runner::outputs::{Outputs, Refusal};
use crate::runner::planning;
use crate::runner::threads;
use crate::runner::validate::Expectation;

/// The float64 work of one probe, relative to a check on random inputs. A probe names the rows that it targets, and
/// they are always compared.
const PROBE_SHARE: f64 = 0.02;

/// The same for a hidden shape. Most of them are small, so that every row is compared.
const HIDDEN_SHARE: f64 = 0.1;

/// Numbers that a thread copies at once.
const COPIED: usize = 1 << 16;

/// The number of probes on each hidden shape.
const HIDDEN_PROBES: usize = 4;

/// The largest magnitude, as a power of two, of numbers that a kernel converts to integers of 32 bits.
const BELOW_INTEGERS: f32 = 30.9;

/// How many indices 16 bits count.
const COUNTED_BY_16_BITS: i64 = 1 << 16;

/// The most threads of a hidden shape that gets probes on a virtual GPU, which takes a second for more. Other shapes get them.
const MOST_PROBED_THREADS: u64 = 1 << 20;

/// The most bytes of tensors for all probes of the case itself. Each probe is drawn, copied, and computed by the oracle. Hidden
/// shapes are small, and take probes in turn.
const MAX_PROBED_BYTES: usize = 256 << 20;

/// The number of buffer sets. The output must not depend on the addresses.
const SETS: u32 = 2;

/// Runs the acceptance checks on a variant. Calls `step` with a case's name and the action before each step on the
/// device.
pub fn accept(device: &mut dyn Device, request: &AcceptanceRequest, step: &mut Step<'_>) -> Result<Accepted, Ended> {
    let op = ops::of(&request.op, device.info()).map_err(Ended::Machine)?;
    let checks = AcceptanceChecks { op, request };
    let name = request.case.case.name.as_str();
    let is_asked = |part| request.only.is_none_or(|only| only == part);
    let is_all = request.only.is_none();
    if is_all {
        step(name, "load");
        with_module(device, name, &request.artifact, |device, module| checks.check_accuracy(device, module, step))?;
    }
    step(name, "load");
    // The module stays loaded, because state kept from one input must not corrupt the next output.
    let (outputs, skipped) = with_module(device, name, &request.artifact, |device, module| {
        let probes = request.probes && is_asked(AcceptancePart::Probes);
        let probed = if probes { checks.probe(device, module, step)? } else { 0 };
        let hidden = is_asked(AcceptancePart::Hidden);
        let skipped = if hidden { checks.check_hidden(device, module, step)? } else { Vec::new() };
        let checked = if hidden { request.hidden.len() - skipped.len() } else { 0 };
        let far = request.far.iter().filter(|_| hidden);
        let far = far.map(|far| checks.check_far(device, module, far, step)).sum::<Result<usize, _>>()?;
        Ok((probed + checked + far, skipped))
    })?;
    let slowdown = if is_all { memoization::check(device, op, request, step)? } else { None };
    Ok(Accepted { outputs: usize::from(is_all) + outputs, skipped, slowdown })
}

/// Buffers reused for all probes of a case, because allocating takes longer than drawing.
struct Memory {
    /// Random values. Every probe starts from them.
    random: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    inputs: Inputs,
}

impl Memory {
    fn new(problem: &Problem<'_>, seed: u64) -> Self {
        let random = draw(problem, seed);
        Self { inputs: encode(problem, &random), values: random.clone(), random }
    }
}

struct AcceptanceChecks<'a> {
    op: &'static dyn Op,
    request: &'a AcceptanceRequest,
}

impl AcceptanceChecks<'_> {
    /// Checks the case on unseen random inputs, with the accuracy that a winner needs.
    fn check_accuracy(&self, device: &mut dyn Device, module: Module, step: &mut Step<'_>) -> Result<(), Ended> {
        let AcceptanceRequest { accuracy, measuring, input_seed, .. } = self.request;
        self.on(device, module, &self.request.case, |setup, device| {
            step(setup.case, "accuracy");
            let data = Data::new(&setup.problem, measuring.oracle_flop, mix(*input_seed, &["accuracy"]))
                .map_err(Ended::Oracle)?;
            let seen = Setup { tolerance: accuracy, ..*setup }.check_once(device, &data)?;
            setup.check_again(device, &seen, &data)
        })
    }

    /// Checks the case on the probes of its op and compute mode, or on some of them if it is large. Returns their number.
    fn probe(&self, device: &mut dyn Device, module: Module, step: &mut Step<'_>) -> Result<usize, Ended> {
        self.on(device, module, &self.request.case, |setup, device| {
            let mut memory = Memory::new(&setup.problem, mix(self.request.input_seed, &["probes"]));
            setup.reset(device)?;
            let mut probes = probes_of(&setup.problem);
            probes.shuffle(&mut SmallRng::seed_from_u64(mix(self.request.input_seed, &["order of probes"])));
            let bytes: usize = setup.problem.tensors().iter().map(TensorSpec::bytes).sum();
            probes.truncate((MAX_PROBED_BYTES / bytes.max(1)).max(1));
            let (begun, mut done) = (Instant::now(), 0);
            let has_time = || self.request.within_s.is_none_or(|within_s| begun.elapsed().as_secs_f64() < within_s);
            for probe in probes.iter().take_while(|_| has_time()) {
                step(setup.case, "probe");
                self.check_probe(setup, device, probe, &mut memory)?;
                done += 1;
            }
            Ok(done)
        })
    }

    /// Checks the output of a probe, with numbers as large as the op bears if that is what it is about.
    fn check_probe(
        &self,
        setup: &Setup<'_>,
        device: &mut dyn Device,
        probe: &Probe,
        memory: &mut Memory,
    ) -> Result<(), Ended> {
        let (artifact, mut magnitudes) = (&self.request.artifact, magnitudes_of(&setup.problem, probe));
        if let Some(least) = magnitudes.last().copied().filter(|least| *least > 0.0 && artifact.converts_to_integers())
        {
            // The oracle does not tell what an integer holds.
            magnitudes = vec![BELOW_INTEGERS.max(least), least];
        }
        let constants = artifact.short_constants();
        for (place, magnitude) in magnitudes.iter().enumerate() {
            let around = Around { magnitude: *magnitude, constants: &constants };
            if self.check_drawn(setup, device, (probe, around, place + 1 == magnitudes.len()), memory)? {
                break;
            }
        }
        Ok(())
    }

    /// Checks the output of a probe at a magnitude. A deviation that rounding alone would cause is allowed. Returns whether the op
    /// bears such numbers. All ops bear the last ones.
    fn check_drawn(
        &self,
        setup: &Setup<'_>,
        device: &mut dyn Device,
        (probe, around, is_last): (&Probe, Around<'_>, bool),
        memory: &mut Memory,
    ) -> Result<bool, Ended> {
        let problem = &setup.problem;
        let shape: Vec<String> = problem.dims.values().map(i64::to_string).collect();
        let seed = mix(self.request.input_seed, &["probe", probe.name, &shape.join(" ")]);
        let Memory { random, values, inputs } = memory;
        for (values, random) in values.iter_mut().zip(random) {
            threads::fill(values, COPIED, |place, part| part.copy_from_slice(&random[COPIED * place..][..part.len()]));
        }
        let probed = apply(problem, (probe, around), seed, values);
        let oracle_flop = self.request.measuring.oracle_flop * PROBE_SHARE;
        let Problem { op, dims, dtype, compute } = *problem;
        let mut expectation = match Expectation::of_probe(op, dims, dtype, values, oracle_flop, seed, &probed) {
            Ok(expectation) => expectation,
            // It need not know what to make of such inputs.
            Err(_) if probed.is_beyond_domain => return Ok(is_last),
            Err(problem) => return Err(Ended::Oracle(problem)),
        };
        if !is_last && !expectation.is_borne_by(op, dims, values) {
            return Ok(false);
        }
        encode_into(problem, values, inputs);
        let mut judge = |output: &[u8]| -> Result<Option<Refusal>, Ended> {
            let mut checked = expectation.check(output, setup.tolerance);
            if matches!(checked, Err(Refusal { check: Check::Accuracy, .. })) {
                let output = (output, setup.tolerance);
                expectation
                    .allow_for_rounding((self.op, compute), dims, values, seed, output)
                    .map_err(Ended::Oracle)?;
                checked = expectation.check(output.0, setup.tolerance);
            }
            Ok(checked.err())
        };
        // The workspaces are as the last probe left them.
        let (output, uploaded) = setup.next_output_of(device, inputs, seed)?;
        if let Some(refusal) = judge(&output)? {
            if !is_last && refusal.check == Check::Finite {
                // Something exceeds the range of FP32, which is not specified.
                return Ok(false);
            }
            let has_workspaces = !setup.plan.workspaces.is_empty();
            let is_of_workspaces = has_workspaces && judge(&setup.output_of(device, inputs, seed)?.0)?.is_none();
            let why = if is_of_workspaces {
                " (it is right if its workspaces are reset before, so it uses what an execution on other inputs left there)"
            } else {
                ""
            };
            return Err(setup.wrong(Check::Probe, format!("on {}: {refusal}{why}", probe.name)));
        }
        setup.inspect_once(device, &uploaded, seed)?;
        Ok(true)
    }

    /// Checks the shapes that are not in the workload, on ordinary inputs and on some probes. Returns those on which it cannot.
    fn check_hidden(
        &self,
        device: &mut dyn Device,
        module: Module,
        step: &mut Step<'_>,
    ) -> Result<Vec<Skipped>, Ended> {
        let mut skipped = Vec::new();
        // Each probe takes its turn, on several of the shapes.
        let mut probes = probes_of(&self.problem(&self.request.case.case.dims));
        probes.shuffle(&mut SmallRng::seed_from_u64(self.request.input_seed));
        let mut probes = probes.iter().cycle();
        for (place, hidden) in self.request.hidden.iter().enumerate() {
            let dims = show_dims(&hidden.case.dims);
            let doing = format!("{HIDDEN_STEP}{dims}");
            step(&hidden.case.name, &doing);
            let is_dear = device.as_model().is_some() && hidden.plan.threads() > MOST_PROBED_THREADS;
            // The many small ones after the most telling shapes differ in their last tiles only.
            let is_probed = self.request.probes && place < planning::MAX_HIDDEN && !is_dear;
            let checked = self.on(device, module, hidden, |setup, device| {
                let seed = mix(self.request.input_seed, &["hidden", &dims]);
                let oracle_flop = self.request.measuring.oracle_flop * HIDDEN_SHARE;
                let mut data = Data::new(&setup.problem, oracle_flop, seed).map_err(Ended::Oracle)?;
                let seen = allowing_for_rounding(setup, device, &mut data)?;
                setup.check_again(device, &seen, &data)?;
                if !is_probed {
                    return Ok(());
                }
                let mut memory = Memory::new(&setup.problem, mix(seed, &["probes"]));
                let of_length = self.probe_of_length(&setup.problem);
                let others = HIDDEN_PROBES - usize::from(of_length.is_some());
                of_length.into_iter().chain(probes.by_ref().take(others)).try_for_each(|probe| {
                    step(&hidden.case.name, &doing);
                    self.check_probe(setup, device, probe, &mut memory)
                })
            });
            match checked {
                // The device has too little memory for this shape, or too little time, which says nothing about the kernel.
                Err(Ended::Outcome(Outcome::OutOfMemory { message, .. })) => {
                    skipped.push(Skipped { dims: hidden.case.dims.clone(), why: message });
                }
                Err(Ended::TooLong(Outcome::TimedOut { message, .. })) if self.is_longer(hidden) => {
                    skipped.push(Skipped { dims: hidden.case.dims.clone(), why: message });
                }
                checked => checked.map_err(|ended| on_hidden(ended, &dims))?,
            }
        }
        Ok(skipped)
    }

    /// Returns whether a slow kernel may take far longer on a shape than on the case.
    fn is_longer(&self, hidden: &PlannedCase) -> bool {
        planning::is_longer(self.op, &hidden.case.dims, &self.request.case.case.dims)
    }

    /// Returns the probe that a problem gets for the length of its dimensions.
    fn probe_of_length(&self, problem: &Problem<'_>) -> Option<&'static Probe> {
        let is_long = problem.dims.values().any(|size| *size > COUNTED_BY_16_BITS);
        let inputs: Vec<TensorSpec> = input_tensors(problem).collect();
        self.op.probe_of_length().filter(|probe| is_long && probe.change.is_of(&inputs))
    }

    /// Checks a shape with offsets beyond 32 bits. Returns the number of outputs that were compared.
    fn check_far(
        &self,
        device: &mut dyn Device,
        module: Module,
        far: &FarCase,
        step: &mut Step<'_>,
    ) -> Result<usize, Ended> {
        let AcceptanceRequest { tolerance, input_seed, .. } = self.request;
        let (case, dims) = (&far.planned.case, show_dims(&far.planned.case.dims));
        step(&case.name, &format!("{HIDDEN_STEP}{dims}"));
        let problem = self.problem(&case.dims);
        let checked = FarCheck { problem, far, module, tolerance, seed: mix(*input_seed, &["far"]) }.run(device);
        checked.map(usize::from).map_err(|ended| on_hidden(ended, &dims))
    }

    fn problem<'d>(&self, dims: &'d Dims) -> Problem<'d> {
        let AcceptanceRequest { dtype, compute, .. } = *self.request;
        Problem { op: self.op, dims, dtype, compute }
    }

    /// Runs `what` on the variant with two sets of a case's buffers.
    fn on<T>(
        &self,
        device: &mut dyn Device,
        module: Module,
        PlannedCase { case, plan }: &PlannedCase,
        what: impl FnOnce(&Setup<'_>, &mut dyn Device) -> Result<T, Ended>,
    ) -> Result<T, Ended> {
        let (problem, tolerance) = (self.problem(&case.dims), &self.request.tolerance);
        with_sets(device, &case.name, (Some(&problem), plan), Rotation::offset(SETS), |device, sets| {
            let seed = self.request.input_seed;
            what(&Setup { case: &case.name, problem, tolerance, module, plan, sets, residents: None, seed }, device)
        })
    }
}

/// Checks ordinary inputs. A deviation that rounding alone would cause is allowed, because short rows are often ill-conditioned.
fn allowing_for_rounding(setup: &Setup<'_>, device: &mut dyn Device, data: &mut Data) -> Result<VerifiedOutput, Ended> {
    match setup.check_once(device, data) {
        Err(Ended::Outcome(Outcome::Wrong { check: Check::Accuracy, .. })) => {}
        checked => return checked,
    }
    let (output, _) = setup.output_of(device, &data.inputs, data.seed)?;
    let Problem { op, dims, compute, .. } = setup.problem;
    let (values, output) = (draw(&setup.problem, data.seed), (&output[..], setup.tolerance));
    let allowed = data.expectation.allow_for_rounding((op, compute), dims, &values, data.seed, output);
    allowed.map_err(Ended::Oracle)?;
    setup.check_once(device, data)
}

/// Returns the probes that change an input of a problem: those of its op, and that of its compute mode.
pub(super) fn probes_of(problem: &Problem<'_>) -> Vec<Probe> {
    let of_mode = (problem.compute == Compute::Tf32).then_some(BELOW_F16);
    let probes = problem.op.probes().iter().copied().chain(of_mode);
    let inputs: Vec<TensorSpec> = input_tensors(problem).collect();
    probes.filter(|probe| probe.change.is_of(&inputs)).collect()
}

/// What a probe's numbers may depend on, besides the seed.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// How large they are, as a power of two.
    pub magnitude: f32,
    /// What the kernel may compare them with.
    pub constants: &'a [f32],
}

/// Returns the magnitudes of a probe's numbers, in the order to try them. Most probes have one, which means nothing.
pub(super) fn magnitudes_of(problem: &Problem<'_>, probe: &Probe) -> Vec<f32> {
    match probe.change {
        Change::Magnitudes { magnitudes, .. } => magnitudes(&input_tensors(problem).collect::<Vec<_>>()),
        Change::Numbers(_)
        | Change::Among(_)
        | Change::Contents { .. }
        | Change::Together { .. }
        | Change::Special { .. } => vec![0.0],
    }
}

/// Draws the values of a probe.
#[cfg(test)]
pub(super) fn probed(problem: &Problem<'_>, probe: (&Probe, Around<'_>), seed: u64) -> (Vec<Vec<f32>>, Probed) {
    let mut values = draw(problem, seed);
    let probed = apply(problem, probe, seed, &mut values);
    (values, probed)
}

/// Turns random values into a probe.
fn apply(problem: &Problem<'_>, (probe, around): (&Probe, Around<'_>), seed: u64, values: &mut [Vec<f32>]) -> Probed {
    let tensors: Vec<TensorSpec> = input_tensors(problem).collect();
    let of = |is_of: &dyn Fn(&TensorSpec) -> bool| (0..tensors.len()).filter(|at| is_of(&tensors[*at])).collect();
    let (change, places): (_, Vec<usize>) = match probe.change {
        // A mask or a position keeps to what it means.
        Change::Numbers(change) => (change, of(&TensorSpec::is_free)),
        Change::Among(change) => (change, (0..tensors.len()).collect()),
        Change::Contents { is_of, fill } => {
            let places: Vec<usize> = of(&is_of);
            for at in places {
                fill(&tensors[at], &mut values[at], mix(seed, &[&tensors[at].name]));
                round(&mut values[at], tensors[at].dtype);
            }
            let frees_computed_integers = values.iter().any(|values| any_is_infinite(values));
            return Probed { is_beyond_domain: true, frees_computed_integers, ..Probed::default() };
        }
        Change::Together { fill, .. } => {
            fill(&tensors, values, seed);
            return together(&tensors, values);
        }
        Change::Magnitudes { fill, .. } => {
            fill(&tensors, values, around.magnitude, seed);
            return Probed { is_beside_one: around.magnitude < 0.0, ..together(&tensors, values) };
        }
        Change::Special { fill, .. } => {
            fill(&tensors, values, around.constants, seed);
            // A quantised number may end on a tie.
            let is_at_jumps = !problem.outputs().iter().any(|output| output.dtype.is_quantised());
            return Probed { is_at_jumps, ..together(&tensors, values) };
        }
    };
    let mut free: Vec<Vec<f32>> = places.iter().map(|at| std::mem::take(&mut values[*at])).collect();
    let mut probed = change(problem.dims, problem.dtype, &mut free, seed);
    if probed.frees_integers {
        // A conversion of NaN to a whole number gives any number.
        let outputs = Outputs::of(problem.op, problem.dims, problem.dtype);
        let whole = outputs.iter().filter(|output| output.dtype.is_integer());
        probed.unspecified.extend(whole.map(|output| output.rows.clone()));
    }
    for (at, mut changed) in places.into_iter().zip(free) {
        round(&mut changed, tensors[at].dtype);
        values[at] = changed;
    }
    probed
}

/// Rounds the values of all inputs, which may be outside of what the op is made for.
fn together(tensors: &[TensorSpec], values: &mut [Vec<f32>]) -> Probed {
    values.iter_mut().zip(tensors).for_each(|(values, tensor)| round(values, tensor.dtype));
    Probed { is_beyond_domain: true, ..Probed::default() }
}

/// What a user can do if the op is not for a shape on which the oracle fails.
const EXCLUDE: &str = "if the op has no such shape, a constraint excludes it (--constraint of `optloop add`, or a [[constraint]] of \
                       the family)";

/// Adds to the end of a check on which shape it ended, and that the shape is not in the workload.
fn on_hidden(ended: Ended, dims: &str) -> Ended {
    let named = |message: &str| on_hidden_shape(dims, message);
    match ended {
        Ended::Outcome(Outcome::Wrong { case, message, .. }) => {
            Ended::Outcome(Outcome::Wrong { case, check: Check::Hidden, message: named(&message) })
        }
        Ended::Outcome(mut outcome) | Ended::TooLong(mut outcome) => {
            if let Some(message) = outcome.message_mut() {
                *message = named(message);
            }
            Ended::Outcome(outcome)
        }
        Ended::Oracle(problem) => Ended::Oracle(error!("{}; {EXCLUDE}", named(&problem.to_string()))),
        Ended::Machine(problem) => Ended::Machine(problem),
    }
}
