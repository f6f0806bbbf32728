//! Lanes on other machines, through a NATS server with JetStream (docs/fleet.md).
//!
//! A *worker* holds a device and serves whoever it trusts. A session sends it jobs, and gets signed results. Each worker has a queue of
//! its own, because times are compared through the ratio of two cards. The session alone records.
//!
//! Nothing here is newer than nats-server 2.9.

mod keys;
mod lanes;
mod link;
mod messages;
mod presence;
mod program;
mod queue;
mod worker;

pub use keys::{OwnKey, PublicKey};
pub use lanes::{Fleet, Running, Terms};
pub use link::{FleetError, Link, Server};
pub use presence::{Present, present};
pub use program::build;
pub use worker::{Consent, Identity, serve};
