//! The baselines of a session: timed once, before its first iteration.

use anyhow::Context;

use super::Parts;
use super::event::{Event, Interrupt, Observer};
use crate::domain::device::TimeSource;
use crate::domain::record::Baseline;
use crate::runner::baseline::Baselines;

/// Times the baselines. A measured time says nothing about a modelled one, so a modelled device has none.
pub(super) async fn time(parts: &Parts, mut interrupt: Interrupt) -> Result<Baselines, String> {
    if parts.worker.info().time_source == TimeSource::Modelled {
        return Err("times are modelled, and a baseline could only be measured".to_owned());
    }
    let Some(program) = &parts.baseline else { return Err("the workload names none".to_owned()) };
    tokio::select! {
        found = program.time(&parts.workload) => found,
        () = interrupt.reached(1) => Err("it was interrupted".to_owned()),
    }
}

/// Puts the baselines on record and returns the fastest of each case.
pub(super) async fn record(
    parts: &Parts,
    session: i64,
    found: Result<Baselines, String>,
    observer: &mut dyn Observer,
) -> anyhow::Result<Vec<Baseline>> {
    let timed = match found {
        Ok(found) => found.timed,
        Err(reason) => {
            observer.event(&Event::NoBaseline { reason: &reason });
            return Ok(Vec::new());
        }
    };
    for baseline in &timed {
        parts.store.record_baseline(session, baseline).await.context("Failed to record a baseline")?;
    }
    let mut fastest: Vec<Baseline> = Vec::new();
    for case in &parts.workload.cases {
        let of_case = timed.iter().filter(|baseline| baseline.case == case.name);
        if let Some(best) = of_case.min_by(|a, b| a.timing.median_ns.total_cmp(&b.timing.median_ns)) {
            observer.event(&Event::Baseline { case: &case.name, name: &best.name, us: best.timing.median_ns / 1e3 });
            fastest.push(best.clone());
        }
    }
    Ok(fastest)
}
