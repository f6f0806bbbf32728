//! The process that holds a device, and the supervisor that talks to it.
//!
//! A worker executes untrusted kernels, so it may crash, hang or be killed. Its supervisor turns that into an
//! [`Outcome`](crate::domain::measurement::evaluation::Outcome) of the current variant and starts a fresh worker. Every process
//! checks its device before any other request.

mod client;
mod error;
mod lane;
mod process;
mod remote;
mod replay;
mod server;
mod standby;
mod watched;

pub use client::Worker;
pub use error::{AskError, WorkerError};
pub use lane::{Lane, Screened};
pub(super) use process::STEP_KEY;
pub use process::{StepTimeouts, may_be_slow};
pub use remote::{Arrivals, Remote, RemoteLane, Screening};
pub use server::serve;
pub(in crate::runner) use server::serve_over;
