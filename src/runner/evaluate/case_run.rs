//! One case of a request on the device: its buffers, its checks and its times.

use std::collections::HashMap;

use super::{CaseRequest, Ended, EvaluateRequest, ScaledCase, ended};
use crate::domain::evaluation::{Correctness, Measurement, Outcome, Timing};
use crate::domain::op::{Op, Role};
use crate::domain::plan::{Initial, LaunchPlan};
use crate::domain::profile::Profile;
use crate::domain::workload::Case;
use crate::runner::device::{Buffer, Clock, Device, Fault, Model, Work};
use crate::runner::validate::{Expectation, POISON};
use crate::runner::{benchmark, inputs};

/// What is told before each step on the device: the case's name and what is being done.
type Step<'a> = dyn FnMut(&str, &str) + 'a;

/// A time, with what explains it where it is modelled.
type Timed = (Timing, Option<Profile>);

/// Checks a case, times it, checks what was timed, and confirms on fresh inputs where the time is promising.
pub(super) fn measure(
    device: &mut dyn Device,
    op: &'static dyn Op,
    request: &EvaluateRequest,
    asked: &CaseRequest,
    step: &mut Step<'_>,
) -> Result<Measurement, Ended> {
    let CaseRequest { case, plan, incumbent_ns, .. } = asked;
    CaseRun::allocated(device, op, request, case, plan, |run, device| {
        let (correctness, (screening, profile)) = run.screen(device, *incumbent_ns, step)?;
        let promising = match &profile {
            Some(_) => request.policy.worth_it(screening.median_ns, *incumbent_ns),
            None => request.policy.promising(&screening, *incumbent_ns),
        };
        let confirmed = promising.then(|| run.confirm(device, &screening, step)).transpose()?;
        Ok(measurement(asked, correctness, (screening, profile), confirmed))
    })
}

/// Checks the scaled case in full, and models the time of the case itself from a sample of its blocks.
pub(super) fn measure_scaled(
    device: &mut dyn Device,
    op: &'static dyn Op,
    request: &EvaluateRequest,
    asked: &CaseRequest,
    scaled: &ScaledCase,
    step: &mut Step<'_>,
) -> Result<Measurement, Ended> {
    let share = request.model_flop / op.flop(&asked.case.dims);
    CaseRun::allocated(device, op, request, &scaled.case, &scaled.plan, |small, device| {
        let (correctness, _) = small.screen(device, None, step)?;
        CaseRun::allocated(device, op, request, &asked.case, &asked.plan, |run, device| {
            let screened = run.model_fresh(device, "screening", share, step)?;
            let confirmed = if request.policy.worth_it(screened.0.median_ns, asked.incumbent_ns) {
                small.confirm(device, &screened.0, step)?;
                Some(run.model_fresh(device, "confirmation", share, step)?)
            } else {
                None
            };
            let mut measurement = measurement(asked, correctness, screened, confirmed);
            if let Some(profile) = &mut measurement.profile {
                profile.checked_on = Some(scaled.case.dims.clone());
            }
            Ok(measurement)
        })
    })
}

fn measurement(
    asked: &CaseRequest,
    correctness: Correctness,
    (screening, profile): Timed,
    confirmed: Option<Timed>,
) -> Measurement {
    let (confirmation, confirmed_profile) = confirmed.unzip();
    Measurement {
        case: asked.case.name.clone(),
        regime: asked.case.regime,
        correctness,
        screening: Some(screening),
        confirmation,
        ctas: asked.plan.ctas(),
        contest: None,
        profile: confirmed_profile.flatten().or(profile),
    }
}

/// A case with its buffers on the device.
struct CaseRun<'a> {
    op: &'static dyn Op,
    request: &'a EvaluateRequest,
    case: &'a Case,
    plan: &'a LaunchPlan,
    buffers: HashMap<String, Buffer>,
}

impl<'a> CaseRun<'a> {
    /// Allocates the buffers of a case, does something with them, and frees them.
    fn allocated<T>(
        device: &mut dyn Device,
        op: &'static dyn Op,
        request: &'a EvaluateRequest,
        case: &'a Case,
        plan: &'a LaunchPlan,
        what: impl FnOnce(&Self, &mut dyn Device) -> Result<T, Ended>,
    ) -> Result<T, Ended> {
        let mut run = Self { op, request, case, plan, buffers: HashMap::new() };
        let done = run.allocate(device).and_then(|()| what(&run, device));
        // After a crash there is nothing left to free, and the crash is what matters.
        let freed = run.buffers.values().try_for_each(|buffer| device.free(*buffer));
        let done = done?;
        freed.map_err(|fault| run.ended(fault))?;
        Ok(done)
    }

    fn allocate(&mut self, device: &mut dyn Device) -> Result<(), Ended> {
        let tensors = self.op.tensors(&self.case.dims, self.request.dtype).into_iter().map(|t| (t.bytes(), t.name));
        let workspaces = self.plan.workspaces.iter().map(|w| (w.bytes, w.name.clone()));
        for (bytes, name) in tensors.chain(workspaces) {
            let buffer = device.alloc(bytes).map_err(|fault| self.ended(fault))?;
            self.buffers.insert(name, buffer);
        }
        Ok(())
    }

