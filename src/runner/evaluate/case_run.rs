//! One case of a request on the device: its buffers, its checks and its times.

use std::sync::Arc;

use super::data::{Data, draw, encode};
use super::scoped::{with_module, with_sets};
use super::sets::Sets;
use super::setup::{Setup, VerifiedOutput};
use super::stock::{HELD_OUT_AHEAD, Stock};
use super::{Ended, Step, replays, sampled};
use crate::domain::code::profile::Profile;
use crate::domain::device::regime::Regime;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::Measurement;
use crate::domain::measurement::floor::Floor;
use crate::domain::measurement::settings::Measuring;
use crate::domain::op::{Op, OpSource};
use crate::domain::statistics::timing::Timing;
use crate::domain::workload::Case;
use crate::error::Error;
use crate::runner::benchmark::{self, Prepared};
use crate::runner::device::{Device, Problem};
use crate::runner::inputs;
use crate::runner::messages::{CaseRequest, EvaluateRequest, PlannedCase};

/// The phase whose inputs all variants share, so that they can be compared.
const SCREENING: &str = "screening";

/// The phase of the inputs after timing.
const HELD_OUT: &str = "held_out_inputs";

/// The float64 work of the check after timing, relative to the one before. It only has to distinguish this output from
/// that of other inputs, and every evaluation pays it on every case.
pub(super) const HELD_OUT_SHARE: f64 = 0.02;

/// The least share of a case's floor that a modelled time may be. The model errs by up to a factor of two, so a lower
/// time is skipped work and not an error of the model. No family's modelled time is below its floor (docs/model.md).
const MIN_SHARE_OF_FLOOR: f64 = 0.5;

/// A time, with the profile that explains it where it is modelled.
type Timed = (Timing, Option<Profile>);

/// What screening finds on a case.
struct Screened {
    correctness: Correctness,
    timed: Timed,
    /// None if the plan prepares no weights, or the variant was dropped.
    preparation_ns: Option<f64>,
}

/// A request with its op.
#[derive(Clone, Copy)]
pub(super) struct EvaluationContext<'a> {
    pub op: &'static dyn Op,
    pub request: &'a EvaluateRequest,
    pub stock: &'a Stock,
    /// Whether to model times without each cause of lost time, too.
    pub explain: bool,
}

impl EvaluationContext<'_> {
    /// Tells whether a modelled time is confirmed on other inputs. A time that is modelled for an explanation is not.
    fn is_worth_confirming(&self, screening: &Timing, incumbent_ns: Option<f64>) -> bool {
        !self.request.explain && self.request.measuring.policy.worth_it(screening.median_ns, incumbent_ns)
    }
}

/// Checks a case, times it, and checks the timed outputs. A promising modelled time is confirmed here on fresh inputs.
/// A measured one is confirmed in a comparison.
pub(super) fn measure(
    device: &mut dyn Device,
    context: &EvaluationContext<'_>,
    wanted: &CaseRequest,
    step: &mut Step<'_>,
) -> Result<Measurement, Ended> {
    let CaseRequest { case, plan, incumbent_ns, .. } = wanted;
    CaseRun::allocated(device, context, case, plan, |run, device| {
        let Screened { correctness, timed, preparation_ns } = run.screen(device, *incumbent_ns, step)?;
        let worth_it = timed.1.is_some() && context.is_worth_confirming(&timed.0, *incumbent_ns);
        let confirmed = worth_it.then(|| run.confirm(device, step)).transpose()?;
        let preparation = plan.preparation(preparation_ns);
        Ok(Measurement { preparation, ..measurement(wanted, correctness, timed, confirmed) })
    })
}

