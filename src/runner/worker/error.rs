//! Why a worker does not answer.

/// Why there is no evaluation.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// There is no such device on this machine.
    #[error("{0}")]
    NoDevice(String),
    /// Somebody else has the device.
    #[error("{0}")]
    Taken(String),
    /// The machine, not a variant, is at fault.
    #[error("{0}")]
    Broken(String),
}
