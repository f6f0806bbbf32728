//! Evaluates a compiled variant on a device: load, then check, time and perhaps confirm it, case by case.

use std::collections::HashMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::benchmark;
use super::device::{Buffer, Device, Fault, Work};
use super::inputs;
use super::validate::{Expectation, POISON};
use crate::domain::artifact::Artifact;
use crate::domain::evaluation::{Correctness, Evaluation, Measurement, Outcome};
use crate::domain::op::{Dtype, Op, Role};
use crate::domain::plan::{Initial, LaunchPlan};
use crate::domain::verdict::Policy;
use crate::domain::workload::{Case, Tolerance};
use crate::ops;

/// Everything that a device needs to know to evaluate a variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EvaluateRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op's name.
    pub op: String,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The largest errors that count as correct.
    pub tolerance: Tolerance,
    /// The cases with their plans, in the order in which to try them.
    pub cases: Vec<CaseRequest>,
    /// When to stop sampling and when to confirm.
    pub policy: Policy,
    /// The shortest sample.
    pub min_sample_ns: f64,
    /// The most float64 work per check.
    pub oracle_flop: f64,
    /// Where the inputs come from: another seed is other inputs.
    pub input_seed: u64,
}

/// One case of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseRequest {
    /// The case.
    pub case: Case,
    /// The variant's plan on it.
    pub plan: LaunchPlan,
    /// The incumbent's median, if there is an incumbent.
    pub incumbent_ns: Option<f64>,
}

/// What ended the evaluation of a case early.
enum Ended {
    /// The variant failed: an outcome.
    Outcome(Outcome),
    /// The machine failed: no fault of the variant.
    Machine(String),
}

/// Evaluates a variant. `step` is called with a case's name and what is being done, before each step on the device.
///
/// An error means that the machine, not the variant, is at fault.
pub fn evaluate(
    device: &mut dyn Device,
    request: &EvaluateRequest,
    step: &mut dyn FnMut(&str, &str),
) -> Result<Evaluation, String> {
    let started = Instant::now();
    let mut measurements = Vec::with_capacity(request.cases.len());
    let outcome = match run(device, request, step, &mut measurements) {
        Ok(()) => Outcome::Measured,
        Err(Ended::Outcome(outcome)) => outcome,
        Err(Ended::Machine(message)) => return Err(message),
    };
    Ok(Evaluation { outcome, measurements, device_s: started.elapsed().as_secs_f64() })
}

fn run(
    device: &mut dyn Device,
    request: &EvaluateRequest,
    step: &mut dyn FnMut(&str, &str),
    measurements: &mut Vec<Measurement>,
) -> Result<(), Ended> {
    let op = ops::find(&request.op).map_err(Ended::Machine)?;
    let first = request.cases.first().map_or("", |case| case.case.name.as_str());
    step(first, "load");
    device.load(&request.artifact).map_err(|fault| ended(first, fault))?;
    for case in &request.cases {
        let run = CaseRun::allocate(device, op, request, case)?;
        let measured = run.measure(device, step);
        // After a crash there is nothing left to free, and the crash is what matters.
        let freed = run.free(device);
        measurements.push(measured?);
        freed?;
    }
    Ok(())
}

/// One case with its buffers on the device.
struct CaseRun<'a> {
    op: &'static dyn Op,
    request: &'a EvaluateRequest,
    case: &'a CaseRequest,
    buffers: HashMap<String, Buffer>,
}

impl<'a> CaseRun<'a> {
    fn allocate(
        device: &mut dyn Device,
        op: &'static dyn Op,
        request: &'a EvaluateRequest,
        case: &'a CaseRequest,
    ) -> Result<Self, Ended> {
        let mut run = Self { op, request, case, buffers: HashMap::new() };
        let tensors = op.tensors(&case.case.dims, request.dtype).into_iter().map(|t| (t.bytes(), t.name));
        let workspaces = case.plan.workspaces.iter().map(|w| (w.bytes, w.name.clone()));
        for (bytes, name) in tensors.chain(workspaces) {
            match device.alloc(bytes) {
                Ok(buffer) => drop(run.buffers.insert(name, buffer)),
                Err(fault) => {
                    run.free(device)?;
                    return Err(run.ended(fault));
                }
            }
        }
        Ok(run)
    }

    fn free(&self, device: &mut dyn Device) -> Result<(), Ended> {
        self.buffers.values().try_for_each(|buffer| device.free(*buffer)).map_err(|fault| self.ended(fault))
    }

