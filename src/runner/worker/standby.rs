//! A worker process that is started ahead of need.
//!
//! Every comparison has a process of its own, which takes a second to start on a GPU. Most of it is the CUDA driver's
//! initialisation, which leaves the device alone. So the next process does this much while another one measures, and
//! opens the device only when it is needed.

use tokio::task::JoinSet;

use super::WorkerError;
use super::process::{Program, WorkerProcess};
use crate::domain::device::DeviceInfo;

/// A process that has found its device, with the device's description.
type Found = (WorkerProcess, DeviceInfo);

/// At most one process that waits to open its device. It ends with this value.
#[derive(Default)]
pub(super) struct Standby(JoinSet<Result<Found, WorkerError>>);

impl Standby {
    /// Starts a process in the background, unless one is waiting.
    pub fn prepare(&mut self, program: &Program) {
        if self.0.is_empty() {
            let program = program.clone();
            self.0.spawn(async move { WorkerProcess::start(&program).await });
        }
    }

    /// Returns the waiting process, or a new one if none waits or its start failed.
    pub async fn take(&mut self, program: &Program) -> Result<Found, WorkerError> {
        match self.0.join_next().await {
            Some(Ok(Ok(found))) => Ok(found),
            _ => WorkerProcess::start(program).await,
        }
    }
}
