//! The process that holds a device, and the one that talks to it.
//!
//! A worker executes untrusted kernels: it may crash, hang or be killed, and its supervisor turns that into an
//! [`Outcome`](crate::domain::evaluation::Outcome) of the variant at hand and starts a fresh one. Every process checks its device
//! before it is asked anything else.

mod client;
mod error;
mod process;
mod server;
mod watched;

pub use client::Worker;
pub use error::{AskError, WorkerError};
pub use process::Patience;
pub use server::serve;
pub(in crate::runner) use server::serve_over;