/// Checks the scaled case in full, and models the time of the actual case from a sample of its blocks.
pub(super) fn measure_scaled(
    device: &mut dyn Device,
    context: &EvaluationContext<'_>,
    wanted: &CaseRequest,
    scaled: &PlannedCase,
    step: &mut Step<'_>,
) -> Result<Measurement, Ended> {
    let request = context.request;
    let share = request.measuring.model_flop / context.op.executed_flop(&wanted.case.dims);
    let unexplained = EvaluationContext { explain: false, ..*context };
    CaseRun::allocated(device, &unexplained, &scaled.case, &scaled.plan, |small, device| {
        let Screened { correctness, .. } = small.screen(device, None, step)?;
        CaseRun::allocated(device, context, &wanted.case, &wanted.plan, |run, device| {
            let screened = run.model_alone(device, SCREENING, share, step)?;
            let confirmed = if context.is_worth_confirming(&screened.0, wanted.incumbent_ns) {
                small.confirm(device, step)?;
                Some(run.model_alone(device, "confirmation", share, step)?)
            } else {
                None
            };
            let mut measurement = measurement(wanted, correctness, screened, confirmed);
            if let Some(profile) = &mut measurement.profile {
                profile.checked_on = Some(scaled.case.dims.clone());
            }
            Ok(measurement)
        })
    })
}

fn measurement(
    wanted: &CaseRequest,
    correctness: Correctness,
    (screening, profile): Timed,
    confirmed: Option<Timed>,
) -> Measurement {
    let (confirmation, confirmed_profile) = confirmed.unzip();
    Measurement {
        case: wanted.case.name.clone(),
        regime: wanted.case.regime,
        correctness,
        screening: Some(screening),
        confirmation,
        ctas: wanted.plan.ctas(),
        shape: Some(wanted.plan.shape()),
        preparation: wanted.plan.preparation(None),
        comparison: None,
        profile: confirmed_profile.flatten().or(profile),
    }
}

/// A case with its buffers on the device.
struct CaseRun<'a> {
    request: &'a EvaluateRequest,
    stock: &'a Stock,
    explain: bool,
    case: &'a str,
    problem: Problem<'a>,
    plan: &'a LaunchPlan,
    sets: &'a Sets,
}

