//! One case of a request on the device: its buffers, its checks and its times.

use super::data::{Data, draw};
use super::sets::Sets;
use super::setup::Setup;
use super::{CaseRequest, Ended, EvaluateRequest, PlannedCase, Step, ended};
use crate::domain::evaluation::{Correctness, Measurement, Timing};
use crate::domain::op::Op;
use crate::domain::plan::LaunchPlan;
use crate::domain::profile::Profile;
use crate::domain::workload::Case;
use crate::runner::device::{Clock, Device, Fault, Model, Module, Problem};
use crate::runner::{benchmark, inputs};

/// A time, with what explains it where it is modelled.
type Timed = (Timing, Option<Profile>);

/// A variant that is loaded, to be evaluated as a request asks.
#[derive(Clone, Copy)]
pub(super) struct Loaded<'a> {
    pub op: &'static dyn Op,
    pub module: Module,
    pub request: &'a EvaluateRequest,
}

/// Checks a case, times it, and checks what was timed. A modelled time that is promising is confirmed on fresh inputs; a
/// measured one is confirmed in a contest.
pub(super) fn measure(
    device: &mut dyn Device,
    loaded: &Loaded<'_>,
    asked: &CaseRequest,
    step: &mut Step<'_>,
) -> Result<Measurement, Ended> {
    let CaseRequest { case, plan, incumbent_ns, .. } = asked;
    CaseRun::allocated(device, loaded, case, plan, |run, device| {
        let (correctness, (screening, profile)) = run.screen(device, *incumbent_ns, step)?;
        let worth_it = profile.is_some() && loaded.request.policy.worth_it(screening.median_ns, *incumbent_ns);
        let confirmed = worth_it.then(|| run.confirm(device, step)).transpose()?;
        Ok(measurement(asked, correctness, (screening, profile), confirmed))
    })
}

/// Checks the scaled case in full, and models the time of the case itself from a sample of its blocks.
pub(super) fn measure_scaled(
    device: &mut dyn Device,
    loaded: &Loaded<'_>,
    asked: &CaseRequest,
    scaled: &PlannedCase,
    step: &mut Step<'_>,
) -> Result<Measurement, Ended> {
    let request = loaded.request;
    let share = request.model_flop / loaded.op.flop(&asked.case.dims);
    CaseRun::allocated(device, loaded, &scaled.case, &scaled.plan, |small, device| {
        let (correctness, _) = small.screen(device, None, step)?;
        CaseRun::allocated(device, loaded, &asked.case, &asked.plan, |run, device| {
            let screened = run.model_fresh(device, "screening", share, step)?;
            let confirmed = if request.policy.worth_it(screened.0.median_ns, asked.incumbent_ns) {
                small.confirm(device, step)?;
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
    request: &'a EvaluateRequest,
    setup: Setup<'a>,
}

impl CaseRun<'_> {
    /// Allocates the buffers of a case, does something with them, and frees them.
    fn allocated<T>(
        device: &mut dyn Device,
        loaded: &Loaded<'_>,
        case: &Case,
        plan: &LaunchPlan,
        what: impl FnOnce(&CaseRun<'_>, &mut dyn Device) -> Result<T, Ended>,
    ) -> Result<T, Ended> {
        let Loaded { op, module, request } = *loaded;
        let problem = Problem { op, dims: &case.dims, dtype: request.dtype };
        let count = Sets::count(device.info(), &problem, case.regime)
            .map_err(|reason| Ended::Machine(format!("case `{}`: {reason}", case.name)))?;
        let sets = Sets::allocate(device, Some(&problem), plan, count).map_err(|fault| ended(&case.name, fault))?;
        let setup = Setup { case: &case.name, problem, tolerance: &request.tolerance, module, plan, sets: &sets };
        let done = what(&CaseRun { request, setup }, device);
        // After a crash there is nothing left to free, and the crash is what matters.
        let freed = sets.free(device);
        let done = done?;
        freed.map_err(|fault| ended(&case.name, fault))?;
        Ok(done)
    }

    /// Checks the case on fresh inputs, times it, and checks what was timed.
    fn screen(
        &self,
        device: &mut dyn Device,
        incumbent_ns: Option<f64>,
        step: &mut Step<'_>,
    ) -> Result<(Correctness, Timed), Ended> {
        step(self.setup.case, "check");
        let data = self.data("screening");
        let correctness = self.setup.check_once(device, &data)?;
        step(self.setup.case, "time");
        self.setup.poison_outputs(device)?;
        let EvaluateRequest { policy, min_sample_ns, .. } = self.request;
        let timed = match device.clock() {
            Clock::Replay(device) => {
                let timing = benchmark::screen(device, &self.setup.works(), policy, *min_sample_ns, incumbent_ns);
                timing.map(|timing| (timing, None))
            }
            Clock::Model(device) => self.model(device, 1.0),
        };
        let timed = timed.map_err(|fault| self.setup.ended(fault))?;
        self.setup.check_timed(&self.setup.outputs(device)?, &data)?;
        Ok((correctness, timed))
    }

    /// Models the case on other fresh inputs, and checks what was executed meanwhile.
    fn confirm(&self, device: &mut dyn Device, step: &mut Step<'_>) -> Result<Timed, Ended> {
        step(self.setup.case, "confirm");
        let data = self.data("confirmation");
        self.setup.fill(device, &data.inputs)?;
        let timed = self.modelled(device, 1.0)?;
        self.setup.check_timed(&self.setup.outputs(device)?, &data)?;
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
        step(self.setup.case, "model");
        let (_, inputs) = draw(&self.setup.problem, self.seed(phase));
        self.setup.fill(device, &inputs)?;
        self.modelled(device, share)
    }

    fn modelled(&self, device: &mut dyn Device, share: f64) -> Result<Timed, Ended> {
        match device.clock() {
            Clock::Model(device) => self.model(device, share).map_err(|fault| self.setup.ended(fault)),
            Clock::Replay(_) => Err(Ended::Machine("the device does not model its times".to_owned())),
        }
    }

    fn model(&self, device: &mut dyn Model, share: f64) -> Result<Timed, Fault> {
        let works = self.setup.works();
        let work = works.first().ok_or_else(|| Fault::Broken("there is no set of buffers".to_owned()))?;
        let profile = device.model(work, share)?;
        Ok((Timing::modelled(profile.modelled_ns()), Some(profile)))
    }

    fn data(&self, phase: &str) -> Data {
        Data::new(&self.setup.problem, self.request.oracle_flop, self.seed(phase))
    }

    fn seed(&self, phase: &str) -> u64 {
        inputs::mix(self.request.input_seed, &[self.setup.case, phase])
    }
}
