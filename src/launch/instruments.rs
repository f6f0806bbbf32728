//! What watches a real GPU: a monitor of its clocks, and virtual GPUs that check and explain its kernels. A session goes on
//! without one that cannot be opened.

use super::own_executable;
use crate::config::Config;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::notices::say;
use crate::runner::explainer::Explainer;
use crate::runner::monitor::Monitor;
use crate::runner::sanitizer::Sanitizer;

/// Opens a monitor of a real GPU, or prints why it cannot.
pub fn open_monitor(device: &DeviceInfo) -> Option<Monitor> {
    if device.time_source() != TimeSource::Measured {
        return None;
    }
    let opened = Monitor::open(device);
    opened.map_err(|reason| say(&format!("clocks, power and other processes are not monitored: {reason}"))).ok()
}

/// Starts a virtual GPU that checks candidates of a real one, or prints why it cannot.
pub async fn open_sanitizer(device: &DeviceInfo, config: &Config) -> anyhow::Result<Option<Sanitizer>> {
    if device.time_source() != TimeSource::Measured {
        return Ok(None);
    }
    let started = Sanitizer::start(own_executable()?, device, config.worker_timeouts()).await;
    let say_why = |reason| say(&format!("candidates are not checked for races on a virtual GPU: {reason}"));
    Ok(started.map_err(say_why).ok())
}

/// Starts a virtual GPU that explains the times of a real one, or prints why it cannot.
pub async fn open_explainer(device: &DeviceInfo, config: &Config) -> anyhow::Result<Option<Explainer>> {
    if device.time_source() != TimeSource::Measured {
        return Ok(None);
    }
    let started = Explainer::start(own_executable()?, device, config.worker_timeouts()).await;
    let say_why = |reason| say(&format!("times are not explained on a virtual GPU: {reason}"));
    Ok(started.map_err(say_why).ok())
}