impl CaseRun<'_> {
    /// Allocates the buffers of a case, calls a function with them, and frees them.
    fn allocated<T>(
        device: &mut dyn Device,
        context: &EvaluationContext<'_>,
        Case { name, dims, regime }: &Case,
        plan: &LaunchPlan,
        what: impl FnOnce(&CaseRun<'_>, &mut dyn Device) -> Result<T, Ended>,
    ) -> Result<T, Ended> {
        let EvaluationContext { op, request, stock, explain } = *context;
        let problem = Problem { op, dims, dtype: request.dtype, compute: request.compute };
        let rotation = Sets::rotation(device.info(), &problem, *regime)
            .map_err(|reason| Ended::Machine(reason.within(format_args!("case `{name}`"))))?;
        with_sets(device, name, (Some(&problem), plan), rotation, |device, sets| {
            what(&CaseRun { request, stock, explain, case: name, problem, plan, sets }, device)
        })
    }

    /// Reloads the variant and calls a function with it.
    fn loaded<T>(
        &self,
        device: &mut dyn Device,
        (step, doing): (&mut Step<'_>, &str),
        what: impl FnOnce(&Setup<'_>, &mut dyn Device) -> Result<T, Ended>,
    ) -> Result<T, Ended> {
        let CaseRun { request, stock, case, problem, plan, sets, .. } = *self;
        step(case, "load");
        with_module(device, case, &request.artifact, |device, module| {
            step(case, doing);
            let (tolerance, seed) = (&request.tolerance, request.own_seed);
            let residents = Some(stock.residents());
            what(&Setup { case, problem, tolerance, module, plan, sets, residents, seed }, device)
        })
    }

    /// Checks the case on fresh inputs, times it, and checks the timed outputs.
    ///
    /// The variant is reloaded in between, so that timed executions cannot use data that the check left in its global
    /// variables.
    fn screen(
        &self,
        device: &mut dyn Device,
        incumbent_ns: Option<f64>,
        step: &mut Step<'_>,
    ) -> Result<Screened, Ended> {
        let data = self.stock.data(&self.problem, self.request.measuring.oracle_flop, self.seed(SCREENING))?;
        // An oracle that uses the device would disturb the time.
        let disturbs = self.problem.op.oracle_uses_device() && device.info().replays();
        // One outside of optloop may take a minute, and is not asked about a variant that is wrong.
        if !disturbs && matches!(self.problem.op.source(), OpSource::BuiltIn(_)) {
            self.draw_held_out(&data, [HELD_OUT]);
        }
        let seen = self.loaded(device, (step, "check"), |setup, device| setup.check_once(device, &data))?;
        let answered = if disturbs {
            step(self.case, "check");
            Some(self.held_out(&data)?)
        } else {
            self.draw_held_out(&data, [HELD_OUT]);
            None
        };
        let (timed, preparation_ns) = self.loaded(device, (step, "time"), |setup, device| {
            setup.reset(device)?;
            setup.prepare(device)?;
            device.reset_caches().map_err(|fault| setup.ended(fault))?;
            let (timed, prepared) = self.time(setup, device, incumbent_ns)?;
            let policy = &self.request.measuring.policy;
            let is_dropped = self.request.drops_slow && policy.is_clearly_slower(timed.0.median_ns, incumbent_ns);
            let held_out = || {
                let held_out = answered.map_or_else(|| self.held_out(&data), Ok)?;
                if !disturbs {
                    self.draw_ahead(&data);
                }
                Ok(held_out)
            };
            self.check_timed(setup, device, prepared, (&seen, &data), (!is_dropped).then_some(held_out))?;
            let is_timed = !is_dropped && !self.plan.preparation.is_empty();
            let min_sample_ns = self.request.measuring.min_sample_ns;
            let preparation_ns = is_timed.then(|| setup.preparation_ns(device, min_sample_ns)).transpose()?;
            Ok((timed, preparation_ns.flatten()))
        })?;
        Ok(Screened { correctness: seen.correctness, timed, preparation_ns })
    }

    /// Has other threads draw held-out inputs, with the seeds of these phases.
    fn draw_held_out<const N: usize>(&self, data: &Arc<Data>, phases: [&str; N]) {
        let oracle_flop = self.request.measuring.oracle_flop * HELD_OUT_SHARE;
        self.stock.draw_held_out(&self.problem, data, oracle_flop, phases.map(|phase| self.seed(phase)));
    }

    /// Returns held-out inputs.
    fn held_out(&self, data: &Data) -> Result<Data, Ended> {
        let oracle_flop = self.request.measuring.oracle_flop * HELD_OUT_SHARE;
        self.stock.held_out(&self.problem, data, oracle_flop, self.seed(HELD_OUT))
    }

    /// Has other threads draw what a later variant will need on this case.
    fn draw_ahead(&self, data: &Arc<Data>) {
        let phases: [&str; HELD_OUT_AHEAD] = ["later_held_out_inputs", "last_held_out_inputs"];
        self.draw_held_out(data, phases);
        if let Some(seed) = self.request.later_input_seed {
            let seed = inputs::mix(seed, &[self.case, SCREENING]);
            self.stock.draw_ahead(&self.problem, self.request.measuring.oracle_flop, seed);
        }
    }

    /// Times the case. Its capture is not released yet.
    fn time(
        &self,
        setup: &Setup<'_>,
        device: &mut dyn Device,
        incumbent_ns: Option<f64>,
    ) -> Result<(Timed, Option<Prepared>), Ended> {
        let Measuring { policy, min_sample_ns, .. } = &self.request.measuring;
        if !device.info().replays() {
            return modelled(setup, device, 1.0, self.explain).map(|timed| (timed, None));
        }
        let device = replays(device)?;
        let timed = benchmark::prepare(device, &setup.works(), *min_sample_ns).and_then(|prepared| {
            let timing = benchmark::screen(device, &prepared, policy, incumbent_ns)?;
            Ok(((timing, None), Some(prepared)))
        });
        timed.map_err(|fault| setup.ended(fault))
    }

    /// Checks the timed outputs, and that held-out inputs, if there are some, give their own output.
    fn check_timed(
        &self,
        setup: &Setup<'_>,
        device: &mut dyn Device,
        prepared: Option<Prepared>,
        (seen, data): (&VerifiedOutput, &Data),
        held_out: Option<impl FnOnce() -> Result<Data, Ended>>,
    ) -> Result<(), Ended> {
        let checked = setup.check_timed(device, seen, data).and_then(|()| match held_out {
            Some(held_out) => setup.check_held_out(device, prepared.as_ref(), &held_out()?),
            None => Ok(()),
        });
        let released = match prepared {
            Some(prepared) => replays(device)?.release(prepared.capture),
            None => Ok(()),
        };
        checked?;
        released.map_err(|fault| setup.ended(fault))
    }

    /// Models the case on other fresh inputs, and checks the outputs of that execution.
    fn confirm(&self, device: &mut dyn Device, step: &mut Step<'_>) -> Result<Timed, Ended> {
        let data = Data::new(&self.problem, self.request.measuring.oracle_flop, self.seed("confirmation"));
        let data = data.map_err(Ended::Oracle)?;
        self.loaded(device, (step, "confirm"), |setup, device| {
            let uploaded = setup.fill(device, &data.inputs)?;
            let timed = modelled(setup, device, 1.0, self.explain)?;
            setup.check_confirmed(device, &uploaded, &data)?;
            Ok(timed)
        })
    }

    /// Models the time of a share of the case's blocks on fresh inputs, and checks the work of these blocks.
    fn model_alone(
        &self,
        device: &mut dyn Device,
        phase: &str,
        share: f64,
        step: &mut Step<'_>,
    ) -> Result<Timed, Ended> {
        let values = draw(&self.problem, self.seed(phase));
        let inputs = encode(&self.problem, &values);
        self.loaded(device, (step, "model"), |setup, device| {
            setup.fill(device, &inputs)?;
            let (timing, mut profile) = modelled(setup, device, share, self.explain)?;
            if let Some(profile) = &mut profile {
                sampled::check(setup, device, &values, profile)?;
            }
            Ok((timing, profile))
        })
    }

    /// Returns the seed of a phase. Only the screening inputs are shared with earlier variants, so no variant can leave
    /// another phase's output behind.
    fn seed(&self, phase: &str) -> u64 {
        let EvaluateRequest { input_seed, own_seed, .. } = *self.request;
        inputs::mix(if phase == SCREENING { input_seed } else { own_seed }, &[self.case, phase])
    }
}

fn modelled(setup: &Setup<'_>, device: &mut dyn Device, share: f64, explain: bool) -> Result<Timed, Ended> {
    let machine = |what: &str| Ended::Machine(Error::new(what));
    let info = device.info().clone();
    let device = device.as_model().ok_or_else(|| machine("the device does not model its times"))?;
    let works = setup.works();
    let work = works.first().ok_or_else(|| machine("there is no set of buffers"))?;
    let profile = device.model(work, share, explain).map_err(|fault| setup.ended(fault))?;
    let Problem { op, dims, dtype, compute } = setup.problem;
    // The model does not support cold buffers.
    let floor = Floor::of_problem((op, dtype, compute), dims, Regime::Warm, &info);
    let ns = profile.modelled_ns();
    if ns < MIN_SHARE_OF_FLOOR * floor.ns {
        let message = format!(
            "modelled at {:.3} us, less than {:.0}% of the floor of {:.3} us ({}): it does not do the work",
            ns / 1e3,
            100.0 * MIN_SHARE_OF_FLOOR,
            floor.ns / 1e3,
            floor.limiter.name()
        );
        return Err(setup.cheated(Check::Floor, message));
    }
    Ok((Timing::modelled(ns), Some(profile)))
}
