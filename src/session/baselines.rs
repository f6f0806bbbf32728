//! Times the baselines of a session once, as soon as their program has started.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::baseline_start::BaselineStart;
use super::decide::{Baselines, may_time_baselines};
use super::event::{Event, Interrupt};
use super::state::case_state::Candidate;
use super::{BUDGET, Session};
use crate::domain::budget::phase::{Phase, PhaseTime};
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::record::journal::Record;
use crate::domain::record::{Baseline, BaselineKind};
use crate::domain::workload::Case;
use crate::error::{Error, error};
use crate::runner::activity;
use crate::runner::baseline::{Backend, BaselineProcess, PendingInputs, fastest};
use crate::runner::inputs;

impl Session<'_> {
    /// Starts the program of the baselines, or times them at once where the session does not search meanwhile.
    ///
    /// A session with a number of iterations waits, so that the same seed tries the same variants. A resumed one waits,
    /// because its next step may be a comparison.
    pub(super) async fn begin_baselines(&mut self, is_resumed: bool) -> anyhow::Result<()> {
        let setup = self.state.setup();
        let waits = is_resumed || setup.options.budget.max_iterations.is_some() || self.has_no_program().is_some();
        match &self.baselines.program {
            Some(program) if !waits => {
                self.baselines.start = Some(BaselineStart::of(program.clone(), self.state.shared_setup()));
                Ok(())
            }
            _ => self.time_baselines().await,
        }
    }

    /// Returns how far the baselines are.
    pub(super) fn baselines(&self) -> Baselines {
        match &self.baselines.start {
            None => Baselines::Known,
            Some(start) if start.is_over() => Baselines::Started,
            Some(_) => Baselines::Starting,
        }
    }

    /// Times the baselines, and records them and how long that took. The initial kernel stands in for those that are
    /// missing.
    pub(super) async fn time_baselines(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        self.time_each_baseline().await?;
        self.stand_in_for_baselines().await?;
        self.record_phase(&PhaseTime::of(Phase::Baselines, begun.elapsed())).await
    }

    /// Times the baselines and records them. Without a baseline, the session says why and continues.
    async fn time_each_baseline(&mut self) -> anyhow::Result<()> {
        let mut process = match self.start_baseline().await {
            Ok(process) => process,
            Err(reason) => {
                self.observer.event(&Event::NoBaseline { reason: &reason.to_string() });
                return Ok(());
            }
        };
        // A baseline's eager calls are timed on the host, which compilers would load.
        let paused = async { Ok(self.pipeline.paused().await) };
        let _paused = match in_time(paused, self.wall_left(), &mut self.deadline.interrupt()).await {
            Ok(paused) => paused,
            Err(reason) => {
                self.observer.event(&Event::NoBaseline { reason: &reason.to_string() });
                return Ok(());
            }
        };
        let environment = self.environment(process.hello().versions.get("torch").cloned());
        self.store.amend_environment(self.id, &environment).await.context("Failed to record the environment")?;
        // The resumed session may have timed some before.
        let is_timed = |case: &&Case| self.state.case(&case.name).is_some_and(|case| case.baseline().is_some());
        let cases = self.state.setup().workload.cases.iter().filter(|case| !is_timed(case));
        let cases: Vec<Case> = cases.cloned().collect();
        let (mut longest, mut told, mut drawn) = (Duration::ZERO, BTreeSet::new(), None);
        for (done, case) in cases.iter().enumerate() {
            if !may_time_baselines(self.wall_left(), longest) {
                let (what, done, of) = ("the timing of the baselines", Some(done), Some(cases.len()));
                self.observer.event(&Event::CutShort { what, done, of, limit: BUDGET });
                break;
            }
            let begun = Instant::now();
            let timed = self.time_case(&mut process, (case, cases.get(done + 1)), &mut drawn, &mut told).await;
            longest = longest.max(begun.elapsed());
            match timed {
                Ok(found) => self.record_baselines(found).await?,
                Err(reason) => {
                    self.observer.event(&Event::NoBaseline { reason: &format!("{}: {reason}", case.name) });
                    if process.pid().is_none() {
                        break;
                    }
                }
            }
        }
        self.evaluator.lock().await.baseline = Some(process);
        Ok(())
    }

    /// Records the initial kernel's time as the baseline of each case that has no other. Does nothing while the program of
    /// the baselines starts.
    pub(super) async fn stand_in_for_baselines(&mut self) -> anyhow::Result<()> {
        if self.baselines() != Baselines::Known {
            return Ok(());
        }
        let without = self.state.cases().filter(|(_, case)| case.baseline().is_none());
        let stand_ins = without.filter_map(|(_, case)| self.stand_in(case.initial_kernel.as_ref()?));
        // All at once: each write waits for the disk, and there may be thousands of cases.
        let stand_ins = stand_ins.collect();
        self.record_baselines(stand_ins).await
    }

    /// Makes a baseline of what was measured of the initial kernel on a case.
    fn stand_in(&self, initial: &Candidate) -> Option<Baseline> {
        let (setup, measured) = (self.state.setup(), &initial.measurement);
        let times = setup.device.time_source();
        let origin = self.state.history().iteration(initial.iteration).map(|iteration| &iteration.rationale.origin);
        Some(Baseline {
            case: measured.case.clone(),
            name: Baseline::initial_kernel_name(times, &initial.family, origin),
            kind: BaselineKind::InitialKernel,
            regime: measured.regime,
            timing: measured.best_timing()?.clone(),
            eager_ns: None,
            relative_l2: Some(measured.correctness.relative_l2),
            kernels: Vec::new(),
        })
    }

    /// Records baselines case by case, the fastest of each case first.
    async fn record_baselines(&mut self, found: Vec<Baseline>) -> anyhow::Result<()> {
        self.store.record_baselines(self.id, &found).await.context("Failed to record the baselines of a case")?;
        let time_source = self.state.setup().device.time_source();
        for of_case in found.chunk_by(|a, b| a.case == b.case) {
            let Some(Baseline { case, name, timing, .. }) = of_case.first() else { continue };
            self.observer.event(&Event::Baseline { case, name, us: timing.median_ns / 1e3, time_source });
        }
        let cases: Vec<CaseName> = found.iter().map(|baseline| baseline.case.clone()).collect();
        found.into_iter().for_each(|baseline| self.state.apply(&Record::Baseline(baseline)));
        self.tell_gains(&cases);
        Ok(())
    }

    /// Returns why no program is started, if none is. A virtual GPU needs none: no program can be timed beside modelled
    /// times.
    fn has_no_program(&self) -> Option<&'static str> {
        let setup = self.state.setup();
        if setup.device.time_source() == TimeSource::Recorded {
            return Some("a recording has none; its default configuration is used instead");
        }
        if !setup.samples_times() {
            return Some(
                "baselines can only be measured, and times on this device are modelled; the initial kernel is \
                 used instead",
            );
        }
        let is_named = self.baselines.program.is_some();
        (!is_named).then_some("the workload defines none; the initial kernel is used instead")
    }

    /// Waits for the program, and starts it if that was not done yet.
    async fn start_baseline(&mut self) -> Result<BaselineProcess, Error> {
        if let Some(reason) = self.has_no_program() {
            return Err(Error::new(reason));
        }
        let (program, setup) = (self.baselines.program.clone(), self.state.shared_setup());
        let start = self.baselines.start.take().or_else(|| program.map(|program| BaselineStart::of(program, setup)));
        let start = start.ok_or("it was started before")?;
        let process = in_time(start.process(), self.wall_left(), &mut self.deadline.interrupt()).await;
        let process = process.map_err(|reason| error!("{reason}; the initial kernel is used instead"))?;
        let fits = process.hello().fits(&self.state.setup().device);
        fits.map_err(|reason| error!("{reason}; the initial kernel is used instead"))?;
        Ok(process)
    }

    /// Times the backends of one case, the fastest first. `drawn` has its inputs, if they were begun, and gets those of the next
    /// case, which the host draws while the device is busy. `told` has the backends that are left out, with the reasons that
    /// the observer was told.
    async fn time_case(
        &self,
        process: &mut BaselineProcess,
        (case, next): (&Case, Option<&Case>),
        drawn: &mut Option<PendingInputs>,
        told: &mut BTreeSet<(String, String)>,
    ) -> Result<Vec<Baseline>, Error> {
        let setup = self.state.setup();
        let (workload, l2_bytes) = (&setup.workload, setup.device.l2_bytes);
        let draw = |process: &BaselineProcess, case: &Case| {
            let seed = inputs::mix(setup.options.seed, &["baseline", &case.name]);
            PendingInputs::begin(process, workload.op, workload.dtype, case, seed)
        };
        let timed = async {
            let own = drawn.take().unwrap_or_else(|| draw(process, case));
            let backends = process.prepare_drawn(workload.op, workload.dtype, case, l2_bytes, own).await?;
            // Not before: eager calls are timed on the host.
            *drawn = next.map(|next| draw(process, next));
            self.tell_left_out(&case.name, &backends, told);
            let found = fastest(process, case, &backends, &setup.options.measuring.baseline()).await;
            process.release().await.and(found)
        };
        let _running = activity::begin(format!("the baselines of {}", case.name), None);
        // The other half is for the search, even if a backend hangs.
        in_time(timed, self.wall_left() / 2, &mut self.deadline.interrupt()).await
    }

    /// Tells the observer of each backend that is not timed, unless that is why there is no baseline at all.
    fn tell_left_out(&self, case: &str, backends: &[Backend], told: &mut BTreeSet<(String, String)>) {
        if backends.iter().all(|backend| backend.ready.is_err()) {
            return;
        }
        for Backend { name, ready } in backends {
            if let Err(reason) = ready
                && told.insert((name.clone(), reason.to_string()))
            {
                self.observer.event(&Event::BackendLeftOut { case, backend: name, reason: &reason.to_string() });
            }
        }
    }
}

/// Runs a future until the budget is spent or the session is interrupted.
async fn in_time<T>(
    what: impl Future<Output = Result<T, Error>>,
    left: Duration,
    interrupt: &mut Interrupt,
) -> Result<T, Error> {
    tokio::select! {
        done = what => done,
        () = interrupt.reached(1) => Err(Error::new("it was interrupted")),
        () = tokio::time::sleep(left) => Err(error!("the time for it was spent, which {BUDGET} limits")),
    }
}
