//! The devices of a verb: which one is meant, and how they are claimed and started.

use super::fleet::Fleet;
use super::request::StartRequest;
use super::{lanes, own_executable};
use crate::config::Config;
use crate::domain::device::DeviceInfo;
use crate::error::usage_sentence;
use crate::locks::Locks;
use crate::notices::say;
use crate::runner::device::{DeviceChoice, Devices};
use crate::runner::worker::{Worker, WorkerError};

/// Returns the device that is asked for, or the first of config.toml. Refuses several, and a recording, which executes nothing.
pub fn to_execute(asked: Option<&str>, config: &Config) -> anyhow::Result<DeviceChoice> {
    let devices: Devices = asked.unwrap_or(&config.session.device).parse().map_err(usage_sentence)?;
    if asked.is_some() && !devices.others.are_none() {
        return Err(usage_sentence(format!(
            "only a session runs on several devices (`optloop start`): use one, such as {}",
            devices.home
        )));
    }
    devices.home.that_executes().map_err(usage_sentence)
}

/// Starts a worker on a device after claiming it. A worker's context would disturb the process that has the device.
pub async fn start_worker(device: &DeviceChoice, config: &Config, locks: &mut Locks) -> anyhow::Result<Worker> {
    match Worker::claim(own_executable()?, device, config.worker_timeouts(), |info| locks.device(info)).await {
        Ok(worker) => {
            if let Some(notice) = worker.fallback_notice() {
                say(&notice);
            }
            Ok(worker)
        }
        Err(WorkerError::NoDevice(reason)) => anyhow::bail!(
            "{reason}. `--device virtual` executes kernels on the CPU and models their times; `optloop doctor` checks \
             the installation"
        ),
        Err(error) => Err(error.into()),
    }
}

/// The devices of a session.
pub struct SessionDevices {
    /// The one that compares.
    pub home: Worker,
    /// Those of this machine that only screen.
    pub lanes: Vec<Worker>,
    /// Those of other machines.
    pub fleet: Fleet,
}

impl SessionDevices {
    /// Starts the devices of this machine. `check` refuses a home that the session cannot use. A session that is resumed
    /// `may_miss` lanes.
    pub async fn start(
        request: &StartRequest,
        config: &Config,
        locks: &mut Locks,
        may_miss: bool,
        check: impl FnOnce(&DeviceInfo) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let home = start_worker(&request.device, config, locks).await?;
        check(home.info())?;
        let lanes = lanes::start(&request.others, home.info(), config, locks, may_miss).await?;
        Ok(Self { home, lanes, fleet: Fleet::default() })
    }

    /// Returns their number.
    pub fn number(&self) -> usize {
        1 + self.lanes.len() + self.fleet.size()
    }
}