    /// Checks the case on fresh inputs, times it, and checks what was timed.
    fn screen(
        &self,
        device: &mut dyn Device,
        incumbent_ns: Option<f64>,
        step: &mut Step<'_>,
    ) -> Result<(Correctness, Timed), Ended> {
        step(&self.case.name, "check");
        let expectation = self.upload(device, "screening")?;
        device.launch(&self.work()).map_err(|fault| self.ended(fault))?;
        let correctness = self.check(device, &expectation)?;
        step(&self.case.name, "time");
        self.poison_output(device)?;
        let EvaluateRequest { policy, min_sample_ns, .. } = self.request;
        let timed = match device.clock() {
            Clock::Replay(device) => benchmark::screen(device, &self.work(), policy, *min_sample_ns, incumbent_ns)
                .map(|timing| (timing, None)),
            Clock::Model(device) => self.model(device, 1.0),
        };
        let timed = timed.map_err(|fault| self.ended(fault))?;
        self.check_timed(device, &expectation)?;
        Ok((correctness, timed))
    }

    /// Times the case on other fresh inputs, and checks what was timed.
    fn confirm(&self, device: &mut dyn Device, screening: &Timing, step: &mut Step<'_>) -> Result<Timed, Ended> {
        step(&self.case.name, "confirm");
        let expectation = self.upload(device, "confirmation")?;
        let timed = match device.clock() {
            Clock::Replay(device) => {
                let timing = benchmark::confirm(device, screening.launches_per_sample, &self.request.policy);
                timing.map(|timing| (timing, None))
            }
            Clock::Model(device) => self.model(device, 1.0),
        };
        let timed = timed.map_err(|fault| self.ended(fault))?;
        self.check_timed(device, &expectation)?;
        Ok(timed)
    }

    /// Models the time of a share of the case's blocks on fresh inputs. Outputs are partial, so none is checked.
    fn model_fresh(
        &self,
        device: &mut dyn Device,
        phase: &str,
        share: f64,
        step: &mut Step<'_>,
    ) -> Result<Timed, Ended> {
        step(&self.case.name, "model");
        self.fill(device, phase)?;
        let timed = match device.clock() {
            Clock::Model(device) => self.model(device, share),
            Clock::Replay(_) => Err(Fault::Broken("the device does not model its times".to_owned())),
        };
        timed.map_err(|fault| self.ended(fault))
    }

    fn model(&self, device: &mut dyn Model, share: f64) -> Result<Timed, Fault> {
        let profile = device.model(&self.work(), share)?;
        Ok((Timing::modelled(profile.modelled_ns()), Some(profile)))
    }

    /// Uploads fresh inputs and computes what must come out.
    fn upload(&self, device: &mut dyn Device, phase: &str) -> Result<Expectation, Ended> {
        let values = self.fill(device, phase)?;
        let EvaluateRequest { dtype, oracle_flop, .. } = *self.request;
        Ok(Expectation::new(self.op, &self.case.dims, dtype, &values, oracle_flop, self.seed(phase)))
    }

    /// Draws fresh inputs and uploads them, resets the workspaces and poisons the output. Returns the inputs.
    fn fill(&self, device: &mut dyn Device, phase: &str) -> Result<Vec<Vec<f32>>, Ended> {
        let mut values = Vec::new();
        for tensor in self.op.tensors(&self.case.dims, self.request.dtype) {
            if tensor.role == Role::Input {
                let drawn = inputs::normal(&tensor, self.seed(phase));
                let bytes = inputs::encode(&drawn, tensor.dtype);
                device.write(self.buffers[&tensor.name], &bytes).map_err(|fault| self.ended(fault))?;
                values.push(drawn);
            }
        }
        for workspace in &self.plan.workspaces {
            let buffer = self.buffers[&workspace.name];
            let filled = match workspace.initial {
                Initial::Zero => device.fill(buffer, 0),
                Initial::Undefined => device.poison(buffer, POISON),
            };
            filled.map_err(|fault| self.ended(fault))?;
        }
        self.poison_output(device)?;
        Ok(values)
    }

    fn seed(&self, phase: &str) -> u64 {
        inputs::mix(self.request.input_seed, &[&self.case.name, phase])
    }

    fn poison_output(&self, device: &mut dyn Device) -> Result<(), Ended> {
        let output = self.op.output(&self.case.dims, self.request.dtype);
        device.poison(self.buffers[&output.name], POISON).map_err(|fault| self.ended(fault))
    }

    fn check(&self, device: &mut dyn Device, expectation: &Expectation) -> Result<Correctness, Ended> {
        let output = self.op.output(&self.case.dims, self.request.dtype);
        let bytes = device.read(self.buffers[&output.name]).map_err(|fault| self.ended(fault))?;
        expectation
            .check(&bytes, &self.request.tolerance)
            .map_err(|message| Ended::Outcome(Outcome::Wrong { case: self.case.name.clone(), message }))
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
        let (dims, dtype) = (&self.case.dims, self.request.dtype);
        Work { plan: self.plan, buffers: &self.buffers, op: self.op, dims, dtype }
    }

    fn ended(&self, fault: Fault) -> Ended {
        ended(&self.case.name, fault)
    }
}
