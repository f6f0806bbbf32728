//! Times the baselines of a session once, before its first iteration.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::decide::may_time_baselines;
use super::event::{Event, Interrupt};
use super::{BUDGET, Session};
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::journal::{Begun, Record};
use crate::domain::phase::{Phase, PhaseTime};
use crate::domain::record::{Baseline, BaselineKind, CaseRecord};
use crate::domain::regime::Regime;
use crate::domain::timing::Timing;
use crate::domain::verdict::Verdict;
use crate::domain::workload::Case;
use crate::runner::activity;
use crate::runner::baseline::{Backend, BaselineProcess, fastest};
use crate::runner::inputs;

impl Session<'_> {
    /// Times the baselines, and records them and how long that took.
    pub(super) async fn time_baselines(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        self.time_each_baseline().await?;
        self.record_phase(&PhaseTime::of(Phase::Baselines, begun.elapsed())).await
    }

    /// Times the baselines and records them. Without a baseline, the session says why and continues.
    async fn time_each_baseline(&mut self) -> anyhow::Result<()> {
        let mut process = match self.start_baseline().await {
            Ok(process) => process,
            Err(reason) => {
                self.observer.event(&Event::NoBaseline { reason: &reason });
                return Ok(());
            }
        };
        // A baseline's eager calls are timed on the host, which compilers would load.
        let settled = async {
            self.pipeline.settled().await;
            Ok(())
        };
        if let Err(reason) = in_time(settled, self.wall_left(), &mut self.interrupt.clone()).await {
            self.observer.event(&Event::NoBaseline { reason: &reason });
            return Ok(());
        }
        let environment = self.environment(process.hello().versions.get("torch").cloned());
        self.store.amend_environment(self.id, &environment).await.context("Failed to record the environment")?;
        let cases = self.state.setup().workload.cases.clone();
        let (mut longest, mut told) = (Duration::ZERO, BTreeSet::new());
        for (done, case) in cases.iter().enumerate() {
            if self.state.case(&case.name).is_some_and(|case| case.baseline().is_some()) {
                // The resumed session has timed it before.
                continue;
            }
            if !may_time_baselines(self.wall_left(), longest) {
                let (what, done, of) = ("the timing of the baselines", Some(done), Some(cases.len()));
                self.observer.event(&Event::CutShort { what, done, of, limit: BUDGET });
                break;
            }
            let begun = Instant::now();
            let timed = self.time_case(&mut process, case, &mut told).await;
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
        self.evaluator.baseline = Some(process);
        Ok(())
    }

    /// Records the initial kernel's time as the baseline of each case that has no other.
    pub(super) async fn stand_in_for_baselines(
        &mut self,
        begun: &Begun,
        findings: &[CaseRecord],
    ) -> anyhow::Result<()> {
        if begun.family != self.state.setup().workload.initial_kernel {
            return Ok(());
        }
        let starts = findings.iter().filter(|found| found.verdict == Some(Verdict::Start));
        let has_none = |case: &str| self.state.case(case).is_none_or(|case| case.baseline().is_none());
        let stand_ins = starts.filter(|found| has_none(&found.case)).filter_map(|found| {
            let relative_l2 = found.checked().map(|correctness| correctness.relative_l2);
            Some(self.initial_kernel(&found.case, found.regime, found.best_timing()?.clone(), relative_l2))
        });
        // All at once: each write waits for the disk, and there may be thousands of cases.
        self.record_baselines(stand_ins.collect()).await
    }

    fn initial_kernel(&self, case: &str, regime: Regime, timing: Timing, relative_l2: Option<f64>) -> Baseline {
        let setup = self.state.setup();
        Baseline {
            case: case.into(),
            name: Baseline::initial_kernel_name(setup.device.time_source(), &setup.workload.initial_kernel),
            kind: BaselineKind::InitialKernel,
            regime,
            timing,
            eager_ns: None,
            relative_l2,
        }
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

    /// Starts the program. A virtual GPU needs none: no program can be timed beside modelled times.
    async fn start_baseline(&mut self) -> Result<BaselineProcess, String> {
        if self.state.setup().device.time_source() == TimeSource::Recorded {
            return Err("a recording has none; its default configuration is used instead".to_owned());
        }
        if !self.state.setup().samples_times() {
            return Err(
                "baselines can only be measured, and times on this device are modelled; the initial kernel is \
                 used instead"
                    .to_owned(),
            );
        }
        let Some(program) = &self.baseline_program else {
            return Err("the workload defines none; the initial kernel is used instead".to_owned());
        };
        let process = in_time(program.start(), self.wall_left(), &mut self.interrupt.clone()).await;
        let process = process.map_err(|reason| format!("{reason}; the initial kernel is used instead"))?;
        let fits = process.hello().fits(&self.state.setup().device);
        fits.map_err(|reason| format!("{reason}; the initial kernel is used instead"))?;
        Ok(process.computing(self.state.setup().workload.compute))
    }

    /// Times the backends of one case, the fastest first. `told` has the backends that are left out, with the reasons that
    /// the observer was told.
    async fn time_case(
        &self,
        process: &mut BaselineProcess,
        case: &Case,
        told: &mut BTreeSet<(String, String)>,
    ) -> Result<Vec<Baseline>, String> {
        let setup = self.state.setup();
        let seed = inputs::mix(setup.options.seed, &["baseline", &case.name]);
        let timed = async {
            let workload = &setup.workload;
            let backends = process.prepare(workload.op, workload.dtype, case, setup.device.l2_bytes, seed).await?;
            self.tell_left_out(&case.name, &backends, told);
            let found = fastest(process, case, &backends, setup.options.measuring.baseline_samples).await;
            process.release().await.and(found)
        };
        let _running = activity::begin(format!("the baselines of {}", case.name), None);
        in_time(timed, self.wall_left(), &mut self.interrupt.clone()).await
    }

    /// Tells the observer of each backend that is not timed, unless that is why there is no baseline at all.
    fn tell_left_out(&self, case: &str, backends: &[Backend], told: &mut BTreeSet<(String, String)>) {
        if backends.iter().all(|backend| backend.ready.is_err()) {
            return;
        }
        for Backend { name, ready } in backends {
            if let Err(reason) = ready
                && told.insert((name.clone(), reason.clone()))
            {
                self.observer.event(&Event::BackendLeftOut { case, backend: name, reason });
            }
        }
    }
}

/// Runs a future until the budget is spent or the session is interrupted.
async fn in_time<T>(
    what: impl Future<Output = Result<T, String>>,
    left: Duration,
    interrupt: &mut Interrupt,
) -> Result<T, String> {
    tokio::select! {
        done = what => done,
        () = interrupt.reached(1) => Err("it was interrupted".to_owned()),
        () = tokio::time::sleep(left) => Err(format!("the time budget ({BUDGET}) was spent on timing it")),
    }
}
