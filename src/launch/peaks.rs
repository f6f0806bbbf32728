//! The peaks of a device. They are measured once and kept in the store. Every floor follows from them.

use crate::domain::device::TimeSource;
use crate::notices::say;
use crate::runner::compile::Compiler;
use crate::runner::monitor::Monitor;
use crate::runner::peaks;
use crate::runner::worker::Worker;
use crate::store::{Store, StoreError};

/// Gives the worker its device's measured peaks, and measures them if there are none yet. If measuring fails, prints
/// so and keeps the peaks that are derived from the clocks.
///
/// None are measured on a GPU that other processes use. They would come out too low, and the floors too high would
/// reject honest kernels.
pub async fn give(
    worker: &mut Worker,
    monitor: Option<&Monitor>,
    compiler: &Compiler,
    store: &Store,
) -> Result<(), StoreError> {
    if worker.info().time_source() != TimeSource::Measured {
        return Ok(());
    }
    if let Some(peaks) = store.peaks_of(worker.info()).await? {
        worker.set_peaks(peaks);
        return Ok(());
    }
    let own: Vec<u32> = worker.pid().into_iter().collect();
    let others = monitor.map(|monitor| monitor.others(&own)).unwrap_or_default();
    if !others.is_empty() {
        say(&format!(
            "floors are computed from the device's clocks, because its peaks cannot be measured while these \
             processes use it: {}",
            others.join(", ")
        ));
        return Ok(());
    }
    say(&format!("measuring the peaks of the {}, once", worker.info().name));
    match peaks::measure(worker, compiler).await {
        Ok(peaks) => {
            store.keep_peaks(worker.info(), &peaks).await?;
            worker.set_peaks(peaks);
        }
        Err(reason) => say(&format!("{reason}; floors are computed from the device's clocks instead")),
    }
    Ok(())
}
