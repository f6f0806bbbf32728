//! A device that is ready to check and time kernels by hand, for the verbs that run no session.

use super::devices::start_worker;
use super::instruments::open_monitor;
use super::{compiler, own_executable, peaks};
use crate::bench::Bench;
use crate::catalog::Project;
use crate::config::Config;
use crate::domain::device::TimeSource;
use crate::error::usage;
use crate::locks::Locks;
use crate::runner::compile::Compiler;
use crate::runner::device::DeviceChoice;
use crate::runner::monitor::Monitor;
use crate::runner::self_check;
use crate::runner::worker::Worker;
use crate::store::Store;

/// A claimed device whose self-check has passed, with its measured peaks.
pub struct ArmedDevice {
    /// The process that holds the device.
    pub worker: Worker,
    /// Compiles for it.
    pub compiler: Compiler,
    /// Watches it, if it is a real one.
    pub monitor: Option<Monitor>,
}

/// Opens and claims a device.
pub async fn arm(
    project: &Project,
    config: &Config,
    choice: &DeviceChoice,
    locks: &mut Locks,
) -> anyhow::Result<ArmedDevice> {
    let mut worker = start_worker(choice, config, locks).await?;
    let compiler = compiler::open(&worker.info().arch, config).await?.for_device(worker.info());
    self_check::arm(&mut worker, &compiler).await?;
    let monitor = open_monitor(worker.info());
    if worker.info().time_source() == TimeSource::Measured {
        let store = Store::open(&project.root().join(&config.store.path)).await?;
        peaks::give(&mut worker, monitor.as_ref(), &compiler, &store).await?;
        store.close().await;
    }
    Ok(ArmedDevice { worker, compiler, monitor })
}

/// Makes a bench on a device.
pub async fn bench(
    project: &Project,
    config: Config,
    choice: &DeviceChoice,
    locks: &mut Locks,
) -> anyhow::Result<Bench> {
    let ArmedDevice { worker, compiler, monitor } = arm(project, &config, choice, locks).await?;
    Bench::new(project, config, own_executable()?, compiler, worker, monitor).map_err(usage)
}
