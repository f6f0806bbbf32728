//! The ceilings of a device: measured once, kept in the store, and what every floor follows from.

use super::talk::say;
use crate::domain::device::TimeSource;
use crate::runner::compile::Compiler;
use crate::runner::peaks;
use crate::runner::worker::Worker;
use crate::store::{Store, StoreError};

/// Gives the worker the ceilings that were measured on its device, measuring them if nobody has yet. Where that fails those
/// derived from the clocks stay, and it is said.
pub async fn give(worker: &mut Worker, compiler: &Compiler, store: &Store) -> Result<(), StoreError> {
    if worker.info().time_source == TimeSource::Modelled {
        return Ok(());
    }
    if let Some(peaks) = store.peaks_of(worker.info()).await? {
        worker.set_peaks(peaks);
        return Ok(());
    }
    say(&format!("measuring the ceilings of the {}, once", worker.info().name));
    match peaks::measure(worker, compiler).await {
        Ok(peaks) => {
            store.keep_peaks(worker.info(), &peaks).await?;
            worker.set_peaks(peaks);
        }
        Err(reason) => say(&format!("{reason}; floors follow from the device's clocks instead")),
    }
    Ok(())
}
