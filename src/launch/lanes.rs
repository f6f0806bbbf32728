//! The devices of a session beside its home: they are claimed, started and checked like it.

use crate::config::Config;
use crate::domain::device::DeviceInfo;
use crate::error::usage_sentence;
use crate::launch::own_executable;
use crate::locks::Locks;
use crate::notices::say;
use crate::runner::compile::Compiler;
use crate::runner::device::Others;
use crate::runner::self_check;
use crate::runner::worker::{Worker, WorkerError};

/// Starts a worker on each device. They must be of the same kind as home, because they run the same machine code. Where a session
/// `may_miss` some, as one that is resumed, those that are gone are left out.
pub async fn start(
    others: &Others,
    home: &DeviceInfo,
    config: &Config,
    locks: &mut Locks,
    may_miss: bool,
) -> anyhow::Result<Vec<Worker>> {
    let mut lanes = Vec::new();
    let mut number = 0;
    while let Some(choice) = others.get(number) {
        number += 1;
        match Worker::claim(own_executable()?, &choice, config.worker_timeouts(), |info| locks.lane(info)).await {
            Ok(lane) if is_alike(lane.info(), home) => lanes.push(lane),
            Ok(lane) => {
                let (name, id) = (&lane.info().name, &lane.info().id);
                return Err(usage_sentence(format!(
                    "{id} is a {name} and {} a {}: the devices of a session must be of one kind, so name them, such as \
                     `--device cuda:0,2`",
                    home.id, home.name
                )));
            }
            // They are counted by trying them.
            Err(WorkerError::NoDevice(_)) if *others == Others::AllCuda => break,
            Err(error) if may_miss => say(&format!("the session goes on without {choice}: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(lanes)
}

fn is_alike(lane: &DeviceInfo, home: &DeviceInfo) -> bool {
    lane.key() == home.key() && lane.arch == home.arch && lane.timing == home.timing
}

/// Makes every lane check its device, and gives it home's peaks.
pub async fn arm(lanes: &mut [Worker], home: &DeviceInfo, compiler: &Compiler) -> anyhow::Result<()> {
    for lane in lanes {
        self_check::arm(lane, compiler).await?;
        lane.set_peaks(home.peaks.clone());
    }
    Ok(())
}
