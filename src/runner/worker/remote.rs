//! Lanes that are not processes of this machine, as sessions see them.

use std::pin::Pin;

use tokio::sync::mpsc::UnboundedReceiver;

use super::error::WorkerError;
use super::lane::{Lane, Screened};
use crate::domain::device::DeviceInfo;
use crate::runner::messages::EvaluateRequest;

/// A future that a lane returns.
pub type Screening<'a> = Pin<Box<dyn Future<Output = Result<Screened, WorkerError>> + Send + 'a>>;

/// A device on another machine that screens variants.
pub trait Remote: Send {
    /// Returns the description of the device.
    fn info(&self) -> &DeviceInfo;

    /// Returns its name for messages and the record, with its machine.
    fn name(&self) -> &str;

    /// Checks and times a variant. An error means that the lane cannot be used any more.
    fn screen(&mut self, request: EvaluateRequest) -> Screening<'_>;
}

/// Such a device as a lane.
pub struct RemoteLane(pub Box<dyn Remote>);

/// Lanes on other machines, which come and go.
#[derive(Default)]
pub struct Arrivals {
    /// How many there are at most.
    pub most: usize,
    /// Those that have come.
    pub coming: Option<UnboundedReceiver<RemoteLane>>,
}

impl Arrivals {
    /// Returns those that have come since this was last asked.
    pub fn take(&mut self) -> Vec<RemoteLane> {
        let Some(coming) = &mut self.coming else { return Vec::new() };
        std::iter::from_fn(|| coming.try_recv().ok()).collect()
    }
}

impl RemoteLane {
    /// Returns its name for messages and the record, with its machine.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

impl Lane for RemoteLane {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    async fn screen(&mut self, request: EvaluateRequest) -> Result<Screened, WorkerError> {
        self.0.screen(request).await
    }
}
