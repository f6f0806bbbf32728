//! A device that screens variants for a session, one at a time. A session has one for each of its devices.

use super::error::WorkerError;
use crate::domain::device::DeviceInfo;
use crate::domain::measurement::evaluation::Evaluation;
use crate::runner::messages::EvaluateRequest;

/// See the module's documentation.
pub trait Lane: Send {
    /// Returns the description of the device.
    fn info(&self) -> &DeviceInfo;

    /// Checks and times a variant. An error means that the lane cannot be used any more.
    fn screen(&mut self, request: EvaluateRequest) -> impl Future<Output = Result<Screened, WorkerError>> + Send;
}

/// What became of a variant on a lane.
#[derive(Debug)]
pub enum Screened {
    /// The device has reported this about the variant.
    Reported(Evaluation),
    /// The process that held the device died, hung or lost the device, and another one has replaced it. Its evaluation blames the variant,
    /// but something else may be at fault. Another lane shows which.
    Lost(Evaluation),
}

impl Screened {
    /// Returns the evaluation, whether the device reported it or not.
    pub fn evaluation(self) -> Evaluation {
        match self {
            Self::Reported(evaluation) | Self::Lost(evaluation) => evaluation,
        }
    }
}
