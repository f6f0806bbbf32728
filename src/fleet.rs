//! Lanes on other machines, through a NATS server with JetStream (docs/fleet.md).
//!
//! A *worker* holds a device and screens variants for the sessions whose keys it trusts. Jobs and results are signed. Each worker has
//! its own queue, because times are compared through the ratio of two cards. Only the session writes to the store.
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
