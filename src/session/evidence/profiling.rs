//! Has the hardware counters of variants and of baselines read, and records them or why there are none.

use std::collections::BTreeSet;

use anyhow::Context;

use crate::domain::code::counters::{Counted, CountedBaseline, Counters};
use crate::domain::device::regime::Regime;
use crate::domain::ids::CaseName;
use crate::domain::record::journal::Record;
use crate::error::{Error, error};
use crate::runner::activity;
use crate::runner::baseline::ProfiledCall;
use crate::runner::inputs;
use crate::runner::messages::{LaunchRequest, ProblemRequest};
use crate::session::decide::counters::OnCase;
use crate::session::event::Event;
use crate::session::{BUDGET, Session};

impl Session<'_> {
    /// Profiles a variant on a case and records the counters. It is charged to the session, not to an iteration.
    pub(in crate::session) async fn profile(&mut self, due: &OnCase) -> anyhow::Result<()> {
        let begun = self.clock.running();
        let _running = activity::begin(format!("the hardware counters of iteration {}", due.iteration), None);
        let counters = match self.deadline.clone().within(self.count(due)).await {
            Some(counters) => counters?,
            None => Err(error!("there was no time left for them ({BUDGET})")),
        };
        let now = self.clock.running();
        // Finals are no records, so the time since the last one may be theirs.
        let wall_s = now.saturating_sub(begun).as_secs_f64();
        let counted = Counted {
            iteration: due.iteration,
            case: due.case.clone(),
            counters: counters.map_err(String::from),
            wall_s,
        };
        let spent = self.state.meter().unrecorded(&self.time());
        let recorded = self.store.record_counters(self.id, &counted, spent).await;
        recorded.context("Failed to record hardware counters")?;
        self.clock.note_record(now);
        let (iteration, case) = (due.iteration, &due.case);
        self.observer.event(&match &counted.counters {
            Ok(_) => Event::Counters { case, iteration },
            Err(reason) => Event::NoCounters { reason },
        });
        self.state.apply(&Record::Counted(Box::new(counted)));
        self.state.apply(&Record::Booked(spent));
        Ok(())
    }

    /// Profiles the fastest baselines of cases and records their counters. They are charged to the session.
    pub(in crate::session) async fn profile_baselines(&mut self, due: &[CaseName]) -> anyhow::Result<()> {
        let begun = self.clock.running();
        let _running = activity::begin("the hardware counters of the baselines", None);
        let calls: Vec<ProfiledCall> = due.iter().filter_map(|case| self.profiled_call(case)).collect();
        let found = match self.deadline.clone().within(self.count_baselines(&calls)).await {
            Some(found) => found,
            None => Err(error!("there was no time left for them ({BUDGET})")),
        };
        let counters = match found {
            Ok(counters) => counters,
            Err(reason) => vec![Err(reason.to_string()); calls.len()],
        };
        let now = self.clock.running();
        let wall_s = now.saturating_sub(begun).as_secs_f64() / calls.len().max(1) as f64;
        let mut told = BTreeSet::new();
        for (call, counters) in calls.into_iter().zip(counters) {
            let counted = CountedBaseline { case: call.case.name, name: call.backend, counters, wall_s };
            let spent = self.state.meter().unrecorded(&self.time());
            let recorded = self.store.record_baseline_counters(self.id, &counted, spent).await;
            recorded.context("Failed to record the hardware counters of a baseline")?;
            match &counted.counters {
                Ok(_) => {
                    self.observer.event(&Event::BaselineCounters { case: &counted.case, name: &counted.name });
                }
                Err(reason) if told.insert(reason.clone()) => self.observer.event(&Event::NoCounters { reason }),
                Err(_) => {}
            }
            self.state.apply(&Record::CountedBaseline(Box::new(counted)));
            self.state.apply(&Record::Booked(spent));
        }
        self.clock.note_record(now);
        Ok(())
    }

    /// Returns a call of the fastest baseline of a case. None if it has no program.
    fn profiled_call(&self, case: &CaseName) -> Option<ProfiledCall> {
        let setup = self.state.setup();
        let workload = &setup.workload;
        Some(ProfiledCall {
            op: workload.op,
            dtype: workload.dtype,
            compute: workload.compute,
            case: workload.case(case).ok()?.clone(),
            backend: self.state.case(case)?.backend()?.to_owned(),
            l2_bytes: setup.device.l2_bytes,
            input_seed: inputs::mix(setup.options.seed, &["profile", case]),
        })
    }

    /// Reads the counters of calls, all in one process. The outer error says why there are none of any.
    async fn count_baselines(&self, calls: &[ProfiledCall]) -> Result<Vec<Result<Counters, String>>, Error> {
        let program = self.baselines.program.as_ref().ok_or("there is no baseline program")?;
        let device = &self.state.setup().device;
        let cold = calls.first().is_some_and(|call| call.case.regime.on(device) == Regime::Cold);
        let time_ns = |call: &ProfiledCall| Some(self.state.case(&call.case.name)?.program()?.timing.median_ns);
        let times_ns: Option<Vec<f64>> = calls.iter().map(time_ns).collect();
        let longest_ns = times_ns.map(|times_ns| times_ns.into_iter().fold(0.0, f64::max));
        self.profiler.count_baselines(program, calls, cold, longest_ns).await
    }

    /// Returns the request to execute a variant's plan on a case.
    pub(super) async fn launch_request(&mut self, due: &OnCase, purpose: &str) -> anyhow::Result<LaunchRequest> {
        let kernel = self.cache.kernel(self.state.setup(), due.iteration).await?;
        let request = kernel.requests.iter().find(|request| request.case.name == due.case);
        let request = request.context("Failed to find the launch plan of a variant")?;
        let setup = self.state.setup();
        Ok(LaunchRequest {
            artifact: kernel.artifact.clone(),
            plan: request.plan.clone(),
            cold: request.case.regime.on(&setup.device) == Regime::Cold,
            problem: Some(ProblemRequest {
                op: setup.workload.op.source(),
                dtype: setup.workload.dtype,
                case: request.case.clone(),
            }),
            seed: inputs::mix(setup.options.seed, &[purpose]),
        })
    }

    /// Reads the counters. The inner error says why there are none, which does not end the session.
    async fn count(&mut self, due: &OnCase) -> anyhow::Result<Result<Counters, Error>> {
        let request = self.launch_request(due, "profile").await?;
        let time_ns = self.state.history().iteration(due.iteration).and_then(|finished| finished.time_ns(&due.case));
        Ok(self.profiler.count(&request, time_ns).await)
    }
}
