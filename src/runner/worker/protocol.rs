//! Messages between the supervisor and a worker.

use serde::{Deserialize, Serialize};

use crate::domain::device::DeviceInfo;
use crate::domain::evaluation::Evaluation;
use crate::runner::evaluate::EvaluateRequest;

/// Both sides must speak the same version; they do unless the executable was replaced under a running session.
pub const VERSION: u32 = 1;

/// What a worker is asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Evaluate a compiled variant.
    Evaluate(Box<EvaluateRequest>),
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Said once, first: the protocol's version, and the device or why there is none.
    Hello {
        /// [`VERSION`] of the worker.
        version: u32,
        /// The device, or one sentence.
        device: Result<DeviceInfo, String>,
    },
    /// A step on the device begins: the supervisor's deadline starts anew.
    Step {
        /// The case's name.
        case: String,
        /// What is being done.
        doing: String,
    },
    /// The variant is evaluated.
    Evaluated(Evaluation),
    /// The machine failed.
    Broken(String),
}
