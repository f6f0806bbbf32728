//! Errors of requests to a worker.

use crate::domain::measurement::evaluation::Outcome;

/// Why a request about a variant has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The variant failed: data about it.
    #[error("{}", .0.message().unwrap_or(.0.kind()))]
    Variant(Outcome),
    /// The machine failed.
    #[error(transparent)]
    Machine(#[from] WorkerError),
}

/// Why there is no evaluation.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// There is no such device on this machine.
    #[error("{0}")]
    NoDevice(String),
    /// Another process has the device.
    #[error("{0}")]
    Taken(String),
    /// The machine, not a variant, is at fault.
    #[error("{0}")]
    Broken(String),
    /// The device is wrong about a kernel that another one knows, so nothing that it has found can be trusted.
    #[error("{0}")]
    Distrusted(String),
    /// The op's oracle failed, so nothing can be checked.
    #[error("{0}")]
    Oracle(String),
}
