//! The process that `ncu` profiles: it launches a plan twice, once to warm up and once to be counted.
//!
//! As a worker does, it loads a CUBIN and runs no host code of a variant. Its limits are those of a worker, too: an
//! environment without secrets, and a supervisor that ends it.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, bail};

use super::device::{self, Device, DeviceChoice};
use super::evaluate::{Ended, execute};
use super::frames;
use super::messages::LaunchRequest;

/// Number of executions. The first one loads the code, and its launches are skipped by the profiler.
const EXECUTIONS: usize = 2;

/// Reads a request from a file and carries it out on a device.
pub fn run(choice: &DeviceChoice, request: &Path) -> anyhow::Result<()> {
    let mut file = File::open(request).context("The request cannot be opened")?;
    let Some(request) = frames::read::<LaunchRequest>(&mut file)? else { bail!("the request is empty") };
    let mut device = device::open(choice).map_err(anyhow::Error::msg)?;
    launch(device.as_mut(), &request)
}

fn launch(device: &mut dyn Device, request: &LaunchRequest) -> anyhow::Result<()> {
    match execute(device, request, EXECUTIONS) {
        Ok(()) => Ok(()),
        Err(Ended::Outcome(outcome) | Ended::TooLong(outcome)) => {
            bail!("{}", outcome.message().unwrap_or(outcome.kind()))
        }
        Err(Ended::Oracle(message) | Ended::Machine(message)) => bail!("{message}"),
    }
}