    /// Checks, times, checks what was timed, and confirms on fresh inputs where the time is promising.
    fn measure(&self, device: &mut dyn Device, step: &mut dyn FnMut(&str, &str)) -> Result<Measurement, Ended> {
        let name = &self.case.case.name;
        let policy = &self.request.policy;
        step(name, "check");
        let expectation = self.upload(device, "screening")?;
        device.launch(&self.work()).map_err(|fault| self.ended(fault))?;
        let correctness = self.check(device, &expectation)?;

        step(name, "time");
        let incumbent_ns = self.case.incumbent_ns;
        self.poison_output(device)?;
        let screening = benchmark::screen(device, &self.work(), policy, self.request.min_sample_ns, incumbent_ns)
            .map_err(|fault| self.ended(fault))?;
        self.check_timed(device, &expectation)?;

        let confirmation = if policy.promising(&screening, incumbent_ns) {
            step(name, "confirm");
            let expectation = self.upload(device, "confirmation")?;
            let confirmation =
                benchmark::confirm(device, screening.launches_per_sample, policy).map_err(|fault| self.ended(fault))?;
            self.check_timed(device, &expectation)?;
            Some(confirmation)
        } else {
            None
        };
        let ctas = self.case.plan.ctas();
        Ok(Measurement { case: name.clone(), correctness, screening: Some(screening), confirmation, ctas })
    }

    /// Draws fresh inputs, uploads them, poisons the output, resets the workspaces and computes what must come out.
    fn upload(&self, device: &mut dyn Device, phase: &str) -> Result<Expectation, Ended> {
        let dims = &self.case.case.dims;
        let seed = inputs::mix(self.request.input_seed, &[&self.case.case.name, phase]);
        let mut values = Vec::new();
        for tensor in self.op.tensors(dims, self.request.dtype) {
            if tensor.role == Role::Input {
                let drawn = inputs::normal(&tensor, seed);
                let bytes = inputs::encode(&drawn, tensor.dtype);
                device.write(self.buffers[&tensor.name], &bytes).map_err(|fault| self.ended(fault))?;
                values.push(drawn);
            }
        }
        for workspace in &self.case.plan.workspaces {
            let byte = if workspace.initial == Initial::Zero { 0 } else { POISON };
            device.fill(self.buffers[&workspace.name], byte).map_err(|fault| self.ended(fault))?;
        }
        self.poison_output(device)?;
        Ok(Expectation::new(self.op, dims, self.request.dtype, &values, self.request.oracle_flop, seed))
    }

    fn poison_output(&self, device: &mut dyn Device) -> Result<(), Ended> {
        let output = self.op.output(&self.case.case.dims, self.request.dtype);
        device.fill(self.buffers[&output.name], POISON).map_err(|fault| self.ended(fault))
    }

    fn check(&self, device: &mut dyn Device, expectation: &Expectation) -> Result<Correctness, Ended> {
        let output = self.op.output(&self.case.case.dims, self.request.dtype);
        let bytes = device.read(self.buffers[&output.name]).map_err(|fault| self.ended(fault))?;
        expectation
            .check(&bytes, &self.request.tolerance)
            .map_err(|message| Ended::Outcome(Outcome::Wrong { case: self.case.case.name.clone(), message }))
    }

    /// Checks the output of the timed executions: right when checked but wrong when timed is a cheat.
    fn check_timed(&self, device: &mut dyn Device, expectation: &Expectation) -> Result<(), Ended> {
        match self.check(device, expectation) {
            Err(Ended::Outcome(Outcome::Wrong { case, message })) => {
                let message = format!("right when checked, but the timed executions are wrong: {message}");
                Err(Ended::Outcome(Outcome::Cheated { case, message }))
            }
            other => other.map(|_| ()),
        }
    }

    fn work(&self) -> Work<'_> {
        Work {
            plan: &self.case.plan,
            buffers: &self.buffers,
            op: self.op,
            dims: &self.case.case.dims,
            dtype: self.request.dtype,
        }
    }

    fn ended(&self, fault: Fault) -> Ended {
        ended(&self.case.case.name, fault)
    }
}

fn ended(case: &str, fault: Fault) -> Ended {
    match fault {
        Fault::Refused(message) => Ended::Outcome(Outcome::RejectedByCompiler { message }),
        Fault::Crashed(message) => Ended::Outcome(Outcome::Crashed { case: case.to_owned(), message }),
        Fault::Broken(message) => Ended::Machine(message),
    }
}
